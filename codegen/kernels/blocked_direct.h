// Direct convolution over images in blocks of channels.
//
// A tile is Pixels neighbouring outputs of a row times Vectors * Width output channels. Its sums
// stay in registers while input channels and taps run: for each of them, Vectors vectors of weights
// and Pixels broadcast inputs give Pixels * Vectors multiply-adds. Weights lie in the order in
// which a tile reads them. Nothing is packed or padded: at the border of the image a tap is applied
// to those pixels of the tile that it has an input for, and rows of taps outside are skipped.
#ifndef MEMPLAN_KERNELS_BLOCKED_DIRECT_H_
#define MEMPLAN_KERNELS_BLOCKED_DIRECT_H_

#include "blocked.h"
#include "gemm_tile.h"

namespace kernels {

// What the input is.
enum DirectKind : int32_t {
  kDirectPlanes,     // [in_channels][height][width]
  kDirectBlocked,    // in blocks of channels
  kDirectPointwise,  // the same, for one tap without padding
};

// Arrays are height, width. A call computes `groups` groups of Vectors * Width channels, from block
// first_block of the output on, and of each image the tiles [tile_begin, tile_end), row by row.
struct BlockedDirectParams {
  int32_t batch;
  int32_t in_channels;
  int32_t in_size[2];
  int32_t out_size[2];
  int32_t taps[2];
  int32_t stride[2];
  int32_t dilation[2];
  int32_t padding[2];   // before the first element
  int32_t out_blocks;   // of the whole output
  int32_t first_block;  // of this call
  int32_t groups;
  int32_t tile_begin;
  int32_t tile_end;
  // The loops are, from the outermost: chunks of this many tiles; groups; the tiles of a chunk.
  int32_t chunk_tiles;
  int32_t clamps;      // 1: the result is brought into [lowest, highest]
  int32_t activation;  // an ActivationKind, applied after that
  float lowest;
  float highest;
  float alpha;  // of the activation
  float beta;
};
MEMPLAN_FIELDS(BlockedDirectParams, batch, in_channels, in_size, out_size, taps, stride, dilation,
               padding, out_blocks, first_block, groups, tile_begin, tile_end, chunk_tiles, clamps,
               activation, lowest, highest, alpha, beta);

// The work of one tile. Steps are in floats.
struct DirectTile {
  const float* x;         // one image
  ptrdiff_t at;           // where in it tap (0, 0) of pixel 0 lies, maybe outside
  ptrdiff_t block_step;   // of x, from block to block of channels
  ptrdiff_t row_step;     // from row of taps to row of taps
  ptrdiff_t tap_step;     // from tap to tap
  ptrdiff_t pixel_step;   // from pixel to pixel
  const float* weights;   // [blocks][taps][lanes of the block][Vectors * Width]
  const float* bias;      // [Vectors * Width] or nullptr
  const float* residual;  // added; laid out as y, which it may be; or nullptr
  float* y;               // the tile's first pixel in its first block
  ptrdiff_t out_step;     // of y, from block to block
  int32_t blocks;         // of input channels
  int32_t last_lanes;     // channels in the last one; all others are full
  int32_t tap_rows;
  int32_t row_begin;  // the rows of taps inside the image are [row_begin, row_end)
  int32_t row_end;
  int32_t taps;  // in a row
  int32_t left;  // the place of tap 0 of pixel 0 in its row of `width` inputs
  int32_t width;
  int32_t stride;
  int32_t dilation;
  float lowest;
  float highest;
  bool clamps;
};

// Whether vectors of Width are registers. Where they are not, for one because the tool itself is
// compiled for any CPU, unrolled loops over them would only be long.
template <int Width>
constexpr bool kIsRegister = Width <= MEMPLAN_NATIVE_LANES;

// visit(p, v) for all of [0, Pixels) x [0, Vectors), unrolled if the sums are in registers.
template <int Width, int Pixels, int Vectors, class Visit>
MEMPLAN_INLINE void ForSums(Visit visit) {
  if constexpr (kIsRegister<Width>) {
#pragma GCC unroll 32
    for (int p = 0; p < Pixels; ++p) {
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) visit(p, v);
    }
  } else {
#pragma GCC unroll 1
    for (int p = 0; p < Pixels; ++p) {
#pragma GCC unroll 1
      for (int v = 0; v < Vectors; ++v) visit(p, v);
    }
  }
}

// sums[p][v] += x[(p - Low) * pixel_step] * weights[v] for p of [Low, High).
template <int Width, int Low, int High, int Pixels, int Vectors, class V>
MEMPLAN_INLINE void DirectMultiplyAdd(V (&sums)[Pixels][Vectors], const float* x,
                                      ptrdiff_t pixel_step, const float* weights) {
  using InArray = typename Vector<Width>::InArray;
  // Of inputs and weights, the fewer are kept in registers.
  if constexpr (!kIsRegister<Width>) {
#pragma GCC unroll 1
    for (int p = Low; p < High; ++p) {
#pragma GCC unroll 1
      for (int v = 0; v < Vectors; ++v) {
        sums[p][v] +=
            x[(p - Low) * pixel_step] * *reinterpret_cast<const InArray*>(weights + v * Width);
      }
    }
  } else if constexpr (High - Low < Vectors) {
    V inputs[Pixels];
#pragma GCC unroll 32
    for (int p = Low; p < High; ++p) inputs[p] = x[(p - Low) * pixel_step] - V{};
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) {
      const V w = *reinterpret_cast<const InArray*>(weights + v * Width);
#pragma GCC unroll 32
      for (int p = Low; p < High; ++p) sums[p][v] += inputs[p] * w;
    }
  } else {
    V w[Vectors];
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) {
      w[v] = *reinterpret_cast<const InArray*>(weights + v * Width);
    }
#pragma GCC unroll 32
    for (int p = Low; p < High; ++p) {
      const float input = x[(p - Low) * pixel_step];
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) sums[p][v] += input * w[v];
    }
  }
}

// Adds the products of `count` inputs, x_step apart, of each pixel of [Low, High); pixel 0 sees the
// first at x[at].
template <int Width, int Low, int High, int Pixels, int Vectors, class V>
MEMPLAN_INLINE void DirectRun(V (&sums)[Pixels][Vectors], int32_t count, const float* x,
                              ptrdiff_t at, ptrdiff_t x_step, ptrdiff_t pixel_step,
                              const float* weights) {
  const float* from = x + (at + Low * pixel_step);
#pragma GCC unroll 2
  for (int32_t i = 0; i < count; ++i) {
    DirectMultiplyAdd<Width, Low, High>(sums, from, pixel_step, weights);
    // Else compilers keep inputs for the next tap too, in registers that the sums need.
    if constexpr (Vectors > 1) asm volatile("" : : : "memory");
    from += x_step;
    weights += Vectors * Width;
  }
}

// DirectRun over neighbouring inputs of the pixels [low, high), which are rarely others than all,
// or all but the first or last: by way of memory, so that other loops have the registers.
template <int Width, int Pixels, int Vectors, class V>
MEMPLAN_INLINE void DirectRunPart(V (&sums)[Pixels][Vectors], int32_t low, int32_t high,
                                  int32_t count, const float* x, ptrdiff_t at, ptrdiff_t pixel_step,
                                  const float* weights) {
  using InArray = typename Vector<Width>::InArray;
  V part[Pixels][Vectors];
  ForSums<Width, Pixels, Vectors>([&](int p, int v)
                                      __attribute__((always_inline)) { part[p][v] = sums[p][v]; });
#pragma GCC unroll 1
  for (int32_t p = low; p < high; ++p) {
    const float* from = x + (at + p * pixel_step);
#pragma GCC unroll 1
    for (int32_t i = 0; i < count; ++i) {
      const float* w = weights + static_cast<ptrdiff_t>(i) * Vectors * Width;
#pragma GCC unroll 1
      for (int v = 0; v < Vectors; ++v) {
        part[p][v] += from[i] * *reinterpret_cast<const InArray*>(w + v * Width);
      }
    }
  }
  ForSums<Width, Pixels, Vectors>([&](int p, int v)
                                      __attribute__((always_inline)) { sums[p][v] = part[p][v]; });
}

// The taps of a row that all pixels of a tile have an input for are those of [begin, end); others
// have one for some pixels or none.
struct TapRange {
  int32_t begin;
  int32_t end;
};

MEMPLAN_INLINE TapRange TapsOfAll(const DirectTile& t, int32_t pixels) {
  const int32_t right = t.left + (pixels - 1) * t.stride;
  if (t.left >= 0 && right + (t.taps - 1) * t.dilation < t.width) return {0, t.taps};
  const int32_t begin = t.left >= 0 ? 0 : (t.dilation - 1 - t.left) / t.dilation;
  int32_t end = right >= t.width ? 0 : (t.width - 1 - right) / t.dilation + 1;
  if (end > t.taps) end = t.taps;
  return {begin < end ? begin : end, end};
}

// Adds the products of taps [begin, end) of a row that have no input for some of the pixels.
template <int Width, int Pixels, int Vectors, class V>
MEMPLAN_INLINE void DirectBorder(const DirectTile& t, V (&sums)[Pixels][Vectors], int32_t begin,
                                 int32_t end, int32_t lanes, ptrdiff_t row_at, ptrdiff_t pixel_step,
                                 const float* row_weights) {
  for (int32_t tap = begin; tap < end; ++tap) {
    const ptrdiff_t at = row_at + tap * t.tap_step;
    const float* weights = row_weights + static_cast<ptrdiff_t>(tap) * lanes * Vectors * Width;
    int32_t low;
    int32_t high;
    InsideRange(t.left + tap * t.dilation, t.stride, t.width, Pixels, &low, &high);
    if (low == 1 && high == Pixels) {
      DirectRun<Width, 1, Pixels>(sums, lanes, t.x, at, 1, pixel_step, weights);
    } else if (low == 0 && high == Pixels - 1) {
      DirectRun<Width, 0, Pixels - 1>(sums, lanes, t.x, at, 1, pixel_step, weights);
    } else if (low < high) {
      DirectRunPart<Width>(sums, low, high, lanes, t.x, at, pixel_step, weights);
    }
  }
}

// Adds the products of all taps inside the image.
template <int Width, int Kind, int Pixels, int Vectors, class V>
MEMPLAN_INLINE void DirectTaps(const DirectTile& t, V (&sums)[Pixels][Vectors],
                               ptrdiff_t pixel_step) {
  constexpr int kLanes = Kind == kDirectPlanes ? 1 : kChannelBlock;
  const TapRange all = TapsOfAll(t, Pixels);
  ptrdiff_t block_at = t.at + t.row_begin * t.row_step;
  const float* weights = t.weights;
  for (int32_t b = 0; b < t.blocks; ++b) {
    const int32_t lanes = b + 1 == t.blocks ? t.last_lanes : kLanes;
    const ptrdiff_t tap_weights = static_cast<ptrdiff_t>(lanes) * Vectors * Width;
    const float* row_weights = weights + t.row_begin * t.taps * tap_weights;
    ptrdiff_t row_at = block_at;
    for (int32_t row = t.row_begin; row < t.row_end; ++row) {
      DirectBorder<Width>(t, sums, 0, all.begin, lanes, row_at, pixel_step, row_weights);
      if (Kind == kDirectPlanes) {
        DirectRun<Width, 0, Pixels>(sums, all.end - all.begin, t.x, row_at + all.begin * t.tap_step,
                                    t.tap_step, pixel_step, row_weights + all.begin * tap_weights);
      } else {
        for (int32_t tap = all.begin; tap < all.end; ++tap) {
          DirectRun<Width, 0, Pixels>(sums, lanes, t.x, row_at + tap * t.tap_step, 1, pixel_step,
                                      row_weights + tap * tap_weights);
        }
      }
      DirectBorder<Width>(t, sums, all.end, t.taps, lanes, row_at, pixel_step, row_weights);
      row_at += t.row_step;
      row_weights += t.taps * tap_weights;
    }
    block_at += t.block_step;
    weights += t.tap_rows * t.taps * tap_weights;
  }
}

// Adds the products of a kernel of one tap, which is inside for all pixels.
template <int Width, int Pixels, int Vectors, class V>
MEMPLAN_INLINE void DirectPoint(const DirectTile& t, V (&sums)[Pixels][Vectors],
                                ptrdiff_t pixel_step) {
  ptrdiff_t at = t.at;
  const float* weights = t.weights;
  for (int32_t b = 1; b < t.blocks; ++b) {
    DirectRun<Width, 0, Pixels>(sums, kChannelBlock, t.x, at, 1, pixel_step, weights);
    at += t.block_step;
    weights += kChannelBlock * Vectors * Width;
  }
  DirectRun<Width, 0, Pixels>(sums, t.last_lanes, t.x, at, 1, pixel_step, weights);
}

// A vector of output channels in memory: one block, or two that lie `step` apart.
template <int Width>
struct BlockVector {
  using V = typename Vector<Width>::Type;
  using InArray = typename Vector<Width>::InArray;
  static constexpr int kBlocks = 1;
  static inline __attribute__((always_inline)) void Load(const float* from, ptrdiff_t, V* to) {
    *to = *reinterpret_cast<const InArray*>(from);
  }
  static inline __attribute__((always_inline)) void Store(const V& value, ptrdiff_t, float* to) {
    *reinterpret_cast<InArray*>(to) = value;
  }
};
template <>
struct BlockVector<2 * kChannelBlock> {
  using V = Vector<2 * kChannelBlock>::Type;
  using Block = Vector<kChannelBlock>;
  static constexpr int kBlocks = 2;
  static inline __attribute__((always_inline)) void Load(const float* from, ptrdiff_t step, V* to) {
    const Block::Type low = *reinterpret_cast<const Block::InArray*>(from);
    const Block::Type high = *reinterpret_cast<const Block::InArray*>(from + step);
#if defined(__clang__) || __GNUC__ >= 12
    *to = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#else
    const Block::Type blocks[2] = {low, high};
    __builtin_memcpy(to, blocks, sizeof blocks);
#endif
  }
  static inline __attribute__((always_inline)) void Store(const V& value, ptrdiff_t step,
                                                          float* to) {
#if defined(__clang__) || __GNUC__ >= 12
    const Block::Type low = __builtin_shufflevector(value, value, 0, 1, 2, 3, 4, 5, 6, 7);
    const Block::Type high = __builtin_shufflevector(value, value, 8, 9, 10, 11, 12, 13, 14, 15);
    *reinterpret_cast<Block::InArray*>(to) = low;
    *reinterpret_cast<Block::InArray*>(to + step) = high;
#else
    __builtin_memcpy(to, &value, sizeof(Block::Type));
    __builtin_memcpy(to + step, reinterpret_cast<const char*>(&value) + sizeof(Block::Type),
                     sizeof(Block::Type));
#endif
  }
};

// Adds the residual, clamps and writes.
template <int Width, int Pixels, int Vectors, class V>
MEMPLAN_INLINE void DirectFinish(const DirectTile& t, V (&sums)[Pixels][Vectors]) {
  using Blocks = BlockVector<Width>;
  const ptrdiff_t out_step = t.out_step;
  if (t.residual != nullptr) {
    const float* residual = t.residual;
    ForSums<Width, Pixels, Vectors>([&](int p, int v) __attribute__((always_inline)) {
      V added;
      Blocks::Load(residual + v * Blocks::kBlocks * out_step + p * kChannelBlock, out_step, &added);
      sums[p][v] += added;
    });
  }
  if (t.clamps) {
    const V lowest = t.lowest - V{};
    const V highest = t.highest - V{};
    ForSums<Width, Pixels, Vectors>([&](int p, int v) __attribute__((always_inline)) {
      Clamp(lowest, highest, &sums[p][v]);
    });
  }
  float* y = t.y;
  ForSums<Width, Pixels, Vectors>([&](int p, int v) __attribute__((always_inline)) {
    Blocks::Store(sums[p][v], out_step, y + v * Blocks::kBlocks * out_step + p * kChannelBlock);
  });
}

// Computes and writes one tile. Step: the pixel_step; 0: as the tile says.
template <int Width, int Vectors, int Pixels, int Step, int Kind>
MEMPLAN_SHARED_FUNCTION void ComputeDirectTile(const DirectTile& t) {
  using V = typename Vector<Width>::Type;
  using InArray = typename Vector<Width>::InArray;
  const ptrdiff_t pixel_step = Step > 0 ? Step : t.pixel_step;
  V sums[Pixels][Vectors];
  if (t.bias != nullptr) {
    const float* bias = t.bias;
    ForSums<Width, Pixels, Vectors>([&](int p, int v) __attribute__((always_inline)) {
      sums[p][v] = *reinterpret_cast<const InArray*>(bias + v * Width);
    });
  } else {
    ForSums<Width, Pixels, Vectors>([&](int p, int v)
                                        __attribute__((always_inline)) { sums[p][v] = V{}; });
  }
  if (Kind == kDirectPointwise) {
    DirectPoint<Width>(t, sums, pixel_step);
  } else {
    DirectTaps<Width, Kind>(t, sums, pixel_step);
  }
  DirectFinish<Width>(t, sums);
}

// The tiles of a row of outputs: `full` of `pixels`, then such of one pixel less.
struct DirectRow {
  int32_t tiles;
  int32_t full;
};
constexpr DirectRow SplitDirectRow(int32_t width, int32_t pixels) {
  const int32_t tiles = (width + pixels - 1) / pixels;
  return {tiles, width - tiles * (pixels - 1)};
}

// The tiles of an image.
constexpr int32_t DirectTileCount(const int32_t (&out_size)[2], int32_t pixels) {
  return out_size[0] * SplitDirectRow(out_size[1], pixels).tiles;
}

// Steps and sizes that all tiles of a call share.
template <int Kind>
MEMPLAN_INLINE DirectTile MakeDirectTile(const BlockedDirectParams& p) {
  constexpr int kLanes = Kind == kDirectPlanes ? 1 : kChannelBlock;
  DirectTile t = {};
  t.block_step = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * kLanes;
  t.row_step = static_cast<ptrdiff_t>(p.dilation[0]) * p.in_size[1] * kLanes;
  t.tap_step = static_cast<ptrdiff_t>(p.dilation[1]) * kLanes;
  t.pixel_step = static_cast<ptrdiff_t>(p.stride[1]) * kLanes;
  t.out_step = static_cast<ptrdiff_t>(p.out_size[0]) * p.out_size[1] * kChannelBlock;
  t.blocks = (p.in_channels + kLanes - 1) / kLanes;
  t.last_lanes = p.in_channels - (t.blocks - 1) * kLanes;
  t.tap_rows = p.taps[0];
  t.taps = p.taps[1];
  t.width = p.in_size[1];
  t.stride = p.stride[1];
  t.dilation = p.dilation[1];
  t.lowest = p.lowest;
  t.highest = p.highest;
  t.clamps = p.clamps != 0;
  return t;
}

// The tiles [begin, end) of one image and group, which `t` describes; y, residual: the group's
// first block.
template <int Width, int Vectors, int Pixels, int Step, int Kind>
MEMPLAN_INLINE void DirectTiles(const BlockedDirectParams& p, ActivateFunction activate,
                                int32_t begin, int32_t end, const float* residual, float* y,
                                DirectTile* t) {
  constexpr int kLanes = Kind == kDirectPlanes ? 1 : kChannelBlock;
  const DirectRow row = SplitDirectRow(p.out_size[1], Pixels);
  for (int32_t tile = begin; tile < end; ++tile) {
    const int32_t qy = tile / row.tiles;
    const int32_t in_row = tile % row.tiles;
    const bool full = in_row < row.full;
    const int32_t qx = full ? in_row * Pixels : in_row * (Pixels - 1) + row.full;
    const int32_t top = qy * p.stride[0] - p.padding[0];
    InsideRange(top, p.dilation[0], p.in_size[0], p.taps[0], &t->row_begin, &t->row_end);
    t->left = qx * p.stride[1] - p.padding[1];
    t->at = (static_cast<ptrdiff_t>(top) * p.in_size[1] + t->left) * kLanes;
    const ptrdiff_t out = (static_cast<ptrdiff_t>(qy) * p.out_size[1] + qx) * kChannelBlock;
    t->residual = residual == nullptr ? nullptr : residual + out;
    t->y = y + out;
    if (full) {
      ComputeDirectTile<Width, Vectors, Pixels, Step, Kind>(*t);
    } else if constexpr (Pixels > 1) {
      ComputeDirectTile<Width, Vectors, Pixels - 1, Step, Kind>(*t);
    }
    if (activate != nullptr) {
      activate(Vectors * Width / kChannelBlock, (full ? Pixels : Pixels - 1) * kChannelBlock,
               t->out_step, p.alpha, p.beta, t->y);
    }
  }
}

template <int Width, int Vectors, int Pixels, int Step, int Kind>
MEMPLAN_SHARED_FUNCTION void BlockedDirectLoops(const BlockedDirectParams& p,
                                                ActivateFunction activate, const float* x,
                                                const float* weights, const float* bias,
                                                const float* residual, float* y) {
  constexpr int kChannels = Vectors * Width;
  DirectTile t = MakeDirectTile<Kind>(p);
  const ptrdiff_t group_weights =
      static_cast<ptrdiff_t>(p.in_channels) * p.taps[0] * p.taps[1] * kChannels;
  for (int32_t image = 0; image < p.batch; ++image) {
    t.x = x + image * t.blocks * t.block_step;
    for (int32_t begin = p.tile_begin; begin < p.tile_end; begin += p.chunk_tiles) {
      const int32_t end = p.tile_end - begin < p.chunk_tiles ? p.tile_end : begin + p.chunk_tiles;
      for (int32_t group = 0; group < p.groups; ++group) {
        const int32_t block = p.first_block + group * (kChannels / kChannelBlock);
        const ptrdiff_t at = (static_cast<ptrdiff_t>(image) * p.out_blocks + block) * t.out_step;
        t.weights = weights + group * group_weights;
        t.bias = bias == nullptr ? nullptr : bias + static_cast<ptrdiff_t>(group) * kChannels;
        DirectTiles<Width, Vectors, Pixels, Step, Kind>(
            p, activate, begin, end, residual == nullptr ? nullptr : residual + at, y + at, &t);
      }
    }
  }
}

// y = activation(conv(x, weights) + bias + residual) for some of the output channels, in tiles of
// Vectors * Width of them and Pixels pixels; a row of outputs needs to be so many such tiles and
// ones of Pixels - 1. Step: the distance in floats of what two neighbouring pixels see with one
// tap; 0: any. Kind: a DirectKind.
// x: as Kind says; y and residual (may be y, or nullptr): blocked. weights: [groups]
// [input blocks of eight or, in planes, one][taps][channels of the block][Vectors * Width]; bias:
// [groups][Vectors * Width] or nullptr.
template <int Width, int Vectors, int Pixels, int Step, int Kind>
MEMPLAN_INLINE void BlockedDirect(const BlockedDirectParams& p, const float* x,
                                  const float* weights, const float* bias, const float* residual,
                                  float* y) {
  BlockedDirectLoops<Width, Vectors, Pixels, Step, Kind>(p, ActivateFunctionOf(p.activation), x,
                                                         weights, bias, residual, y);
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_DIRECT_H_
