// Depthwise convolution over images in blocks of channels.
#include "ops/host_kernels.h"

#include "kernels/blocked_depthwise.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/blocked.h"
#include "ops/dispatch.h"
#include "ops/parallel_axis.h"

namespace onnx_memplan {
Tensor PackBlockedDepthwise(int64_t channels, std::span<const float> weights,
                            std::span<const float> bias) {
  const auto count = static_cast<size_t>(channels);
  const size_t taps = weights.size() / std::max<size_t>(count, 1);
  const auto lanes = static_cast<size_t>(kernels::kChannelBlock);
  std::vector<float> packed((count + lanes - 1) / lanes * (1 + taps) * lanes);
  for (size_t c = 0; c < count; ++c) {
    float* to = packed.data() + c / lanes * (1 + taps) * lanes + c % lanes;
    if (!bias.empty()) to[0] = bias[c];
    for (size_t t = 0; t < taps; ++t) to[(1 + t) * lanes] = weights[c * taps + t];
  }
  const auto size = static_cast<int64_t>(packed.size());
  return Tensor::FromVector<float>({size}, packed);
}

namespace {

template <int Lanes>
KernelFunction DepthwiseFunction(int32_t taps, int32_t stride) {
  if (taps == 3 && stride == 1) return FunctionOf<&kernels::BlockedDepthwise<Lanes, 3, 1>>();
  if (taps == 3) return FunctionOf<&kernels::BlockedDepthwise<Lanes, 3, 2>>();
  if (taps == 5 && stride == 1) return FunctionOf<&kernels::BlockedDepthwise<Lanes, 5, 1>>();
  if (taps == 5) return FunctionOf<&kernels::BlockedDepthwise<Lanes, 5, 2>>();
  if (taps == 7 && stride == 1) return FunctionOf<&kernels::BlockedDepthwise<Lanes, 7, 1>>();
  if (taps == 7) return FunctionOf<&kernels::BlockedDepthwise<Lanes, 7, 2>>();
  return FunctionOf<&kernels::BlockedDepthwise<Lanes, 0, 0>>();
}

}  // namespace

std::optional<Lowering> LowerBlockedDepthwise(const NodeContext& node, const Target& target,
                                              const kernels::BlockedConvParams& p) {
  if (p.in_blocked == 0) return std::nullopt;
  std::span<const float> bias;
  if (node.HasInput(2)) {
    if (node.InputConstant(2) == nullptr) return std::nullopt;
    bias = node.InputConstant(2)->As<float>();
  }
  const bool common = (p.taps[1] == 3 || p.taps[1] == 5 || p.taps[1] == 7) &&
                      (p.stride[1] == 1 || p.stride[1] == 2) && p.dilation[1] == 1;
  const int32_t taps = common ? p.taps[1] : 0;
  const int32_t stride = common ? p.stride[1] : 0;
  // Wider vectors than a block gain nothing: their loads would cross the lines of the cache.
  const int32_t lanes = target.vector_floats >= 8 ? 8 : 4;
  KernelCall call;
  call.header = "kernels/blocked_depthwise.h";
  call.name = absl::StrCat("kernels::BlockedDepthwise<", lanes, ", ", taps, ", ", stride, ">");
  call.function =
      lanes == 8 ? DepthwiseFunction<8>(taps, stride) : DepthwiseFunction<4>(taps, stride);
  call.constants = {PackBlockedDepthwise(p.in_channels, node.InputConstant(1)->As<float>(), bias)};
  constexpr auto kSetChannels = [](kernels::BlockedConvParams& part, int32_t begin, int32_t end) {
    part.in_channels = part.out_channels = end - begin;
  };
  const int64_t out = int64_t{p.out_size[0]} * p.out_size[1];
  const int64_t taps_of_all = int64_t{p.taps[0]} * p.taps[1];
  std::vector<ParallelAxis> axes;
  if (p.batch == 1) {
    axes = {{.extent = p.in_channels,
             .unit = kernels::kChannelBlock,
             .borders = {},
             .arg_steps = {int64_t{p.in_size[0]} * p.in_size[1], 1 + taps_of_all, out, out},
             .restrict_to = &RestrictTo<kernels::BlockedConvParams, kSetChannels>}};
  }
  return InParallel(OneCall(std::move(call), p,
                            {KernelArg::Input(0), KernelArg::Constant(0), ResidualArg(node),
                             KernelArg::Output(0)}),
                    // A multiply-add by itself takes longer than one of a product.
                    4 * p.batch * p.in_channels * out * taps_of_all, std::move(axes));
}

}  // namespace onnx_memplan
