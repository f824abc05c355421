// Convolutions as implicit matrix products, and the plain loops that they are tested against.
//
// For a tile of pixels of one group the input values that each kernel tap sees are packed into a
// panel [channels * taps][pixels] in scratch, with zeros for padding; the tile of the output is
// weights [output channels][channels * taps] times that panel. Where a panel would be large, the
// channels come in blocks that add to the output. A kernel of one tap and stride 1 without padding
// reads the input itself: its rows are such panels already.
#ifndef MEMPLAN_KERNELS_CONV_H_
#define MEMPLAN_KERNELS_CONV_H_

#include "gemm_tile.h"

namespace kernels {

// Arrays are depth, height, width; missing axes have size 1, stride 1, one tap.
struct ConvParams {
  int32_t batch;
  int32_t groups;
  int32_t in_channels;   // of one group
  int32_t out_channels;  // of one group
  int32_t in_size[3];
  int32_t out_size[3];
  int32_t taps[3];
  int32_t stride[3];
  int32_t dilation[3];
  int32_t padding[3];      // before the first element
  int32_t block_channels;  // input channels in a panel
  int32_t weights_once;    // 1: for each block of channels all pixels, not the other way round
  int32_t clamps;          // 1: the result is brought into [lowest, highest]
  int32_t activation;      // an ActivationKind, applied after that
  float lowest;
  float highest;
  float alpha;  // of the activation
  float beta;
};
MEMPLAN_FIELDS(ConvParams, batch, groups, in_channels, out_channels, in_size, out_size, taps,
               stride, dilation, padding, block_channels, weights_once, clamps, activation, lowest,
               highest, alpha, beta);

// One axis of the grid of pixels that a panel is made of. Pixel q sees with tap t the input element
// q * stride + first + t * step, or padding where there is none.
struct PanelAxis {
  int32_t in_size;
  int32_t pixels;
  int32_t taps;
  int32_t stride;
  int32_t first;
  int32_t step;
};

struct PanelShape {
  PanelAxis axis[3];
};

constexpr int32_t Volume(const int32_t (&size)[3]) { return size[0] * size[1] * size[2]; }

// Bytes of scratch for panels of `columns` pixels.
constexpr int64_t PanelScratchBytes(int64_t block_channels, int64_t taps, int64_t columns) {
  return block_channels * taps * columns * 4;
}

// The input that panels are packed from: a block of channels at elements[at], and how many elements
// may be read from elements[0] on.
struct PanelSource {
  const float* elements;
  ptrdiff_t at;
  ptrdiff_t readable;
  int32_t channels;
};

// Whether taps see neighbouring pixels of a row side by side, and no vector of pixels lies in more
// than two rows.
MEMPLAN_INLINE bool SeesRunsOfRows(const PanelShape& shape, int32_t lanes) {
  bool runs = shape.axis[2].pixels >= lanes;
  for (int i = 0; i < 3; ++i) runs = runs && shape.axis[i].stride == 1;
  return runs;
}

// Whether a tap sees all pixels, but for padding, at one distance in memory: the grid has the rows
// and columns of the input.
MEMPLAN_INLINE bool IsShifted(const PanelShape& shape) {
  bool shifted = true;
  for (int i = 0; i < 3; ++i) shifted = shifted && shape.axis[i].stride == 1;
  for (int i = 1; i < 3; ++i) shifted = shifted && shape.axis[i].in_size == shape.axis[i].pixels;
  return shifted;
}

// Where the pixels of a tile are, by vector.
template <int Lanes, int Columns>
struct PanelPixels {
  static constexpr int kVectors = Columns / Lanes;
  using Ints = typename Vector<Lanes>::Ints;
  // Depth, height and width of each; those past the tile are outside of everything.
  int32_t at[3][Columns];
  // The place of each in a channel of the input, and those from which a vector's first row is read
  // and its second one (from its lane of second_row on).
  int32_t place[Columns];
  int32_t first_row[kVectors];
  int32_t second_row[kVectors];
  Ints in_first[kVectors];
  // The lowest and the highest of the latter two.
  int32_t lowest;
  int32_t highest;
};

template <int Lanes, int Columns>
MEMPLAN_INLINE void FindPixels(const PanelShape& shape, int32_t begin, int32_t count,
                               PanelPixels<Lanes, Columns>* pixels) {
  using Ints = typename Vector<Lanes>::Ints;
  using IntsInArray = typename Vector<Lanes>::IntsInArray;
  const int32_t width = shape.axis[2].pixels;
  const int32_t height = shape.axis[1].pixels;
  const int32_t row = shape.axis[2].in_size;
  const int32_t plane = row * shape.axis[1].in_size;
  int32_t next[3] = {begin / width / height, begin / width % height, begin % width};
  for (int32_t i = 0; i < Columns; ++i) {
    for (int j = 0; j < 3; ++j) pixels->at[j][i] = i < count ? next[j] : INT32_MIN / 2;
    pixels->place[i] = next[0] * plane + next[1] * row + next[2];
    if (i + 1 >= count) continue;
    if (++next[2] < width) continue;
    next[2] = 0;
    if (++next[1] < height) continue;
    next[1] = 0;
    ++next[0];
  }
  const Ints lanes = *reinterpret_cast<const IntsInArray*>(kLaneNumbers);
  pixels->lowest = INT32_MAX;
  pixels->highest = INT32_MIN;
  for (int v = 0; v < PanelPixels<Lanes, Columns>::kVectors; ++v) {
    const int32_t first = v * Lanes;
    int32_t in_row = width - (begin + first) % width;
    if (in_row > Lanes || first + in_row >= count) in_row = Lanes;
    pixels->in_first[v] = lanes < Ints{} + in_row;
    pixels->first_row[v] = pixels->place[first];
    pixels->second_row[v] =
        in_row < Lanes ? pixels->place[first + in_row] - in_row : pixels->first_row[v];
    const int32_t both[2] = {pixels->first_row[v], pixels->second_row[v]};
    for (const int32_t place : both) {
      if (place < pixels->lowest) pixels->lowest = place;
      if (place > pixels->highest) pixels->highest = place;
    }
  }
}

// inside[v] &= the pixels whose tap, at distance `shift` along axis `j`, is inside the input.
template <int Lanes, int Columns, class Ints>
MEMPLAN_INLINE void KeepInside(const PanelShape& shape, const PanelPixels<Lanes, Columns>& pixels,
                               int j, int32_t shift, Ints (&inside)[Columns / Lanes]) {
  using IntsInArray = typename Vector<Lanes>::IntsInArray;
#pragma GCC unroll 4
  for (int v = 0; v < Columns / Lanes; ++v) {
    const Ints in_at = *reinterpret_cast<const IntsInArray*>(&pixels.at[j][v * Lanes]) + shift;
    inside[v] &= (in_at >= 0) & (in_at < shape.axis[j].in_size);
  }
}

// PackPanel for a shape that SeesRunsOfRows: whole vectors, with padding masked out. Shifted: the
// shape IsShifted, and all pixels are read as if of one row.
template <int Lanes, int Columns, bool Shifted>
MEMPLAN_SHARED_FUNCTION void PackRunsPanel(const PanelShape& shape, const PanelSource& x,
                                           int32_t begin, int32_t count, float* panel) {
  constexpr int kVectors = Columns / Lanes;
  using V = typename Vector<Lanes>::Type;
  using InArray = typename Vector<Lanes>::InArray;
  using Ints = typename Vector<Lanes>::Ints;
  using IntsInArray = typename Vector<Lanes>::IntsInArray;
  PanelPixels<Lanes, Columns> pixels;
  FindPixels(shape, begin, count, &pixels);
  const ptrdiff_t row = shape.axis[2].in_size;
  const ptrdiff_t plane = row * shape.axis[1].in_size;
  const ptrdiff_t volume = plane * shape.axis[0].in_size;
  const int32_t taps = shape.axis[0].taps * shape.axis[1].taps * shape.axis[2].taps;
  const ptrdiff_t lowest = Shifted ? begin : pixels.lowest;
  const ptrdiff_t end = Shifted ? begin + Columns : pixels.highest + ptrdiff_t{Lanes};
  for (int32_t rows = 0; rows < shape.axis[0].taps * shape.axis[1].taps; ++rows) {
    const int32_t shift_z = shape.axis[0].first + rows / shape.axis[1].taps * shape.axis[0].step;
    const int32_t shift_y = shape.axis[1].first + rows % shape.axis[1].taps * shape.axis[1].step;
    Ints row_inside[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row_inside[v] = Ints{} - 1;
    KeepInside(shape, pixels, 0, shift_z, row_inside);
    KeepInside(shape, pixels, 1, shift_y, row_inside);
    for (int32_t tx = 0; tx < shape.axis[2].taps; ++tx) {
      const int32_t shift_x = shape.axis[2].first + tx * shape.axis[2].step;
      Ints inside[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) inside[v] = row_inside[v];
      KeepInside(shape, pixels, 2, shift_x, inside);
      ptrdiff_t from = x.at + shift_z * plane + shift_y * row + shift_x;
      float* to = panel + static_cast<ptrdiff_t>(rows * shape.axis[2].taps + tx) * Columns;
      for (int32_t c = 0; c < x.channels; ++c) {
        if (from + lowest >= 0 && from + end <= x.readable) {
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) {
            const ptrdiff_t first = from + (Shifted ? begin + v * Lanes : pixels.first_row[v]);
            V all = *reinterpret_cast<const InArray*>(x.elements + first);
            if (!Shifted) {
              const ptrdiff_t second = from + pixels.second_row[v];
              const V other = *reinterpret_cast<const InArray*>(x.elements + second);
              all = pixels.in_first[v] ? all : other;
            }
            const V kept = inside[v] ? all : V{};
            *reinterpret_cast<InArray*>(to + v * Lanes) = kept;
          }
        } else {
          int32_t keep[Columns];
          for (int v = 0; v < kVectors; ++v) {
            *reinterpret_cast<IntsInArray*>(&keep[v * Lanes]) = inside[v];
          }
          for (int32_t i = 0; i < Columns; ++i) {
            to[i] = keep[i] != 0 ? x.elements[from + pixels.place[i]] : 0.0F;
          }
        }
        from += volume;
        to += static_cast<ptrdiff_t>(taps) * Columns;
      }
    }
  }
}

// Packs pixels [begin, begin + count) of the grid, for the channels of `source`, into
// panel[channels * taps][Columns]; columns from count to a whole vector are set to 0.
template <int Lanes, int Columns>
MEMPLAN_SHARED_FUNCTION void PackPanel(const PanelShape& shape, const PanelSource& source,
                                       int32_t begin, int32_t count, float* panel) {
  constexpr int kWidth = VectorLanes(Lanes);
  if constexpr (kWidth > 1) {
    if (IsShifted(shape)) {
      PackRunsPanel<Lanes, Columns, true>(shape, source, begin, count, panel);
      return;
    }
    if (SeesRunsOfRows(shape, Lanes)) {
      PackRunsPanel<Lanes, Columns, false>(shape, source, begin, count, panel);
      return;
    }
  }
  const float* x = source.elements + source.at;
  const PanelAxis& zs = shape.axis[0];
  const PanelAxis& ys = shape.axis[1];
  const PanelAxis& xs = shape.axis[2];
  const ptrdiff_t row = xs.in_size;
  const ptrdiff_t plane = row * ys.in_size;
  const ptrdiff_t volume = plane * zs.in_size;
  const int32_t taps = zs.taps * ys.taps * xs.taps;
  const int32_t padded = (count + Lanes - 1) / Lanes * Lanes;
  // Runs of pixels of one row of the grid.
  for (int32_t done = 0; done < padded;) {
    const bool fill = done == count;
    const int32_t pixel = begin + done;
    const int32_t qx = pixel % xs.pixels;
    const int32_t qy = pixel / xs.pixels % ys.pixels;
    const int32_t qz = pixel / xs.pixels / ys.pixels;
    int32_t run = fill ? padded - count : xs.pixels - qx;
    if (!fill && run > count - done) run = count - done;
    int32_t tap = 0;
    for (int32_t tz = 0; tz < zs.taps; ++tz) {
      const int32_t iz = qz * zs.stride + zs.first + tz * zs.step;
      for (int32_t ty = 0; ty < ys.taps; ++ty) {
        const int32_t iy = qy * ys.stride + ys.first + ty * ys.step;
        const bool inside = !fill && iz >= 0 && iz < zs.in_size && iy >= 0 && iy < ys.in_size;
        for (int32_t tx = 0; tx < xs.taps; ++tx, ++tap) {
          const int32_t ix = qx * xs.stride + xs.first + tx * xs.step;
          int32_t low = run;
          int32_t high = run;
          if (inside) InsideRange(ix, xs.stride, xs.in_size, run, &low, &high);
          const float* from = x + (inside && low < high ? iz * plane + iy * row + ix : 0);
          float* to = panel + static_cast<ptrdiff_t>(tap) * Columns + done;
          for (int32_t c = 0; c < source.channels; ++c) {
            CopyRun<kWidth>(from, xs.stride, low, high, run, to);
            from += volume;
            to += static_cast<ptrdiff_t>(taps) * Columns;
          }
        }
      }
    }
    done += run;
  }
}

MEMPLAN_INLINE PanelShape ConvPanelShape(const ConvParams& p) {
  PanelShape shape = {};
  for (int i = 0; i < 3; ++i) {
    shape.axis[i] = {p.in_size[i], p.out_size[i], p.taps[i],
                     p.stride[i],  -p.padding[i], p.dilation[i]};
  }
  return shape;
}

// One group of one image: its operands, and what does not change between its tiles.
struct ConvGroup {
  PanelShape shape;
  PanelSource source;  // at: the group's first channel
  const float* weights;
  const float* bias;
  const float* residual;
  float* panel;
  float* y;
  TileArgs tile;
};

// Adds the products of the channels from `channel` on to the pixels of `tile`.
template <int Lanes, int Rows, int Columns, bool PackedWeights, bool Packs>
MEMPLAN_SHARED_FUNCTION void ConvBlock(const ConvParams& p, const ConvGroup& group,
                                       const ColumnTile& tile, int32_t pixel, int32_t channel) {
  const int32_t left = p.in_channels - channel;
  const int32_t channels = left < p.block_channels ? left : p.block_channels;
  const int32_t taps = Volume(p.taps);
  const ptrdiff_t depth = static_cast<ptrdiff_t>(p.in_channels) * taps;
  PanelSource source = group.source;
  source.at += static_cast<ptrdiff_t>(channel) * Volume(p.in_size);
  source.channels = channels;
  TileArgs t = group.tile;
  t.depth = channels * taps;
  t.column_begin = pixel - tile.start;
  t.column_end = t.column_begin + tile.count;
  t.a = group.weights + static_cast<ptrdiff_t>(channel) * taps * (PackedWeights ? Rows : 1);
  t.c = group.y + tile.start;
  if constexpr (Packs) {
    PackPanel<Lanes, Lanes * Columns>(group.shape, source, pixel, tile.count, group.panel);
    t.b = group.panel;
  } else {
    t.b = source.elements + source.at + tile.start;
  }
  // Later blocks add to what the first one wrote.
  t.bias = channel > 0 ? nullptr : group.bias;
  t.residual = channel > 0                 ? t.c
               : group.residual == nullptr ? nullptr
                                           : group.residual + tile.start;
  t.clamps = p.clamps != 0 && channels == left;
  GemmPanel<Lanes, Rows, Columns, PackedWeights>(p.out_channels, depth * Rows, t);
}

// All tiles and blocks of channels of a group. With p.weights_once the blocks of channels are the
// outer loop: their weights stay in a cache while all pixels pass. Else the pixels are: their
// outputs stay.
template <int Lanes, int Rows, int Columns, bool PackedWeights, bool Packs>
MEMPLAN_INLINE void ConvTiles(const ConvParams& p, ActivateFunction activate,
                              const ConvGroup& group) {
  const int32_t pixels = Volume(p.out_size);
  const int32_t passes =
      p.weights_once != 0 ? (p.in_channels + p.block_channels - 1) / p.block_channels : 1;
  for (int32_t pass = 0; pass < passes; ++pass) {
    for (int32_t pixel = 0; pixel < pixels;) {
      // Without a panel, vectors must not reach past the input.
      const ColumnTile tile = NextColumns<Lanes, Columns>(pixel, pixels, !Packs);
      int32_t channel = pass * p.block_channels;
      do {
        ConvBlock<Lanes, Rows, Columns, PackedWeights, Packs>(p, group, tile, pixel, channel);
        channel += p.block_channels;
      } while (p.weights_once == 0 && channel < p.in_channels);
      if (activate != nullptr && pass == passes - 1) {
        activate(p.out_channels, tile.count, pixels, p.alpha, p.beta, group.y + pixel);
      }
      pixel += tile.count;
    }
  }
}

// The loops of ConvGemm and ConvPointwise (Packs = false) over images and groups.
template <int Lanes, int Rows, int Columns, bool PackedWeights, bool Packs>
MEMPLAN_SHARED_FUNCTION void ConvLoops(const ConvParams& p, ActivateFunction activate,
                                       const float* x, const float* weights, const float* bias,
                                       const float* residual, float* panel, float* y) {
  const ptrdiff_t depth = static_cast<ptrdiff_t>(p.in_channels) * Volume(p.taps);
  const ptrdiff_t in_elements = static_cast<ptrdiff_t>(p.in_channels) * Volume(p.in_size);
  const ptrdiff_t out_elements = static_cast<ptrdiff_t>(p.out_channels) * Volume(p.out_size);
  const ptrdiff_t weight_rows =
      PackedWeights ? (p.out_channels + Rows - 1) / Rows * Rows : p.out_channels;
  ConvGroup g = {};
  g.shape = ConvPanelShape(p);
  g.source.elements = x;
  g.source.readable = p.batch * p.groups * in_elements;
  g.panel = panel;
  g.tile.a_row_stride = static_cast<int32_t>(depth);
  g.tile.a_depth_stride = 1;
  g.tile.b_depth_stride = Packs ? Lanes * Columns : Volume(p.in_size);
  g.tile.bias_row_stride = 1;
  g.tile.c_row_stride = Volume(p.out_size);
  g.tile.alpha = 1;
  g.tile.beta = 1;
  g.tile.lowest = p.lowest;
  g.tile.highest = p.highest;
  for (int32_t i = 0; i < p.batch * p.groups; ++i) {
    const ptrdiff_t group = i % p.groups;
    g.source.at = i * in_elements;
    g.weights = weights + group * weight_rows * depth;
    g.bias = bias == nullptr ? nullptr : bias + group * p.out_channels;
    g.residual = residual == nullptr ? nullptr : residual + i * out_elements;
    g.y = y + i * out_elements;
    ConvTiles<Lanes, Rows, Columns, PackedWeights, Packs>(p, activate, g);
  }
}

// y = activation(conv(x, weights) + bias + residual), in tiles of Rows output channels and
// Columns * Lanes pixels.
// x: [batch][groups * in_channels][in_size]; y and residual: [batch][groups * out_channels]
// [out_size], may be one; bias: [groups * out_channels] or nullptr. weights, packed:
// [groups][ceil(out_channels / Rows)][in_channels * taps][Rows], else
// [groups * out_channels][in_channels * taps] with out_channels >= Rows.
// panel: PanelScratchBytes(block_channels, taps, Columns * Lanes).
template <int Lanes, int Rows, int Columns, bool PackedWeights>
MEMPLAN_INLINE void ConvGemm(const ConvParams& p, const float* x, const float* weights,
                             const float* bias, const float* residual, float* panel, float* y) {
  ConvLoops<Lanes, Rows, Columns, PackedWeights, true>(p, ActivateFunctionOf(p.activation), x,
                                                       weights, bias, residual, panel, y);
}

// ConvGemm for one tap, stride 1, no padding and at least Lanes pixels; without scratch.
template <int Lanes, int Rows, int Columns, bool PackedWeights>
MEMPLAN_INLINE void ConvPointwise(const ConvParams& p, const float* x, const float* weights,
                                  const float* bias, const float* residual, float* y) {
  ConvLoops<Lanes, Rows, Columns, PackedWeights, false>(p, ActivateFunctionOf(p.activation), x,
                                                        weights, bias, residual, nullptr, y);
}

// The convolution as its definition says it.
template <class T>
MEMPLAN_KERNEL void ConvPlain(const ConvParams& p, const T* x, const T* weights, const T* bias,
                              T* y) {
  const ptrdiff_t in_volume = Volume(p.in_size);
  const int32_t taps = Volume(p.taps);
  for (int32_t image = 0; image < p.batch; ++image) {
    for (int32_t channel = 0; channel < p.groups * p.out_channels; ++channel) {
      const int32_t group = channel / p.out_channels;
      const T* in =
          x + (static_cast<ptrdiff_t>(image) * p.groups + group) * p.in_channels * in_volume;
      for (int32_t pixel = 0; pixel < Volume(p.out_size); ++pixel) {
        const int32_t q[3] = {pixel / p.out_size[2] / p.out_size[1],
                              pixel / p.out_size[2] % p.out_size[1], pixel % p.out_size[2]};
        T sum = bias == nullptr ? T(0) : bias[channel];
        for (int32_t tap = 0; tap < taps; ++tap) {
          const int32_t at[3] = {tap / p.taps[2] / p.taps[1], tap / p.taps[2] % p.taps[1],
                                 tap % p.taps[2]};
          ptrdiff_t offset = 0;
          bool inside = true;
          for (int i = 0; i < 3; ++i) {
            const int32_t in_at = q[i] * p.stride[i] + at[i] * p.dilation[i] - p.padding[i];
            inside = inside && in_at >= 0 && in_at < p.in_size[i];
            offset = offset * p.in_size[i] + in_at;
          }
          if (!inside) continue;
          const T* w = weights + static_cast<ptrdiff_t>(channel) * p.in_channels * taps + tap;
          for (int32_t c = 0; c < p.in_channels; ++c) {
            sum += in[c * in_volume + offset] * w[static_cast<ptrdiff_t>(c) * taps];
          }
        }
        *y++ = sum;
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_CONV_H_
