// Softmax, LogSoftmax and Hardmax along one axis of a tensor of outer x count x inner elements.
// In-place safe: a line is read whole before it is written, or element by element in order.
#ifndef MEMPLAN_KERNELS_SOFTMAX_H_
#define MEMPLAN_KERNELS_SOFTMAX_H_

#include "base.h"
#include "reduce.h"

namespace kernels {

struct SoftmaxParams {
  int32_t outer;
  int32_t count;
  int32_t inner;
};
MEMPLAN_FIELDS(SoftmaxParams, outer, count, inner);

// exp(x - highest) / sum(exp(x - highest)).
struct SoftmaxOf {
  template <class T>
  static void Line(int32_t count, const T* x, T* y) {
    const T highest = ReduceElements<T, MaxOf>(count, [x](int32_t i) { return x[i]; });
    for (int32_t i = 0; i < count; ++i) y[i] = std::exp(x[i] - highest);
    const T scale = T(1) / SumElements<T>(count, [y](int32_t i) { return y[i]; });
    for (int32_t i = 0; i < count; ++i) y[i] *= scale;
  }

  template <class T, int32_t kLanes>
  static void Lines(int32_t count, int32_t stride, const T* highest, const T* x, T* y) {
    T sum[kLanes] = {};
    for (int32_t c = 0; c < count; ++c) {
      for (int32_t l = 0; l < kLanes; ++l) {
        const T term = std::exp(x[c * stride + l] - highest[l]);
        y[c * stride + l] = term;
        sum[l] += term;
      }
    }
    for (int32_t l = 0; l < kLanes; ++l) sum[l] = T(1) / sum[l];
    for (int32_t c = 0; c < count; ++c) {
      for (int32_t l = 0; l < kLanes; ++l) y[c * stride + l] *= sum[l];
    }
  }
};

// x - highest - log(sum(exp(x - highest))).
struct LogSoftmaxOf {
  template <class T>
  static void Line(int32_t count, const T* x, T* y) {
    const T highest = ReduceElements<T, MaxOf>(count, [x](int32_t i) { return x[i]; });
    const T sum =
        SumElements<T>(count, [x, highest](int32_t i) { return std::exp(x[i] - highest); });
    const T log_sum = std::log(sum);
    for (int32_t i = 0; i < count; ++i) y[i] = x[i] - highest - log_sum;
  }

  template <class T, int32_t kLanes>
  static void Lines(int32_t count, int32_t stride, const T* highest, const T* x, T* y) {
    T sum[kLanes] = {};
    for (int32_t c = 0; c < count; ++c) {
      for (int32_t l = 0; l < kLanes; ++l) sum[l] += std::exp(x[c * stride + l] - highest[l]);
    }
    for (int32_t l = 0; l < kLanes; ++l) sum[l] = std::log(sum[l]);
    for (int32_t c = 0; c < count; ++c) {
      for (int32_t l = 0; l < kLanes; ++l) {
        y[c * stride + l] = x[c * stride + l] - highest[l] - sum[l];
      }
    }
  }
};

// kLanes neighbouring lines.
template <class T, class Kind, int32_t kLanes>
inline void SoftmaxLines(const SoftmaxParams& p, const T* x, T* y) {
  T highest[kLanes];
  for (int32_t l = 0; l < kLanes; ++l) highest[l] = x[l];
  for (int32_t c = 1; c < p.count; ++c) {
    for (int32_t l = 0; l < kLanes; ++l) highest[l] = NanMax(highest[l], x[c * p.inner + l]);
  }
  Kind::template Lines<T, kLanes>(p.count, p.inner, highest, x, y);
}

template <class T, class Kind>
MEMPLAN_KERNEL void Softmax(const SoftmaxParams& p, const T* x, T* y) {
  if (p.count == 0) return;
  for (int32_t o = 0; o < p.outer; ++o) {
    const int32_t plane = o * p.count * p.inner;
    if (p.inner == 1) {
      Kind::Line(p.count, x + plane, y + plane);
      continue;
    }
    int32_t i = 0;
    for (; i + 8 <= p.inner; i += 8) SoftmaxLines<T, Kind, 8>(p, x + plane + i, y + plane + i);
    for (; i < p.inner; ++i) SoftmaxLines<T, Kind, 1>(p, x + plane + i, y + plane + i);
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
