// What pools and their gradients share. Include host_kernels.h before this.
#ifndef ONNX_MEMPLAN_OPS_POOL_LOWERING_H_
#define ONNX_MEMPLAN_OPS_POOL_LOWERING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/pool.h"
#include "onnx_memplan/tensor.h"
#include "ops/gradient_context.h"
#include "ops/node_context.h"

namespace onnx_memplan {

// The pool that the attributes of `node` say, of an input of shape `x`.
absl::StatusOr<kernels::PoolParams> MakePoolParams(const NodeContext& node, const Shape& x);
// Attribute p.
absl::StatusOr<int32_t> ReadNorm(const NodeContext& node);

// Gradient rules.
absl::Status MaxPoolGradient(GradientContext& g);
absl::Status AveragePoolGradient(GradientContext& g);
absl::Status LpPoolGradient(GradientContext& g);
absl::Status GlobalMaxPoolGradient(GradientContext& g);
absl::Status GlobalAveragePoolGradient(GradientContext& g);
absl::Status GlobalLpPoolGradient(GradientContext& g);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_POOL_LOWERING_H_
