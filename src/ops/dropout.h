// The gradient rule of Dropout.
#ifndef ONNX_MEMPLAN_OPS_DROPOUT_H_
#define ONNX_MEMPLAN_OPS_DROPOUT_H_

#include "absl/status/status.h"
#include "ops/gradient_context.h"

namespace onnx_memplan {

// Of Dropout in inference, the identity. Unimplemented in training mode: a model for training has
// DropoutTraining instead.
absl::Status DropoutGradient(GradientContext& g);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_DROPOUT_H_
