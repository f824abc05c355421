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
// The number of the step that runs, from 1: the state's value behind it.
inline constexpr char kStepNumber[] = "optimizer/step_number";

// BatchNormalization that trains normalises by the batch and updates its running statistics, which
// are states already (SelectParameters); Dropout drops, by masks that depend on the seed, the node
// and the number of the step. `graph` need not be typed.
absl::Status ToTrainingForm(const TrainOptions& options, Graph& graph);

// BatchNormalization uses its running statistics, Dropout passes on.
void ToInferenceForm(Graph& graph);

// The value that StepNumber gave, if it was asked for; else kNoValue. Found as the only integer
// that an optimizer keeps: a model may have values of any name.
ValueId FindStepNumber(const Graph& graph);

// kStepNumber: the state and the node that counts are added in front when they are not there yet,
// so that everything may read the number, however late.
ValueId StepNumber(Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_AUTODIFF_TRAINING_FORM_H_
