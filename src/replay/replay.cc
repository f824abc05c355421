#include "replay/replay.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr int kPoison = 0xFF;

size_t Index(int32_t i) { return static_cast<size_t>(i); }

class Replayer {
 public:
  Replayer(const Program& program, const Plan& plan, std::span<const Tensor> inputs,
           const ReplayOptions& options)
      : program_(program), plan_(plan), inputs_(inputs), options_(options) {
    arena_owner_ = Tensor::Zeros({DType::kUint8, {plan.arena_bytes}}, &arena_);
    if (options_.poison) Poison(arena_, plan.arena_bytes);
    for (ValueId output : program.graph.outputs) {
      std::byte* data = nullptr;
      outputs_.push_back(Tensor::Zeros(*program.graph.values[Index(output)].type, &data));
      output_data_.push_back(data);
      if (options_.poison) Poison(data, outputs_.back().Bytes());
    }
    MakeStates();
    FindDeaths();
  }

  std::vector<Tensor> Run() {
    CopyInputs();
    for (size_t step = 0; step < plan_.order.size(); ++step) {
      RunTask(plan_.order[step]);
      for (int32_t storage : dying_after_[step]) Bury(storage, step);
    }
    CopyOutputs();
    if (options_.states != nullptr) *options_.states = std::move(states_);
    return std::move(outputs_);
  }

 private:
  static void Poison(std::byte* data, int64_t bytes) {
    std::memset(data, kPoison, static_cast<size_t>(bytes));
  }

  void MakeStates() {
    const std::vector<State>& states = program_.graph.states;
    const bool given = options_.states != nullptr && !options_.states->empty();
    for (size_t s = 0; s < states.size(); ++s) {
      const Tensor& before = given ? (*options_.states)[s] : states[s].initial;
      std::byte* data = nullptr;
      states_.push_back(Tensor::Zeros(before.type(), &data));
      state_data_.push_back(data);
      std::memcpy(data, before.data(), static_cast<size_t>(before.Bytes()));
    }
  }

  // dying_after_[step]: storages that no later step touches.
  void FindDeaths() {
    dying_after_.resize(plan_.order.size());
    std::vector<int32_t> last(program_.problem.storages.size(), -1);
    for (size_t step = 0; step < plan_.order.size(); ++step) {
      const Task& task = program_.problem.tasks[Index(plan_.order[step])];
      for (const std::vector<int32_t>* touched : {&task.reads, &task.writes}) {
        for (int32_t storage : *touched) {
          last[Index(storage)] = static_cast<int32_t>(step);
        }
      }
    }
    for (size_t s = 0; s < last.size(); ++s) {
      if (last[s] >= 0 && !program_.problem.storages[s].live_out) {
        dying_after_[Index(last[s])].push_back(static_cast<int32_t>(s));
      }
    }
  }

  // Poisons a dead storage, unless the step wrote a successor over it in place.
  void Bury(int32_t storage, size_t step) {
    if (!options_.poison) return;
    const int64_t begin = plan_.offsets[Index(storage)];
    const int64_t end = begin + program_.problem.storages[Index(storage)].bytes;
    std::vector<bool> successor(static_cast<size_t>(end - begin), false);
    const Task& task = program_.problem.tasks[Index(plan_.order[step])];
    for (int32_t other : task.writes) {
      if (other == storage) continue;
      const int64_t low = std::max(begin, plan_.offsets[Index(other)]);
      const int64_t high = std::min(
          end, plan_.offsets[Index(other)] + program_.problem.storages[Index(other)].bytes);
      for (int64_t byte = low; byte < high; ++byte) {
        successor[static_cast<size_t>(byte - begin)] = true;
      }
    }
    for (int64_t byte = begin; byte < end; ++byte) {
      if (!successor[static_cast<size_t>(byte - begin)]) arena_[byte] = std::byte{kPoison};
    }
  }

  std::byte* Address(ValueId value) const {
    if (value == kNoValue) return nullptr;
    const Location& location = program_.locations[Index(value)];
    switch (location.kind) {
      case Location::Kind::kNone:
        return nullptr;
      case Location::Kind::kArena:
        return arena_ + plan_.offsets[Index(location.index)] + location.byte_offset;
      // Kernels take inputs and constants by pointer to const.
      case Location::Kind::kInput:
        return const_cast<std::byte*>(inputs_[Index(location.index)].data()) + location.byte_offset;
      case Location::Kind::kOutput:
        return output_data_[Index(location.index)] + location.byte_offset;
      case Location::Kind::kConstant:
        return const_cast<std::byte*>(
                   program_.graph.values[Index(location.index)].constant->data()) +
               location.byte_offset;
      case Location::Kind::kState:
        return state_data_[Index(location.index)] + location.byte_offset;
    }
    return nullptr;
  }

  void CopyInputs() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const ValueId value = program_.graph.inputs[i];
      if (program_.locations[Index(value)].kind != Location::Kind::kArena) continue;
      std::memcpy(Address(value), inputs_[i].data(), static_cast<size_t>(inputs_[i].Bytes()));
    }
  }

  void CopyOutputs() {
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const ValueId value = program_.graph.outputs[k];
      if (program_.locations[Index(value)].kind == Location::Kind::kOutput) continue;
      std::memcpy(output_data_[k], Address(value), static_cast<size_t>(outputs_[k].Bytes()));
    }
  }

  void RunTask(int32_t task) {
    const ProgramStep& step = program_.steps[Index(task)];
    const Node& node = program_.graph.nodes[Index(step.node)];
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (ValueId input : node.inputs) inputs.push_back(Address(input));
    for (ValueId output : node.outputs) outputs.push_back(Address(output));
    std::byte* scratch = arena_ + plan_.scratch_offsets[Index(task)];
    if (options_.poison) Poison(scratch, step.lowering.scratch_bytes);
    for (const KernelCall& call : step.lowering.calls) InvokeOnHost(call, inputs, outputs, scratch);
  }

  const Program& program_;
  const Plan& plan_;
  std::span<const Tensor> inputs_;
  const ReplayOptions& options_;
  Tensor arena_owner_;
  std::byte* arena_ = nullptr;
  std::vector<Tensor> outputs_;
  std::vector<std::byte*> output_data_;
  std::vector<Tensor> states_;
  std::vector<std::byte*> state_data_;
  std::vector<std::vector<int32_t>> dying_after_;
};

absl::Status CheckStates(const Graph& graph, const std::vector<Tensor>& states) {
  if (states.empty()) return absl::OkStatus();
  if (states.size() != graph.states.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the model has ", graph.states.size(),
                                                   " states and ", states.size(), " are given"));
  }
  for (size_t s = 0; s < states.size(); ++s) {
    const TensorType& type = graph.states[s].initial.type();
    if (states[s].type() == type) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("state '", graph.values[Index(graph.states[s].in)].name, "' is ",
                     type.ToString(), " and the data is ", states[s].type().ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> Replay(const Program& program, const Plan& plan,
                                           std::span<const Tensor> inputs,
                                           const ReplayOptions& options) {
  if (inputs.size() != program.graph.inputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the model has ", program.graph.inputs.size(),
                                                   " inputs and ", inputs.size(), " are given"));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = program.graph.values[Index(program.graph.inputs[i])];
    if (inputs[i].type() != *value.type) {
      return absl::InvalidArgumentError(absl::StrCat("input '", value.name, "' is ",
                                                     value.type->ToString(), " and the data is ",
                                                     inputs[i].type().ToString()));
    }
  }
  RETURN_IF_ERROR(CheckKernels(program));
  if (options.states != nullptr) RETURN_IF_ERROR(CheckStates(program.graph, *options.states));
  MEMPLAN_CHECK(plan.order.size() == program.steps.size());
  return Replayer(program, plan, inputs, options).Run();
}

}  // namespace onnx_memplan
