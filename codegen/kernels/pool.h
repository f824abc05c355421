// Pooling over windows.
//
// A row of outputs is its own accumulator: for each kernel tap, the outputs whose window has that
// tap inside the input take its elements in, which for stride 1 or 2 are whole vectors. Padding
// costs no tests in the inner loop, and there is no scratch.
#ifndef MEMPLAN_KERNELS_POOL_H_
#define MEMPLAN_KERNELS_POOL_H_

#include "element.h"
#include "vector.h"

namespace kernels {

// Arrays are depth, height, width; missing axes have size 1, stride 1, one tap.
struct PoolParams {
  int32_t planes;  // batch * channels
  int32_t in_size[3];
  int32_t out_size[3];
  int32_t taps[3];
  int32_t stride[3];
  int32_t dilation[3];
  int32_t padding[3];        // before the first element
  int32_t padding_after[3];  // behind the last one: counted by counts_padding
  int32_t counts_padding;    // 1: an average counts the padding (as zeros)
  int32_t column_major;      // 1: indices count the last axis slowest
  int32_t norm;              // p of an Lp norm
};
MEMPLAN_FIELDS(PoolParams, planes, in_size, out_size, taps, stride, dilation, padding,
               padding_after, counts_padding, column_major, norm);

// What a pool does with elements: Init, then Add for each, then Finish.
struct PoolMax {
  static constexpr bool kAverages = false;
  template <class T>
  static constexpr T Init() {
    return Element<T>::kLowest;
  }
  // Also on vectors.
  template <class V>
  static inline __attribute__((always_inline)) void Add(V& sum, const V& x) {
    sum = x > sum ? x : sum;
  }
};
struct PoolSum {
  static constexpr bool kAverages = true;
  template <class T>
  static constexpr T Init() {
    return T(0);
  }
  template <class V>
  static inline __attribute__((always_inline)) void Add(V& sum, const V& x) {
    sum += x;
  }
};

// y[i] takes in x[i * stride] for i in [low, high).
template <int Width, class Pool, class T>
MEMPLAN_INLINE void PoolRun(const T* x, int32_t stride, int32_t low, int32_t high, T* y) {
  int32_t i = low;
  if constexpr (Width > 1) {
    using V = typename Vector<Width>::Type;
    using InArray = typename Vector<Width>::InArray;
    for (; stride == 1 && i + Width <= high; i += Width) {
      V sum = *reinterpret_cast<const InArray*>(y + i);
      const V more = *reinterpret_cast<const InArray*>(x + i);
      Pool::Add(sum, more);
      *reinterpret_cast<InArray*>(y + i) = sum;
    }
    if constexpr (kHasShuffles) {
      // Not up to the last element: the vectors also read what follows each element.
      for (; stride == 2 && i + Width < high; i += Width) {
        float even[Width];
        EvenLanes<Width>::Copy(x + static_cast<ptrdiff_t>(i) * 2, even);
        V sum = *reinterpret_cast<const InArray*>(y + i);
        const V more = *reinterpret_cast<const InArray*>(even);
        Pool::Add(sum, more);
        *reinterpret_cast<InArray*>(y + i) = sum;
      }
    }
  }
  for (; i < high; ++i) Pool::Add(y[i], x[static_cast<ptrdiff_t>(i) * stride]);
}

// One row of outputs, at (qz, qy), of one plane x.
template <int Width, class Pool, class T>
MEMPLAN_SHARED_FUNCTION void PoolRow(const PoolParams& p, const T* x, int32_t qz, int32_t qy,
                                     T* y) {
  const int32_t width = p.out_size[2];
  for (int32_t i = 0; i < width; ++i) y[i] = Pool::template Init<T>();
  for (int32_t tz = 0; tz < p.taps[0]; ++tz) {
    const int32_t iz = qz * p.stride[0] + tz * p.dilation[0] - p.padding[0];
    if (iz < 0 || iz >= p.in_size[0]) continue;
    for (int32_t ty = 0; ty < p.taps[1]; ++ty) {
      const int32_t iy = qy * p.stride[1] + ty * p.dilation[1] - p.padding[1];
      if (iy < 0 || iy >= p.in_size[1]) continue;
      const T* row = x + (static_cast<ptrdiff_t>(iz) * p.in_size[1] + iy) * p.in_size[2];
      for (int32_t tx = 0; tx < p.taps[2]; ++tx) {
        const int32_t start = tx * p.dilation[2] - p.padding[2];
        int32_t low;
        int32_t high;
        InsideRange(start, p.stride[2], p.in_size[2], width, &low, &high);
        if (low < high) PoolRun<Width, Pool>(row + start, p.stride[2], low, high, y);
      }
    }
  }
}

// The taps of output q along `axis` that an average counts.
template <class Params>
MEMPLAN_INLINE int32_t CountedTaps(const Params& p, int axis, int32_t q) {
  const int32_t start = q * p.stride[axis] - p.padding[axis];
  int32_t size = p.in_size[axis];
  if (p.counts_padding != 0) size += p.padding_after[axis];
  int32_t low;
  int32_t high;
  InsideRange(start, p.dilation[axis], size, p.taps[axis], &low, &high);
  return high - (p.counts_padding != 0 ? 0 : low);
}

// y = the maximum of each window. Lanes: for float; 1 for other types.
template <class T, int Lanes>
MEMPLAN_KERNEL void MaxPool(const PoolParams& p, const T* x, T* y) {
  const ptrdiff_t in_volume = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * p.in_size[2];
  for (int32_t plane = 0; plane < p.planes; ++plane, x += in_volume) {
    for (int32_t qz = 0; qz < p.out_size[0]; ++qz) {
      for (int32_t qy = 0; qy < p.out_size[1]; ++qy, y += p.out_size[2]) {
        PoolRow<VectorLanes(Lanes), PoolMax>(p, x, qz, qy, y);
      }
    }
  }
}

// y = the average of each window.
template <class T, int Lanes>
MEMPLAN_KERNEL void AveragePool(const PoolParams& p, const T* x, T* y) {
  const ptrdiff_t in_volume = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * p.in_size[2];
  for (int32_t plane = 0; plane < p.planes; ++plane, x += in_volume) {
    for (int32_t qz = 0; qz < p.out_size[0]; ++qz) {
      for (int32_t qy = 0; qy < p.out_size[1]; ++qy, y += p.out_size[2]) {
        PoolRow<VectorLanes(Lanes), PoolSum>(p, x, qz, qy, y);
        const int32_t rows = CountedTaps(p, 0, qz) * CountedTaps(p, 1, qy);
        for (int32_t qx = 0; qx < p.out_size[2]; ++qx) {
          y[qx] /= static_cast<T>(rows * CountedTaps(p, 2, qx));
        }
      }
    }
  }
}

// Calls visit(offset in the plane, iz, iy, ix) for each element of the window of output (qz, qy,
// qx), in order.
template <class Visit>
MEMPLAN_INLINE void VisitWindow(const PoolParams& p, int32_t qz, int32_t qy, int32_t qx,
                                Visit visit) {
  for (int32_t tz = 0; tz < p.taps[0]; ++tz) {
    const int32_t iz = qz * p.stride[0] + tz * p.dilation[0] - p.padding[0];
    if (iz < 0 || iz >= p.in_size[0]) continue;
    for (int32_t ty = 0; ty < p.taps[1]; ++ty) {
      const int32_t iy = qy * p.stride[1] + ty * p.dilation[1] - p.padding[1];
      if (iy < 0 || iy >= p.in_size[1]) continue;
      for (int32_t tx = 0; tx < p.taps[2]; ++tx) {
        const int32_t ix = qx * p.stride[2] + tx * p.dilation[2] - p.padding[2];
        if (ix < 0 || ix >= p.in_size[2]) continue;
        visit((static_cast<ptrdiff_t>(iz) * p.in_size[1] + iy) * p.in_size[2] + ix, iz, iy, ix);
      }
    }
  }
}

// MaxPool, and where in x each maximum (of equal ones, the first) is.
template <class T>
MEMPLAN_KERNEL void MaxPoolIndices(const PoolParams& p, const T* x, T* y, int64_t* indices) {
  const ptrdiff_t in_volume = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * p.in_size[2];
  for (int32_t plane = 0; plane < p.planes; ++plane, x += in_volume) {
    const int64_t plane_at = static_cast<int64_t>(plane) * in_volume;
    for (int32_t qz = 0; qz < p.out_size[0]; ++qz) {
      for (int32_t qy = 0; qy < p.out_size[1]; ++qy) {
        for (int32_t qx = 0; qx < p.out_size[2]; ++qx) {
          T best = Element<T>::kLowest;
          int64_t best_at = -1;
          VisitWindow(p, qz, qy, qx, [&](ptrdiff_t at, int32_t iz, int32_t iy, int32_t ix) {
            if (best_at >= 0 && !(x[at] > best)) return;
            best = x[at];
            best_at = p.column_major == 0
                          ? static_cast<int64_t>(at)
                          : iz + p.in_size[0] * (iy + static_cast<int64_t>(p.in_size[1]) * ix);
          });
          *y++ = best;
          *indices++ = plane_at + best_at;
        }
      }
    }
  }
}

// |x|^norm, and its inverse for sums of it.
template <class T>
MEMPLAN_INLINE T NormTerm(T x, int32_t norm) {
  const T size = std::fabs(x);
  return norm == 1 ? size : norm == 2 ? size * size : std::pow(size, static_cast<T>(norm));
}
template <class T>
MEMPLAN_INLINE T NormOf(T sum, int32_t norm) {
  return norm == 1 ? sum : norm == 2 ? std::sqrt(sum) : std::pow(sum, T(1) / static_cast<T>(norm));
}

// y = the Lp norm of each window.
template <class T>
MEMPLAN_KERNEL void LpPool(const PoolParams& p, const T* x, T* y) {
  const ptrdiff_t in_volume = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * p.in_size[2];
  for (int32_t plane = 0; plane < p.planes; ++plane, x += in_volume) {
    for (int32_t qz = 0; qz < p.out_size[0]; ++qz) {
      for (int32_t qy = 0; qy < p.out_size[1]; ++qy) {
        for (int32_t qx = 0; qx < p.out_size[2]; ++qx) {
          T sum = T(0);
          VisitWindow(p, qz, qy, qx, [&](ptrdiff_t at, int32_t, int32_t, int32_t) {
            sum += NormTerm(x[at], p.norm);
          });
          *y++ = NormOf(sum, p.norm);
        }
      }
    }
  }
}

// Pools of whole planes.
struct GlobalPoolParams {
  int32_t planes;
  int32_t volume;  // elements of a plane
  int32_t norm;    // p of an Lp norm
};
MEMPLAN_FIELDS(GlobalPoolParams, planes, volume, norm);

// Init() taken over `volume` elements of float, in several chains.
template <int Lanes, class Pool>
MEMPLAN_SHARED_FUNCTION float PoolPlane(const float* x, int32_t volume) {
  float chains[Lanes];
  for (int i = 0; i < Lanes; ++i) chains[i] = Pool::template Init<float>();
  const int32_t tail = volume % Lanes;
  for (int32_t at = 0; at < volume - tail; at += Lanes) {
    PoolRun<VectorLanes(Lanes), Pool>(x + at, 1, 0, Lanes, chains);
  }
  float result = Pool::template Init<float>();
  const float* rest = x + (volume - tail);
  for (int32_t i = 0; i < tail; ++i) Pool::Add(result, rest[i]);
  for (int i = 0; i < Lanes; ++i) Pool::Add(result, chains[i]);
  return result;
}

template <int Lanes>
MEMPLAN_KERNEL void GlobalAveragePool(const GlobalPoolParams& p, const float* x, float* y) {
  for (int32_t i = 0; i < p.planes; ++i, x += p.volume) {
    y[i] = PoolPlane<Lanes, PoolSum>(x, p.volume) / static_cast<float>(p.volume);
  }
}

template <int Lanes>
MEMPLAN_KERNEL void GlobalMaxPool(const GlobalPoolParams& p, const float* x, float* y) {
  for (int32_t i = 0; i < p.planes; ++i, x += p.volume) {
    y[i] = PoolPlane<Lanes, PoolMax>(x, p.volume);
  }
}

// GlobalAveragePool (of PoolSum) or GlobalMaxPool of doubles.
template <class Pool>
MEMPLAN_KERNEL void GlobalPoolPlain(const GlobalPoolParams& p, const double* x, double* y) {
  for (int32_t i = 0; i < p.planes; ++i, x += p.volume) {
    double result = Pool::template Init<double>();
    for (int32_t j = 0; j < p.volume; ++j) Pool::Add(result, x[j]);
    y[i] = Pool::kAverages ? result / p.volume : result;
  }
}

template <class T>
MEMPLAN_KERNEL void GlobalLpPool(const GlobalPoolParams& p, const T* x, T* y) {
  for (int32_t i = 0; i < p.planes; ++i) {
    T sum = T(0);
    for (int32_t j = 0; j < p.volume; ++j) sum += NormTerm(*x++, p.norm);
    y[i] = NormOf(sum, p.norm);
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_POOL_H_
