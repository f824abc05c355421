// Transposed convolution as implicit matrix products, and the plain loops that it is tested
// against.
//
// Outputs whose index has the same remainder by the stride (a phase) see the same kernel taps, at
// input places that move by one: each phase is a convolution of stride 1 with its part of the
// kernel, whose results are written a stride apart. No product is with a zero.
#ifndef MEMPLAN_KERNELS_CONV_TRANSPOSE_H_
#define MEMPLAN_KERNELS_CONV_TRANSPOSE_H_

#include "conv.h"
#include "gemm_tile.h"

namespace kernels {

// Arrays are depth, height, width; missing axes have size 1, stride 1, one tap. Input element i and
// tap t contribute to output i * stride + t * dilation - padding.
struct ConvTransposeParams {
  int32_t batch;
  int32_t groups;
  int32_t in_channels;   // of one group
  int32_t out_channels;  // of one group
  int32_t in_size[3];
  int32_t out_size[3];
  int32_t taps[3];
  int32_t stride[3];
  int32_t dilation[3];
  int32_t padding[3];
  int32_t block_channels;  // input channels in a panel
  int32_t clamps;          // 1: the result is brought into [lowest, highest]
  int32_t activation;      // an ActivationKind, applied after that
  float lowest;
  float highest;
  float alpha;  // of the activation
  float beta;
};
MEMPLAN_FIELDS(ConvTransposeParams, batch, groups, in_channels, out_channels, in_size, out_size,
               taps, stride, dilation, padding, block_channels, clamps, activation, lowest, highest,
               alpha, beta);

// The taps first_tap + j * tap_step, j < axis.taps, that outputs q * stride + phase see, and the
// inputs that they see: q + axis.first + j * axis.step.
struct TransposePhase {
  PanelAxis axis;
  int32_t first_tap;
  int32_t tap_step;
};

constexpr TransposePhase TransposePhaseOf(const ConvTransposeParams& p, int i, int32_t phase) {
  const int32_t stride = p.stride[i];
  const int32_t origin = phase + p.padding[i];
  // Taps a tap_step apart differ by a multiple of the stride.
  int32_t tap_step = 1;
  while (tap_step * p.dilation[i] % stride != 0) ++tap_step;
  int32_t first_tap = 0;
  while (first_tap < tap_step && (origin - first_tap * p.dilation[i]) % stride != 0) ++first_tap;
  const bool none = first_tap == tap_step || first_tap >= p.taps[i];
  TransposePhase result = {};
  result.first_tap = first_tap;
  result.tap_step = tap_step;
  result.axis.in_size = p.in_size[i];
  result.axis.pixels = p.out_size[i] > phase ? (p.out_size[i] - phase + stride - 1) / stride : 0;
  result.axis.taps = none ? 0 : (p.taps[i] - 1 - first_tap) / tap_step + 1;
  result.axis.stride = 1;
  result.axis.first = none ? 0 : (origin - first_tap * p.dilation[i]) / stride;
  result.axis.step = -(tap_step * p.dilation[i] / stride);
  return result;
}

// Weights as they are, not packed: those of output channel r, input channel c and the phase's tap j
// lie at first[r * row_stride + c * channel_stride + tap_offsets[j]].
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

// GemmPanel with such weights: rows >= Rows, and the last tile overlaps the one before.
template <int Lanes, int Rows, int Columns>
MEMPLAN_SHARED_FUNCTION void TappedPanel(int32_t rows, TappedWeights w, TileArgs t) {
  const TileArgs first = t;
  const float* first_weight = w.first;
  for (int32_t row = 0; row < rows; row += Rows) {
    const int32_t left = rows - row;
    const int32_t start = left >= Rows ? row : rows - Rows;
    t.row_begin = row - start;
    t.row_end = Rows;
    w.first = first_weight + start * w.row_stride;
    if (t.bias != nullptr) t.bias = first.bias + start;
    const ptrdiff_t at = static_cast<ptrdiff_t>(start) * t.c_row_stride;
    if (t.residual != nullptr) t.residual = first.residual + at;
    t.c = first.c + at;
    TappedTileOf<Lanes, Rows, Columns>(w, t);
  }
}

// The outputs of one phase: from where the first lies, and how far apart they are by axis.
struct PhaseOutputs {
  int32_t first;
  int32_t step[3];
};

// The weights of one phase: packed, [ceil(out_channels / Rows)][in_channels * taps of the phase]
// [Rows], or as they are.
struct PhaseWeights {
  const float* packed;
  TappedWeights tapped;
};

// One phase of one group of one image, whose first channel is at x.
template <int Lanes, int Rows, int Columns, bool Packed>
MEMPLAN_SHARED_FUNCTION void ConvTransposePhase(const ConvTransposeParams& p,
                                                const PanelShape& shape,
                                                const PhaseOutputs& outputs, PanelSource x,
                                                const PhaseWeights& weights, const float* bias,
                                                const float* residual, float* panel, float* y) {
  constexpr int kPixels = Lanes * Columns;
  const int32_t taps = shape.axis[0].taps * shape.axis[1].taps * shape.axis[2].taps;
  const int32_t width = shape.axis[2].pixels;
  const int32_t height = shape.axis[1].pixels;
  const int32_t pixels = shape.axis[0].pixels * height * width;
  const ptrdiff_t in_volume = Volume(p.in_size);
  const ptrdiff_t in_at = x.at;
  int32_t offsets[kPixels];
  TileArgs t = {};
  t.b = panel;
  t.b_depth_stride = kPixels;
  t.bias_row_stride = 1;
  t.c_row_stride = Volume(p.out_size);
  t.c = y;
  t.column_offsets = offsets;
  t.alpha = 1;
  t.beta = 1;
  t.lowest = p.lowest;
  t.highest = p.highest;
  for (int32_t pixel = 0; pixel < pixels; pixel += kPixels) {
    const int32_t count = pixels - pixel < kPixels ? pixels - pixel : kPixels;
    t.column_end = count;
    for (int32_t i = 0; i < count; ++i) {
      const int32_t q = pixel + i;
      offsets[i] = outputs.first + q / width / height * outputs.step[0] +
                   q / width % height * outputs.step[1] + q % width * outputs.step[2];
    }
    for (int32_t c = 0; c < p.in_channels; c += p.block_channels) {
      const int32_t channels =
          p.in_channels - c < p.block_channels ? p.in_channels - c : p.block_channels;
      x.at = in_at + c * in_volume;
      x.channels = channels;
      PackPanel<Lanes, kPixels>(shape, x, pixel, count, panel);
      // Later blocks add to what the first one wrote.
      t.bias = c > 0 ? nullptr : bias;
      t.residual = c > 0 ? y : residual;
      t.clamps = p.clamps != 0 && c + channels == p.in_channels;
      if constexpr (Packed) {
        t.depth = channels * taps;
        t.a = weights.packed + static_cast<ptrdiff_t>(c) * taps * Rows;
        GemmPanel<Lanes, Rows, Columns, true>(
            p.out_channels, static_cast<ptrdiff_t>(p.in_channels) * taps * Rows, t);
      } else {
        t.depth = channels;
        TappedWeights block = weights.tapped;
        block.first += c * block.channel_stride;
        TappedPanel<Lanes, Rows, Columns>(p.out_channels, block, t);
      }
    }
  }
}

// All phases of one group of one image; weights: the phases' one after the other, each
// [groups][...].
template <int Lanes, int Rows, int Columns>
MEMPLAN_SHARED_FUNCTION void ConvTransposeGroup(const ConvTransposeParams& p, int32_t group,
                                                const PanelSource& x, const float* weights,
                                                const float* bias, const float* residual,
                                                float* panel, float* y) {
  const ptrdiff_t rows = (p.out_channels + Rows - 1) / Rows * Rows;
  PhaseOutputs outputs = {};
  outputs.step[0] = p.stride[0] * p.out_size[1] * p.out_size[2];
  outputs.step[1] = p.stride[1] * p.out_size[2];
  outputs.step[2] = p.stride[2];
  PanelShape shape = {};
  for (int32_t z = 0; z < p.stride[0]; ++z) {
    shape.axis[0] = TransposePhaseOf(p, 0, z).axis;
    for (int32_t r = 0; r < p.stride[1]; ++r) {
      shape.axis[1] = TransposePhaseOf(p, 1, r).axis;
      for (int32_t c = 0; c < p.stride[2]; ++c) {
        shape.axis[2] = TransposePhaseOf(p, 2, c).axis;
        const ptrdiff_t group_floats =
            rows * p.in_channels * shape.axis[0].taps * shape.axis[1].taps * shape.axis[2].taps;
        outputs.first = (z * p.out_size[1] + r) * p.out_size[2] + c;
        const PhaseWeights phase = {weights + group * group_floats, {}};
        ConvTransposePhase<Lanes, Rows, Columns, true>(p, shape, outputs, x, phase, bias, residual,
                                                       panel, y);
        weights += p.groups * group_floats;
      }
    }
  }
}

// y = activation(transposed convolution(x, weights) + bias + residual), in tiles of Rows output
// channels and Columns * Lanes pixels.
// x: [batch][groups * in_channels][in_size]; y and residual: [batch][groups * out_channels]
// [out_size], may be one; bias: [groups * out_channels] or nullptr. weights: for each phase, by
// depth, height, width, [groups][ceil(out_channels / Rows)][in_channels * taps of the phase][Rows].
// panel: PanelScratchBytes(block_channels, most taps of a phase, Columns * Lanes).
template <int Lanes, int Rows, int Columns>
MEMPLAN_INLINE void ConvTransposeGemm(const ConvTransposeParams& p, const float* x,
                                      const float* weights, const float* bias,
                                      const float* residual, float* panel, float* y) {
  const ActivateFunction activate = ActivateFunctionOf(p.activation);
  const int32_t out_volume = Volume(p.out_size);
  const ptrdiff_t group_in = static_cast<ptrdiff_t>(p.in_channels) * Volume(p.in_size);
  const ptrdiff_t group_out = static_cast<ptrdiff_t>(p.out_channels) * out_volume;
  for (int32_t image = 0; image < p.batch; ++image) {
    for (int32_t group = 0; group < p.groups; ++group) {
      const ptrdiff_t at = static_cast<ptrdiff_t>(image) * p.groups + group;
      const PanelSource source = {x, at * group_in, p.batch * p.groups * group_in, 0};
      ConvTransposeGroup<Lanes, Rows, Columns>(
          p, group, source, weights,
          bias == nullptr ? nullptr : bias + static_cast<ptrdiff_t>(group) * p.out_channels,
          residual == nullptr ? nullptr : residual + at * group_out, panel, y + at * group_out);
      if (activate != nullptr) {
        activate(p.out_channels, out_volume, out_volume, p.alpha, p.beta, y + at * group_out);
      }
    }
  }
}

// Bytes of scratch for ConvTransposeTapped: the tap offsets in whole vectors, and a panel.
constexpr int64_t TapOffsetBytes(int64_t taps, int64_t lanes) {
  return (taps + lanes - 1) / lanes * lanes * 4;
}
constexpr int64_t ConvTransposeTappedScratchBytes(int64_t block_channels, int64_t taps,
                                                  int64_t most_taps, int64_t lanes,
                                                  int64_t columns) {
  return TapOffsetBytes(taps, lanes) + PanelScratchBytes(block_channels, most_taps, columns);
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

// ConvTransposeGemm with ONNX's weights, [groups * in_channels][out_channels][taps], which are only
// known at run time: the gradient of a convolution's input. out_channels >= Rows. scratch:
// ConvTransposeTappedScratchBytes.
template <int Lanes, int Rows, int Columns>
MEMPLAN_SHARED_FUNCTION void ConvTransposeTappedLoops(const ConvTransposeParams& p,
                                                      ActivateFunction activate, const float* x,
                                                      const float* weights, const float* bias,
                                                      const float* residual, float* scratch,
                                                      float* y) {
  const int32_t out_volume = Volume(p.out_size);
  const int32_t all_taps = Volume(p.taps);
  const ptrdiff_t group_in = static_cast<ptrdiff_t>(p.in_channels) * Volume(p.in_size);
  const ptrdiff_t group_out = static_cast<ptrdiff_t>(p.out_channels) * out_volume;
  auto* offsets = reinterpret_cast<int32_t*>(scratch);
  float* panel = scratch + TapOffsetBytes(all_taps, Lanes) / 4;
  PhaseWeights w = {};
  w.tapped.row_stride = all_taps;
  w.tapped.channel_stride = static_cast<ptrdiff_t>(p.out_channels) * all_taps;
  w.tapped.tap_offsets = offsets;
  PhaseOutputs outputs = {};
  outputs.step[0] = p.stride[0] * p.out_size[1] * p.out_size[2];
  outputs.step[1] = p.stride[1] * p.out_size[2];
  outputs.step[2] = p.stride[2];
  for (int32_t number = 0; number < p.stride[0] * p.stride[1] * p.stride[2]; ++number) {
    const int32_t at[3] = {number / p.stride[2] / p.stride[1], number / p.stride[2] % p.stride[1],
                           number % p.stride[2]};
    TransposePhase phase[3];
    PanelShape shape = {};
    for (int i = 0; i < 3; ++i) {
      phase[i] = TransposePhaseOf(p, i, at[i]);
      shape.axis[i] = phase[i].axis;
    }
    w.tapped.taps = ListTaps(p, phase, offsets);
    outputs.first = (at[0] * p.out_size[1] + at[1]) * p.out_size[2] + at[2];
    for (int32_t i = 0; i < p.batch * p.groups; ++i) {
      const ptrdiff_t group = i % p.groups;
      const PanelSource source = {x, i * group_in, p.batch * p.groups * group_in, 0};
      w.tapped.first = weights + group * p.in_channels * w.tapped.channel_stride;
      ConvTransposePhase<Lanes, Rows, Columns, false>(
          p, shape, outputs, source, w, bias == nullptr ? nullptr : bias + group * p.out_channels,
          residual == nullptr ? nullptr : residual + i * group_out, panel, y + i * group_out);
    }
  }
  if (activate == nullptr) return;
  for (int32_t i = 0; i < p.batch * p.groups; ++i) {
    activate(p.out_channels, out_volume, out_volume, p.alpha, p.beta, y + i * group_out);
  }
}

template <int Lanes, int Rows, int Columns>
MEMPLAN_INLINE void ConvTransposeTapped(const ConvTransposeParams& p, const float* x,
                                        const float* weights, const float* bias,
                                        const float* residual, float* scratch, float* y) {
  ConvTransposeTappedLoops<Lanes, Rows, Columns>(p, ActivateFunctionOf(p.activation), x, weights,
                                                 bias, residual, scratch, y);
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

// The sum of tap products of one output of one group, by the definition.
// x: the group's input; weights: [in_channels][out_channels][taps] from the output channel on.
template <class T>
MEMPLAN_INLINE T TransposedSum(const ConvTransposeParams& p, const T* x, const T* weights,
                               int32_t pixel) {
  const ptrdiff_t in_volume = Volume(p.in_size);
  const int32_t taps = Volume(p.taps);
  const int32_t q[3] = {pixel / p.out_size[2] / p.out_size[1],
                        pixel / p.out_size[2] % p.out_size[1], pixel % p.out_size[2]};
  T sum = T(0);
  for (int32_t tap = 0; tap < taps; ++tap) {
    const int32_t t[3] = {tap / p.taps[2] / p.taps[1], tap / p.taps[2] % p.taps[1],
                          tap % p.taps[2]};
    ptrdiff_t offset = 0;
    bool inside = true;
    for (int i = 0; i < 3; ++i) {
      const int32_t scaled = q[i] + p.padding[i] - t[i] * p.dilation[i];
      const int32_t in_at = scaled / p.stride[i];
      inside = inside && scaled >= 0 && scaled % p.stride[i] == 0 && in_at < p.in_size[i];
      offset = offset * p.in_size[i] + in_at;
    }
    if (!inside) continue;
    for (int32_t c = 0; c < p.in_channels; ++c) {
      sum += x[c * in_volume + offset] *
             weights[static_cast<ptrdiff_t>(c) * p.out_channels * taps + tap];
    }
  }
  return sum;
}

// ConvTransposeGemm with ONNX's weights, [groups * in_channels][out_channels][taps], for any
// floating-point type, without scratch.
template <class T>
MEMPLAN_KERNEL void ConvTransposePlain(const ConvTransposeParams& p, const T* x, const T* weights,
                                       const T* bias, const T* residual, T* y) {
  const int32_t out_volume = Volume(p.out_size);
  const int32_t taps = Volume(p.taps);
  ptrdiff_t at = 0;
  for (int32_t image = 0; image < p.batch; ++image) {
    for (int32_t channel = 0; channel < p.groups * p.out_channels; ++channel) {
      const int32_t group = channel / p.out_channels;
      const T* in = x + (static_cast<ptrdiff_t>(image) * p.groups + group) * p.in_channels *
                            Volume(p.in_size);
      const T* w = weights + (static_cast<ptrdiff_t>(group) * p.in_channels * p.out_channels +
                              channel % p.out_channels) *
                                 taps;
      for (int32_t pixel = 0; pixel < out_volume; ++pixel, ++at) {
        T sum = TransposedSum(p, in, w, pixel);
        if (bias != nullptr) sum += bias[channel];
        if (residual != nullptr) sum += residual[at];
        if (p.clamps != 0) sum = Clip::Apply(sum, p.lowest, p.highest);
        y[at] = Activate(p.activation, sum, p.alpha, p.beta);
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_CONV_TRANSPOSE_H_
