// Copies of contiguous bytes.
#ifndef MEMPLAN_KERNELS_COPY_H_
#define MEMPLAN_KERNELS_COPY_H_

#include "base.h"

namespace kernels {

struct CopyParams {
  int32_t count;  // elements
};
MEMPLAN_FIELDS(CopyParams, count);

// y[i] = x[i]; nothing when both are the same place. T is an unsigned type of the elements' width,
// whatever they are, hence may_alias.
template <class T>
MEMPLAN_KERNEL void Copy(const CopyParams& p, const T* x, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* from = x;
  Bits* to = y;
  if (from == to) return;
  for (int32_t i = 0; i < p.count; ++i) to[i] = from[i];
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_COPY_H_
