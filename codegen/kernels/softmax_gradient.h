// Gradients of Softmax and LogSoftmax by their input, from their result y. dx may lie over dy or
// over y: a line's sum is taken first, and each element read before it is written.
#ifndef MEMPLAN_KERNELS_SOFTMAX_GRADIENT_H_
#define MEMPLAN_KERNELS_SOFTMAX_GRADIENT_H_

#include "base.h"
#include "lane_math.h"
#include "lanes.h"
#include "reduce.h"
#include "softmax.h"

namespace kernels {

// y * (dy - sum(dy * y)).
struct SoftmaxSlope {
  template <class V>
  static V Term(const V& dy, const V& y) {
    return dy * y;
  }
  template <class V>
  static V Apply(const V& dy, const V& y, const V& sum) {
    return y * (dy - sum);
  }
};

// dy - exp(y) * sum(dy).
struct LogSoftmaxSlope {
  template <class V>
  static V Term(const V& dy, const V&) {
    return dy;
  }
  template <class V>
  static V Apply(const V& dy, const V& y, const V& sum) {
    return dy - ExpOf(y) * sum;
  }
};

// A line of elements at distance `stride`, or neighbouring lines in the lanes of a vector.
template <class V, class Slope, class T>
inline void SlopeLine(int32_t count, int32_t stride, const T* dy, const T* y, T* dx) {
  V sum = Splat<V>(0);
  for (int32_t c = 0; c < count; ++c) {
    sum += Slope::Term(Load<V>(dy + c * stride), Load<V>(y + c * stride));
  }
  for (int32_t c = 0; c < count; ++c) {
    const int32_t at = c * stride;
    Store(Slope::Apply(Load<V>(dy + at), Load<V>(y + at), sum), dx + at);
  }
}

template <class T, class Slope>
MEMPLAN_KERNEL void SoftmaxGrad(const SoftmaxParams& p, const T* dy, const T* y, T* dx) {
  constexpr int32_t kStep = LanesOf<T>::kCount;
  using V = typename LanesOf<T>::Type;
  for (int32_t o = 0; o < p.outer; ++o) {
    const int32_t plane = o * p.count * p.inner;
    int32_t i = 0;
    if (p.inner == 1) {
      const T* gradient = dy + plane;
      const T* result = y + plane;
      const T sum = SumElements<T>(
          p.count, [gradient, result](int32_t c) { return Slope::Term(gradient[c], result[c]); });
      for (; i + kStep <= p.count; i += kStep) {
        const V value = Slope::Apply(Load<V>(gradient + i), Load<V>(result + i), Splat<V>(sum));
        Store(value, dx + plane + i);
      }
      for (; i < p.count; ++i) dx[plane + i] = Slope::Apply(gradient[i], result[i], sum);
      continue;
    }
    for (; i + kStep <= p.inner; i += kStep) {
      SlopeLine<V, Slope>(p.count, p.inner, dy + plane + i, y + plane + i, dx + plane + i);
    }
    for (; i < p.inner; ++i) {
      SlopeLine<T, Slope>(p.count, p.inner, dy + plane + i, y + plane + i, dx + plane + i);
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_SOFTMAX_GRADIENT_H_
