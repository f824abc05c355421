// Gradients of reductions whose result needs all elements of its group: products, and extremes that
// may tie.
#ifndef MEMPLAN_KERNELS_REDUCE_GRADIENT_H_
#define MEMPLAN_KERNELS_REDUCE_GRADIENT_H_

#include "base.h"
#include "reduce.h"

namespace kernels {

// The tensor as a loop nest: kept dimensions, then reduced ones. Strides in elements.
struct ReduceGradParams {
  int32_t kept_rank;
  int32_t kept_dims[kMaxRank];
  int32_t kept_strides[kMaxRank];
  int32_t reduced_rank;
  int32_t reduced_dims[kMaxRank];
  int32_t reduced_strides[kMaxRank];
};
MEMPLAN_FIELDS(ReduceGradParams, kept_rank, kept_dims, kept_strides, reduced_rank, reduced_dims,
               reduced_strides);

// The elements that equal y, the extreme of their group, share dy evenly. dx may be x.
template <class T>
MEMPLAN_KERNEL void ReduceExtremeGrad(const ReduceGradParams& p, const T* dy, const T* x,
                                      const T* y, T* dx) {
  const int32_t groups = NumIndices(p.kept_rank, p.kept_dims);
  const int32_t count = NumIndices(p.reduced_rank, p.reduced_dims);
  for (int32_t g = 0; g < groups; ++g) {
    const int32_t start = StridedOffset(g, p.kept_rank, p.kept_dims, p.kept_strides);
    const T extreme = y[g];
    int32_t ties = 0;
    for (int32_t i = 0; i < count; ++i) {
      const int32_t at = StridedOffset(i, p.reduced_rank, p.reduced_dims, p.reduced_strides);
      ties += x[start + at] == extreme ? 1 : 0;
    }
    const T share = dy[g] / static_cast<T>(ties);
    for (int32_t i = 0; i < count; ++i) {
      const int32_t at =
          start + StridedOffset(i, p.reduced_rank, p.reduced_dims, p.reduced_strides);
      dx[at] = x[at] == extreme ? share : T(0);
    }
  }
}

// dx = dy times the product of the group's other elements, of which some may be 0. dx may be x.
template <class T>
MEMPLAN_KERNEL void ReduceProdGrad(const ReduceGradParams& p, const T* dy, const T* x, T* dx) {
  const int32_t groups = NumIndices(p.kept_rank, p.kept_dims);
  const int32_t count = NumIndices(p.reduced_rank, p.reduced_dims);
  for (int32_t g = 0; g < groups; ++g) {
    const int32_t start = StridedOffset(g, p.kept_rank, p.kept_dims, p.kept_strides);
    T product = dy[g];  // of the elements that are not 0
    int32_t zeros = 0;
    for (int32_t i = 0; i < count; ++i) {
      const int32_t at = StridedOffset(i, p.reduced_rank, p.reduced_dims, p.reduced_strides);
      const T value = x[start + at];
      zeros += value == T(0) ? 1 : 0;
      product *= value == T(0) ? T(1) : value;
    }
    for (int32_t i = 0; i < count; ++i) {
      const int32_t at =
          start + StridedOffset(i, p.reduced_rank, p.reduced_dims, p.reduced_strides);
      const T value = x[at];
      const int32_t other_zeros = zeros - (value == T(0) ? 1 : 0);
      const T others = value == T(0) ? product : product / value;
      dx[at] = other_zeros == 0 ? others : T(0);
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_REDUCE_GRADIENT_H_
