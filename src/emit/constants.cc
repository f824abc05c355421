#include "emit/constants.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "support/check.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

ConstantOffsets AddConstants(const Program& program, const Plan& plan, WeightsLayout& layout) {
  ConstantOffsets result = {.by_value = std::vector<int64_t>(program.graph.values.size(), -1),
                            .by_call = {}};
  result.by_call.resize(program.steps.size());
  for (int32_t task : plan.order) {
    const ProgramStep& step = program.steps[Index(task)];
    const Node& node = program.graph.nodes[Index(step.node)];
    for (const KernelCall& call : step.lowering.calls) {
      std::vector<int64_t>& offsets =
          result.by_call[Index(task)].emplace_back(call.constants.size(), -1);
      for (const KernelArg& arg : call.args) {
        if (arg.kind == KernelArg::Kind::kConstant) {
          offsets[Index(arg.index)] = layout.Add(call.constants[Index(arg.index)]);
        }
        if (arg.kind != KernelArg::Kind::kInput) continue;
        const ValueId input = node.inputs[Index(arg.index)];
        if (input == kNoValue) continue;
        const Location& location = program.locations[Index(input)];
        if (location.kind != Location::Kind::kConstant) continue;
        result.by_value[Index(location.index)] =
            layout.Add(*program.graph.values[Index(location.index)].constant);
      }
    }
  }
  return result;
}

bool IsAllZero(const Tensor& tensor) {
  return std::all_of(tensor.data(), tensor.data() + tensor.Bytes(),
                     [](std::byte b) { return b == std::byte{0}; });
}

// Neighbours that are not zero are one range; so are those with a few zeros between them, for which
// a range of its own would take more bytes than they do.
std::vector<InitialRange> AddInitialValues(const StateLayout& states, WeightsLayout& layout) {
  constexpr int64_t kFewZeros = 64;
  std::vector<InitialRange> ranges;
  for (const PlacedState& state : states.states) {
    const int64_t end = state.byte_offset + state.type.Bytes();
    if (IsAllZero(state.initial)) continue;
    if (!ranges.empty() &&
        state.byte_offset - (ranges.back().state_offset + ranges.back().bytes) <= kFewZeros) {
      ranges.back().bytes = end - ranges.back().state_offset;
    } else {
      ranges.push_back({.state_offset = state.byte_offset,
                        .weights_offset = 0,
                        .bytes = end - state.byte_offset});
    }
  }
  for (InitialRange& range : ranges) {
    std::byte* bytes = nullptr;
    const Tensor tensor = Tensor::Zeros({DType::kUint8, {range.bytes}}, &bytes);
    for (const PlacedState& state : states.states) {
      const int64_t at = state.byte_offset - range.state_offset;
      if (at < 0 || at >= range.bytes || state.type.Bytes() == 0) continue;
      std::memcpy(bytes + at, state.initial.data(), static_cast<size_t>(state.type.Bytes()));
    }
    range.weights_offset = layout.Add(tensor);
  }
  return ranges;
}

}  // namespace

EmittedConstants LayOutConstants(std::span<const EntryPoint> entries, const StateLayout& states) {
  EmittedConstants result = {
      .layout = WeightsLayout(entries.front().program->target.arena_alignment),
      .by_entry = {},
      .initial = {}};
  for (const EntryPoint& entry : entries) {
    result.by_entry.push_back(AddConstants(*entry.program, *entry.plan, result.layout));
  }
  result.initial = AddInitialValues(states, result.layout);
  return result;
}

}  // namespace onnx_memplan
