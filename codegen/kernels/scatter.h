// Scatters: a copy of the data, then updates at indexed places, in order. The output may be the
// data itself. An index out of range is clamped into it (see gather.h).
#ifndef MEMPLAN_KERNELS_SCATTER_H_
#define MEMPLAN_KERNELS_SCATTER_H_

#include "base.h"
#include "element.h"
#include "gather.h"

namespace kernels {

// How an update joins the element it meets. Integers wrap.
struct ScatterAssign {
  template <class T>
  static T Apply(T, T update) {
    return update;
  }
};
struct ScatterAdd {
  template <class T>
  static T Apply(T old, T update) {
    return WrapAdd(old, update);
  }
};
struct ScatterMul {
  template <class T>
  static T Apply(T old, T update) {
    return WrapMul(old, update);
  }
};
struct ScatterMax {
  template <class T>
  static T Apply(T old, T update) {
    return old < update ? update : old;
  }
};
struct ScatterMin {
  template <class T>
  static T Apply(T old, T update) {
    return update < old ? update : old;
  }
};

// The axis has stride 0 in y_strides; unused leading dims are 1.
struct ScatterElementsParams {
  int32_t count;           // elements of the data
  int32_t axis;            // length of the axis in the data, 1 or more
  int32_t axis_stride;     // its stride
  int32_t dims[kMaxRank];  // of the indices and the updates
  int32_t y_strides[kMaxRank];
};
MEMPLAN_FIELDS(ScatterElementsParams, count, axis, axis_stride, dims, y_strides);

// y = data; y[j, with the index along the axis replaced by indices[j]] takes updates[j].
template <class T, class I, class Reduction>
MEMPLAN_KERNEL void ScatterElements(const ScatterElementsParams& p, const T* data, const I* indices,
                                    const T* updates, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* old = data;
  const Bits* from = updates;
  Bits* to = y;
  if (old != to) {
    for (int32_t i = 0; i < p.count; ++i) to[i] = old[i];
  }
  int32_t n = 1;
  for (int a = 0; a < kMaxRank; ++a) n *= p.dims[a];
  for (int32_t j = 0; j < n; ++j) {
    Bits* at =
        to + OffsetOf(j, p.dims, p.y_strides) + WrapIndex(indices[j], p.axis) * p.axis_stride;
    *at = Reduction::template Apply<T>(*at, from[j]);
  }
}

// Tuples of `depth` indices, each naming a slice of `inner` elements of the data.
struct ScatterNdParams {
  int32_t count;  // elements of the data
  int32_t tuples;
  int32_t depth;           // up to kMaxRank
  int32_t inner;           // elements of a slice
  int32_t dims[kMaxRank];  // the indexed dimensions of the data; the first `depth` count
  int32_t strides[kMaxRank];
};
MEMPLAN_FIELDS(ScatterNdParams, count, tuples, depth, inner, dims, strides);

// y = data; y[indices[t]][:] takes updates[t][:].
template <class T, class Reduction>
MEMPLAN_KERNEL void ScatterNd(const ScatterNdParams& p, const T* data, const int64_t* indices,
                              const T* updates, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* old = data;
  const Bits* from = updates;
  Bits* to = y;
  if (old != to) {
    for (int32_t i = 0; i < p.count; ++i) to[i] = old[i];
  }
  for (int32_t t = 0; t < p.tuples; ++t) {
    Bits* at = to;
    for (int32_t d = 0; d < p.depth; ++d) {
      at += WrapIndex(indices[d], p.dims[d]) * p.strides[d];
    }
    indices += p.depth;
    for (int32_t k = 0; k < p.inner; ++k) at[k] = Reduction::template Apply<T>(at[k], from[k]);
    from += p.inner;
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_SCATTER_H_
