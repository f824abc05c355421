// Copies of contiguous bytes.
#ifndef MEMPLAN_KERNELS_COPY_H_
#define MEMPLAN_KERNELS_COPY_H_

#include "base.h"

namespace kernels {

struct CopyParams {
  int32_t count;  // elements
};
MEMPLAN_FIELDS(CopyParams, count);

// y[i] = x[i]; nothing when both are the same place.
template <class T>
MEMPLAN_KERNEL void Copy(const CopyParams& p, const T* x, T* y) {
  if (x == y) return;
  for (int32_t i = 0; i < p.count; ++i) y[i] = x[i];
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_COPY_H_
