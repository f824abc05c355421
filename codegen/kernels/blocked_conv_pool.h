// A direct convolution whose outputs only a maximum pool reads: they never exist as a whole.
//
// For each group of output channels, rows of the convolution are computed as the rows of windows
// move down, into a ring of as many rows as a window has; each row is computed once. First layers
// have the largest images of a network, so that this often lowers the peak of the arena.
#ifndef MEMPLAN_KERNELS_BLOCKED_CONV_POOL_H_
#define MEMPLAN_KERNELS_BLOCKED_CONV_POOL_H_

#include "blocked_direct.h"
#include "pool.h"

namespace kernels {

// Arrays are height, width.
struct BlockedConvPoolParams {
  int32_t batch;
  int32_t in_channels;
  int32_t in_size[2];
  int32_t conv_size[2];  // of the convolution's output
  int32_t out_size[2];
  int32_t taps[2];
  int32_t stride[2];
  int32_t dilation[2];
  int32_t padding[2];  // before the first element
  int32_t pool_taps[2];
  int32_t pool_stride[2];
  int32_t pool_padding[2];
  int32_t out_blocks;   // of the whole output
  int32_t first_block;  // of this call
  int32_t groups;
  int32_t clamps;      // 1: the result is brought into [lowest, highest]
  int32_t activation;  // an ActivationKind, applied after that
  float lowest;
  float highest;
  float alpha;  // of the activation
  float beta;
};
MEMPLAN_FIELDS(BlockedConvPoolParams, batch, in_channels, in_size, conv_size, out_size, taps,
               stride, dilation, padding, pool_taps, pool_stride, pool_padding, out_blocks,
               first_block, groups, clamps, activation, lowest, highest, alpha, beta);

// Bytes of the ring for groups of `channels` output channels.
constexpr int64_t ConvPoolScratchBytes(const BlockedConvPoolParams& p, int64_t channels) {
  return channels * p.pool_taps[0] * p.conv_size[1] * 4;
}

// The convolution alone, of which any one row is row 0 once padding[0] says so.
MEMPLAN_INLINE BlockedDirectParams ConvRowParams(const BlockedConvPoolParams& p) {
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
  conv.out_size[0] = p.pool_taps[0];  // the ring
  conv.out_size[1] = p.conv_size[1];
  conv.clamps = p.clamps;
  conv.activation = p.activation;
  conv.lowest = p.lowest;
  conv.highest = p.highest;
  conv.alpha = p.alpha;
  conv.beta = p.beta;
  return conv;
}

// One row of outputs of one block of channels, from rows [first, last) of the convolution, which
// lie in ring[row % pool_taps[0]].
template <int Width>
MEMPLAN_INLINE void PoolRingRow(const BlockedConvPoolParams& p, int32_t first, int32_t last,
                                const float* ring, float* y) {
  using V = typename Vector<Width>::Type;
  using InArray = typename Vector<Width>::InArray;
  const ptrdiff_t row_floats = static_cast<ptrdiff_t>(p.conv_size[1]) * kChannelBlock;
  for (int32_t qx = 0; qx < p.out_size[1]; ++qx) {
    int32_t low;
    int32_t high;
    const int32_t left = qx * p.pool_stride[1] - p.pool_padding[1];
    InsideRange(left, 1, p.conv_size[1], p.pool_taps[1], &low, &high);
    for (int32_t lane = 0; lane < kChannelBlock; lane += Width) {
      V largest = PoolMax::Init<float>() - V{};
      for (int32_t row = first; row < last; ++row) {
        const float* from = ring + row % p.pool_taps[0] * row_floats + lane;
        for (int32_t tx = low; tx < high; ++tx) {
          const V v = *reinterpret_cast<const InArray*>(from + static_cast<ptrdiff_t>(left + tx) *
                                                                   kChannelBlock);
          PoolMax::Add(largest, v);
        }
      }
      *reinterpret_cast<InArray*>(y + static_cast<ptrdiff_t>(qx) * kChannelBlock + lane) = largest;
    }
  }
}

// All rows of one group of channels of one image, which `t` describes. y: its first block.
template <int Width, int Vectors, int Pixels, int Step, int Kind>
MEMPLAN_INLINE void ConvPoolGroup(const BlockedConvPoolParams& p, ActivateFunction activate,
                                  float* ring, float* y, DirectTile* t) {
  constexpr int kBlocks = Vectors * Width / kChannelBlock;
  const int32_t tiles = SplitDirectRow(p.conv_size[1], Pixels).tiles;
  const ptrdiff_t row_floats = static_cast<ptrdiff_t>(p.conv_size[1]) * kChannelBlock;
  const ptrdiff_t out_row = static_cast<ptrdiff_t>(p.out_size[1]) * kChannelBlock;
  BlockedDirectParams conv = ConvRowParams(p);
  int32_t done = 0;
  for (int32_t qy = 0; qy < p.out_size[0]; ++qy) {
    int32_t low;
    int32_t high;
    const int32_t top = qy * p.pool_stride[0] - p.pool_padding[0];
    InsideRange(top, 1, p.conv_size[0], p.pool_taps[0], &low, &high);
    const int32_t first = top + low;
    const int32_t last = top + high;
    if (done < first) done = first;
    for (; done < last; ++done) {
      conv.padding[0] = p.padding[0] - done * p.stride[0];
      DirectTiles<Width, Vectors, Pixels, Step, Kind>(conv, activate, 0, tiles, nullptr,
                                                      ring + done % p.pool_taps[0] * row_floats, t);
    }
    for (int b = 0; b < kBlocks; ++b) {
      PoolRingRow<VectorLanes(kChannelBlock)>(p, first, last, ring + b * t->out_step,
                                              y + (b * p.out_size[0] + qy) * out_row);
    }
  }
}

template <int Width, int Vectors, int Pixels, int Step, int Kind>
MEMPLAN_SHARED_FUNCTION void ConvPoolLoops(const BlockedConvPoolParams& p,
                                           ActivateFunction activate, const float* x,
                                           const float* weights, const float* bias, float* ring,
                                           float* y) {
  constexpr int kChannels = Vectors * Width;
  DirectTile t = MakeDirectTile<Kind>(ConvRowParams(p));
  const ptrdiff_t block_floats =
      static_cast<ptrdiff_t>(p.out_size[0]) * p.out_size[1] * kChannelBlock;
  const ptrdiff_t group_weights =
      static_cast<ptrdiff_t>(p.in_channels) * p.taps[0] * p.taps[1] * kChannels;
  for (int32_t image = 0; image < p.batch; ++image) {
    t.x = x + image * t.blocks * t.block_step;
    for (int32_t group = 0; group < p.groups; ++group) {
      const ptrdiff_t block = static_cast<ptrdiff_t>(image) * p.out_blocks + p.first_block +
                              group * (kChannels / kChannelBlock);
      t.weights = weights + group * group_weights;
      t.bias = bias == nullptr ? nullptr : bias + static_cast<ptrdiff_t>(group) * kChannels;
      ConvPoolGroup<Width, Vectors, Pixels, Step, Kind>(p, activate, ring, y + block * block_floats,
                                                        &t);
    }
  }
}

// y = maximum pool(activation(conv(x, weights) + bias)) for some of the output channels. Tiles,
// template arguments, x, weights and bias: as for BlockedDirect. y: blocked. ring:
// ConvPoolScratchBytes(p, Vectors * Width).
template <int Width, int Vectors, int Pixels, int Step, int Kind>
MEMPLAN_INLINE void BlockedConvPool(const BlockedConvPoolParams& p, const float* x,
                                    const float* weights, const float* bias, float* ring,
                                    float* y) {
  ConvPoolLoops<Width, Vectors, Pixels, Step, Kind>(p, ActivateFunctionOf(p.activation), x, weights,
                                                    bias, ring, y);
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_CONV_POOL_H_
