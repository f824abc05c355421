// Depthwise convolution: every output channel sees one input channel.
//
// The input rows that one output row sees are kept in scratch, padded with zeros and, for a stride,
// split by phase (every stride-th element together), so that each kernel tap is one contiguous
// vector: no bounds tests and no gathers in the inner loop. Each input row is copied once.
#ifndef MEMPLAN_KERNELS_DEPTHWISE_H_
#define MEMPLAN_KERNELS_DEPTHWISE_H_

#include "conv.h"
#include "gemm_tile.h"

namespace kernels {

// Arrays are height, width.
struct DepthwiseParams {
  int32_t batch;
  int32_t channels;    // of the input
  int32_t multiplier;  // output channels for each of them
  int32_t in_size[2];
  int32_t out_size[2];
  int32_t taps[2];
  int32_t stride[2];
  int32_t dilation[2];
  int32_t padding[2];  // before the first element
  int32_t clamps;      // 1: the result is brought into [lowest, highest]
  int32_t activation;  // an ActivationKind, applied after that
  float lowest;
  float highest;
  float alpha;  // of the activation
  float beta;
};
MEMPLAN_FIELDS(DepthwiseParams, batch, channels, multiplier, in_size, out_size, taps, stride,
               dilation, padding, clamps, activation, lowest, highest, alpha, beta);

// Floats of one phase of a padded row: what whole vectors of outputs read.
constexpr int32_t DepthwisePhaseFloats(const DepthwiseParams& p, int32_t lanes) {
  return (p.out_size[1] + lanes - 1) / lanes * lanes +
         (p.taps[1] - 1) * p.dilation[1] / p.stride[1];
}

// Input rows between the first and the last tap.
constexpr int32_t DepthwiseRows(const DepthwiseParams& p) {
  return (p.taps[0] - 1) * p.dilation[0] + 1;
}

constexpr int64_t DepthwiseScratchBytes(const DepthwiseParams& p, int32_t lanes) {
  return int64_t{4} * DepthwiseRows(p) * p.stride[1] * DepthwisePhaseFloats(p, lanes);
}

// Copies input row iy (outside the input: zeros) to `to`, [stride][phase_floats].
template <int Lanes>
MEMPLAN_INLINE void CopyPaddedRow(const DepthwiseParams& p, const float* x, int32_t iy,
                                  int32_t phase_floats, float* to) {
  const bool inside = iy >= 0 && iy < p.in_size[0];
  const int32_t stride = p.stride[1];
  for (int32_t phase = 0; phase < stride; ++phase) {
    const int32_t start = phase - p.padding[1];
    int32_t low = phase_floats;
    int32_t high = phase_floats;
    if (inside) InsideRange(start, stride, p.in_size[1], phase_floats, &low, &high);
    const ptrdiff_t at = low < high ? static_cast<ptrdiff_t>(iy) * p.in_size[1] + start : 0;
    CopyRun<VectorLanes(Lanes)>(x + at, stride, low, high, phase_floats, to);
    to += phase_floats;
  }
}

// Where the taps of one output row find their input.
struct DepthwiseTaps {
  const float* weights;  // [taps]
  const float* rows;     // the ring of padded rows
  int32_t first_row;     // slot of the row of the first tap
  int32_t row_slots;
  int32_t row_floats;    // of one slot
  int32_t phase_floats;  // of one phase in it
};

// sums += the taps' products for the outputs from ox on. Any kernel size.
template <int Width, int Vectors, class V>
MEMPLAN_INLINE void AddTaps(const DepthwiseParams& p, const DepthwiseTaps& taps, int32_t ox,
                            V (&sums)[1][Vectors]) {
  using InArray = typename Vector<Width>::InArray;
  const float* weight = taps.weights;
  int32_t slot = taps.first_row;
  for (int32_t ty = 0; ty < p.taps[0]; ++ty) {
    const float* at = taps.rows + static_cast<ptrdiff_t>(slot) * taps.row_floats + ox;
    int32_t phase = 0;
    for (int32_t tx = 0; tx < p.taps[1]; ++tx, ++weight) {
      const float* from = at + static_cast<ptrdiff_t>(phase) * taps.phase_floats;
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) {
        sums[0][v] += *weight * *reinterpret_cast<const InArray*>(from + v * Width);
      }
      for (phase += p.dilation[1]; phase >= p.stride[1]; phase -= p.stride[1]) ++at;
    }
    slot += p.dilation[0];
    if (slot >= taps.row_slots) slot -= taps.row_slots;
  }
}

// Writes the outputs of one row from ox on. y_end: the end of the memory that may be written past
// this row, because it is written later.
template <int Width, int Vectors, class V>
MEMPLAN_INLINE void StoreOutputs(const DepthwiseParams& p, const float* residual, float* y,
                                 const float* y_end, int32_t ox, V (&sums)[1][Vectors]) {
  constexpr int kLanes = Width * Vectors;
  const bool whole = ox + kLanes <= p.out_size[1];
  if (whole && residual != nullptr) AddMatrix<Width>(sums, residual + ox, 0);
  if (p.clamps != 0 && (whole || residual == nullptr)) ClampSums(sums, p.lowest, p.highest);
  if (whole || (residual == nullptr && y_end - y >= ox + kLanes)) {
    StoreSums<Width>(sums, y + ox, 0);
    return;
  }
  float part[kLanes];
  StoreSums<Width>(sums, part, 0);
  for (int32_t i = 0; i < p.out_size[1] - ox; ++i) {
    float value = part[i];
    if (residual != nullptr) {
      value += residual[ox + i];
      if (p.clamps != 0) value = Clip::Apply(value, p.lowest, p.highest);
    }
    y[ox + i] = value;
  }
}

// One row of outputs.
template <int Lanes, int TapsY, int TapsX>
MEMPLAN_INLINE void DepthwiseRow(const DepthwiseParams& p, const DepthwiseTaps& taps, float bias,
                                 const float* residual, float* y, const float* y_end) {
  constexpr int kWidth = VectorLanes(Lanes);
  constexpr int kVectors = Lanes / kWidth;
  constexpr int kTapsY = TapsY > 0 ? TapsY : 1;
  constexpr int kTapsX = TapsX > 0 ? TapsX : 1;
  using V = typename Vector<kWidth>::Type;
  using InArray = typename Vector<kWidth>::InArray;
  // Local copies: a store to y could change the weights, for all the compiler knows.
  V weights[kTapsY * kTapsX];
  const float* at[kTapsY * kTapsX];
  if constexpr (TapsY > 0) {
#pragma GCC unroll 5
    for (int ty = 0; ty < TapsY; ++ty) {
      const int32_t slot = (taps.first_row + ty * p.dilation[0]) % taps.row_slots;
      const float* row = taps.rows + static_cast<ptrdiff_t>(slot) * taps.row_floats;
      int32_t phase = 0;
#pragma GCC unroll 5
      for (int tx = 0; tx < TapsX; ++tx) {
        weights[ty * TapsX + tx] = taps.weights[ty * TapsX + tx] - V{};
        at[ty * TapsX + tx] = row + static_cast<ptrdiff_t>(phase) * taps.phase_floats;
        for (phase += p.dilation[1]; phase >= p.stride[1]; phase -= p.stride[1]) ++row;
      }
    }
  }
  for (int32_t ox = 0; ox < p.out_size[1]; ox += Lanes) {
    V sums[1][kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[0][v] = bias - V{};
    if constexpr (TapsY > 0) {
#pragma GCC unroll 25
      for (int i = 0; i < TapsY * TapsX; ++i) {
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
          sums[0][v] += weights[i] * *reinterpret_cast<const InArray*>(at[i] + ox + v * kWidth);
        }
      }
    } else {
      AddTaps<kWidth>(p, taps, ox, sums);
    }
    StoreOutputs<kWidth>(p, residual, y, y_end, ox, sums);
  }
}

// All output channels of one input channel; arguments as for Depthwise, from that channel on.
template <int Lanes, int TapsY, int TapsX>
MEMPLAN_SHARED_FUNCTION void DepthwiseChannel(const DepthwiseParams& p, const float* x,
                                              const float* weights, const float* bias,
                                              const float* residual, float* rows, float* y,
                                              const float* y_end) {
  const ptrdiff_t plane = static_cast<ptrdiff_t>(p.out_size[0]) * p.out_size[1];
  DepthwiseTaps taps = {};
  taps.rows = rows;
  taps.row_slots = DepthwiseRows(p);
  taps.phase_floats = DepthwisePhaseFloats(p, Lanes);
  taps.row_floats = p.stride[1] * taps.phase_floats;
  // Padded rows [0, copied) are in the ring, row r in slot r % row_slots, but for overwritten ones.
  int32_t copied = 0;
  for (int32_t oy = 0; oy < p.out_size[0]; ++oy) {
    const int32_t first = oy * p.stride[0];
    if (copied < first) copied = first;
    for (; copied < first + taps.row_slots; ++copied) {
      CopyPaddedRow<Lanes>(
          p, x, copied - p.padding[0], taps.phase_floats,
          rows + static_cast<ptrdiff_t>(copied % taps.row_slots) * taps.row_floats);
    }
    taps.first_row = first % taps.row_slots;
    for (int32_t m = 0; m < p.multiplier; ++m) {
      const ptrdiff_t at = m * plane + static_cast<ptrdiff_t>(oy) * p.out_size[1];
      taps.weights = weights + static_cast<ptrdiff_t>(m) * p.taps[0] * p.taps[1];
      // Only with one output channel do rows come in the order of memory.
      const float* end = p.multiplier == 1 ? y_end : y + at + p.out_size[1];
      DepthwiseRow<Lanes, TapsY, TapsX>(p, taps, bias == nullptr ? 0.0F : bias[m],
                                        residual == nullptr ? nullptr : residual + at, y + at, end);
    }
  }
}

// y = activation(depthwise convolution(x, weights) + bias + residual).
// x: [batch][channels][in_size]; weights: [channels * multiplier][taps]; bias: nullptr or one for
// each output channel; y and residual (nullptr: none; may be y): [batch][channels * multiplier]
// [out_size]. rows: DepthwiseScratchBytes. TapsY, TapsX: p.taps, or 0 for any.
template <int Lanes, int TapsY, int TapsX>
MEMPLAN_INLINE void Depthwise(const DepthwiseParams& p, const float* x, const float* weights,
                              const float* bias, const float* residual, float* rows, float* y) {
  const ptrdiff_t in_plane = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1];
  const ptrdiff_t out_plane = static_cast<ptrdiff_t>(p.out_size[0]) * p.out_size[1];
  const ActivateFunction activate = ActivateFunctionOf(p.activation);
  const float* const y_end = y + p.batch * p.channels * p.multiplier * out_plane;
  for (int32_t image = 0; image < p.batch; ++image) {
    for (int32_t c = 0; c < p.channels; ++c) {
      const int32_t out_channel = c * p.multiplier;
      DepthwiseChannel<Lanes, TapsY, TapsX>(
          p, x, weights + static_cast<ptrdiff_t>(out_channel) * p.taps[0] * p.taps[1],
          bias == nullptr ? nullptr : bias + out_channel, residual, rows, y, y_end);
      if (activate != nullptr) {
        activate(p.multiplier, static_cast<int32_t>(out_plane), out_plane, p.alpha, p.beta, y);
      }
      x += in_plane;
      y += p.multiplier * out_plane;
      if (residual != nullptr) residual += p.multiplier * out_plane;
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_DEPTHWISE_H_
