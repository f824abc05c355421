// Clip with bounds in memory, or of types whose bounds a float does not hold. In-place safe.
#ifndef MEMPLAN_KERNELS_CLIP_H_
#define MEMPLAN_KERNELS_CLIP_H_

#include "base.h"
#include "element.h"

namespace kernels {

struct ClipParams {
  int32_t count;  // elements
};
MEMPLAN_FIELDS(ClipParams, count);

// y[i] = x[i] within [*low, *high]; a null bound is absent. *high wins where they cross; NaN stays.
template <class T>
MEMPLAN_KERNEL void ClipTo(const ClipParams& p, const T* x, const T* low, const T* high, T* y) {
  const T lowest = low != nullptr ? *low : Element<T>::kLowest;
  const T highest = high != nullptr ? *high : Element<T>::kHighest;
  for (int32_t i = 0; i < p.count; ++i) {
    const T above = x[i] < lowest ? lowest : x[i];
    y[i] = above > highest ? highest : above;
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_CLIP_H_
