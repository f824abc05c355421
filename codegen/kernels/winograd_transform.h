// The transforms of Winograd convolutions F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3).
//
// Y = A^T [ (G g G^T) . (B^T d B) ] A gives the Tile x Tile outputs Y of a patch d of Tile + 2
// squared and taps g: polynomial products through values at Tile + 1 points and infinity (Toom and
// Cook). Points decide the rounding error. Tile 2 uses 0, 1 and -1; its transforms only add. For
// Tile 4, the usual 0, +-1, +-2 lose digits; 0, +-5/8, +-3/2 have the least error of the symmetric
// points with few binary digits, and all constants of the transforms are exact in float. Root mean
// square error against double, relative to that of the direct sum in float, inputs normal (after
// Relu), weights normal: 0.6 to 0.8 for Tile 2, 1.7 to 2.3 for Tile 4 (3.7 to 5.4 with +-1, +-2).
//
// G, which transforms the taps, is only needed while generating: see ops/winograd_weights.h.
#ifndef MEMPLAN_KERNELS_WINOGRAD_TRANSFORM_H_
#define MEMPLAN_KERNELS_WINOGRAD_TRANSFORM_H_

#include "blocked.h"
#include "vector.h"

namespace kernels {

// The interpolation points of Tile 4 beside 0 and infinity: +-kWinogradNear, +-kWinogradFar.
constexpr float kWinogradNear = 0.625F;
constexpr float kWinogradFar = 1.5F;

template <int Tile>
struct Winograd1d;

template <>
struct Winograd1d<2> {
  // v = B^T d.
  template <class V>
  static inline __attribute__((always_inline)) void Input(const V (&d)[4], V (&v)[4]) {
    v[0] = d[2] - d[0];
    v[1] = d[2] + d[1];
    v[2] = d[2] - d[1];
    v[3] = d[3] - d[1];
  }
  // y = A^T m.
  template <class V>
  static inline __attribute__((always_inline)) void Output(const V (&m)[4], V (&y)[2]) {
    y[0] = m[0] + (m[1] + m[2]);
    y[1] = (m[1] - m[2]) + m[3];
  }
};

template <>
struct Winograd1d<4> {
  static constexpr float kNear2 = kWinogradNear * kWinogradNear;
  static constexpr float kFar2 = kWinogradFar * kWinogradFar;

  template <class V>
  static inline __attribute__((always_inline)) void Input(const V (&d)[6], V (&v)[6]) {
    const V near_even = d[4] - kFar2 * d[2];
    const V near_odd = d[3] - kFar2 * d[1];
    const V far_even = d[4] - kNear2 * d[2];
    const V far_odd = d[3] - kNear2 * d[1];
    v[0] = (d[4] - (kNear2 + kFar2) * d[2]) + (kNear2 * kFar2) * d[0];
    v[1] = near_even + kWinogradNear * near_odd;
    v[2] = near_even - kWinogradNear * near_odd;
    v[3] = far_even + kWinogradFar * far_odd;
    v[4] = far_even - kWinogradFar * far_odd;
    v[5] = (d[5] - (kNear2 + kFar2) * d[3]) + (kNear2 * kFar2) * d[1];
  }
  template <class V>
  static inline __attribute__((always_inline)) void Output(const V (&m)[6], V (&y)[4]) {
    const V near_sum = m[1] + m[2];
    const V near_difference = m[1] - m[2];
    const V far_sum = m[3] + m[4];
    const V far_difference = m[3] - m[4];
    y[0] = m[0] + (near_sum + far_sum);
    y[1] = kWinogradNear * near_difference + kWinogradFar * far_difference;
    y[2] = kNear2 * near_sum + kFar2 * far_sum;
    y[3] = (kNear2 * kWinogradNear) * near_difference +
           ((kFar2 * kWinogradFar) * far_difference + m[5]);
  }
};

// Writes B^T d B of one patch and block of channels. from: [Tile + 2] rows `row_floats` apart, of
// pixels of 8 channels; to: places `place_floats` apart.
template <int Tile>
MEMPLAN_INLINE void TransformPatch(const float* from, ptrdiff_t row_floats, float* to,
                                   ptrdiff_t place_floats) {
  constexpr int kPoints = Tile + 2;
  using V = Vector<kChannelBlock>::Type;
  using InArray = Vector<kChannelBlock>::InArray;
  V half[kPoints][kPoints];
#pragma GCC unroll 6
  for (int j = 0; j < kPoints; ++j) {
    V d[kPoints];
    V v[kPoints];
#pragma GCC unroll 6
    for (int i = 0; i < kPoints; ++i) {
      d[i] = *reinterpret_cast<const InArray*>(from + i * row_floats + j * kChannelBlock);
    }
    Winograd1d<Tile>::Input(d, v);
#pragma GCC unroll 6
    for (int i = 0; i < kPoints; ++i) half[i][j] = v[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < kPoints; ++i) {
    V v[kPoints];
    Winograd1d<Tile>::Input(half[i], v);
#pragma GCC unroll 6
    for (int j = 0; j < kPoints; ++j) {
      *reinterpret_cast<InArray*>(to + (i * kPoints + j) * place_floats) = v[j];
    }
  }
}

// What happens to a tile of outputs of one block of channels.
struct WinogradEpilogue {
  float bias[kChannelBlock];
  const float* residual;  // at the tile's first pixel; nullptr: none
  ptrdiff_t row_floats;   // of y and residual
  int32_t rows;           // the part of the tile that is in the image
  int32_t columns;
  bool clamps;  // into [lowest, highest]
  float lowest;
  float highest;
};

// Writes A^T m A + bias + residual, clamped, to the tile at y. m: places `place_floats` apart.
template <int Tile>
MEMPLAN_INLINE void TransformProduct(const float* m, ptrdiff_t place_floats,
                                     const WinogradEpilogue& e, float* y) {
  constexpr int kPoints = Tile + 2;
  using V = Vector<kChannelBlock>::Type;
  using InArray = Vector<kChannelBlock>::InArray;
  V half[Tile][kPoints];
#pragma GCC unroll 6
  for (int j = 0; j < kPoints; ++j) {
    V column[kPoints];
    V sums[Tile];
#pragma GCC unroll 6
    for (int i = 0; i < kPoints; ++i) {
      column[i] = *reinterpret_cast<const InArray*>(m + (i * kPoints + j) * place_floats);
    }
    Winograd1d<Tile>::Output(column, sums);
#pragma GCC unroll 4
    for (int i = 0; i < Tile; ++i) half[i][j] = sums[i];
  }
  const V bias = *reinterpret_cast<const InArray*>(e.bias);
  const V lowest = e.lowest - V{};
  const V highest = e.highest - V{};
#pragma GCC unroll 4
  for (int i = 0; i < Tile; ++i) {
    if (i >= e.rows) break;
    V row[Tile];
    Winograd1d<Tile>::Output(half[i], row);
    const ptrdiff_t at = i * e.row_floats;
#pragma GCC unroll 4
    for (int j = 0; j < Tile; ++j) {
      if (j >= e.columns) break;
      V value = row[j] + bias;
      if (e.residual != nullptr) {
        value += *reinterpret_cast<const InArray*>(e.residual + at + j * kChannelBlock);
      }
      if (e.clamps) {
        const V above = value < lowest ? lowest : value;
        value = above > highest ? highest : above;
      }
      *reinterpret_cast<InArray*>(y + at + j * kChannelBlock) = value;
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_WINOGRAD_TRANSFORM_H_
