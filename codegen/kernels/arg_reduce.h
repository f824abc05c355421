// ArgMax, ArgMin, TopK and CumSum along one axis of a tensor of outer x count x inner elements.
#ifndef MEMPLAN_KERNELS_ARG_REDUCE_H_
#define MEMPLAN_KERNELS_ARG_REDUCE_H_

#include "base.h"
#include "element.h"

namespace kernels {

struct ArgReduceParams {
  int32_t outer;
  int32_t count;
  int32_t inner;
  int32_t select_last;  // of equal elements: 0 the first one, 1 the last one
};
MEMPLAN_FIELDS(ArgReduceParams, outer, count, inner, select_last);

// Orders: Before(a, b) says that a is preferred.
struct Largest {
  template <class T>
  static bool Before(T a, T b) {
    return a > b;
  }
};

struct Smallest {
  template <class T>
  static bool Before(T a, T b) {
    return a < b;
  }
};

// y[o, i] = the index along the axis of the preferred element of x[o, :, i].
template <class T, class Order>
MEMPLAN_KERNEL void ArgReduce(const ArgReduceParams& p, const T* x, int64_t* y) {
  for (int32_t o = 0; o < p.outer; ++o) {
    const T* plane = x + o * p.count * p.inner;
    int64_t* best = y + o * p.inner;
    for (int32_t i = 0; i < p.inner; ++i) best[i] = 0;
    for (int32_t c = 1; c < p.count; ++c) {
      for (int32_t i = 0; i < p.inner; ++i) {
        const T candidate = plane[c * p.inner + i];
        const T holder = plane[static_cast<int32_t>(best[i]) * p.inner + i];
        if (Order::Before(candidate, holder) || (p.select_last != 0 && candidate == holder)) {
          best[i] = c;
        }
      }
    }
  }
}

struct TopKParams {
  int32_t outer;
  int32_t count;
  int32_t inner;
  int32_t k;  // at most count
};
MEMPLAN_FIELDS(TopKParams, outer, count, inner, k);

// Bytes of scratch of TopK.
constexpr int64_t TopKScratchBytes(int64_t k) { return k * int64_t{sizeof(int32_t)}; }

// Sifts the heap of `size` indices down from `at`. At the root is the index that comes last in the
// order: least preferred element, then the largest index.
template <class T, class Order>
inline void TopKSift(const T* x, int32_t stride, int32_t* heap, int32_t size, int32_t at) {
  const auto before = [x, stride](int32_t a, int32_t b) {
    const T va = x[a * stride];
    const T vb = x[b * stride];
    return Order::Before(va, vb) || (!Order::Before(vb, va) && a < b);
  };
  const int32_t moved = heap[at];
  while (2 * at + 1 < size) {
    int32_t child = 2 * at + 1;
    if (child + 1 < size && before(heap[child], heap[child + 1])) ++child;
    if (!before(moved, heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

// The k preferred elements of x[o, :, i] and their indices, preferred first, of equal ones that
// with the lower index first. values or indices may be null. heap: TopKScratchBytes(k).
template <class T, class Order>
MEMPLAN_KERNEL void TopK(const TopKParams& p, const T* x, T* values, int64_t* indices,
                         int32_t* heap) {
  if (p.k == 0) return;
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t i = 0; i < p.inner; ++i) {
      const T* line = x + o * p.count * p.inner + i;
      for (int32_t c = 0; c < p.k; ++c) heap[c] = c;
      for (int32_t at = p.k / 2; at-- > 0;) TopKSift<T, Order>(line, p.inner, heap, p.k, at);
      for (int32_t c = p.k; c < p.count; ++c) {
        if (!Order::Before(line[c * p.inner], line[heap[0] * p.inner])) continue;
        heap[0] = c;
        TopKSift<T, Order>(line, p.inner, heap, p.k, 0);
      }
      // Takes the last one off the heap, until it is empty.
      for (int32_t size = p.k; size > 0; --size) {
        const int32_t last = heap[0];
        const int32_t out = (o * p.k + size - 1) * p.inner + i;
        if (values != nullptr) values[out] = line[last * p.inner];
        if (indices != nullptr) indices[out] = last;
        heap[0] = heap[size - 1];
        TopKSift<T, Order>(line, p.inner, heap, size - 1, 0);
      }
    }
  }
}

struct CumSumParams {
  int32_t outer;
  int32_t count;
  int32_t inner;
  int32_t exclusive;  // 1: element c of the result leaves out element c
  int32_t reverse;    // 1: from the end
};
MEMPLAN_FIELDS(CumSumParams, outer, count, inner, exclusive, reverse);

// kLanes neighbouring lines of CumSum.
template <class T, int32_t kLanes>
inline void CumSumLines(const CumSumParams& p, const T* x, T* y) {
  T acc[kLanes];
  for (int32_t l = 0; l < kLanes; ++l) acc[l] = T(0);
  for (int32_t c = 0; c < p.count; ++c) {
    const int32_t at = (p.reverse != 0 ? p.count - 1 - c : c) * p.inner;
    for (int32_t l = 0; l < kLanes; ++l) {
      const T before = acc[l];
      acc[l] = WrapAdd(before, x[at + l]);
      y[at + l] = p.exclusive != 0 ? before : acc[l];
    }
  }
}

// Running sums along the axis. In-place safe.
template <class T>
MEMPLAN_KERNEL void CumSum(const CumSumParams& p, const T* x, T* y) {
  for (int32_t o = 0; o < p.outer; ++o) {
    const int32_t plane = o * p.count * p.inner;
    int32_t i = 0;
    for (; i + 8 <= p.inner; i += 8) CumSumLines<T, 8>(p, x + plane + i, y + plane + i);
    for (; i < p.inner; ++i) CumSumLines<T, 1>(p, x + plane + i, y + plane + i);
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_ARG_REDUCE_H_
