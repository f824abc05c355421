// A direct convolution whose outputs only a sliding window reads, a maximum pool or a depthwise
// convolution: they never exist as a whole.
//
// Both work on channels by themselves. For each group of them, rows of the convolution are computed
// as the window moves down, into a ring of as many rows as the window has; each row is computed
// once. Where images are largest, at the beginning of a network, this often lowers the peak of the
// arena far below what any order of whole tensors could reach.
#ifndef MEMPLAN_KERNELS_BLOCKED_CONV_WINDOW_H_
#define MEMPLAN_KERNELS_BLOCKED_CONV_WINDOW_H_

#include "blocked_direct.h"
#include "pool.h"

namespace kernels {

// Arrays are height, width. A call computes the rows [row_begin, row_end) of the output.
struct BlockedConvWindowParams {
  int32_t batch;
  int32_t in_channels;
  int32_t in_size[2];
  int32_t conv_size[2];  // of the convolution's output
  int32_t out_size[2];
  int32_t taps[2];
  int32_t stride[2];
  int32_t dilation[2];
  int32_t padding[2];  // before the first element
  int32_t window_taps[2];
  int32_t window_stride[2];
  int32_t window_padding[2];
  int32_t out_blocks;   // of the whole output
  int32_t first_block;  // of this call
  int32_t groups;
  int32_t row_begin;
  int32_t row_end;
  int32_t clamps;      // 1: the convolution's result is brought into [lowest, highest]
  int32_t activation;  // an ActivationKind, applied after that
  float lowest;
  float highest;
  float alpha;  // of the activation
  float beta;
  // The same of the window's result.
  int32_t window_clamps;
  int32_t window_activation;
  float window_lowest;
  float window_highest;
  float window_alpha;
  float window_beta;
  // The convolution of one tap behind the window (blocked_conv_project.h).
  int32_t project_channels;  // of the window, which it reads
  int32_t project_blocks;    // of its output
  int32_t project_clamps;
  int32_t project_activation;
  float project_lowest;
  float project_highest;
  float project_alpha;
  float project_beta;
};
MEMPLAN_FIELDS(BlockedConvWindowParams, batch, in_channels, in_size, conv_size, out_size, taps,
               stride, dilation, padding, window_taps, window_stride, window_padding, out_blocks,
               first_block, groups, row_begin, row_end, clamps, activation, lowest, highest, alpha,
               beta, window_clamps, window_activation, window_lowest, window_highest, window_alpha,
               window_beta, project_channels, project_blocks, project_clamps, project_activation,
               project_lowest, project_highest, project_alpha, project_beta);

// Bytes of the ring for groups of `channels` output channels.
constexpr int64_t ConvWindowScratchBytes(const BlockedConvWindowParams& p, int64_t channels) {
  return channels * p.window_taps[0] * p.conv_size[1] * 4;
}

// The convolution alone, of which any one row is row 0 once padding[0] says so.
MEMPLAN_INLINE BlockedDirectParams ConvRowParams(const BlockedConvWindowParams& p) {
  BlockedDirectParams conv = {};
  conv.batch = 1;
  conv.in_channels = p.in_channels;
  for (int i = 0; i < 2; ++i) {
    conv.in_size[i] = p.in_size[i];
    conv.taps[i] = p.taps[i];
    conv.stride[i] = p.stride[i];
    conv.dilation[i] = p.dilation[i];
    conv.padding[i] = p.padding[i];
  }
  conv.out_size[0] = p.window_taps[0];  // the ring
  conv.out_size[1] = p.conv_size[1];
  conv.clamps = p.clamps;
  conv.activation = p.activation;
  conv.lowest = p.lowest;
  conv.highest = p.highest;
  conv.alpha = p.alpha;
  conv.beta = p.beta;
  return conv;
}

// Rows of one block of channels that a row of windows sees: those of [first, last) are row % size
// of the ring; window row 0 is `top`.
struct RingRows {
  const float* ring;
  ptrdiff_t row_floats;
  int32_t size;
  int32_t top;
  int32_t first;
  int32_t last;

  const float* Row(int32_t row) const { return ring + row % size * row_floats; }
};

// Sets the rows that the windows of output row qy see.
MEMPLAN_INLINE void SeeRows(const BlockedConvWindowParams& p, int32_t qy, RingRows* rows) {
  int32_t low;
  int32_t high;
  rows->top = qy * p.window_stride[0] - p.window_padding[0];
  InsideRange(rows->top, 1, p.conv_size[0], p.window_taps[0], &low, &high);
  rows->first = rows->top + low;
  rows->last = rows->top + high;
}

// The maximum of each window.
struct RingMax {
  static constexpr int32_t ConstantsOf(const BlockedConvWindowParams&) { return 0; }

  template <int Width, int Pixels, class V>
  static inline __attribute__((always_inline)) void Start(const float*, V (&sums)[Pixels]) {
#pragma GCC unroll 8
    for (int i = 0; i < Pixels; ++i) sums[i] = PoolMax::Init<float>() - V{};
  }
  template <int Width, class V>
  static inline __attribute__((always_inline)) void Add(V& sum, const V& x, const V&) {
    PoolMax::Add(sum, x);
  }
  template <int Width, class V>
  static inline __attribute__((always_inline)) void Weight(const float*, int32_t, V* weight) {
    *weight = V{};
  }
};

// The weighted sum of each window. Constants of a block: [bias, then each tap][8].
struct RingSum {
  static constexpr int32_t ConstantsOf(const BlockedConvWindowParams& p) {
    return (1 + p.window_taps[0] * p.window_taps[1]) * kChannelBlock;
  }
  template <int Width, int Pixels, class V>
  static inline __attribute__((always_inline)) void Start(const float* constants,
                                                          V (&sums)[Pixels]) {
    const V bias = *reinterpret_cast<const typename Vector<Width>::InArray*>(constants);
#pragma GCC unroll 8
    for (int i = 0; i < Pixels; ++i) sums[i] = bias;
  }
  template <int Width, class V>
  static inline __attribute__((always_inline)) void Add(V& sum, const V& x, const V& weight) {
    sum += x * weight;
  }
  template <int Width, class V>
  static inline __attribute__((always_inline)) void Weight(const float* constants, int32_t tap,
                                                           V* weight) {
    *weight = *reinterpret_cast<const typename Vector<Width>::InArray*>(constants +
                                                                        (1 + tap) * kChannelBlock);
  }
};

// Pixels neighbouring outputs, of which the first sees with tap `low` the element `left + low` of a
// row; all taps of [low, high) are inside for all of them.
template <int Width, int Pixels, class Window>
MEMPLAN_INLINE void RingGroup(const BlockedConvWindowParams& p, const RingRows& rows, int32_t left,
                              int32_t low, int32_t high, const float* constants, float* y) {
  using V = typename Vector<Width>::Type;
  using InArray = typename Vector<Width>::InArray;
  V sums[1][Pixels];
  Window::template Start<Width>(constants, sums[0]);
  const ptrdiff_t step = static_cast<ptrdiff_t>(p.window_stride[1]) * kChannelBlock;
  for (int32_t row = rows.first; row < rows.last; ++row) {
    const float* from = rows.Row(row) + static_cast<ptrdiff_t>(left) * kChannelBlock;
    const int32_t first_tap = (row - rows.top) * p.window_taps[1];
    for (int32_t tx = low; tx < high; ++tx) {
      V weight;
      Window::template Weight<Width>(constants, first_tap + tx, &weight);
#pragma GCC unroll 8
      for (int i = 0; i < Pixels; ++i) {
        const V v = *reinterpret_cast<const InArray*>(from + i * step +
                                                      static_cast<ptrdiff_t>(tx) * kChannelBlock);
        Window::template Add<Width>(sums[0][i], v, weight);
      }
    }
  }
  if (p.window_clamps != 0) ClampSums(sums, p.window_lowest, p.window_highest);
#pragma GCC unroll 8
  for (int i = 0; i < Pixels; ++i) {
    *reinterpret_cast<InArray*>(y + static_cast<ptrdiff_t>(i) * kChannelBlock) = sums[0][i];
  }
}

// One row of outputs of one block of channels.
template <int Width, class Window>
MEMPLAN_INLINE void RingRow(const BlockedConvWindowParams& p, const RingRows& rows,
                            const float* constants, float* y) {
  constexpr int kPixels = 4;
  for (int32_t qx = 0; qx < p.out_size[1];) {
    int32_t low;
    int32_t high;
    const int32_t left = qx * p.window_stride[1] - p.window_padding[1];
    InsideRange(left, 1, p.conv_size[1], p.window_taps[1], &low, &high);
    const int32_t right = left + (kPixels - 1) * p.window_stride[1] + p.window_taps[1];
    const bool inside = left >= 0 && right <= p.conv_size[1] && qx + kPixels <= p.out_size[1];
    float* to = y + static_cast<ptrdiff_t>(qx) * kChannelBlock;
    for (int32_t lane = 0; lane < kChannelBlock; lane += Width) {
      RingRows part = rows;
      part.ring += lane;
      if (inside) {
        RingGroup<Width, kPixels, Window>(p, part, left, low, high, constants + lane, to + lane);
      } else {
        RingGroup<Width, 1, Window>(p, part, left, low, high, constants + lane, to + lane);
      }
    }
    qx += inside ? kPixels : 1;
  }
}

// Brings the ring of one group of channels up to the rows of `rows`; those before `done` are there.
template <int Width, int Vectors, int Pixels, int Step, int Kind>
MEMPLAN_INLINE void FillRing(const BlockedConvWindowParams& p, ActivateFunction activate,
                             const RingRows& rows, int32_t done, float* ring, DirectTile* t) {
  BlockedDirectParams conv = ConvRowParams(p);
  const int32_t tiles = SplitDirectRow(p.conv_size[1], Pixels).tiles;
  for (int32_t row = done < rows.first ? rows.first : done; row < rows.last; ++row) {
    conv.padding[0] = p.padding[0] - row * p.stride[0];
    DirectTiles<Width, Vectors, Pixels, Step, Kind>(conv, activate, 0, tiles, nullptr,
                                                    ring + row % rows.size * rows.row_floats, t);
  }
}

// All rows of one group of channels of one image, which `t` describes. constants, y: of the group's
// first block.
template <int Width, int Vectors, int Pixels, int Step, int Kind, class Window>
MEMPLAN_INLINE void ConvWindowGroup(const BlockedConvWindowParams& p, ActivateFunction activate,
                                    ActivateFunction activate_window, const float* constants,
                                    float* ring, float* y, DirectTile* t) {
  constexpr int kBlocks = Vectors * Width / kChannelBlock;
  const ptrdiff_t out_row = static_cast<ptrdiff_t>(p.out_size[1]) * kChannelBlock;
  RingRows rows = {};
  rows.row_floats = static_cast<ptrdiff_t>(p.conv_size[1]) * kChannelBlock;
  rows.size = p.window_taps[0];
  int32_t done = 0;
  for (int32_t qy = p.row_begin; qy < p.row_end; ++qy) {
    SeeRows(p, qy, &rows);
    FillRing<Width, Vectors, Pixels, Step, Kind>(p, activate, rows, done, ring, t);
    if (done < rows.last) done = rows.last;
    for (int b = 0; b < kBlocks; ++b) {
      rows.ring = ring + b * t->out_step;
      float* to = y + (b * p.out_size[0] + qy) * out_row;
      RingRow<VectorLanes(kChannelBlock), Window>(p, rows, constants + b * Window::ConstantsOf(p),
                                                  to);
      if (activate_window != nullptr) {
        activate_window(1, static_cast<int32_t>(out_row), 0, p.window_alpha, p.window_beta, to);
      }
    }
  }
}

template <int Width, int Vectors, int Pixels, int Step, int Kind, class Window>
MEMPLAN_SHARED_FUNCTION void ConvWindowLoops(const BlockedConvWindowParams& p,
                                             ActivateFunction activate,
                                             ActivateFunction activate_window, const float* x,
                                             const float* weights, const float* bias,
                                             const float* constants, float* ring, float* y) {
  constexpr int kChannels = Vectors * Width;
  constexpr int kBlocks = kChannels / kChannelBlock;
  DirectTile t = MakeDirectTile<Kind>(ConvRowParams(p));
  const ptrdiff_t block_floats =
      static_cast<ptrdiff_t>(p.out_size[0]) * p.out_size[1] * kChannelBlock;
  const ptrdiff_t group_weights =
      static_cast<ptrdiff_t>(p.in_channels) * p.taps[0] * p.taps[1] * kChannels;
  for (int32_t image = 0; image < p.batch; ++image) {
    t.x = x + image * t.blocks * t.block_step;
    for (int32_t group = 0; group < p.groups; ++group) {
      const int32_t block = p.first_block + group * kBlocks;
      const ptrdiff_t at = (static_cast<ptrdiff_t>(image) * p.out_blocks + block) * block_floats;
      t.weights = weights + group * group_weights;
      t.bias = bias == nullptr ? nullptr : bias + static_cast<ptrdiff_t>(group) * kChannels;
      ConvWindowGroup<Width, Vectors, Pixels, Step, Kind, Window>(
          p, activate, activate_window, constants + block * Window::ConstantsOf(p), ring, y + at,
          &t);
    }
  }
}

// y = maximum pool(activation(conv(x, weights) + bias)) for some of the output channels. Tiles,
// template arguments, x, weights and bias: as for BlockedDirect. y: blocked. ring:
// ConvWindowScratchBytes(p, Vectors * Width).
template <int Width, int Vectors, int Pixels, int Step, int Kind>
MEMPLAN_INLINE void BlockedConvPool(const BlockedConvWindowParams& p, const float* x,
                                    const float* weights, const float* bias, float* ring,
                                    float* y) {
  ConvWindowLoops<Width, Vectors, Pixels, Step, Kind, RingMax>(
      p, ActivateFunctionOf(p.activation), nullptr, x, weights, bias, x, ring, y);
}

// y = activation(depthwise convolution(activation(conv(x, weights) + bias))). As BlockedConvPool;
// constants: of all blocks of the output, [bias, then each tap of the depthwise kernel][8].
template <int Width, int Vectors, int Pixels, int Step, int Kind>
MEMPLAN_INLINE void BlockedConvDepthwise(const BlockedConvWindowParams& p, const float* x,
                                         const float* weights, const float* bias,
                                         const float* constants, float* ring, float* y) {
  ConvWindowLoops<Width, Vectors, Pixels, Step, Kind, RingSum>(
      p, ActivateFunctionOf(p.activation), ActivateFunctionOf(p.window_activation), x, weights,
      bias, constants, ring, y);
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_CONV_WINDOW_H_
