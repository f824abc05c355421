// From a model to the graphs of on-device training. The graphs are typed and may be optimised
// further; a caller optimises the forward graphs before (without the fusing passes) and everything
// after.
#ifndef ONNX_MEMPLAN_AUTODIFF_TRAINING_H_
#define ONNX_MEMPLAN_AUTODIFF_TRAINING_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"
#include "onnx_memplan/train.h"

namespace onnx_memplan {

// The model with its trained initializers as states, in two forms.
struct ForwardGraphs {
  Graph training;
  Graph inference;
};

// `model` as it was loaded. Errors: see SelectParameters.
absl::StatusOr<ForwardGraphs> MakeForwardGraphs(const TrainOptions& options,
                                                const std::vector<std::string>& initializers,
                                                Graph model);

// A graph whose first `forward_nodes` nodes are the forward pass with the loss.
struct BackwardGraph {
  Graph graph;
  size_t forward_nodes = 0;
};

struct TrainingGraphs {
  // Inputs of the model, kTarget, kLearningRate; output: the loss.
  BackwardGraph step;
  // Inputs and outputs of the model.
  Graph inference;
  // Inputs of the model and kTarget; outputs: the loss, then a gradient for each parameter.
  std::optional<BackwardGraph> gradients;
  // Names of the initializers that are trained, in the order of their states.
  std::vector<std::string> parameters;
};

// `forward` is typed and without epilogues. Parameters that the loss does not depend on are
// constants again in the result.
absl::StatusOr<TrainingGraphs> MakeTrainingGraphs(const TrainOptions& options,
                                                  ForwardGraphs forward);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_AUTODIFF_TRAINING_H_
