#include "autodiff/training_form.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autodiff/parameters.h"
#include "ops/op_def.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

State& StateOf(ValueId in, Graph& graph) {
  for (State& state : graph.states) {
    if (state.in == in) return state;
  }
  MEMPLAN_CHECK_MSG(false, graph.values[Index(in)].name);
  return graph.states[0];
}

void TrainStatistics(const TrainOptions& options, size_t n, Graph& graph) {
  constexpr size_t kStatistics = 2;
  constexpr size_t kFirstInput = 3;
  graph.nodes[n].attributes["training_mode"] = int64_t{1};
  graph.nodes[n].attributes["unbiased_running_variance"] =
      int64_t{options.onnx_running_variance ? 0 : 1};
  graph.nodes[n].outputs.resize(1 + kStatistics, kNoValue);
  for (size_t i = 0; i < kStatistics; ++i) {
    const ValueId in = graph.nodes[n].inputs[kFirstInput + i];
    if (graph.nodes[n].outputs[1 + i] == kNoValue) {
      graph.nodes[n].outputs[1 + i] = graph.AddValue(
          graph.UniqueValueName(graph.values[Index(in)].name + "/next"), std::nullopt);
    }
    StateOf(in, graph).out = graph.nodes[n].outputs[1 + i];
  }
}

bool IsRead(ValueId value, const Graph& graph) {
  const auto holds = [value](const std::vector<ValueId>& values) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  return value != kNoValue && (holds(graph.outputs) ||
                               std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                           [&](const Node& node) { return holds(node.inputs); }));
}

absl::Status DropInTraining(const TrainOptions& options, size_t n, ValueId step, Graph& graph) {
  const Node& old = graph.nodes[n];
  if (old.outputs.size() > 1 && IsRead(old.outputs[1], graph)) {
    return absl::UnimplementedError(
        absl::StrCat("node '", graph.NodeName(old),
                     "' (Dropout): a model that reads the mask of a Dropout cannot be trained"));
  }
  ValueId ratio = old.inputs.size() > 1 ? old.inputs[1] : kNoValue;
  if (ratio == kNoValue) {
    ratio = graph.AddConstant(graph.UniqueValueName(absl::StrCat("dropout/ratio_", n)),
                              Tensor::FromVector<float>({}, {0.5F}));
  }
  Node& node = graph.nodes[n];
  node.op_type = "DropoutTraining";
  node.domain = kMemplan;
  node.inputs = {node.inputs[0], ratio, step};
  while (node.outputs.size() > 1) node.outputs.pop_back();
  node.attributes = {{"seed", static_cast<int64_t>(options.dropout_seed * 1'000'003 + n)}};
  return absl::OkStatus();
}

}  // namespace

ValueId FindStepNumber(const Graph& graph) {
  for (const State& state : graph.states) {
    const bool counts =
        state.kind == StateKind::kOptimizer && state.initial.dtype() == DType::kInt64;
    if (counts) return state.out;
  }
  return kNoValue;
}

ValueId StepNumber(Graph& graph) {
  if (const ValueId known = FindStepNumber(graph); known != kNoValue) return known;
  const Tensor zero = Tensor::ScalarInt64(0);
  const ValueId counter = graph.AddValue(graph.UniqueValueName(kStepCounter), zero.type());
  const ValueId one =
      graph.AddConstant(graph.UniqueValueName("optimizer/one"), Tensor::ScalarInt64(1));
  const ValueId number = graph.AddValue(graph.UniqueValueName(kStepNumber), zero.type());
  graph.nodes.insert(graph.nodes.begin(), {.op_type = "Add",
                                           .domain = "",
                                           .name = kStepNumber,
                                           .inputs = {counter, one},
                                           .outputs = {number},
                                           .attributes = {},
                                           .epilogue = {}});
  graph.states.push_back({counter, number, StateKind::kOptimizer, zero});
  return number;
}

absl::Status ToTrainingForm(const TrainOptions& options, Graph& graph) {
  const bool drops = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                 [](const Node& node) { return node.Is("Dropout"); });
  const ValueId step = drops ? StepNumber(graph) : kNoValue;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    if (TrainsStatistics(options, node)) {
      TrainStatistics(options, n, graph);
    } else if (node.Is("BatchNormalization")) {
      node.attributes["training_mode"] = int64_t{0};
      node.outputs.resize(1);
    } else if (node.Is("Dropout")) {
      if (absl::Status status = DropInTraining(options, n, step, graph); !status.ok())
        return status;
    }
  }
  return absl::OkStatus();
}

void ToInferenceForm(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (node.Is("BatchNormalization")) {
      node.attributes["training_mode"] = int64_t{0};
      node.outputs.resize(1);
    } else if (node.Is("Dropout")) {
      while (node.inputs.size() > 1) node.inputs.pop_back();
      if (node.outputs.size() > 1 && !IsRead(node.outputs[1], graph)) node.outputs.pop_back();
    }
  }
}

}  // namespace onnx_memplan
