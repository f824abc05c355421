#include "plan_build/state_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

// Every element type is at most this wide.
constexpr int64_t kMinAlignment = 8;

int64_t RoundedUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

const PlacedState* StateLayout::Find(std::string_view name) const {
  const auto found = std::find_if(states.begin(), states.end(),
                                  [&](const PlacedState& state) { return state.name == name; });
  return found == states.end() ? nullptr : &*found;
}

StateLayout LayOutStates(const Graph& graph, int64_t alignment) {
  StateLayout layout;
  if (graph.states.empty()) return layout;
  layout.alignment = std::max(alignment, kMinAlignment);
  for (const StateKind kind :
       {StateKind::kParameter, StateKind::kStatistic, StateKind::kOptimizer}) {
    for (const State& state : graph.states) {
      if (state.kind != kind) continue;
      const int64_t bytes = state.initial.Bytes();
      const int64_t offset =
          RoundedUp(layout.bytes, bytes >= 4 * alignment ? layout.alignment : kMinAlignment);
      layout.states.push_back({.name = graph.values[static_cast<size_t>(state.in)].name,
                               .type = state.initial.type(),
                               .kind = kind,
                               .byte_offset = offset,
                               .initial = state.initial});
      layout.bytes = offset + bytes;
    }
    if (kind == StateKind::kParameter) layout.parameters_bytes = layout.bytes;
    if (kind == StateKind::kStatistic) layout.inference_bytes = layout.bytes;
  }
  layout.bytes = RoundedUp(layout.bytes, 4);
  return layout;
}

absl::StatusOr<std::vector<int64_t>> StateOffsets(const StateLayout& layout, const Graph& graph) {
  std::vector<int64_t> offsets;
  for (const State& state : graph.states) {
    const std::string& name = graph.values[static_cast<size_t>(state.in)].name;
    const PlacedState* placed = layout.Find(name);
    if (placed == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("graph '", graph.name, "' has a state '", name,
                                                     "' that the first graph has not"));
    }
    if (placed->type != state.initial.type()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "state '", name, "' is ", placed->type.ToString(), " in the first graph and ",
          state.initial.type().ToString(), " in graph '", graph.name, "'"));
    }
    offsets.push_back(placed->byte_offset);
  }
  return offsets;
}

std::string_view StateKindName(StateKind kind) {
  switch (kind) {
    case StateKind::kParameter:
      return "parameter";
    case StateKind::kStatistic:
      return "statistic";
    case StateKind::kOptimizer:
      return "optimizer";
  }
  MEMPLAN_CHECK(false);
  return "";
}

}  // namespace onnx_memplan
