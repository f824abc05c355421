// Depthwise convolution over images in blocks of channels.
//
// Channels are lanes, so that a tap is one multiply-add of a whole vector. A group of neighbouring
// outputs shares each input that it loads (common shapes) or each weight (any shape). Three or five
// rows of the input pass through the first cache level; there is no scratch.
#ifndef MEMPLAN_KERNELS_BLOCKED_DEPTHWISE_H_
#define MEMPLAN_KERNELS_BLOCKED_DEPTHWISE_H_

#include "blocked_window.h"
#include "gemm_tile.h"

namespace kernels {

// Constants of one block of channels: [bias, then each tap][8].
constexpr int32_t BlockedDepthwiseConstants(const BlockedConvParams& p) {
  return (1 + p.taps[0] * p.taps[1]) * kChannelBlock;
}

// One group of outputs, written at y; the arrays begin with the vector of channels in question.
template <int Width, int Taps, int Stride, int Pixels, int Edge>
MEMPLAN_INLINE void BlockedDepthwiseGroup(const BlockedConvParams& p, const BlockedGroup& group,
                                          const float* constants, const float* residual, float* y) {
  using V = typename Vector<Width>::Type;
  using InArray = typename Vector<Width>::InArray;
  V sums[1][Pixels];
#pragma GCC unroll 8
  for (int i = 0; i < Pixels; ++i) sums[0][i] = *reinterpret_cast<const InArray*>(constants);
  const float* weights = constants + kChannelBlock;
  if constexpr (Taps > 0) {
    V row[Taps];
    VisitBlockedColumns<Width, Taps, Stride, Pixels, Edge>(
        p, group, sums[0],
        [&](int32_t ty) __attribute__((always_inline)) {
#pragma GCC unroll 8
          for (int t = 0; t < Taps; ++t) {
            row[t] = *reinterpret_cast<const InArray*>(weights + (ty * Taps + t) * kChannelBlock);
          }
        },
        [&](V & sum, int t, const V& v) __attribute__((always_inline)) { sum += row[t] * v; });
  } else {
    VisitBlockedWindows<Pixels, Edge>(
        p, group, [&](int i, int32_t tap, const float* x) __attribute__((always_inline)) {
          const V weight = *reinterpret_cast<const InArray*>(weights + tap * kChannelBlock);
          sums[0][i] += weight * *reinterpret_cast<const InArray*>(x);
        });
  }
  if (residual != nullptr) {
#pragma GCC unroll 8
    for (int i = 0; i < Pixels; ++i) {
      if (Edge == kPartial && i >= group.count) break;
      sums[0][i] += *reinterpret_cast<const InArray*>(residual + i * kChannelBlock);
    }
  }
  if (p.clamps != 0) ClampSums(sums, p.lowest, p.highest);
#pragma GCC unroll 8
  for (int i = 0; i < Pixels; ++i) {
    if (Edge == kPartial && i >= group.count) break;
    *reinterpret_cast<InArray*>(y + i * kChannelBlock) = sums[0][i];
  }
}

// All blocks of all images; arguments as for BlockedDepthwise.
template <int Lanes, int Taps, int Stride>
MEMPLAN_SHARED_FUNCTION void BlockedDepthwiseAll(const BlockedConvParams& p,
                                                 ActivateFunction activate, const float* x,
                                                 const float* constants, const float* residual,
                                                 float* y) {
  constexpr int kWidth = VectorLanes(Lanes);
  const ptrdiff_t in_floats = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * kChannelBlock;
  const int32_t row_floats = p.out_size[1] * kChannelBlock;
  const int32_t blocks = ChannelBlocks(p.in_channels);
  // Rows that are activated at once, while the first cache level still has them.
  const int32_t rows = row_floats * p.out_size[0] <= 4096 ? p.out_size[0] : 1;
  for (int32_t i = 0; i < p.batch * blocks; ++i, x += in_floats) {
    const float* block_constants = constants + i % blocks * BlockedDepthwiseConstants(p);
    for (int32_t qy = 0; qy < p.out_size[0]; ++qy, y += row_floats) {
#pragma GCC unroll 1
      for (int lane = 0; lane < kChannelBlock; lane += kWidth) {
        VisitBlockedRow<kBlockedGroup>(
            p, x + lane, qy,
            [&](auto kind, const BlockedGroup& group, int32_t qx) __attribute__((always_inline)) {
              const ptrdiff_t at = static_cast<ptrdiff_t>(qx) * kChannelBlock + lane;
              BlockedDepthwiseGroup<kWidth, Taps, Stride, kBlockedGroup, decltype(kind)::kEdge>(
                  p, group, block_constants + lane, residual == nullptr ? nullptr : residual + at,
                  y + at);
            });
      }
      if (activate != nullptr && (qy + 1) % rows == 0) {
        const int32_t before = (rows - 1) * row_floats;
        activate(1, before + row_floats, 0, p.alpha, p.beta, y - before);
      }
      if (residual != nullptr) residual += row_floats;
    }
  }
}

// y = activation(depthwise convolution(x, weights) + bias + residual).
// x, y, residual (may be y, or nullptr): images in blocks of channels. constants: for each block,
// BlockedDepthwiseConstants. Taps, Stride: p.taps[1] and p.stride[1], without dilation of columns;
// or 0 for any.
template <int Lanes, int Taps, int Stride>
MEMPLAN_INLINE void BlockedDepthwise(const BlockedConvParams& p, const float* x,
                                     const float* constants, const float* residual, float* y) {
  BlockedDepthwiseAll<Lanes, Taps, Stride>(p, ActivateFunctionOf(p.activation), x, constants,
                                           residual, y);
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_DEPTHWISE_H_
