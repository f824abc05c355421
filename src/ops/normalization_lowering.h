// What normalisations and their gradients share. Include host_kernels.h before this.
#ifndef ONNX_MEMPLAN_OPS_NORMALIZATION_LOWERING_H_
#define ONNX_MEMPLAN_OPS_NORMALIZATION_LOWERING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/normalization.h"
#include "onnx_memplan/tensor.h"
#include "ops/gradient_context.h"
#include "ops/node_context.h"
#include "ops/reduce_loops.h"

namespace onnx_memplan {

// OK if inputs 1 to `last` are vectors of `channels` elements of input 0's element type.
absl::Status CheckVectors(const NodeContext& node, int32_t last, int64_t channels);
// Input 0 around its channels, dimension 1. A rank of 1 is the batch alone, with one channel.
absl::StatusOr<AxisSplit> SplitAtChannels(const NodeContext& node);

// Input 0 as rows that attribute `axis` starts.
struct Rows {
  Shape outer_shape;  // the dimensions before the axis
  Shape row_shape;    // those from the axis on
};
absl::StatusOr<Rows> SplitRows(const NodeContext& node);
absl::StatusOr<kernels::LayerNormalizationParams> RowParams(const NodeContext& node,
                                                            const Rows& rows);

// LRN of input 0.
absl::StatusOr<kernels::LrnParams> MakeLrnParams(const NodeContext& node);

// Gradient rules.
absl::Status BatchNormalizationGradient(GradientContext& g);
absl::Status InstanceNormalizationGradient(GradientContext& g);
absl::Status GroupNormalizationGradient(GradientContext& g);
absl::Status LayerNormalizationGradient(GradientContext& g);
absl::Status RmsNormalizationGradient(GradientContext& g);
absl::Status LpNormalizationGradient(GradientContext& g);
absl::Status MeanVarianceNormalizationGradient(GradientContext& g);
absl::Status LrnGradient(GradientContext& g);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_NORMALIZATION_LOWERING_H_
