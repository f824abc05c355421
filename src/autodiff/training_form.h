// One model, two forms: the forward pass of a training step, and inference with the same
// parameters.
#ifndef ONNX_MEMPLAN_AUTODIFF_TRAINING_FORM_H_
#define ONNX_MEMPLAN_AUTODIFF_TRAINING_FORM_H_

#include "absl/status/status.h"
#include "onnx_memplan/graph.h"
#include "onnx_memplan/train.h"

namespace onnx_memplan {

// The state that counts training steps: int64, 0 before the first.
inline constexpr char kStepCounter[] = "optimizer/step";

// BatchNormalization that trains normalises by the batch and updates its running statistics, which
// are states already (SelectParameters); Dropout drops, by masks that depend on the seed, the node
// and the step counter, which is added when needed. `graph` need not be typed.
absl::Status ToTrainingForm(const TrainOptions& options, Graph& graph);

// BatchNormalization uses its running statistics, Dropout passes on.
void ToInferenceForm(Graph& graph);

// The value of the step counter before this step, made a state when it is not there yet.
ValueId StepCounter(Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_AUTODIFF_TRAINING_FORM_H_
