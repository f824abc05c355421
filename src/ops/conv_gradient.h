// Gradient rules of the convolutions.
#ifndef ONNX_MEMPLAN_OPS_CONV_GRADIENT_H_
#define ONNX_MEMPLAN_OPS_CONV_GRADIENT_H_

#include "ops/host_kernels.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/conv_gradient.h"
#include "ops/gemm_lowering.h"
#include "ops/gradient_context.h"

namespace onnx_memplan {

// The type of the weights, of a node as below. Unlike the parameters, it asks for no output types.
absl::StatusOr<TensorType> ConvWeightGradType(const NodeContext& node);

// Of a node whose inputs 0 and 1 and whose attributes are ConvWeightGrad's. block_channels is all
// of them.
absl::StatusOr<kernels::ConvWeightGradParams> MakeConvWeightGradParams(const NodeContext& node);

// The same with blocks that fit a panel, and the tile for them.
struct WeightGradTiling {
  kernels::ConvWeightGradParams params;
  TileShape tile;
};
WeightGradTiling TileWeightGrad(const NodeContext& node, const Target& target,
                                kernels::ConvWeightGradParams params);

// Conv: dX is ConvTranspose(dY, W), dW ConvWeightGrad(X, dY), dB the sum of dY by channel.
absl::Status ConvGradient(GradientContext& g);
// ConvTranspose: dX is Conv(dY, W), dW ConvWeightGrad(dY, X), dB the sum of dY by channel.
// `padding_begin`: what the forward node takes off in front of each spatial axis, however its
// attributes say it.
absl::Status ConvTransposeGradient(GradientContext& g, const std::vector<int64_t>& padding_begin);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_CONV_GRADIENT_H_
