// The nodes that rewrite parameters and the optimizer's own states.
#ifndef ONNX_MEMPLAN_AUTODIFF_OPTIMIZER_H_
#define ONNX_MEMPLAN_AUTODIFF_OPTIMIZER_H_

#include <vector>

#include "absl/status/status.h"
#include "onnx_memplan/graph.h"
#include "onnx_memplan/train.h"

namespace onnx_memplan {

// The graph input that holds the learning rate: a float scalar.
inline constexpr char kLearningRate[] = "learning_rate";

struct ParameterGradient {
  ValueId parameter = kNoValue;  // the `in` of a state
  ValueId gradient = kNoValue;   // of its type
};

// Adds the input kLearningRate, an update for each parameter, the optimizer's states (momentum;
// exp_avg and exp_avg_sq; sums of gradients), the step counter where something needs it, and the
// `out` of each state. InvalidArgument for numbers out of range.
absl::Status AddUpdates(const OptimizerOptions& options,
                        const std::vector<ParameterGradient>& gradients, Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_AUTODIFF_OPTIMIZER_H_
