// Tensors made from a few numbers.
#ifndef MEMPLAN_KERNELS_GENERATE_H_
#define MEMPLAN_KERNELS_GENERATE_H_

#include "base.h"
#include "element.h"

namespace kernels {

struct RangeParams {
  int32_t count;  // elements
};
MEMPLAN_FIELDS(RangeParams, count);

// y[i] = *start + i * *delta.
template <class T>
MEMPLAN_KERNEL void Range(const RangeParams& p, const T* start, const T* delta, T* y) {
  for (int32_t i = 0; i < p.count; ++i) {
    y[i] = WrapAdd(*start, WrapMul(static_cast<T>(i), *delta));
  }
}

struct OneHotParams {
  int32_t outer;  // product of the index dimensions before the new axis
  int32_t depth;  // length of the new axis
  int32_t inner;  // product of the index dimensions behind it
};
MEMPLAN_FIELDS(OneHotParams, outer, depth, inner);

// y[o][d][i] = values[1] where indices[o][i] names d (negative: from the back), else values[0].
template <class T, class I>
MEMPLAN_KERNEL void OneHot(const OneHotParams& p, const I* indices, const T* values, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* pair = values;
  Bits* to = y;
  const T off = pair[0];
  const T on = pair[1];
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t d = 0; d < p.depth; ++d) {
      for (int32_t i = 0; i < p.inner; ++i) {
        // Compared in the wide type: a narrow one cannot hold every d.
        const I index = indices[o * p.inner + i];
        const auto wide = static_cast<Wide<I>>(index);
        const bool hot = wide == static_cast<Wide<I>>(d) ||
                         (IsNegative(index) && wide == static_cast<Wide<I>>(d - p.depth));
        *to++ = hot ? on : off;
      }
    }
  }
}

struct TriluParams {
  int32_t matrices;
  int32_t rows;
  int32_t columns;
  int32_t upper;  // 1: keeps the upper part, 0: the lower
};
MEMPLAN_FIELDS(TriluParams, matrices, rows, columns, upper);

// y = x with zeros below (upper) or above (lower) the diagonal *k (null: 0). In-place safe.
template <class T>
MEMPLAN_KERNEL void Trilu(const TriluParams& p, const T* x, const int64_t* k, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* from = x;
  Bits* to = y;
  int64_t diagonal = k == nullptr ? 0 : *k;
  if (diagonal < -p.rows) diagonal = -p.rows;
  if (diagonal > p.columns) diagonal = p.columns;
  const int32_t shift = static_cast<int32_t>(diagonal);
  for (int32_t m = 0; m < p.matrices; ++m) {
    for (int32_t r = 0; r < p.rows; ++r) {
      for (int32_t c = 0; c < p.columns; ++c) {
        const bool kept = p.upper != 0 ? c - r >= shift : c - r <= shift;
        to[c] = kept ? from[c] : T(0);
      }
      from += p.columns;
      to += p.columns;
    }
  }
}

struct EyeParams {
  int32_t rows;
  int32_t columns;
  int32_t diagonal;  // above the main one
};
MEMPLAN_FIELDS(EyeParams, rows, columns, diagonal);

// y = 1 on the diagonal, 0 elsewhere.
template <class T>
MEMPLAN_KERNEL void Eye(const EyeParams& p, T* y) {
  for (int32_t r = 0; r < p.rows; ++r) {
    for (int32_t c = 0; c < p.columns; ++c) {
      *y++ = c - r == p.diagonal ? static_cast<T>(1) : static_cast<T>(0);
    }
  }
}

// y[i] = a0 - a1 cos(i step) + a2 cos(2 i step).
struct CosineWindowParams {
  double step;  // radians
  double a0;
  double a1;
  double a2;
  int32_t count;
  int32_t padding;
};
MEMPLAN_FIELDS(CosineWindowParams, step, a0, a1, a2, count, padding);

template <class T>
MEMPLAN_KERNEL void CosineWindow(const CosineWindowParams& p, T* y) {
  for (int32_t i = 0; i < p.count; ++i) {
    const double angle = i * p.step;
    y[i] = static_cast<T>(p.a0 - p.a1 * std::cos(angle) + p.a2 * std::cos(2.0 * angle));
  }
}

struct NonZeroParams {
  int32_t count;           // elements of x
  int32_t rank;            // of x, up to kMaxRank
  int32_t found;           // elements that are not zero
  int32_t dims[kMaxRank];  // of x, right-aligned
};
MEMPLAN_FIELDS(NonZeroParams, count, rank, found, dims);

// y[axis][n] = the index along `axis` of the n-th element of x that is not zero.
template <class T>
MEMPLAN_KERNEL void NonZero(const NonZeroParams& p, const T* x, int64_t* y) {
  int32_t n = 0;
  for (int32_t i = 0; i < p.count && n < p.found; ++i) {
    if (x[i] == static_cast<T>(0)) continue;
    int32_t rest = i;
    for (int32_t a = p.rank - 1; a >= 0; --a) {
      const int32_t dim = p.dims[kMaxRank - p.rank + a];
      y[a * p.found + n] = rest % dim;
      rest /= dim;
    }
    ++n;
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_GENERATE_H_
