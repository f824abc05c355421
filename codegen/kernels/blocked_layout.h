// Images to blocks of channels and back.
#ifndef MEMPLAN_KERNELS_BLOCKED_LAYOUT_H_
#define MEMPLAN_KERNELS_BLOCKED_LAYOUT_H_

#include "blocked.h"

namespace kernels {

struct BlockLayoutParams {
  int32_t batch;
  int32_t channels;
  int32_t pixels;
};
MEMPLAN_FIELDS(BlockLayoutParams, batch, channels, pixels);

// x: [batch][channels][pixels]; y: [batch][channels / 8][pixels][8], missing channels 0.
MEMPLAN_KERNEL void BlockChannels(const BlockLayoutParams& p, const float* x, float* y) {
  for (int32_t image = 0; image < p.batch; ++image) {
    for (int32_t c = 0; c < p.channels; c += kChannelBlock) {
      const int32_t count = p.channels - c < kChannelBlock ? p.channels - c : kChannelBlock;
      for (int32_t i = 0; i < p.pixels; ++i, y += kChannelBlock) {
        for (int32_t l = 0; l < kChannelBlock; ++l) {
          y[l] = l < count ? x[static_cast<ptrdiff_t>(l) * p.pixels + i] : 0.0F;
        }
      }
      x += static_cast<ptrdiff_t>(count) * p.pixels;
    }
  }
}

// The inverse of BlockChannels.
MEMPLAN_KERNEL void UnblockChannels(const BlockLayoutParams& p, const float* x, float* y) {
  for (int32_t image = 0; image < p.batch; ++image) {
    for (int32_t c = 0; c < p.channels; c += kChannelBlock) {
      const int32_t count = p.channels - c < kChannelBlock ? p.channels - c : kChannelBlock;
      for (int32_t l = 0; l < count; ++l, y += p.pixels) {
        for (int32_t i = 0; i < p.pixels; ++i) {
          y[i] = x[static_cast<ptrdiff_t>(i) * kChannelBlock + l];
        }
      }
      x += static_cast<ptrdiff_t>(p.pixels) * kChannelBlock;
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_LAYOUT_H_
