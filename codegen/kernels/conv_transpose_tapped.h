// Transposed convolution with weights that are only known at run time: the gradient of a
// convolution's input is one. The phases are those of conv_transpose.h, and panels of x the same;
// the weights are read where they lie, [groups * in_channels][out_channels][taps], through a table
// of a phase's taps.
#ifndef MEMPLAN_KERNELS_CONV_TRANSPOSE_TAPPED_H_
#define MEMPLAN_KERNELS_CONV_TRANSPOSE_TAPPED_H_

#include "conv_transpose.h"

namespace kernels {

// Weights of a phase: those of output channel r, input channel c and the phase's tap j lie at
// first[r * row_stride + c * channel_stride + tap_offsets[j]].
struct TappedWeights {
  const float* first;
  ptrdiff_t row_stride;
  ptrdiff_t channel_stride;
  const int32_t* tap_offsets;
  int32_t taps;
};

// GemmTile with such weights in place of A; t.depth counts input channels.
template <int Lanes, int Rows, int Columns>
MEMPLAN_SHARED_FUNCTION void TappedTile(const TappedWeights& w, const TileArgs& t) {
  constexpr int kWidth = VectorLanes(Lanes);
  constexpr int kVectors = Columns * Lanes / kWidth;
  using V = typename Vector<kWidth>::Type;
  V sums[Rows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) sums[r][c] = V{};
  }
  const float* a = w.first;
  const float* b = t.b;
  for (int32_t channel = 0; channel < t.depth; ++channel, a += w.channel_stride) {
    for (int32_t tap = 0; tap < w.taps; ++tap, b += t.b_depth_stride) {
      MultiplyAdd<kWidth>(sums, a + w.tap_offsets[tap], w.row_stride, b);
    }
  }
  FinishTile<Lanes, Rows, Columns>(t, sums);
}

// TappedTile with as many of the Columns vectors as t.column_end needs.
template <int Lanes, int Rows, int Columns>
MEMPLAN_INLINE void TappedTileOf(const TappedWeights& w, const TileArgs& t) {
  if constexpr (Columns > 1) {
    if (t.column_end <= (Columns - 1) * Lanes) {
      TappedTileOf<Lanes, Rows, Columns - 1>(w, t);
      return;
    }
  }
  TappedTile<Lanes, Rows, Columns>(w, t);
}

// Working memory: the offsets of the phase's taps, those of the pixels of the tiles in y (unless
// IsWhole), and the tiles' panels.
struct TappedScratch {
  int32_t* taps;
  int32_t* pixels;
  float* panels;
};

constexpr int64_t WholeVectors(int64_t count, int64_t lanes) {
  return (count + lanes - 1) / lanes * lanes;
}
constexpr int64_t ConvTransposeTappedScratchBytes(const ConvTransposeParams& p, int64_t most_taps,
                                                  int64_t lanes, int64_t columns) {
  return WholeVectors(Volume(p.taps), lanes) * 4 + p.tiles * columns * 4 +
         p.tiles * PanelScratchBytes(p.block_channels, most_taps, columns);
}

// The offsets of a phase's taps in the kernel; returns how many there are.
MEMPLAN_INLINE int32_t ListTaps(const ConvTransposeParams& p, const TransposePhase (&phase)[3],
                                int32_t* offsets) {
  int32_t count = 0;
  for (int32_t z = 0; z < phase[0].axis.taps; ++z) {
    const int32_t tz = phase[0].first_tap + z * phase[0].tap_step;
    for (int32_t r = 0; r < phase[1].axis.taps; ++r) {
      const int32_t ty = phase[1].first_tap + r * phase[1].tap_step;
      for (int32_t c = 0; c < phase[2].axis.taps; ++c) {
        const int32_t tx = phase[2].first_tap + c * phase[2].tap_step;
        offsets[count++] = (tz * p.taps[1] + ty) * p.taps[2] + tx;
      }
    }
  }
  return count;
}

// One phase of one group of one image: what does not change between its tiles.
struct TappedGroup {
  PanelShape shape;
  PhaseOutputs outputs;
  PanelSource source;
  TappedWeights weights;
  const float* bias;
  const float* residual;
  float* y;
};

// Adds the products of a block of channels to the packed tiles of pixels [begin, end). All rows of
// a block of weights are read once, whatever the number of tiles.
template <int Lanes, int Rows, int Columns>
MEMPLAN_SHARED_FUNCTION void TappedTiles(const ConvTransposeParams& p, const TappedGroup& group,
                                         const TappedScratch& scratch, int32_t begin, int32_t end,
                                         int32_t channel, int32_t channels) {
  constexpr int kPixels = Lanes * Columns;
  const ptrdiff_t volume = Volume(p.out_size);
  TileArgs t = {};
  t.depth = channels;
  t.b_depth_stride = kPixels;
  t.bias_row_stride = 1;
  t.c_row_stride = static_cast<int32_t>(volume);
  t.alpha = 1;
  t.beta = 1;
  t.lowest = p.lowest;
  t.highest = p.highest;
  t.clamps = p.clamps != 0 && channel + channels == p.in_channels;
  TappedWeights w = group.weights;
  const float* weights = w.first + channel * w.channel_stride;
  // Later blocks add to what the first one wrote.
  const float* residual = channel > 0 ? group.y : group.residual;
  for (int32_t row = 0; row < p.out_channels; row += Rows) {
    // The last tile overlaps the one before.
    const int32_t left = p.out_channels - row;
    const int32_t start = left >= Rows ? row : p.out_channels - Rows;
    t.row_begin = row - start;
    t.row_end = Rows;
    w.first = weights + start * w.row_stride;
    t.bias = channel > 0 || group.bias == nullptr ? nullptr : group.bias + start;
    t.b = scratch.panels;
    const int32_t* offsets = scratch.pixels;
    for (int32_t pixel = begin; pixel < end; pixel += kPixels) {
      t.column_end = end - pixel < kPixels ? end - pixel : kPixels;
      t.column_offsets = IsWhole(p) ? nullptr : offsets;
      const ptrdiff_t at = start * volume + (IsWhole(p) ? pixel : 0);
      t.c = group.y + at;
      t.residual = residual == nullptr ? nullptr : residual + at;
      TappedTileOf<Lanes, Rows, Columns>(w, t);
      t.b += static_cast<ptrdiff_t>(p.block_channels) * w.taps * kPixels;
      offsets += kPixels;
    }
  }
}

template <int Lanes, int Rows, int Columns>
MEMPLAN_SHARED_FUNCTION void TappedPhase(const ConvTransposeParams& p, const TappedGroup& group,
                                         const TappedScratch& scratch) {
  constexpr int kPixels = Lanes * Columns;
  const int32_t width = group.shape.axis[2].pixels;
  const int32_t height = group.shape.axis[1].pixels;
  const int32_t pixels = group.shape.axis[0].pixels * height * width;
  for (int32_t begin = 0; begin < pixels; begin += p.tiles * kPixels) {
    const int32_t end = pixels - begin < p.tiles * kPixels ? pixels : begin + p.tiles * kPixels;
    for (int32_t q = begin; q < end && !IsWhole(p); ++q) {
      const int32_t(&step)[3] = group.outputs.step;
      scratch.pixels[q - begin] = group.outputs.first + q / width / height * step[0] +
                                  q / width % height * step[1] + q % width * step[2];
    }
    for (int32_t c = 0; c < p.in_channels; c += p.block_channels) {
      PanelSource source = group.source;
      source.at += static_cast<ptrdiff_t>(c) * Volume(p.in_size);
      source.channels = p.in_channels - c < p.block_channels ? p.in_channels - c : p.block_channels;
      float* panel = scratch.panels;
      for (int32_t pixel = begin; pixel < end; pixel += kPixels) {
        const int32_t count = end - pixel < kPixels ? end - pixel : kPixels;
        PackPanel<Lanes, kPixels>(group.shape, source, pixel, count, panel);
        panel += static_cast<ptrdiff_t>(p.block_channels) * group.weights.taps * kPixels;
      }
      TappedTiles<Lanes, Rows, Columns>(p, group, scratch, begin, end, c, source.channels);
    }
  }
}

template <int Lanes, int Rows, int Columns>
MEMPLAN_SHARED_FUNCTION void TappedPhases(const ConvTransposeParams& p, ActivateFunction activate,
                                          const float* x, const float* weights, const float* bias,
                                          const float* residual, float* scratch_memory, float* y) {
  const int32_t out_volume = Volume(p.out_size);
  const int32_t all_taps = Volume(p.taps);
  const ptrdiff_t group_in = static_cast<ptrdiff_t>(p.in_channels) * Volume(p.in_size);
  const ptrdiff_t group_out = static_cast<ptrdiff_t>(p.out_channels) * out_volume;
  const ptrdiff_t tap_floats = static_cast<ptrdiff_t>(WholeVectors(all_taps, Lanes));
  TappedScratch scratch = {};
  scratch.taps = reinterpret_cast<int32_t*>(scratch_memory);
  scratch.pixels = scratch.taps + tap_floats;
  scratch.panels = scratch_memory + tap_floats + p.tiles * Lanes * Columns;
  TappedGroup g = {};
  g.weights.row_stride = all_taps;
  g.weights.channel_stride = static_cast<ptrdiff_t>(p.out_channels) * all_taps;
  g.weights.tap_offsets = scratch.taps;
  g.outputs.step[0] = p.stride[0] * p.out_size[1] * p.out_size[2];
  g.outputs.step[1] = p.stride[1] * p.out_size[2];
  g.outputs.step[2] = p.stride[2];
  for (int32_t number = 0; number < Volume(p.stride); ++number) {
    const int32_t at[3] = {number / p.stride[2] / p.stride[1], number / p.stride[2] % p.stride[1],
                           number % p.stride[2]};
    TransposePhase phase[3];
    for (int i = 0; i < 3; ++i) {
      phase[i] = TransposePhaseOf(p, i, at[i]);
      g.shape.axis[i] = phase[i].axis;
    }
    g.weights.taps = ListTaps(p, phase, scratch.taps);
    g.outputs.first = (at[0] * p.out_size[1] + at[1]) * p.out_size[2] + at[2];
    for (int32_t i = 0; i < p.batch * p.groups; ++i) {
      const ptrdiff_t group = i % p.groups;
      g.source = {x, i * group_in, p.batch * p.groups * group_in, 0};
      g.weights.first = weights + group * p.in_channels * g.weights.channel_stride;
      g.bias = bias == nullptr ? nullptr : bias + group * p.out_channels;
      g.residual = residual == nullptr ? nullptr : residual + i * group_out;
      g.y = y + i * group_out;
      TappedPhase<Lanes, Rows, Columns>(p, g, scratch);
    }
  }
  if (activate == nullptr) return;
  for (int32_t i = 0; i < p.batch * p.groups; ++i) {
    activate(p.out_channels, out_volume, out_volume, p.alpha, p.beta, y + i * group_out);
  }
}

// y = activation(transposed convolution(x, weights) + bias + residual), operands as of
// ConvTransposeGemm but for the weights. out_channels >= Rows. scratch:
// ConvTransposeTappedScratchBytes with the most taps of a phase.
template <int Lanes, int Rows, int Columns>
MEMPLAN_INLINE void ConvTransposeTapped(const ConvTransposeParams& p, const float* x,
                                        const float* weights, const float* bias,
                                        const float* residual, float* scratch, float* y) {
  TappedPhases<Lanes, Rows, Columns>(p, ActivateFunctionOf(p.activation), x, weights, bias,
                                     residual, scratch, y);
}

struct ReverseTapsParams {
  int32_t channels;
  int32_t taps;
};
MEMPLAN_FIELDS(ReverseTapsParams, channels, taps);

// The taps of each channel in the opposite order: with them, a transposed convolution of stride 1
// is a convolution.
MEMPLAN_KERNEL void ReverseTaps(const ReverseTapsParams& p, const float* weights, float* reversed) {
  for (int32_t c = 0; c < p.channels; ++c, weights += p.taps, reversed += p.taps) {
    for (int32_t t = 0; t < p.taps; ++t) reversed[t] = weights[p.taps - 1 - t];
  }
}

// y[i] += weight * x[i].
template <int Width>
MEMPLAN_INLINE void AddScaledRow(int32_t count, float weight, const float* x, float* y) {
  int32_t i = 0;
  if constexpr (Width > 1) {
    using InArray = typename Vector<Width>::InArray;
    for (; i + Width <= count; i += Width) {
      *reinterpret_cast<InArray*>(y + i) += weight * *reinterpret_cast<const InArray*>(x + i);
    }
  }
  for (; i < count; ++i) y[i] += weight * x[i];
}

// Bytes of scratch for ConvTransposeDepthwise: a phase of a row.
constexpr int64_t DepthwiseTransposeScratchBytes(const ConvTransposeParams& p) {
  return (static_cast<int64_t>(p.out_size[2]) + p.stride[2] - 1) / p.stride[2] * 4;
}

// The outputs of one row of one plane that are x_phase from a multiple of the stride, in `row`.
template <int Width>
MEMPLAN_SHARED_FUNCTION void DepthwisePhaseRow(const ConvTransposeParams& p, const float* x,
                                               const float* weights, int32_t z, int32_t y,
                                               const TransposePhase& phase, float* row) {
  const PanelAxis& axis = phase.axis;
  for (int32_t i = 0; i < axis.pixels; ++i) row[i] = 0;
  for (int32_t tz = 0; tz < p.taps[0]; ++tz) {
    const int32_t scaled_z = z + p.padding[0] - tz * p.dilation[0];
    const int32_t iz = scaled_z / p.stride[0];
    if (scaled_z < 0 || scaled_z % p.stride[0] != 0 || iz >= p.in_size[0]) continue;
    for (int32_t ty = 0; ty < p.taps[1]; ++ty) {
      const int32_t scaled_y = y + p.padding[1] - ty * p.dilation[1];
      const int32_t iy = scaled_y / p.stride[1];
      if (scaled_y < 0 || scaled_y % p.stride[1] != 0 || iy >= p.in_size[1]) continue;
      const float* in = x + (static_cast<ptrdiff_t>(iz) * p.in_size[1] + iy) * p.in_size[2];
      const float* w = weights + (tz * p.taps[1] + ty) * p.taps[2] + phase.first_tap;
      for (int32_t j = 0; j < axis.taps; ++j) {
        const int32_t start = axis.first + j * axis.step;
        int32_t low;
        int32_t high;
        InsideRange(start, 1, axis.in_size, axis.pixels, &low, &high);
        if (low >= high) continue;
        AddScaledRow<Width>(high - low, w[j * phase.tap_step], in + start + low, row + low);
      }
    }
  }
}

// ConvTransposeTapped for groups of one input and one output channel. scratch:
// DepthwiseTransposeScratchBytes.
template <int Lanes>
MEMPLAN_KERNEL void ConvTransposeDepthwise(const ConvTransposeParams& p, const float* x,
                                           const float* weights, const float* bias,
                                           const float* residual, float* scratch, float* y) {
  const int32_t taps = Volume(p.taps);
  const int32_t width = p.out_size[2];
  const int32_t rows = p.out_size[0] * p.out_size[1];
  for (int32_t plane = 0; plane < p.batch * p.groups; ++plane) {
    const int32_t channel = plane % p.groups;
    const float* in = x + static_cast<ptrdiff_t>(plane) * Volume(p.in_size);
    const float added = bias == nullptr ? 0.0F : bias[channel];
    for (int32_t r = 0; r < rows; ++r) {
      const ptrdiff_t at = (static_cast<ptrdiff_t>(plane) * rows + r) * width;
      for (int32_t phase = 0; phase < p.stride[2]; ++phase) {
        const TransposePhase phase_of_x = TransposePhaseOf(p, 2, phase);
        DepthwisePhaseRow<VectorLanes(Lanes)>(
            p, in, weights + static_cast<ptrdiff_t>(channel) * taps, r / p.out_size[1],
            r % p.out_size[1], phase_of_x, scratch);
        for (int32_t i = 0; i < phase_of_x.axis.pixels; ++i) {
          const ptrdiff_t to = at + phase + i * p.stride[2];
          float sum = scratch[i] + added;
          if (residual != nullptr) sum += residual[to];
          if (p.clamps != 0) sum = Clip::Apply(sum, p.lowest, p.highest);
          y[to] = Activate(p.activation, sum, p.alpha, p.beta);
        }
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_CONV_TRANSPOSE_TAPPED_H_
