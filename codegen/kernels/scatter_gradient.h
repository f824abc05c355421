// Gradients of operators that read elements by index: zeros, to which each gradient is added at the
// place that its element was read from. An index out of range is clamped into it (see gather.h).
#ifndef MEMPLAN_KERNELS_SCATTER_GRADIENT_H_
#define MEMPLAN_KERNELS_SCATTER_GRADIENT_H_

#include "base.h"
#include "gather.h"
#include "pad.h"

namespace kernels {

template <class T>
inline void SetZero(int32_t count, T* x) {
  for (int32_t i = 0; i < count; ++i) x[i] = T(0);
}

// dx[o][indices[i]][:] += dy[o][i][:].
template <class T, class I>
MEMPLAN_KERNEL void GatherGrad(const GatherParams& p, const I* indices, const T* dy, T* dx) {
  SetZero(p.outer * p.axis * p.inner, dx);
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t i = 0; i < p.count; ++i) {
      T* row = dx + (o * p.axis + WrapIndex(indices[i], p.axis)) * p.inner;
      for (int32_t k = 0; k < p.inner; ++k) row[k] += dy[k];
      dy += p.inner;
    }
  }
}

// The axis has stride 0 in x_strides; unused leading dims are 1.
struct GatherElementsGradParams {
  int32_t count;           // elements of dx
  int32_t axis;            // length of the axis in dx, 1 or more
  int32_t axis_stride;     // its stride in dx
  int32_t dims[kMaxRank];  // of the indices and dy
  int32_t x_strides[kMaxRank];
};
MEMPLAN_FIELDS(GatherElementsGradParams, count, axis, axis_stride, dims, x_strides);

// dx[j, with the index along the axis replaced by indices[j]] += dy[j].
template <class T, class I>
MEMPLAN_KERNEL void GatherElementsGrad(const GatherElementsGradParams& p, const T* dy,
                                       const I* indices, T* dx) {
  SetZero(p.count, dx);
  int32_t n = 1;
  for (int a = 0; a < kMaxRank; ++a) n *= p.dims[a];
  for (int32_t j = 0; j < n; ++j) {
    const int32_t at = WrapIndex(indices[j], p.axis) * p.axis_stride;
    dx[OffsetOf(j, p.dims, p.x_strides) + at] += dy[j];
  }
}

// dx[batch][indices[batch][t]][:] += dy[batch][t][:].
template <class T>
MEMPLAN_KERNEL void GatherNdGrad(const GatherNdParams& p, const int64_t* indices, const T* dy,
                                 T* dx) {
  SetZero(p.batches * p.batch_elements, dx);
  for (int32_t b = 0; b < p.batches; ++b) {
    for (int32_t t = 0; t < p.tuples; ++t) {
      T* at = dx + b * p.batch_elements;
      for (int32_t d = 0; d < p.depth; ++d) {
        at += WrapIndex(indices[d], p.dims[d]) * p.strides[d];
      }
      indices += p.depth;
      for (int32_t k = 0; k < p.inner; ++k) at[k] += dy[k];
      dy += p.inner;
    }
  }
}

// The sum of dy over the outputs of Pad that are copies of each element.
template <class T>
MEMPLAN_KERNEL void PadGrad(const PadParams& p, const T* dy, T* dx) {
  int32_t inputs = 1;
  int32_t outputs = 1;
  for (int a = 0; a < kMaxRank; ++a) {
    inputs *= p.in[a];
    outputs *= p.out[a];
  }
  SetZero(inputs, dx);
  for (int32_t o = 0; o < outputs; ++o) {
    int32_t rest = o;
    int32_t stride = 1;
    int32_t offset = 0;
    bool inside = true;
    for (int a = kMaxRank - 1; a >= 0; --a) {
      const int32_t source = PadSource(p.mode, rest % p.out[a] - p.begin[a], p.in[a]);
      rest /= p.out[a];
      inside = inside && source >= 0;
      offset += source * stride;
      stride *= p.in[a];
    }
    if (inside) dx[offset] += dy[o];
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_SCATTER_GRADIENT_H_
