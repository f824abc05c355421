// Gradient rules of the convolutions.
#ifndef ONNX_MEMPLAN_OPS_CONV_GRADIENT_H_
#define ONNX_MEMPLAN_OPS_CONV_GRADIENT_H_

#include "ops/host_kernels.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/conv_gradient.h"
#include "ops/gemm_lowering.h"
#include "ops/gradient_context.h"
#include "ops/parallel_axis.h"

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

// What an argument of such a kernel is, for WeightGradAxis.
enum class WeightGradArg : uint8_t { kX, kDy, kW, kStays };  // kW: laid out as the weights

// Threads may share the groups of a weight gradient or, of a single one, its output channels by
// tiles of `unit`. Params: ConvWeightGradParams or ConvUpdateParams.
template <class Params>
ParallelAxis WeightGradAxis(const Params& p, int32_t unit, const std::vector<WeightGradArg>& args) {
  const int64_t in = kernels::Volume(p.in_size);
  const int64_t out = kernels::Volume(p.out_size);
  const int64_t row = int64_t{p.in_channels} * kernels::Volume(p.taps);
  const bool by_groups = p.groups > 1;
  const int64_t channels = by_groups ? p.out_channels : 1;
  std::vector<int64_t> steps;
  for (const WeightGradArg arg : args) {
    steps.push_back(arg == WeightGradArg::kX    ? (by_groups ? p.in_channels * in : 0)
                    : arg == WeightGradArg::kDy ? channels * out
                    : arg == WeightGradArg::kW  ? channels * row
                                                : 0);
  }
  return by_groups ? AxisOf<&Params::groups>(p, 1, std::move(steps))
                   : AxisOf<&Params::out_channels>(p, unit, std::move(steps));
}

template <class Params>
int64_t WeightGradWork(const Params& p) {
  return int64_t{p.batch} * p.groups * p.out_channels * p.in_channels * kernels::Volume(p.taps) *
         kernels::Volume(p.out_size);
}

// Conv: dX is ConvTranspose(dY, W), dW ConvWeightGrad(X, dY), dB the sum of dY by channel.
absl::Status ConvGradient(GradientContext& g);
// ConvTranspose: dX is Conv(dY, W), dW ConvWeightGrad(dY, X), dB the sum of dY by channel.
// `padding_begin`: what the forward node takes off in front of each spatial axis, however its
// attributes say it.
absl::Status ConvTransposeGradient(GradientContext& g, const std::vector<int64_t>& padding_begin);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_CONV_GRADIENT_H_
