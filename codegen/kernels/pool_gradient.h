// Gradients of pools, and the maximum pool that remembers for each window which tap won.
#ifndef MEMPLAN_KERNELS_POOL_GRADIENT_H_
#define MEMPLAN_KERNELS_POOL_GRADIENT_H_

#include "pool.h"

namespace kernels {

// Width neighbouring outputs whose windows have all their columns inside the input: the best
// elements so far and their taps.
template <int Width>
struct BestTaps {
  using V = typename Vector<Width>::Type;
  using Ints = typename Vector<Width>::Ints;
  V best;
  Ints taps;

  // Takes in tap `tap` of each, at x[i * stride]; reads whole vectors from there.
  inline __attribute__((always_inline)) void Take(const float* x, int32_t stride, int32_t tap) {
    using InArray = typename Vector<Width>::InArray;
    float values[Width];
    if (stride == 1) {
      *reinterpret_cast<InArray*>(values) = *reinterpret_cast<const InArray*>(x);
    } else {
      if constexpr (kHasShuffles) {
        EvenLanes<Width>::Copy(x, values);
      } else {
        for (int i = 0; i < Width; ++i) values[i] = x[2 * i];
      }
    }
    const V value = *reinterpret_cast<const InArray*>(values);
    const Ints larger = value > best;
    best = larger ? value : best;
    taps = larger ? Ints{} + tap : taps;
  }
};

// The maximum of one window and its tap, in row-major order; of equal ones, the first.
template <class T, class Index>
MEMPLAN_INLINE void MaxOfWindow(const PoolParams& p, const T* x, int32_t qz, int32_t qy, int32_t qx,
                                T* y, Index* index) {
  T best = Element<T>::kLowest;
  int32_t best_tap = 0;
  const int32_t start = qx * p.stride[2] - p.padding[2];
  int32_t tap = 0;
  for (int32_t tz = 0; tz < p.taps[0]; ++tz) {
    const int32_t iz = qz * p.stride[0] + tz * p.dilation[0] - p.padding[0];
    for (int32_t ty = 0; ty < p.taps[1]; ++ty, tap += p.taps[2]) {
      const int32_t iy = qy * p.stride[1] + ty * p.dilation[1] - p.padding[1];
      if (iz < 0 || iz >= p.in_size[0] || iy < 0 || iy >= p.in_size[1]) continue;
      const T* row = x + (static_cast<ptrdiff_t>(iz) * p.in_size[1] + iy) * p.in_size[2];
      for (int32_t tx = 0; tx < p.taps[2]; ++tx) {
        const int32_t ix = start + tx * p.dilation[2];
        if (ix < 0 || ix >= p.in_size[2] || !(row[ix] > best)) continue;
        best = row[ix];
        best_tap = tap + tx;
      }
    }
  }
  *y = best;
  *index = static_cast<Index>(best_tap);
}

// MaxOfWindow of outputs qx, ..., qx + Width - 1 of a row, none of which leaves the input sideways.
template <int Width, class Index>
MEMPLAN_INLINE void MaxOfWindows(const PoolParams& p, const float* x, int32_t qz, int32_t qy,
                                 int32_t qx, float* y, Index* index) {
  BestTaps<Width> best;
  best.best = typename BestTaps<Width>::V{} + Element<float>::kLowest;
  best.taps = typename BestTaps<Width>::Ints{};
  for (int32_t tz = 0; tz < p.taps[0]; ++tz) {
    const int32_t iz = qz * p.stride[0] + tz * p.dilation[0] - p.padding[0];
    if (iz < 0 || iz >= p.in_size[0]) continue;
    for (int32_t ty = 0; ty < p.taps[1]; ++ty) {
      const int32_t iy = qy * p.stride[1] + ty * p.dilation[1] - p.padding[1];
      if (iy < 0 || iy >= p.in_size[1]) continue;
      const float* row = x + (static_cast<ptrdiff_t>(iz) * p.in_size[1] + iy) * p.in_size[2] +
                         (qx * p.stride[2] - p.padding[2]);
      for (int32_t tx = 0; tx < p.taps[2]; ++tx) {
        best.Take(row + tx * p.dilation[2], p.stride[2], (tz * p.taps[1] + ty) * p.taps[2] + tx);
      }
    }
  }
  *reinterpret_cast<typename Vector<Width>::InArray*>(y + qx) = best.best;
  int32_t taps[Width];
  *reinterpret_cast<typename Vector<Width>::IntsInArray*>(taps) = best.taps;
  for (int i = 0; i < Width; ++i) index[qx + i] = static_cast<Index>(taps[i]);
}

// The last input row along `axis` that a window of output q may see.
MEMPLAN_INLINE int32_t LastSeen(const PoolParams& p, int axis, int32_t q) {
  const int32_t at = q * p.stride[axis] + (p.taps[axis] - 1) * p.dilation[axis] - p.padding[axis];
  return at < p.in_size[axis] ? at : p.in_size[axis] - 1;
}

// One row of outputs. `readable`: elements from x to the end of all planes.
template <int Width, class T, class Index>
MEMPLAN_SHARED_FUNCTION void MaxRow(const PoolParams& p, const T* x, ptrdiff_t readable, int32_t qz,
                                    int32_t qy, T* y, Index* index) {
  const int32_t width = p.out_size[2];
  int32_t qx = 0;
  if constexpr (Width > 1) {
    // Whole vectors of windows that lie inside the row. Those of stride 2 also read the element
    // behind the last that they need, which may be anything.
    const int32_t last_tap = (p.taps[2] - 1) * p.dilation[2] - p.padding[2];
    const ptrdiff_t last_row =
        LastSeen(p, 0, qz) * static_cast<ptrdiff_t>(p.in_size[1]) + LastSeen(p, 1, qy);
    const ptrdiff_t room = readable - last_row * p.in_size[2];
    const auto fits = [&p, last_tap, room, width](int32_t q) {
      const int32_t last = (q + Width - 1) * p.stride[2] + last_tap;
      return q + Width <= width && last < p.in_size[2] && last + p.stride[2] - 1 < room;
    };
    if (p.stride[2] <= 2) {
      const int32_t begin = (p.padding[2] + p.stride[2] - 1) / p.stride[2];
      for (; qx < begin && qx < width; ++qx) {
        MaxOfWindow(p, x, qz, qy, qx, y + qx, index + qx);
      }
      for (; fits(qx); qx += Width) MaxOfWindows<Width>(p, x, qz, qy, qx, y, index);
      // What is left of a row, together with some that are done already.
      if (qx > begin && qx < width && width - Width >= begin && fits(width - Width)) {
        MaxOfWindows<Width>(p, x, qz, qy, width - Width, y, index);
        qx = width;
      }
    }
  }
  for (; qx < width; ++qx) MaxOfWindow(p, x, qz, qy, qx, y + qx, index + qx);
}

// y = the maximum of each window; index = the number of the tap, in row-major order, of its first
// maximum. Lanes: for float; 1 for double.
template <class T, class Index, int Lanes>
MEMPLAN_KERNEL void MaxPoolIndexed(const PoolParams& p, const T* x, T* y, Index* index) {
  const ptrdiff_t in_volume = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * p.in_size[2];
  const int32_t width = p.out_size[2];
  for (int32_t plane = 0; plane < p.planes; ++plane, x += in_volume) {
    const ptrdiff_t readable = (p.planes - plane) * in_volume;
    for (int32_t q = 0; q < p.out_size[0] * p.out_size[1]; ++q, y += width, index += width) {
      MaxRow<VectorLanes(Lanes)>(p, x, readable, q / p.out_size[1], q % p.out_size[1], y, index);
    }
  }
}

// dx = dy where each window's maximum was, added where windows overlap.
template <class T, class Index>
MEMPLAN_KERNEL void MaxPoolIndexedGrad(const PoolParams& p, const T* dy, const Index* index,
                                       T* dx) {
  const int32_t in_volume = p.in_size[0] * p.in_size[1] * p.in_size[2];
  for (int32_t plane = 0; plane < p.planes; ++plane, dx += in_volume) {
    for (int32_t i = 0; i < in_volume; ++i) dx[i] = T(0);
    for (int32_t qz = 0; qz < p.out_size[0]; ++qz) {
      const int32_t z = qz * p.stride[0] - p.padding[0];
      for (int32_t qy = 0; qy < p.out_size[1]; ++qy) {
        const int32_t y = qy * p.stride[1] - p.padding[1];
        for (int32_t qx = 0; qx < p.out_size[2]; ++qx, ++dy, ++index) {
          const auto tap = static_cast<int32_t>(*index);
          const int32_t iz = z + tap / p.taps[2] / p.taps[1] * p.dilation[0];
          const int32_t iy = y + tap / p.taps[2] % p.taps[1] * p.dilation[1];
          const int32_t ix = qx * p.stride[2] - p.padding[2] + tap % p.taps[2] * p.dilation[2];
          // A window of nothing but negative infinities has no maximum.
          const bool inside = iz >= 0 && iz < p.in_size[0] && iy >= 0 && iy < p.in_size[1] &&
                              ix >= 0 && ix < p.in_size[2];
          if (inside) dx[(iz * p.in_size[1] + iy) * p.in_size[2] + ix] += *dy;
        }
      }
    }
  }
}

// dx = each window's dy over the number of elements that its average counted, added up.
template <class T>
MEMPLAN_KERNEL void AveragePoolGrad(const PoolParams& p, const T* dy, T* dx) {
  const int32_t in_volume = p.in_size[0] * p.in_size[1] * p.in_size[2];
  for (int32_t plane = 0; plane < p.planes; ++plane, dx += in_volume) {
    for (int32_t i = 0; i < in_volume; ++i) dx[i] = T(0);
    for (int32_t qz = 0; qz < p.out_size[0]; ++qz) {
      for (int32_t qy = 0; qy < p.out_size[1]; ++qy) {
        const int32_t rows = CountedTaps(p, 0, qz) * CountedTaps(p, 1, qy);
        for (int32_t qx = 0; qx < p.out_size[2]; ++qx) {
          const T share = *dy++ / static_cast<T>(rows * CountedTaps(p, 2, qx));
          VisitWindow(p, qz, qy, qx,
                      [&](ptrdiff_t at, int32_t, int32_t, int32_t) { dx[at] += share; });
        }
      }
    }
  }
}

// The derivative of an Lp norm y by its element x; 0 where the norm is 0.
template <class T>
MEMPLAN_INLINE T NormSlope(T x, T y, int32_t norm) {
  if (y == T(0)) return T(0);
  const T sign = x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0);
  if (norm == 1) return sign;
  if (norm == 2) return x / y;
  return sign * std::pow(std::fabs(x) / y, static_cast<T>(norm - 1));
}

// dx of LpPool from its input and its output.
template <class T>
MEMPLAN_KERNEL void LpPoolGrad(const PoolParams& p, const T* dy, const T* x, const T* y, T* dx) {
  const int32_t in_volume = p.in_size[0] * p.in_size[1] * p.in_size[2];
  for (int32_t plane = 0; plane < p.planes; ++plane, dx += in_volume, x += in_volume) {
    for (int32_t i = 0; i < in_volume; ++i) dx[i] = T(0);
    for (int32_t qz = 0; qz < p.out_size[0]; ++qz) {
      for (int32_t qy = 0; qy < p.out_size[1]; ++qy) {
        for (int32_t qx = 0; qx < p.out_size[2]; ++qx, ++dy, ++y) {
          VisitWindow(p, qz, qy, qx, [&](ptrdiff_t at, int32_t, int32_t, int32_t) {
            dx[at] += *dy * NormSlope(x[at], *y, p.norm);
          });
        }
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_POOL_GRADIENT_H_
