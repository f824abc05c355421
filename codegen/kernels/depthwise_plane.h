// Depthwise convolution of small planes.
//
// As depthwise.h, but scratch holds the whole padded plane of one channel, so that copying it in
// and sweeping over it are two tight loops. Rows of outputs are short here: what they cost is what
// is done once for each row.
#ifndef MEMPLAN_KERNELS_DEPTHWISE_PLANE_H_
#define MEMPLAN_KERNELS_DEPTHWISE_PLANE_H_

#include "depthwise.h"

namespace kernels {

// The padded plane: [row phase][rows][column phase][row_floats], where a phase has every stride-th
// row (column).
struct PaddedPlane {
  int32_t rows;        // of one phase
  int32_t row_floats;  // of one phase of a row: what taps see, and room for whole vectors
  int32_t floats;      // of the plane, with what vectors read past its end
};

constexpr int32_t WholeVectors(int32_t count, int32_t lanes) {
  return (count + lanes - 1) / lanes * lanes;
}

// Where column i of the input is in its phase, i = phase, phase + stride, ...
constexpr int32_t PhaseColumn(const DepthwiseParams& p, int32_t phase) {
  return (phase + p.padding[1]) / p.stride[1];
}

constexpr PaddedPlane PaddedPlaneOf(const DepthwiseParams& p, int32_t lanes) {
  PaddedPlane plane = {};
  plane.rows = p.out_size[0] + (p.taps[0] - 1) * p.dilation[0] / p.stride[0];
  plane.row_floats = p.out_size[1] + (p.taps[1] - 1) * p.dilation[1] / p.stride[1];
  const int32_t columns = (p.in_size[1] + p.stride[1] - 1) / p.stride[1];
  const int32_t room = PhaseColumn(p, p.stride[1] - 1) + WholeVectors(columns, lanes);
  if (plane.row_floats < room) plane.row_floats = room;
  plane.floats = p.stride[0] * plane.rows * p.stride[1] * plane.row_floats + lanes;
  return plane;
}

constexpr int64_t DepthwisePlaneScratchBytes(const DepthwiseParams& p, int32_t lanes) {
  return int64_t{4} * PaddedPlaneOf(p, lanes).floats;
}

// The first `count` elements of x, then zeros, up to whole vectors. x_end: of readable memory.
template <int Width>
MEMPLAN_INLINE void CopyColumns(const float* x, const float* x_end, int32_t count, float* to) {
  using InArray = typename Vector<Width>::InArray;
  int32_t i = 0;
  for (; i + Width <= count; i += Width) {
    *reinterpret_cast<InArray*>(to + i) = *reinterpret_cast<const InArray*>(x + i);
  }
  if (i == count) return;
  if constexpr (Width > 1) {
    if (x_end - x >= i + Width) {
      *reinterpret_cast<InArray*>(to + i) = *reinterpret_cast<const InArray*>(x + i);
      KeepFirst<Width>(count - i, to + i);
      return;
    }
  }
  for (int j = 0; j < Width; ++j) to[i + j] = i + j < count ? x[i + j] : 0.0F;
}

// CopyColumns for every second element of x.
template <int Width>
MEMPLAN_INLINE void CopyEvenColumns(const float* x, const float* x_end, int32_t count, float* to) {
  int32_t i = 0;
  if constexpr (Width > 1 && kHasShuffles) {
    for (; i + Width <= count && x_end - x >= 2 * (i + Width); i += Width) {
      EvenLanes<Width>::Copy(x + static_cast<ptrdiff_t>(i) * 2, to + i);
    }
    if (i < count && x_end - x >= 2 * (i + Width)) {
      EvenLanes<Width>::Copy(x + static_cast<ptrdiff_t>(i) * 2, to + i);
      KeepFirst<Width>(count - i, to + i);
      return;
    }
  }
  for (; i < count; ++i) to[i] = x[static_cast<ptrdiff_t>(i) * 2];
}

// Copies a plane of the input into the padded one, whose padding stays as it is. Strides of columns
// are 1 or 2.
template <int Width>
MEMPLAN_INLINE void CopyIntoPlane(const DepthwiseParams& p, const PaddedPlane& plane,
                                  const float* x, const float* x_end, float* to) {
  int32_t phase = p.padding[0] % p.stride[0];
  int32_t row = p.padding[0] / p.stride[0];
  const int32_t odd = p.padding[1] % 2;  // the phase of column 0, if there are two
  for (int32_t iy = 0; iy < p.in_size[0]; ++iy, x += p.in_size[1], ++phase) {
    if (phase == p.stride[0]) {
      phase = 0;
      ++row;
    }
    if (row >= plane.rows) continue;
    float* at =
        to + static_cast<ptrdiff_t>(phase * plane.rows + row) * p.stride[1] * plane.row_floats;
    if (p.stride[1] == 1) {
      CopyColumns<Width>(x, x_end, p.in_size[1], at + p.padding[1]);
    } else {
      CopyEvenColumns<Width>(x, x_end, (p.in_size[1] + 1) / 2,
                             at + odd * plane.row_floats + p.padding[1] / 2);
      CopyEvenColumns<Width>(x + 1, x_end, p.in_size[1] / 2,
                             at + (1 - odd) * plane.row_floats + (p.padding[1] + 1) / 2);
    }
  }
}

// One plane of outputs from the padded plane.
template <int Lanes, int TapsY, int TapsX>
MEMPLAN_INLINE void SweepPlane(const DepthwiseParams& p, const PaddedPlane& plane,
                               const float* padded, const float* tap_weights, float bias,
                               const float* residual, float* y, const float* y_end) {
  constexpr int kWidth = VectorLanes(Lanes);
  constexpr int kVectors = Lanes / kWidth;
  using V = typename Vector<kWidth>::Type;
  using InArray = typename Vector<kWidth>::InArray;
  // Local copies: a store to y could change the weights, for all the compiler knows.
  V weights[TapsY * TapsX];
#pragma GCC unroll 25
  for (int i = 0; i < TapsY * TapsX; ++i) weights[i] = tap_weights[i] - V{};
  const ptrdiff_t row_floats = static_cast<ptrdiff_t>(p.stride[1]) * plane.row_floats;
  const float* rows[TapsY];
#pragma GCC unroll 5
  for (int t = 0; t < TapsY; ++t) {
    const int32_t row = t * p.dilation[0];
    rows[t] = padded + (row % p.stride[0] * plane.rows + row / p.stride[0]) * row_floats;
  }
  ptrdiff_t columns[TapsX];
#pragma GCC unroll 5
  for (int t = 0; t < TapsX; ++t) {
    const int32_t column = t * p.dilation[1];
    columns[t] = column % p.stride[1] * plane.row_floats + column / p.stride[1];
  }
  for (int32_t oy = 0; oy < p.out_size[0]; ++oy) {
    for (int32_t ox = 0; ox < p.out_size[1]; ox += Lanes) {
      V sums[1][kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[0][v] = bias - V{};
#pragma GCC unroll 5
      for (int ty = 0; ty < TapsY; ++ty) {
#pragma GCC unroll 5
        for (int tx = 0; tx < TapsX; ++tx) {
#pragma GCC unroll 16
          for (int v = 0; v < kVectors; ++v) {
            sums[0][v] += weights[ty * TapsX + tx] * *reinterpret_cast<const InArray*>(
                                                         rows[ty] + columns[tx] + ox + v * kWidth);
          }
        }
      }
      StoreOutputs<kWidth>(p, residual, y, y_end, ox, sums);
    }
#pragma GCC unroll 5
    for (int t = 0; t < TapsY; ++t) rows[t] += row_floats;
    y += p.out_size[1];
    if (residual != nullptr) residual += p.out_size[1];
  }
}

// All planes.
template <int Lanes, int TapsY, int TapsX>
MEMPLAN_SHARED_FUNCTION void DepthwisePlanes(const DepthwiseParams& p, ActivateFunction activate,
                                             const float* x, const float* weights,
                                             const float* bias, const float* residual,
                                             float* padded, float* y) {
  const PaddedPlane plane = PaddedPlaneOf(p, Lanes);
  const ptrdiff_t in_plane = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1];
  const int32_t out_plane = p.out_size[0] * p.out_size[1];
  const int32_t planes = p.batch * p.channels;
  const float* const x_end = x + planes * in_plane;
  const float* const y_end = y + static_cast<ptrdiff_t>(planes) * p.multiplier * out_plane;
  for (int32_t i = 0; i < plane.floats; ++i) padded[i] = 0;
  for (int32_t i = 0; i < planes; ++i, x += in_plane) {
    CopyIntoPlane<VectorLanes(Lanes)>(p, plane, x, x_end, padded);
    for (int32_t m = 0; m < p.multiplier; ++m) {
      const int32_t channel = i % p.channels * p.multiplier + m;
      SweepPlane<Lanes, TapsY, TapsX>(p, plane, padded,
                                      weights + static_cast<ptrdiff_t>(channel) * TapsY * TapsX,
                                      bias == nullptr ? 0.0F : bias[channel], residual, y, y_end);
      if (activate != nullptr) activate(1, out_plane, out_plane, p.alpha, p.beta, y);
      y += out_plane;
      if (residual != nullptr) residual += out_plane;
    }
  }
}

// Depthwise (see depthwise.h) with p.taps = {TapsY, TapsX} and p.stride[1] <= 2. padded:
// DepthwisePlaneScratchBytes.
template <int Lanes, int TapsY, int TapsX>
MEMPLAN_INLINE void DepthwisePlane(const DepthwiseParams& p, const float* x, const float* weights,
                                   const float* bias, const float* residual, float* padded,
                                   float* y) {
  DepthwisePlanes<Lanes, TapsY, TapsX>(p, ActivateFunctionOf(p.activation), x, weights, bias,
                                       residual, padded, y);
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_DEPTHWISE_PLANE_H_
