// Sums of gradients over calls.
#ifndef MEMPLAN_KERNELS_ACCUMULATE_H_
#define MEMPLAN_KERNELS_ACCUMULATE_H_

#include "base.h"

namespace kernels {

struct AccumulateParams {
  int32_t count;  // elements
};
MEMPLAN_FIELDS(AccumulateParams, count);

// sum[i] = buffer[i] + gradient[i], without the buffer where *overwrites; `updated` (may be null)
// becomes true. A null `overwrites` is false. `sum` may be `buffer` or `gradient`.
template <class T>
MEMPLAN_KERNEL void Accumulate(const AccumulateParams& p, const T* buffer, const T* gradient,
                               const bool* overwrites, bool* updated, T* sum) {
  if (overwrites != nullptr && *overwrites) {
    for (int32_t i = 0; i < p.count; ++i) sum[i] = gradient[i];
  } else {
    for (int32_t i = 0; i < p.count; ++i) sum[i] = buffer[i] + gradient[i];
  }
  if (updated != nullptr) *updated = true;
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_ACCUMULATE_H_
