// Resampling of two axes where the elements side by side fill vectors: images in blocks of
// channels, and those with the channels last.
#ifndef MEMPLAN_KERNELS_RESIZE_LANES_H_
#define MEMPLAN_KERNELS_RESIZE_LANES_H_

#include "resize.h"
#include "vector.h"

namespace kernels {

// The parts of ResizeParams that are left: axes 2 and 3, here height and width.
struct ResizeLanes {
  int32_t outer;
  int32_t inner;  // a multiple of the lanes
  int32_t in[2];
  int32_t out[2];
};

MEMPLAN_INLINE ResizeLanes ResizeLanesOf(const ResizeParams& p) {
  return {p.outer, p.inner, {p.in[2], p.in[3]}, {p.out[2], p.out[3]}};
}

template <int Width>
MEMPLAN_SHARED_FUNCTION void ResizeNearestRows(ResizeLanes p, const float* x, const int32_t* rows,
                                               const int32_t* columns, float* y) {
  using InArray = typename Vector<Width>::InArray;
  const ptrdiff_t row_floats = static_cast<ptrdiff_t>(p.in[1]) * p.inner;
  for (int32_t o = 0; o < p.outer; ++o, x += p.in[0] * row_floats) {
    for (int32_t a = 0; a < p.out[0]; ++a) {
      const float* row = x + rows[a] * row_floats;
      for (int32_t b = 0; b < p.out[1]; ++b) {
        const float* from = row + static_cast<ptrdiff_t>(columns[b]) * p.inner;
        for (int32_t k = 0; k < p.inner; k += Width, y += Width) {
          *reinterpret_cast<InArray*>(y) = *reinterpret_cast<const InArray*>(from + k);
        }
      }
    }
  }
}

// ResizeNearest of floats where only axes 2 and 3 are there, and Lanes divide p.inner.
template <int Lanes>
MEMPLAN_KERNEL void ResizeNearestLanes(const ResizeParams& p, const float* x,
                                       const int32_t* indices, float* y) {
  ResizeNearestRows<VectorLanes(Lanes)>(ResizeLanesOf(p), x, indices + p.first[2],
                                        indices + p.first[3], y);
}

// Two taps for each axis.
template <int Width>
MEMPLAN_SHARED_FUNCTION void ResizeLinearRows(ResizeLanes p, const float* x, const int32_t* rows,
                                              const int32_t* columns, const float* row_weights,
                                              const float* column_weights, float* y) {
  using V = typename Vector<Width>::Type;
  using InArray = typename Vector<Width>::InArray;
  const ptrdiff_t row_floats = static_cast<ptrdiff_t>(p.in[1]) * p.inner;
  for (int32_t o = 0; o < p.outer; ++o, x += p.in[0] * row_floats) {
    for (int32_t a = 0; a < p.out[0]; ++a) {
      const float* upper = x + rows[2 * a] * row_floats;
      const float* lower = x + rows[2 * a + 1] * row_floats;
      const V upper_weight = row_weights[2 * a] - V{};
      const V lower_weight = row_weights[2 * a + 1] - V{};
      for (int32_t b = 0; b < p.out[1]; ++b) {
        const ptrdiff_t left = static_cast<ptrdiff_t>(columns[2 * b]) * p.inner;
        const ptrdiff_t right = static_cast<ptrdiff_t>(columns[2 * b + 1]) * p.inner;
        const V left_weight = column_weights[2 * b] - V{};
        const V right_weight = column_weights[2 * b + 1] - V{};
        for (int32_t k = 0; k < p.inner; k += Width, y += Width) {
          const V top = left_weight * *reinterpret_cast<const InArray*>(upper + left + k) +
                        right_weight * *reinterpret_cast<const InArray*>(upper + right + k);
          const V bottom = left_weight * *reinterpret_cast<const InArray*>(lower + left + k) +
                           right_weight * *reinterpret_cast<const InArray*>(lower + right + k);
          *reinterpret_cast<InArray*>(y) = upper_weight * top + lower_weight * bottom;
        }
      }
    }
  }
}

// ResizeWeighted of floats where only axes 2 and 3 are there, with two taps each inside the input,
// and Lanes divide p.inner.
template <int Lanes>
MEMPLAN_KERNEL void ResizeLinearLanes(const ResizeParams& p, const float* x, const int32_t* indices,
                                      const float* weights, float* y) {
  ResizeLinearRows<VectorLanes(Lanes)>(ResizeLanesOf(p), x, indices + p.first[2],
                                       indices + p.first[3], weights + p.first[2],
                                       weights + p.first[3], y);
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_RESIZE_LANES_H_
