// Blocks of matrices that are transposed in registers, for the packing of panels.
#ifndef MEMPLAN_KERNELS_TRANSPOSE_FOUR_H_
#define MEMPLAN_KERNELS_TRANSPOSE_FOUR_H_

#include "vector.h"

namespace kernels {

// to[i * to_stride + j] = from[j * from_stride + i] for i, j < 4.
MEMPLAN_INLINE void TransposeFour(const float* from, ptrdiff_t from_stride, float* to,
                                  ptrdiff_t to_stride) {
#if defined(__clang__) || __GNUC__ >= 12
  if constexpr (VectorLanes(4) == 4) {
    using V = Vector<4>::Type;
    using InArray = Vector<4>::InArray;
    const V a = *reinterpret_cast<const InArray*>(from);
    const V b = *reinterpret_cast<const InArray*>(from + from_stride);
    const V c = *reinterpret_cast<const InArray*>(from + 2 * from_stride);
    const V d = *reinterpret_cast<const InArray*>(from + 3 * from_stride);
    const V ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const V ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const V cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const V cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *reinterpret_cast<InArray*>(to) = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *reinterpret_cast<InArray*>(to + to_stride) =
        __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *reinterpret_cast<InArray*>(to + 2 * to_stride) =
        __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *reinterpret_cast<InArray*>(to + 3 * to_stride) =
        __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
    return;
  }
#endif
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) to[i * to_stride + j] = from[j * from_stride + i];
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_TRANSPOSE_FOUR_H_
