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
  int32_t tiles;           // tiles of pixels that are packed at once (ConvTransposeTapped)
  int32_t clamps;          // 1: the result is brought into [lowest, highest]
  int32_t activation;      // an ActivationKind, applied after that
  float lowest;
  float highest;
  float alpha;  // of the activation
  float beta;
};
MEMPLAN_FIELDS(ConvTransposeParams, batch, groups, in_channels, out_channels, in_size, out_size,
               taps, stride, dilation, padding, block_channels, tiles, clamps, activation, lowest,
               highest, alpha, beta);

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

// The outputs of one phase: from where the first lies, and how far apart they are by axis.
struct PhaseOutputs {
  int32_t first;
  int32_t step[3];
};

// Whether the outputs of a phase lie as its pixels are counted.
MEMPLAN_INLINE bool IsWhole(const ConvTransposeParams& p) {
  return p.stride[0] == 1 && p.stride[1] == 1 && p.stride[2] == 1;
}

// One phase of one group of one image, whose first channel is at x. weights: [ceil(out_channels /
// Rows)][in_channels * taps of the phase][Rows].
template <int Lanes, int Rows, int Columns>
MEMPLAN_SHARED_FUNCTION void ConvTransposePhase(const ConvTransposeParams& p,
                                                const PanelShape& shape,
                                                const PhaseOutputs& outputs, PanelSource x,
                                                const float* weights, const float* bias,
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
  t.column_offsets = IsWhole(p) ? nullptr : offsets;
  t.alpha = 1;
  t.beta = 1;
  t.lowest = p.lowest;
  t.highest = p.highest;
  for (int32_t pixel = 0; pixel < pixels; pixel += kPixels) {
    const int32_t count = pixels - pixel < kPixels ? pixels - pixel : kPixels;
    t.column_end = count;
    const int32_t start = IsWhole(p) ? pixel : 0;
    t.c = y + start;
    for (int32_t i = 0; i < count && !IsWhole(p); ++i) {
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
      t.residual = c > 0 ? t.c : residual == nullptr ? nullptr : residual + start;
      t.clamps = p.clamps != 0 && c + channels == p.in_channels;
      t.depth = channels * taps;
      t.a = weights + static_cast<ptrdiff_t>(c) * taps * Rows;
      GemmPanel<Lanes, Rows, Columns, true>(p.out_channels,
                                            static_cast<ptrdiff_t>(p.in_channels) * taps * Rows, t);
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
        ConvTransposePhase<Lanes, Rows, Columns>(
            p, shape, outputs, x, weights + group * group_floats, bias, residual, panel, y);
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
