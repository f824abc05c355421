// Winograd convolutions of 3 x 3 taps and stride 1 over images in blocks of channels.
//
// A tile of Tile x Tile outputs depends on a patch of Points x Points = (Tile + 2) x (Tile + 2)
// inputs. Patches and taps are transformed (see winograd_transform.h) such that the sum over taps
// becomes a product element by element: for each of the Points^2 places in the patch one product of
// matrices [tiles][input channels] x [input channels][output channels], then the tile is
// transformed back. That takes Points^2 multiplications for the 9 Tile^2 of the definition: 2.25
// times fewer with Tile 2, 4 times fewer with Tile 4.
// (Lavin, Gray: "Fast Algorithms for Convolutional Neural Networks", arXiv 1509.09308.)
//
// Tiles are taken in groups: patches of a group are transformed for all input channels; then, for
// each panel of output channels, all places are multiplied and the results are transformed back, so
// that weights are read in the order in which they lie, once for each group.
#ifndef MEMPLAN_KERNELS_BLOCKED_WINOGRAD_H_
#define MEMPLAN_KERNELS_BLOCKED_WINOGRAD_H_

#include "blocked.h"
#include "gemm_tile.h"
#include "winograd_transform.h"

namespace kernels {

// Arrays are height, width. A call computes the tiles [tile_begin, tile_end) of each image, row by
// row, for all output channels that it knows of: it may be told of the first ones only.
struct BlockedWinogradParams {
  int32_t batch;
  int32_t in_channels;
  int32_t out_channels;
  int32_t in_size[2];
  int32_t out_size[2];
  int32_t padding[2];  // before the first element
  int32_t out_blocks;  // of the whole output
  int32_t tile_begin;
  int32_t tile_end;
  int32_t group_tiles;  // tiles of a group, a multiple of the kernel's Rows
  int32_t clamps;       // 1: the result is brought into [lowest, highest]
  int32_t activation;   // an ActivationKind, applied after that
  float lowest;
  float highest;
  float alpha;  // of the activation
  float beta;
};
MEMPLAN_FIELDS(BlockedWinogradParams, batch, in_channels, out_channels, in_size, out_size, padding,
               out_blocks, tile_begin, tile_end, group_tiles, clamps, activation, lowest, highest,
               alpha, beta);

// Tiles that cover one axis, or an image.
constexpr int32_t WinogradTiles(int32_t out_size, int32_t tile) {
  return (out_size + tile - 1) / tile;
}
constexpr int32_t WinogradTiles(const int32_t (&out_size)[2], int32_t tile) {
  return WinogradTiles(out_size[0], tile) * WinogradTiles(out_size[1], tile);
}

// Floats from one place of a patch to the next one in scratch: an odd number of cache lines, so
// that the places of a patch do not fall into the same few sets of a cache.
constexpr int64_t WinogradPlaceFloats(int64_t floats) {
  const int64_t lines = (floats + 15) / 16;
  return (lines + (lines % 2 == 0 ? 1 : 0)) * 16;
}

// Bytes of scratch: transformed patches [places][channels / 8][tiles][8], and products
// [places][tiles][panel_channels].
constexpr int64_t BlockedWinogradScratchBytes(int32_t in_channels, int32_t tile,
                                              int32_t group_tiles, int32_t panel_channels) {
  const int64_t places = int64_t{tile + 2} * (tile + 2);
  const int64_t patches =
      WinogradPlaceFloats(int64_t{ChannelBlocks(in_channels)} * group_tiles * kChannelBlock);
  return places * (patches + WinogradPlaceFloats(int64_t{group_tiles} * panel_channels)) * 4;
}

// Floats of a cache line.
constexpr int32_t kWinogradLine = 16;

// One group of tiles: [first_tile, first_tile + tiles) of an image.
struct WinogradGroup {
  int32_t first_tile;
  int32_t tiles;
  const float* x;         // the image
  const float* weights;   // all panels
  const float* bias;      // or nullptr
  const float* residual;  // the image, or nullptr
  float* patches;
  float* products;
  float* y;  // the image
  ActivateFunction activate;
};

// Copies the patch at (top, left) of one block of channels, with zeros outside of the image.
template <int Points>
MEMPLAN_INLINE void CopyPatch(const BlockedWinogradParams& p, const float* x, int32_t top,
                              int32_t left, float* patch) {
  using V = typename Vector<kChannelBlock>::Type;
  using InArray = typename Vector<kChannelBlock>::InArray;
  for (int32_t i = 0; i < Points; ++i) {
    const int32_t iy = top + i;
    const bool row_inside = iy >= 0 && iy < p.in_size[0];
    for (int32_t j = 0; j < Points; ++j) {
      const int32_t ix = left + j;
      V pixel = {};
      if (row_inside && ix >= 0 && ix < p.in_size[1]) {
        pixel = *reinterpret_cast<const InArray*>(
            x + (static_cast<ptrdiff_t>(iy) * p.in_size[1] + ix) * kChannelBlock);
      }
      *reinterpret_cast<InArray*>(patch + (i * Points + j) * kChannelBlock) = pixel;
    }
  }
}

// Transforms the patches of a group. Places behind the last tile, up to a multiple of Rows, hold
// the last tile again.
template <int Rows, int Tile>
MEMPLAN_SHARED_FUNCTION void TransformPatches(const BlockedWinogradParams& p,
                                              const WinogradGroup& group) {
  constexpr int kPoints = Tile + 2;
  const ptrdiff_t image = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * kChannelBlock;
  const ptrdiff_t block_floats = static_cast<ptrdiff_t>(p.group_tiles) * kChannelBlock;
  const int32_t blocks = ChannelBlocks(p.in_channels);
  const ptrdiff_t place_floats =
      static_cast<ptrdiff_t>(WinogradPlaceFloats(int64_t{blocks} * block_floats));
  const int32_t across = WinogradTiles(p.out_size[1], Tile);
  for (int32_t t = 0; t < (group.tiles + Rows - 1) / Rows * Rows; ++t) {
    const int32_t tile = group.first_tile + (t < group.tiles ? t : group.tiles - 1);
    const int32_t top = tile / across * Tile - p.padding[0];
    const int32_t left = tile % across * Tile - p.padding[1];
    const bool inside =
        top >= 0 && left >= 0 && top + kPoints <= p.in_size[0] && left + kPoints <= p.in_size[1];
    const float* x = group.x;
    float* to = group.patches + static_cast<ptrdiff_t>(t) * kChannelBlock;
    for (int32_t block = 0; block < blocks; ++block, x += image, to += block_floats) {
      float patch[kPoints * kPoints * kChannelBlock];
      const float* from = patch;
      ptrdiff_t row_floats = kPoints * kChannelBlock;
      if (inside) {
        from = x + (static_cast<ptrdiff_t>(top) * p.in_size[1] + left) * kChannelBlock;
        row_floats = static_cast<ptrdiff_t>(p.in_size[1]) * kChannelBlock;
      } else {
        CopyPatch<kPoints>(p, x, top, left, patch);
      }
      TransformPatch<Tile>(from, row_floats, to, place_floats);
    }
  }
}

// to[r][c] = sum over k of patches[r][k] weights[k][c] for Rows tiles and Columns vectors.
// patches: [blocks][block_floats], of each block the first Rows * 8 floats; weights:
// [blocks * 8][Columns * Lanes]; to: [Rows][Columns * Lanes]. Meanwhile, `ahead_lines` cache lines
// from `ahead` on are fetched for each block.
template <int Lanes, int Rows, int Columns>
MEMPLAN_INLINE void MultiplyPlace(int32_t blocks, ptrdiff_t block_floats, const float* patches,
                                  const float* weights, const float* ahead, int32_t ahead_lines,
                                  float* to) {
  constexpr int kWidth = VectorLanes(Lanes);
  constexpr int kVectors = Columns * Lanes / kWidth;
  using V = typename Vector<kWidth>::Type;
  V sums[Rows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) sums[r][c] = V{};
  }
  for (; blocks > 0; --blocks) {
    for (int32_t i = 0; i < ahead_lines; ++i, ahead += kWinogradLine) {
      __builtin_prefetch(ahead, /*rw=*/0, /*locality=*/2);
    }
#pragma GCC unroll 8
    for (int k = 0; k < kChannelBlock; ++k) {
      MultiplyAdd<kWidth>(sums, patches + k, kChannelBlock, weights + k * Columns * Lanes);
    }
    patches += block_floats;
    weights += kChannelBlock * Columns * Lanes;
  }
  StoreSums<kWidth>(sums, to, Columns * Lanes);
}

// All products of a group for one panel of Columns * Lanes output channels. The weights of a place
// are read for the first Rows tiles and are near for the others. So that the memory is not idle
// then, and the arithmetic not before, those of the next place are fetched bit by bit meanwhile;
// behind the last place come those at `next_weights`.
template <int Lanes, int Rows, int Columns, int Tile>
MEMPLAN_SHARED_FUNCTION void MultiplyPanel(const BlockedWinogradParams& p,
                                           const WinogradGroup& group, const float* weights,
                                           const float* next_weights) {
  constexpr int kPlaces = (Tile + 2) * (Tile + 2);
  constexpr int32_t kBlockLines = kChannelBlock * Columns * Lanes / kWinogradLine;
  const int32_t blocks = ChannelBlocks(p.in_channels);
  const ptrdiff_t block_floats = static_cast<ptrdiff_t>(p.group_tiles) * kChannelBlock;
  const auto patch_floats =
      static_cast<ptrdiff_t>(WinogradPlaceFloats(int64_t{blocks} * block_floats));
  const auto product_floats =
      static_cast<ptrdiff_t>(WinogradPlaceFloats(int64_t{p.group_tiles} * Columns * Lanes));
  const int32_t passes = (group.tiles + Rows - 1) / Rows;
  const int32_t ahead_lines = (kBlockLines + passes - 1) / passes;
  const ptrdiff_t pass_floats = static_cast<ptrdiff_t>(blocks) * ahead_lines * kWinogradLine;
  for (int32_t place = 0; place < kPlaces; ++place) {
    const float* patches = group.patches + place * patch_floats;
    float* products = group.products + place * product_floats;
    const float* next = weights + static_cast<ptrdiff_t>(blocks) * kBlockLines * kWinogradLine;
    const float* ahead = place + 1 < kPlaces ? next : next_weights;
    for (int32_t pass = 0; pass < passes; ++pass) {
      MultiplyPlace<Lanes, Rows, Columns>(blocks, block_floats, patches, weights, ahead,
                                          ahead_lines, products);
      patches += Rows * kChannelBlock;
      products += Rows * Columns * Lanes;
      ahead += pass_floats;
    }
    weights = next;
  }
}

// Transforms back the products of a group and one panel, and applies the epilogue. The panel's
// first output channel is that of block `first_block`.
template <int PanelBlocks, int Tile>
MEMPLAN_SHARED_FUNCTION void TransformProducts(const BlockedWinogradParams& p,
                                               const WinogradGroup& group, int32_t first_block) {
  constexpr int kPanel = PanelBlocks * kChannelBlock;
  const auto place_floats =
      static_cast<ptrdiff_t>(WinogradPlaceFloats(int64_t{p.group_tiles} * kPanel));
  const int32_t across = WinogradTiles(p.out_size[1], Tile);
  const ptrdiff_t row_floats = static_cast<ptrdiff_t>(p.out_size[1]) * kChannelBlock;
  const ptrdiff_t image = row_floats * p.out_size[0];
  const int32_t left_blocks = ChannelBlocks(p.out_channels) - first_block;
  WinogradEpilogue epilogue = {};
  epilogue.row_floats = row_floats;
  epilogue.clamps = p.clamps != 0;
  epilogue.lowest = p.lowest;
  epilogue.highest = p.highest;
  for (int32_t b = 0; b < PanelBlocks && b < left_blocks; ++b) {
    const int32_t channel = (first_block + b) * kChannelBlock;
    for (int32_t i = 0; i < kChannelBlock; ++i) {
      const bool biased = group.bias != nullptr && channel + i < p.out_channels;
      epilogue.bias[i] = biased ? group.bias[channel + i] : 0.0F;
    }
    const float* products = group.products + b * kChannelBlock;
    for (int32_t t = 0; t < group.tiles; ++t, products += kPanel) {
      const int32_t top = (group.first_tile + t) / across * Tile;
      const int32_t left = (group.first_tile + t) % across * Tile;
      const ptrdiff_t at = (first_block + b) * image + top * row_floats +
                           static_cast<ptrdiff_t>(left) * kChannelBlock;
      epilogue.rows = p.out_size[0] - top < Tile ? p.out_size[0] - top : Tile;
      epilogue.columns = p.out_size[1] - left < Tile ? p.out_size[1] - left : Tile;
      epilogue.residual = group.residual == nullptr ? nullptr : group.residual + at;
      TransformProduct<Tile>(products, place_floats, epilogue, group.y + at);
      if (group.activate != nullptr) {
        group.activate(epilogue.rows, epilogue.columns * kChannelBlock, row_floats, p.alpha, p.beta,
                       group.y + at);
      }
    }
  }
}

// All panels of a group from block `first_block` of the output channels on.
template <int Lanes, int Rows, int Columns, int Tile>
MEMPLAN_INLINE void WinogradPanels(const BlockedWinogradParams& p, const WinogradGroup& group,
                                   int32_t first_block) {
  constexpr int kPanelBlocks = Columns * Lanes / kChannelBlock;
  constexpr int kPlaces = (Tile + 2) * (Tile + 2);
  const ptrdiff_t depth = static_cast<ptrdiff_t>(ChannelBlocks(p.in_channels)) * kChannelBlock;
  const int32_t out_blocks = ChannelBlocks(p.out_channels);
  // Whole panels, and the last one with as many vectors as it needs.
  while (out_blocks - first_block > kPanelBlocks - Lanes / kChannelBlock) {
    const float* weights = group.weights + first_block * kChannelBlock * kPlaces * depth;
    // Behind the last panel, the next group starts from the first one.
    const float* next = first_block + kPanelBlocks < out_blocks
                            ? weights + kPanelBlocks * kChannelBlock * kPlaces * depth
                            : group.weights;
    MultiplyPanel<Lanes, Rows, Columns, Tile>(p, group, weights, next);
    TransformProducts<kPanelBlocks, Tile>(p, group, first_block);
    first_block += kPanelBlocks;
  }
  if constexpr (Columns > 1) {
    if (first_block < out_blocks) {
      WinogradPanels<Lanes, Rows, Columns - 1, Tile>(p, group, first_block);
    }
  }
}

// y = activation(conv(x, weights) + bias + residual), blocked; residual (may be y) and bias may be
// nullptr. weights: transformed, as [panels][places][input channels, padded][Columns * Lanes], the
// last panel with as many vectors as it needs. scratch: see BlockedWinogradScratchBytes.
template <int Lanes, int Rows, int Columns, int Tile>
MEMPLAN_KERNEL void BlockedWinograd(const BlockedWinogradParams& p, const float* x,
                                    const float* weights, const float* bias, const float* residual,
                                    float* scratch, float* y) {
  const int32_t in_blocks = ChannelBlocks(p.in_channels);
  const ptrdiff_t in_floats =
      static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * in_blocks * kChannelBlock;
  const ptrdiff_t out_floats =
      static_cast<ptrdiff_t>(p.out_size[0]) * p.out_size[1] * p.out_blocks * kChannelBlock;
  WinogradGroup group = {};
  group.weights = weights;
  group.bias = bias;
  group.patches = scratch;
  group.products = scratch + (Tile + 2) * (Tile + 2) *
                                 static_cast<ptrdiff_t>(WinogradPlaceFloats(
                                     int64_t{in_blocks} * p.group_tiles * kChannelBlock));
  group.activate = ActivateFunctionOf(p.activation);
  for (int32_t image = 0; image < p.batch; ++image) {
    group.x = x + image * in_floats;
    group.residual = residual == nullptr ? nullptr : residual + image * out_floats;
    group.y = y + image * out_floats;
    for (int32_t tile = p.tile_begin; tile < p.tile_end; tile += p.group_tiles) {
      group.first_tile = tile;
      group.tiles = p.tile_end - tile < p.group_tiles ? p.tile_end - tile : p.group_tiles;
      TransformPatches<Rows, Tile>(p, group);
      WinogradPanels<Lanes, Rows, Columns, Tile>(p, group, 0);
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_WINOGRAD_H_
