// Elementwise choice between two operands, with numpy broadcasting. Elements are moved as bits.
// In-place safe like binary.h.
#ifndef MEMPLAN_KERNELS_WHERE_H_
#define MEMPLAN_KERNELS_WHERE_H_

#include "base.h"

namespace kernels {

// A loop nest over the result, which is contiguous; outermost dimension first. Strides in elements;
// 0: broadcast. The strides of the innermost dimension are 0 or 1.
struct WhereParams {
  int32_t rank;  // at least 1
  int32_t dims[kMaxRank];
  int32_t condition_strides[kMaxRank];
  int32_t a_strides[kMaxRank];
  int32_t b_strides[kMaxRank];
};
MEMPLAN_FIELDS(WhereParams, rank, dims, condition_strides, a_strides, b_strides);

// y[i] = condition[i] ? a[i] : b[i].
template <class T>
MEMPLAN_KERNEL void Where(const WhereParams& p, const bool* condition, const T* a, const T* b,
                          T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const int32_t last = p.rank - 1;
  const int32_t count = p.dims[last];
  const int32_t c_step = p.condition_strides[last];
  const int32_t a_step = p.a_strides[last];
  const int32_t b_step = p.b_strides[last];
  int32_t rows = 1;
  for (int32_t d = 0; d < last; ++d) rows *= p.dims[d];
  if (count == 0) return;
  const Bits* from_a = a;
  const Bits* from_b = b;
  Bits* to = y;
  int32_t index[kMaxRank] = {};
  for (int32_t row = 0; row < rows; ++row) {
    for (int32_t i = 0; i < count; ++i) {
      const T if_true = from_a[i * a_step];
      const T if_false = from_b[i * b_step];
      to[i] = condition[i * c_step] ? if_true : if_false;
    }
    to += count;
    // To the next row.
    for (int32_t d = last - 1; d >= 0; --d) {
      condition += p.condition_strides[d];
      from_a += p.a_strides[d];
      from_b += p.b_strides[d];
      if (++index[d] < p.dims[d]) break;
      condition -= p.condition_strides[d] * p.dims[d];
      from_a -= p.a_strides[d] * p.dims[d];
      from_b -= p.b_strides[d] * p.dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_WHERE_H_
