// Softmax, LogSoftmax and Hardmax along one axis of a tensor of outer x count x inner elements.
// In-place safe: a line is read whole before it is written, or element by element in order.
#ifndef MEMPLAN_KERNELS_SOFTMAX_H_
#define MEMPLAN_KERNELS_SOFTMAX_H_

#include "base.h"
#include "lane_math.h"
#include "lanes.h"
#include "reduce.h"

namespace kernels {

struct SoftmaxParams {
  int32_t outer;
  int32_t count;
  int32_t inner;
};
MEMPLAN_FIELDS(SoftmaxParams, outer, count, inner);

struct ExpOfDifference : TakesLanes {
  template <class V, class T>
  static V Apply(V x, T shift) {
    return ExpOf(x - Splat<V>(shift));
  }
};

// The largest element, for shifting: a NaN may be passed over, since its exponential is NaN for any
// shift.
struct ShiftOf : MaxOf {
  template <class T>
  static T Step(T acc, T x) {
    return x > acc ? x : acc;
  }
  template <class T>
  static T Merge(T a, T b) {
    return b > a ? b : a;
  }
};

// ShiftOf the elements at x, x + stride, ..., or in each lane of vectors there.
template <class V, class T>
inline V LineMax(int32_t count, int32_t stride, const T* x) {
  V highest = Load<V>(x);
  for (int32_t c = 1; c < count; ++c) highest = ShiftOf::Step(highest, Load<V>(x + c * stride));
  return highest;
}

// exp(x - highest) / sum(exp(x - highest)).
struct SoftmaxOf {
  // One contiguous line.
  template <class T>
  static void Row(int32_t count, const T* x, T* y) {
    const T highest = ReduceElements<T, ShiftOf>(count, [x](int32_t i) { return x[i]; });
    MapRow<ExpOfDifference>(count, x, y, highest);
    const T scale = T(1) / SumElements<T>(count, [y](int32_t i) { return y[i]; });
    for (int32_t i = 0; i < count; ++i) y[i] *= scale;
  }

  // A line of elements, or neighbouring lines in the lanes of a vector.
  template <class V, class T>
  static void Line(int32_t count, int32_t stride, const T* x, T* y) {
    const V highest = LineMax<V>(count, stride, x);
    V sum = Splat<V>(0);
    for (int32_t c = 0; c < count; ++c) {
      const V term = ExpOf(Load<V>(x + c * stride) - highest);
      Store(term, y + c * stride);
      sum += term;
    }
    const V scale = Splat<V>(1) / sum;
    for (int32_t c = 0; c < count; ++c) {
      Store(Load<V>(y + c * stride) * scale, y + c * stride);
    }
  }
};

// x - highest - log(sum(exp(x - highest))).
struct LogSoftmaxOf {
  template <class T>
  static void Row(int32_t count, const T* x, T* y) {
    const T highest = ReduceElements<T, ShiftOf>(count, [x](int32_t i) { return x[i]; });
    const T sum = SumElements<T>(count, [x, highest](int32_t i) { return ExpOf(x[i] - highest); });
    const T log_sum = LogOf(sum);
    for (int32_t i = 0; i < count; ++i) y[i] = x[i] - highest - log_sum;
  }

  template <class V, class T>
  static void Line(int32_t count, int32_t stride, const T* x, T* y) {
    const V highest = LineMax<V>(count, stride, x);
    V sum = Splat<V>(0);
    for (int32_t c = 0; c < count; ++c) sum += ExpOf(Load<V>(x + c * stride) - highest);
    const V log_sum = LogOf(sum);
    for (int32_t c = 0; c < count; ++c) {
      Store(Load<V>(x + c * stride) - highest - log_sum, y + c * stride);
    }
  }
};

template <class T, class Kind>
MEMPLAN_KERNEL void Softmax(const SoftmaxParams& p, const T* x, T* y) {
  constexpr int32_t kStep = LanesOf<T>::kCount;
  using V = typename LanesOf<T>::Type;
  if (p.count == 0) return;
  for (int32_t o = 0; o < p.outer; ++o) {
    const int32_t plane = o * p.count * p.inner;
    if (p.inner == 1) {
      Kind::Row(p.count, x + plane, y + plane);
      continue;
    }
    int32_t i = 0;
    for (; i + kStep <= p.inner; i += kStep) {
      Kind::template Line<V>(p.count, p.inner, x + plane + i, y + plane + i);
    }
    for (; i < p.inner; ++i) {
      Kind::template Line<T>(p.count, p.inner, x + plane + i, y + plane + i);
    }
  }
}

// 1 at the first of the largest elements of a line, 0 elsewhere.
template <class T>
MEMPLAN_KERNEL void Hardmax(const SoftmaxParams& p, const T* x, T* y) {
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t i = 0; i < p.inner; ++i) {
      const int32_t line = o * p.count * p.inner + i;
      int32_t best = 0;
      for (int32_t c = 1; c < p.count; ++c) {
        if (x[line + c * p.inner] > x[line + best * p.inner]) best = c;
      }
      for (int32_t c = 0; c < p.count; ++c) y[line + c * p.inner] = c == best ? T(1) : T(0);
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_SOFTMAX_H_
