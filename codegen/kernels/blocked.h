// Images in blocks of channels: [batch][channels / 8, rounded up][height][width][8].
//
// The eight channels of a pixel lie side by side, so that a vector is eight output channels (or,
// on wider CPUs, those of two blocks or of two neighbouring pixels) whatever the width of the
// image. Lanes behind the last channel hold finite values that nothing depends on: weights for
// them are zero.
#ifndef MEMPLAN_KERNELS_BLOCKED_H_
#define MEMPLAN_KERNELS_BLOCKED_H_

#include "activation.h"
#include "base.h"
#include "vector.h"

namespace kernels {

constexpr int32_t kChannelBlock = 8;

constexpr int32_t ChannelBlocks(int32_t channels) {
  return (channels + kChannelBlock - 1) / kChannelBlock;
}

// Arrays are height, width.
struct BlockedConvParams {
  int32_t batch;
  int32_t in_channels;
  int32_t out_channels;
  int32_t depthwise;  // 1: out_channels == in_channels, and each sees its own channel only
  int32_t in_size[2];
  int32_t out_size[2];
  int32_t taps[2];
  int32_t stride[2];
  int32_t dilation[2];
  int32_t padding[2];  // before the first element
  int32_t in_blocked;  // 0: the input is [batch][in_channels][height][width]
  int32_t clamps;      // 1: the result is brought into [lowest, highest]
  int32_t activation;  // an ActivationKind, applied after that
  float lowest;
  float highest;
  float alpha;  // of the activation
  float beta;
};
MEMPLAN_FIELDS(BlockedConvParams, batch, in_channels, out_channels, depthwise, in_size, out_size,
               taps, stride, dilation, padding, in_blocked, clamps, activation, lowest, highest,
               alpha, beta);

// Where channel c of pixel 0 lies in an image of `pixels` pixels.
MEMPLAN_INLINE ptrdiff_t BlockedChannelAt(int32_t c, ptrdiff_t pixels) {
  return (c / kChannelBlock) * pixels * kChannelBlock + c % kChannelBlock;
}

// One output of BlockedConvPlain, before bias and residual. x: one image.
MEMPLAN_INLINE float BlockedConvSum(const BlockedConvParams& p, const float* x, const float* w,
                                    int32_t channel, int32_t qy, int32_t qx) {
  const ptrdiff_t pixels = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1];
  const int32_t depth = p.depthwise != 0 ? 1 : p.in_channels;
  float sum = 0;
  for (int32_t c = 0; c < depth; ++c) {
    const int32_t in = p.depthwise != 0 ? channel : c;
    const float* plane = x + (p.in_blocked != 0 ? BlockedChannelAt(in, pixels) : in * pixels);
    const ptrdiff_t step = p.in_blocked != 0 ? kChannelBlock : 1;
    for (int32_t ty = 0; ty < p.taps[0]; ++ty) {
      const int32_t iy = qy * p.stride[0] + ty * p.dilation[0] - p.padding[0];
      for (int32_t tx = 0; tx < p.taps[1]; ++tx) {
        const int32_t ix = qx * p.stride[1] + tx * p.dilation[1] - p.padding[1];
        if (iy < 0 || iy >= p.in_size[0] || ix < 0 || ix >= p.in_size[1]) continue;
        const ptrdiff_t at = (static_cast<ptrdiff_t>(iy) * p.in_size[1] + ix) * step;
        sum += plane[at] * w[(static_cast<ptrdiff_t>(c) * p.taps[0] + ty) * p.taps[1] + tx];
      }
    }
  }
  return sum;
}

// y = activation(conv(x, weights) + bias + residual) as the definition says it.
// x: blocked, or as p.in_blocked says; y, residual (may be y, or nullptr): blocked.
// weights: [out_channels][in_channels, depthwise 1][taps]; bias: [out_channels] or nullptr.
MEMPLAN_KERNEL void BlockedConvPlain(const BlockedConvParams& p, const float* x,
                                     const float* weights, const float* bias, const float* residual,
                                     float* y) {
  const ptrdiff_t in_pixels = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1];
  const ptrdiff_t out_pixels = static_cast<ptrdiff_t>(p.out_size[0]) * p.out_size[1];
  const ptrdiff_t in_elements =
      in_pixels *
      (p.in_blocked != 0 ? ChannelBlocks(p.in_channels) * kChannelBlock : p.in_channels);
  const ptrdiff_t out_elements = out_pixels * ChannelBlocks(p.out_channels) * kChannelBlock;
  const ptrdiff_t depth =
      static_cast<ptrdiff_t>(p.depthwise != 0 ? 1 : p.in_channels) * p.taps[0] * p.taps[1];
  for (int32_t image = 0; image < p.batch; ++image) {
    for (int32_t channel = 0; channel < ChannelBlocks(p.out_channels) * kChannelBlock; ++channel) {
      const ptrdiff_t first = image * out_elements + BlockedChannelAt(channel, out_pixels);
      for (int32_t pixel = 0; pixel < out_pixels; ++pixel) {
        const ptrdiff_t at = first + static_cast<ptrdiff_t>(pixel) * kChannelBlock;
        if (channel >= p.out_channels) {
          y[at] = 0;
          continue;
        }
        float value = BlockedConvSum(p, x + image * in_elements, weights + channel * depth, channel,
                                     pixel / p.out_size[1], pixel % p.out_size[1]);
        if (bias != nullptr) value += bias[channel];
        if (residual != nullptr) value += residual[at];
        if (p.clamps != 0) value = Clip::Apply(value, p.lowest, p.highest);
        ActivateRow(p.activation, 1, p.alpha, p.beta, &value);
        y[at] = value;
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_H_
