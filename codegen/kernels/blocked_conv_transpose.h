// Transposed convolution of images in blocks of channels.
//
// The outputs whose places have the same remainder by the stride see the same taps, at neighbouring
// inputs: each such phase is a convolution of stride 1. A group of its outputs stays in registers
// while the input channels run; the weights of a channel are one vector of output channels.
#ifndef MEMPLAN_KERNELS_BLOCKED_CONV_TRANSPOSE_H_
#define MEMPLAN_KERNELS_BLOCKED_CONV_TRANSPOSE_H_

#include "blocked_window.h"
#include "gemm_tile.h"

namespace kernels {

// Arrays are height, width. No dilation.
struct BlockedTransposeParams {
  int32_t batch;
  int32_t in_blocks;
  int32_t out_blocks;
  int32_t in_size[2];
  int32_t out_size[2];
  int32_t taps[2];
  int32_t stride[2];
  int32_t padding[2];  // of the result, before its first element
  int32_t clamps;      // 1: the result is brought into [lowest, highest]
  int32_t activation;  // an ActivationKind, applied after that
  float lowest;
  float highest;
  float alpha;  // of the activation
  float beta;
};
MEMPLAN_FIELDS(BlockedTransposeParams, batch, in_blocks, out_blocks, in_size, out_size, taps,
               stride, padding, clamps, activation, lowest, highest, alpha, beta);

// Constants of one block of output channels: [bias, then each tap, each input channel][8].
constexpr int32_t BlockedTransposeConstants(const BlockedTransposeParams& p) {
  return (1 + p.taps[0] * p.taps[1] * p.in_blocks * kChannelBlock) * kChannelBlock;
}

// The outputs of a row that have one remainder.
struct BlockedPhase {
  int32_t row;     // of the input, for the first tap of this phase
  int32_t column;  // of the input, for the first output and the first tap
  int32_t tap[2];  // the first one; those of the phase follow at the distance of the stride
  int32_t count;   // outputs
};

// sums[i] += the products of one tap with all input channels, at column + i of a row of the input.
// x: that row of the first block; weights: [in_blocks * 8][8]. Edge: columns may lie outside.
template <int Width, bool Edge, class V>
MEMPLAN_INLINE void AddTransposedTap(const BlockedTransposeParams& p, const float* x,
                                     int32_t column, const float* weights,
                                     V (&sums)[kBlockedGroup]) {
  using InArray = typename Vector<Width>::InArray;
  const ptrdiff_t plane = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * kChannelBlock;
  const ptrdiff_t at = static_cast<ptrdiff_t>(column) * kChannelBlock;
  const int32_t low = -column;
  const int32_t high = p.in_size[1] - column;
  for (int32_t block = 0; block < p.in_blocks; ++block, x += plane) {
    for (int c = 0; c < kChannelBlock; ++c, weights += kChannelBlock) {
      const V row = *reinterpret_cast<const InArray*>(weights);
#pragma GCC unroll 8
      for (int i = 0; i < kBlockedGroup; ++i) {
        if (Edge && (i < low || i >= high)) continue;
        sums[i] += x[at + i * kChannelBlock + c] * row;
      }
    }
  }
}

// The outputs of one phase; y and residual (or nullptr): at its first output.
template <int Width>
MEMPLAN_INLINE void BlockedTransposePhase(const BlockedTransposeParams& p,
                                          const BlockedPhase& phase, const float* x,
                                          const float* constants, const float* residual, float* y) {
  using V = typename Vector<Width>::Type;
  using InArray = typename Vector<Width>::InArray;
  const ptrdiff_t tap_floats = static_cast<ptrdiff_t>(p.in_blocks) * kChannelBlock * kChannelBlock;
  const ptrdiff_t step = static_cast<ptrdiff_t>(p.stride[1]) * kChannelBlock;
  for (int32_t first = 0; first < phase.count; first += kBlockedGroup) {
    V sums[1][kBlockedGroup];
#pragma GCC unroll 8
    for (int i = 0; i < kBlockedGroup; ++i) {
      sums[0][i] = *reinterpret_cast<const InArray*>(constants);
    }
    int32_t row = phase.row;
    for (int32_t ty = phase.tap[0]; ty < p.taps[0]; ty += p.stride[0], --row) {
      if (row < 0 || row >= p.in_size[0]) continue;
      const float* x_row = x + static_cast<ptrdiff_t>(row) * p.in_size[1] * kChannelBlock;
      int32_t column = phase.column + first;
      for (int32_t tx = phase.tap[1]; tx < p.taps[1]; tx += p.stride[1], --column) {
        const float* weights = constants + kChannelBlock + (ty * p.taps[1] + tx) * tap_floats;
        if (column >= 0 && column + kBlockedGroup <= p.in_size[1]) {
          AddTransposedTap<Width, false>(p, x_row, column, weights, sums[0]);
        } else {
          AddTransposedTap<Width, true>(p, x_row, column, weights, sums[0]);
        }
      }
    }
    const int32_t count = phase.count - first;
    if (residual != nullptr) {
#pragma GCC unroll 8
      for (int i = 0; i < kBlockedGroup; ++i) {
        if (i < count) {
          sums[0][i] += *reinterpret_cast<const InArray*>(residual + (first + i) * step);
        }
      }
    }
    if (p.clamps != 0) ClampSums(sums, p.lowest, p.highest);
#pragma GCC unroll 8
    for (int i = 0; i < kBlockedGroup; ++i) {
      if (i < count) *reinterpret_cast<InArray*>(y + (first + i) * step) = sums[0][i];
    }
  }
}

// One row of one block of outputs; arguments as for BlockedConvTranspose, at that row and block.
template <int Width>
MEMPLAN_INLINE void BlockedTransposeRow(const BlockedTransposeParams& p, const float* x,
                                        const float* constants, const float* residual, int32_t qy,
                                        float* y) {
  BlockedPhase phase = {};
  phase.row = (qy + p.padding[0]) / p.stride[0];
  phase.tap[0] = (qy + p.padding[0]) % p.stride[0];
  for (int32_t qx = 0; qx < p.stride[1] && qx < p.out_size[1]; ++qx) {
    phase.column = (qx + p.padding[1]) / p.stride[1];
    phase.tap[1] = (qx + p.padding[1]) % p.stride[1];
    phase.count = (p.out_size[1] - qx + p.stride[1] - 1) / p.stride[1];
#pragma GCC unroll 1
    for (int lane = 0; lane < kChannelBlock; lane += Width) {
      const ptrdiff_t at = static_cast<ptrdiff_t>(qx) * kChannelBlock + lane;
      BlockedTransposePhase<Width>(p, phase, x, constants + lane,
                                   residual == nullptr ? nullptr : residual + at, y + at);
    }
  }
}

template <int Lanes>
MEMPLAN_SHARED_FUNCTION void BlockedTransposeAll(const BlockedTransposeParams& p,
                                                 ActivateFunction activate, const float* x,
                                                 const float* constants, const float* residual,
                                                 float* y) {
  const ptrdiff_t in_floats =
      static_cast<ptrdiff_t>(p.in_blocks) * p.in_size[0] * p.in_size[1] * kChannelBlock;
  const int32_t row_floats = p.out_size[1] * kChannelBlock;
  for (int32_t image = 0; image < p.batch; ++image, x += in_floats) {
    for (int32_t block = 0; block < p.out_blocks; ++block) {
      for (int32_t qy = 0; qy < p.out_size[0]; ++qy, y += row_floats) {
        BlockedTransposeRow<VectorLanes(Lanes)>(
            p, x, constants + static_cast<ptrdiff_t>(block) * BlockedTransposeConstants(p),
            residual, qy, y);
        if (activate != nullptr) activate(1, row_floats, row_floats, p.alpha, p.beta, y);
        if (residual != nullptr) residual += row_floats;
      }
    }
  }
}

// y = activation(transposed convolution(x, weights) + bias + residual).
// x, y, residual (may be y, or nullptr): images in blocks of channels. constants: for each block of
// output channels, BlockedTransposeConstants.
template <int Lanes>
MEMPLAN_INLINE void BlockedConvTranspose(const BlockedTransposeParams& p, const float* x,
                                         const float* constants, const float* residual, float* y) {
  BlockedTransposeAll<Lanes>(p, ActivateFunctionOf(p.activation), x, constants, residual, y);
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_CONV_TRANSPOSE_H_
