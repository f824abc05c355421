// Gathers and compresses. Elements are moved as bits, by width. An index out of range is clamped
// into it: firmware has nowhere to report it, and must not read outside of its tensors.
#ifndef MEMPLAN_KERNELS_GATHER_H_
#define MEMPLAN_KERNELS_GATHER_H_

#include "base.h"

namespace kernels {

// `index` of a dimension of `dim` elements (negative: from the back), clamped into [0, dim).
template <class I>
inline int32_t WrapIndex(I index, int32_t dim) {
  const I wrapped = static_cast<I>(index < 0 ? index + static_cast<I>(dim) : index);
  if (wrapped < 0) return 0;
  return wrapped < static_cast<I>(dim) ? static_cast<int32_t>(wrapped) : dim - 1;
}

struct GatherParams {
  int32_t outer;  // product of the dimensions before the axis
  int32_t axis;   // length of the axis, 1 or more
  int32_t count;  // number of indices
  int32_t inner;  // product of the dimensions behind the axis
};
MEMPLAN_FIELDS(GatherParams, outer, axis, count, inner);

// y[o][i][:] = x[o][indices[i]][:].
template <class T, class I>
MEMPLAN_KERNEL void Gather(const GatherParams& p, const T* x, const I* indices, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* from = x;
  Bits* to = y;
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t i = 0; i < p.count; ++i) {
      const Bits* row = from + (o * p.axis + WrapIndex(indices[i], p.axis)) * p.inner;
      for (int32_t k = 0; k < p.inner; ++k) to[k] = row[k];
      to += p.inner;
    }
  }
}

// The axis has stride 0 in x_strides; unused leading dims are 1.
struct GatherElementsParams {
  int32_t axis;            // length of the axis in x, 1 or more
  int32_t axis_stride;     // its stride in x
  int32_t dims[kMaxRank];  // of the indices and the output
  int32_t x_strides[kMaxRank];
};
MEMPLAN_FIELDS(GatherElementsParams, axis, axis_stride, dims, x_strides);

// Element `i` of the tensor with C order dims, as an offset by other strides.
inline int32_t OffsetOf(int32_t i, const int32_t (&dims)[kMaxRank],
                        const int32_t (&strides)[kMaxRank]) {
  int32_t offset = 0;
  for (int a = kMaxRank - 1; a >= 0; --a) {
    offset += i % dims[a] * strides[a];
    i /= dims[a];
  }
  return offset;
}

// y[j] = x[j, with the index along the axis replaced by indices[j]].
template <class T, class I>
MEMPLAN_KERNEL void GatherElements(const GatherElementsParams& p, const T* x, const I* indices,
                                   T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* from = x;
  Bits* to = y;
  constexpr int kLast = kMaxRank - 1;
  int32_t rows = 1;
  for (int a = 0; a < kLast; ++a) rows *= p.dims[a];
  const int32_t columns = p.dims[kLast];
  for (int32_t row = 0; row < rows; ++row) {
    const int32_t base = OffsetOf(row * columns, p.dims, p.x_strides);
    for (int32_t c = 0; c < columns; ++c) {
      const int32_t at = WrapIndex(indices[row * columns + c], p.axis);
      to[row * columns + c] = from[base + c * p.x_strides[kLast] + at * p.axis_stride];
    }
  }
}

// Tuples of `depth` indices, each naming a slice of `inner` elements within one batch of x.
struct GatherNdParams {
  int32_t batches;
  int32_t tuples;          // in each batch
  int32_t depth;           // up to kMaxRank
  int32_t inner;           // elements of a slice
  int32_t batch_elements;  // of x
  int32_t dims[kMaxRank];  // the indexed dimensions of x; the first `depth` count
  int32_t strides[kMaxRank];
};
MEMPLAN_FIELDS(GatherNdParams, batches, tuples, depth, inner, batch_elements, dims, strides);

// y[b][t][:] = x[b][indices[b][t]][:].
template <class T>
MEMPLAN_KERNEL void GatherNd(const GatherNdParams& p, const T* x, const int64_t* indices, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  Bits* to = y;
  for (int32_t b = 0; b < p.batches; ++b) {
    for (int32_t t = 0; t < p.tuples; ++t) {
      const Bits* from = x + b * p.batch_elements;
      for (int32_t d = 0; d < p.depth; ++d) {
        from += WrapIndex(indices[d], p.dims[d]) * p.strides[d];
      }
      indices += p.depth;
      for (int32_t k = 0; k < p.inner; ++k) to[k] = from[k];
      to += p.inner;
    }
  }
}

struct CompressParams {
  int32_t outer;       // product of the dimensions before the axis
  int32_t axis;        // length of the axis
  int32_t conditions;  // number of conditions, at most `axis`
  int32_t inner;       // product of the dimensions behind the axis
};
MEMPLAN_FIELDS(CompressParams, outer, axis, conditions, inner);

// y = the slices of x along the axis whose condition is true.
template <class T>
MEMPLAN_KERNEL void Compress(const CompressParams& p, const T* x, const bool* condition, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* from = x;
  Bits* to = y;
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t i = 0; i < p.conditions; ++i) {
      if (!condition[i]) continue;
      const Bits* row = from + (o * p.axis + i) * p.inner;
      for (int32_t k = 0; k < p.inner; ++k) to[k] = row[k];
      to += p.inner;
    }
  }
}

struct ReverseSequenceParams {
  int32_t outer;          // the larger of both axes' strides separates it from the inner one:
  int32_t outer_is_time;  // 1: dimensions are time x batch; 0: batch x time
  int32_t dim1;           // length of the second dimension
  int32_t inner;          // elements behind both
};
MEMPLAN_FIELDS(ReverseSequenceParams, outer, outer_is_time, dim1, inner);

// In each batch, the first lengths[batch] steps of time come in reverse, the others as they are.
template <class T>
MEMPLAN_KERNEL void ReverseSequence(const ReverseSequenceParams& p, const T* x,
                                    const int64_t* lengths, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* from = x;
  Bits* to = y;
  const int32_t steps = p.outer_is_time != 0 ? p.outer : p.dim1;
  for (int32_t i = 0; i < p.outer; ++i) {
    for (int32_t j = 0; j < p.dim1; ++j) {
      const int32_t time = p.outer_is_time != 0 ? i : j;
      const int64_t asked = lengths[p.outer_is_time != 0 ? j : i];
      const int32_t length = asked < steps ? static_cast<int32_t>(asked) : steps;
      const int32_t source = time < length ? length - 1 - time : time;
      const int32_t row = p.outer_is_time != 0 ? source * p.dim1 + j : i * p.dim1 + source;
      for (int32_t k = 0; k < p.inner; ++k) to[k] = from[row * p.inner + k];
      to += p.inner;
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_GATHER_H_
