// Gradients of pools, and the maximum pool that remembers for each window which tap won.
#ifndef MEMPLAN_KERNELS_POOL_GRADIENT_H_
#define MEMPLAN_KERNELS_POOL_GRADIENT_H_

#include "pool.h"

namespace kernels {

// y[i] takes in x[i * stride] for i in [low, high), and where it is larger, index[i] becomes tap.
template <class T, class Index>
MEMPLAN_INLINE void MaxRun(const T* x, int32_t stride, int32_t low, int32_t high, Index tap, T* y,
                           Index* index) {
  for (int32_t i = low; i < high; ++i) {
    const T value = x[static_cast<ptrdiff_t>(i) * stride];
    const bool larger = value > y[i];
    y[i] = larger ? value : y[i];
    index[i] = larger ? tap : index[i];
  }
}

// y = the maximum of each window; index = the number of the tap, in row-major order, of its first
// maximum.
template <class T, class Index>
MEMPLAN_KERNEL void MaxPoolIndexed(const PoolParams& p, const T* x, T* y, Index* index) {
  const ptrdiff_t in_volume = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * p.in_size[2];
  const int32_t width = p.out_size[2];
  for (int32_t plane = 0; plane < p.planes; ++plane, x += in_volume) {
    for (int32_t q = 0; q < p.out_size[0] * p.out_size[1]; ++q, y += width, index += width) {
      for (int32_t i = 0; i < width; ++i) {
        y[i] = Element<T>::kLowest;
        index[i] = Index(0);
      }
      for (int32_t tz = 0; tz < p.taps[0]; ++tz) {
        const int32_t iz = q / p.out_size[1] * p.stride[0] + tz * p.dilation[0] - p.padding[0];
        if (iz < 0 || iz >= p.in_size[0]) continue;
        for (int32_t ty = 0; ty < p.taps[1]; ++ty) {
          const int32_t iy = q % p.out_size[1] * p.stride[1] + ty * p.dilation[1] - p.padding[1];
          if (iy < 0 || iy >= p.in_size[1]) continue;
          const T* row = x + (static_cast<ptrdiff_t>(iz) * p.in_size[1] + iy) * p.in_size[2];
          for (int32_t tx = 0; tx < p.taps[2]; ++tx) {
            const int32_t start = tx * p.dilation[2] - p.padding[2];
            int32_t low;
            int32_t high;
            InsideRange(start, p.stride[2], p.in_size[2], width, &low, &high);
            if (low >= high) continue;
            const int32_t tap = (tz * p.taps[1] + ty) * p.taps[2] + tx;
            MaxRun(row + start + low * p.stride[2], p.stride[2], 0, high - low,
                   static_cast<Index>(tap), y + low, index + low);
          }
        }
      }
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
