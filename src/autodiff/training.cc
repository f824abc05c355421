#include "autodiff/training.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "autodiff/backward.h"
#include "autodiff/loss.h"
#include "autodiff/optimizer.h"
#include "autodiff/parameters.h"
#include "autodiff/save_masks.h"
#include "autodiff/split_statistics.h"
#include "autodiff/training_form.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

std::vector<ValueId> ParametersOf(const Graph& graph) {
  std::vector<ValueId> parameters;
  for (const State& state : graph.states) {
    if (state.kind == StateKind::kParameter) parameters.push_back(state.in);
  }
  return parameters;
}

// The same graph with the gradients as outputs. Statistics are not rewritten: a call changes
// nothing.
Graph GradientsGraph(const std::vector<ParameterGradient>& gradients, Graph graph) {
  for (State& state : graph.states) state.out = kNoValue;
  for (const ParameterGradient& pair : gradients) {
    // A name of its own: two parameters may have the same gradient.
    const ValueId output = graph.AddValue(
        graph.UniqueValueName(absl::StrCat(graph.values[Index(pair.parameter)].name, "/gradient")),
        graph.values[Index(pair.gradient)].type);
    graph.nodes.push_back({.op_type = "Identity",
                           .domain = "",
                           .name = "",
                           .inputs = {pair.gradient},
                           .outputs = {output},
                           .attributes = {},
                           .epilogue = {}});
    graph.outputs.push_back(output);
  }
  return graph;
}

absl::Status SaveLess(BackwardGraph& backward) {
  RETURN_IF_ERROR(SplitStatistics(&backward.forward_nodes, backward.graph));
  SaveMasks(&backward.forward_nodes, backward.graph);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ForwardGraphs> MakeForwardGraphs(const TrainOptions& options,
                                                const std::vector<std::string>& initializers,
                                                Graph model) {
  RETURN_IF_ERROR(SelectParameters(options, initializers, model));
  ForwardGraphs forward;
  forward.training = model;
  forward.inference = std::move(model);
  RETURN_IF_ERROR(ToTrainingForm(options, forward.training));
  ToInferenceForm(forward.inference);
  return forward;
}

absl::StatusOr<TrainingGraphs> MakeTrainingGraphs(const TrainOptions& options,
                                                  ForwardGraphs forward) {
  Graph& graph = forward.training;
  ASSIGN_OR_RETURN(const ValueId loss, AppendLoss(options, graph));
  size_t forward_nodes = graph.nodes.size();
  const std::vector<ValueId> parameters = ParametersOf(graph);
  ASSIGN_OR_RETURN(const std::vector<ValueId> gradients, AddBackward(loss, parameters, graph));

  TrainingGraphs result;
  std::vector<ParameterGradient> pairs;
  std::vector<std::string> unused;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = graph.values[Index(parameters[i])].name;
    if (gradients[i] == kNoValue) {
      unused.push_back(name);
    } else {
      pairs.push_back({parameters[i], gradients[i]});
      result.parameters.push_back(name);
    }
  }
  if (pairs.empty()) {
    return absl::InvalidArgumentError(
        "nothing is left to train: the loss depends on no selected parameter; see --loss-output "
        "and --trainable");
  }
  DemoteParameters(unused, graph);
  DemoteParameters(unused, forward.inference);
  if (options.gradients) {
    result.gradients = {GradientsGraph(pairs, graph), forward_nodes};
    RETURN_IF_ERROR(SaveLess(*result.gradients));
  }
  const bool counted = FindStepNumber(graph) != kNoValue;
  RETURN_IF_ERROR(AddUpdates(options.optimizer, pairs, graph));
  // The counter of steps stands in front.
  if (!counted && FindStepNumber(graph) != kNoValue) ++forward_nodes;
  result.step = {std::move(forward.training), forward_nodes};
  RETURN_IF_ERROR(SaveLess(result.step));
  result.inference = std::move(forward.inference);
  return result;
}

}  // namespace onnx_memplan
