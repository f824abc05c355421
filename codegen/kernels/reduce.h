// Reductions over any set of dimensions.
//
// Sums run in several lanes over blocks of bounded length, which are then added up: this vectorises
// without reassociation by the compiler, and the rounding error grows far slower than in one long
// sum.
#ifndef MEMPLAN_KERNELS_REDUCE_H_
#define MEMPLAN_KERNELS_REDUCE_H_

#include "base.h"
#include "element.h"

namespace kernels {

// Reducers. Acc<T> is the running state, from Init; Step takes an element in, Merge joins two
// states, Finish makes the result of `count` elements.

struct SumOf {
  template <class T>
  using Acc = T;
  template <class T>
  static T Init() {
    return T(0);
  }
  template <class T>
  static T Step(T acc, T x) {
    return WrapAdd(acc, x);
  }
  template <class T>
  static T Merge(T a, T b) {
    return WrapAdd(a, b);
  }
  template <class T>
  static T Finish(T acc, int32_t) {
    return acc;
  }
};

// Integers: the quotient towards zero.
struct MeanOf : SumOf {
  template <class T>
  static T Finish(T acc, int32_t count) {
    if (!Element<T>::kIsFloat && count == 0) return T(0);
    return static_cast<T>(acc / static_cast<T>(count));
  }
};

struct SumSquareOf : SumOf {
  template <class T>
  static T Step(T acc, T x) {
    return WrapAdd(acc, WrapMul(x, x));
  }
};

struct L1Of : SumOf {
  template <class T>
  static T Step(T acc, T x) {
    return WrapAdd(acc, WrapAbs(x));
  }
};

struct L2Of : SumSquareOf {
  template <class T>
  static T Finish(T acc, int32_t) {
    if constexpr (Element<T>::kIsFloat) {
      return std::sqrt(acc);
    } else {
      return static_cast<T>(std::sqrt(static_cast<double>(acc)));
    }
  }
};

struct LogSumOf : SumOf {
  template <class T>
  static T Finish(T acc, int32_t) {
    if constexpr (Element<T>::kIsFloat) {
      return std::log(acc);
    } else {
      return acc > T(0) ? static_cast<T>(std::log(static_cast<double>(acc))) : T(0);
    }
  }
};

struct ProdOf : SumOf {
  template <class T>
  static T Init() {
    return T(1);
  }
  template <class T>
  static T Step(T acc, T x) {
    return WrapMul(acc, x);
  }
  template <class T>
  static T Merge(T a, T b) {
    return WrapMul(a, b);
  }
};

struct MaxOf : SumOf {
  template <class T>
  static T Init() {
    return Element<T>::kLowest;
  }
  template <class T>
  static T Step(T acc, T x) {
    return NanMax(acc, x);
  }
  template <class T>
  static T Merge(T a, T b) {
    return NanMax(a, b);
  }
};

struct MinOf : SumOf {
  template <class T>
  static T Init() {
    return Element<T>::kHighest;
  }
  template <class T>
  static T Step(T acc, T x) {
    return NanMin(acc, x);
  }
  template <class T>
  static T Merge(T a, T b) {
    return NanMin(a, b);
  }
};

// The sum of exp(x) is sum * exp(highest): no exponential overflows.
template <class T>
struct ScaledSum {
  T highest;
  T sum;
};

struct LogSumExpOf {
  template <class T>
  using Acc = ScaledSum<T>;
  template <class T>
  static ScaledSum<T> Init() {
    return {Element<T>::kLowest, T(0)};
  }
  template <class T>
  static ScaledSum<T> Step(ScaledSum<T> acc, T x) {
    return Merge(acc, ScaledSum<T>{x, T(1)});
  }
  template <class T>
  static ScaledSum<T> Merge(ScaledSum<T> a, ScaledSum<T> b) {
    if (a.highest > b.highest) return {a.highest, a.sum + b.sum * std::exp(b.highest - a.highest)};
    // Infinities of one sign have no difference.
    if (a.highest == b.highest) return {a.highest, a.sum + b.sum};
    return {b.highest, b.sum + a.sum * std::exp(a.highest - b.highest)};
  }
  template <class T>
  static T Finish(ScaledSum<T> acc, int32_t) {
    return std::log(acc.sum) + acc.highest;
  }
};

// Reduces element(0), ..., element(count - 1).
template <class T, class Reducer, class GetElement>
inline typename Reducer::template Acc<T> ReduceElements(int32_t count, GetElement element) {
  using Acc = typename Reducer::template Acc<T>;
  constexpr int32_t kLanes = 8;
  constexpr int32_t kBlock = 128 * kLanes;
  const int32_t whole = count - count % kLanes;
  Acc total = Reducer::template Init<T>();
  for (int32_t begin = 0; begin < whole; begin += kBlock) {
    const int32_t end = whole - begin < kBlock ? whole : begin + kBlock;
    Acc lanes[kLanes];
    for (int32_t l = 0; l < kLanes; ++l) lanes[l] = Reducer::template Init<T>();
    for (int32_t i = begin; i < end; i += kLanes) {
      for (int32_t l = 0; l < kLanes; ++l) lanes[l] = Reducer::Step(lanes[l], element(i + l));
    }
    for (int32_t width = kLanes / 2; width > 0; width /= 2) {
      for (int32_t l = 0; l < width; ++l) lanes[l] = Reducer::Merge(lanes[l], lanes[l + width]);
    }
    total = Reducer::Merge(total, lanes[0]);
  }
  for (int32_t i = whole; i < count; ++i) total = Reducer::Step(total, element(i));
  return total;
}

// The sum of element(0), ..., element(count - 1).
template <class T, class GetElement>
inline T SumElements(int32_t count, GetElement element) {
  return ReduceElements<T, SumOf>(count, element);
}

// The tensor as a loop nest: outer kept dimensions, outer reduced dimensions, and the innermost
// one. Strides in elements; the innermost dimension has stride 1.
struct ReduceParams {
  int32_t inner;          // extent of the innermost dimension
  int32_t reduced_count;  // elements that make one element of the result
  int32_t kept_rank;
  int32_t kept_dims[kMaxRank];
  int32_t kept_strides[kMaxRank];
  int32_t reduced_rank;
  int32_t reduced_dims[kMaxRank];
  int32_t reduced_strides[kMaxRank];
};
MEMPLAN_FIELDS(ReduceParams, inner, reduced_count, kept_rank, kept_dims, kept_strides, reduced_rank,
               reduced_dims, reduced_strides);

MEMPLAN_KERNEL int32_t NumIndices(int32_t rank, const int32_t* dims) {
  int32_t count = 1;
  for (int32_t d = 0; d < rank; ++d) count *= dims[d];
  return count;
}

// The offset in elements of the `flat`-th index of dims, last dimension fastest.
MEMPLAN_KERNEL int32_t StridedOffset(int32_t flat, int32_t rank, const int32_t* dims,
                                     const int32_t* strides) {
  int32_t offset = 0;
  for (int32_t d = rank - 1; d > 0; --d) {
    offset += flat % dims[d] * strides[d];
    flat /= dims[d];
  }
  return rank > 0 ? offset + flat * strides[0] : offset;
}

// The innermost dimension is reduced. Sums of rows are joined by blocks, see above.
template <class T, class Reducer>
MEMPLAN_KERNEL void ReduceRows(const ReduceParams& p, const T* x, T* y) {
  using Acc = typename Reducer::template Acc<T>;
  constexpr int32_t kBlock = 64;
  const int32_t results = NumIndices(p.kept_rank, p.kept_dims);
  const int32_t rows = NumIndices(p.reduced_rank, p.reduced_dims);
  for (int32_t k = 0; k < results; ++k) {
    const T* kept = x + StridedOffset(k, p.kept_rank, p.kept_dims, p.kept_strides);
    Acc total = Reducer::template Init<T>();
    for (int32_t begin = 0; begin < rows; begin += kBlock) {
      const int32_t end = rows - begin < kBlock ? rows : begin + kBlock;
      Acc acc = Reducer::template Init<T>();
      for (int32_t r = begin; r < end; ++r) {
        const T* row = kept + StridedOffset(r, p.reduced_rank, p.reduced_dims, p.reduced_strides);
        const auto element = [row](int32_t i) { return row[i]; };
        acc = Reducer::Merge(acc, ReduceElements<T, Reducer>(p.inner, element));
      }
      total = Reducer::Merge(total, acc);
    }
    y[k] = Reducer::Finish(total, p.reduced_count);
  }
}

// Reduces kLanes neighbouring columns.
template <class T, class Reducer, int32_t kLanes>
inline void ReduceColumnBlock(const ReduceParams& p, int32_t rows, const T* x, T* y) {
  using Acc = typename Reducer::template Acc<T>;
  constexpr int32_t kBlock = 128;
  Acc total[kLanes];
  for (int32_t l = 0; l < kLanes; ++l) total[l] = Reducer::template Init<T>();
  for (int32_t begin = 0; begin < rows; begin += kBlock) {
    const int32_t end = rows - begin < kBlock ? rows : begin + kBlock;
    Acc acc[kLanes];
    for (int32_t l = 0; l < kLanes; ++l) acc[l] = Reducer::template Init<T>();
    for (int32_t r = begin; r < end; ++r) {
      const T* row = x + StridedOffset(r, p.reduced_rank, p.reduced_dims, p.reduced_strides);
      for (int32_t l = 0; l < kLanes; ++l) acc[l] = Reducer::Step(acc[l], row[l]);
    }
    for (int32_t l = 0; l < kLanes; ++l) total[l] = Reducer::Merge(total[l], acc[l]);
  }
  for (int32_t l = 0; l < kLanes; ++l) y[l] = Reducer::Finish(total[l], p.reduced_count);
}

// The innermost dimension is kept.
template <class T, class Reducer>
MEMPLAN_KERNEL void ReduceColumns(const ReduceParams& p, const T* x, T* y) {
  const int32_t results = NumIndices(p.kept_rank, p.kept_dims);
  const int32_t rows = NumIndices(p.reduced_rank, p.reduced_dims);
  for (int32_t k = 0; k < results; ++k) {
    const T* kept = x + StridedOffset(k, p.kept_rank, p.kept_dims, p.kept_strides);
    T* out = y + k * p.inner;
    int32_t c = 0;
    for (; c + 16 <= p.inner; c += 16) {
      ReduceColumnBlock<T, Reducer, 16>(p, rows, kept + c, out + c);
    }
    for (; c + 4 <= p.inner; c += 4) {
      ReduceColumnBlock<T, Reducer, 4>(p, rows, kept + c, out + c);
    }
    for (; c < p.inner; ++c) ReduceColumnBlock<T, Reducer, 1>(p, rows, kept + c, out + c);
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_REDUCE_H_
