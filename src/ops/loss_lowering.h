// What losses and their gradients share. Include host_kernels.h before this.
#ifndef ONNX_MEMPLAN_OPS_LOSS_LOWERING_H_
#define ONNX_MEMPLAN_OPS_LOSS_LOWERING_H_

#include "absl/status/statusor.h"
#include "kernels/losses.h"
#include "ops/gradient_context.h"
#include "ops/node_context.h"

namespace onnx_memplan {

// Attribute reduction.
absl::StatusOr<kernels::LossReduction> ReadReduction(const NodeContext& node);

// Gradient rules.
absl::Status SoftmaxCrossEntropyLossGradient(GradientContext& g);
absl::Status NegativeLogLikelihoodLossGradient(GradientContext& g);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_LOSS_LOWERING_H_
