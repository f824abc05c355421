// Padding and cropping.
#ifndef MEMPLAN_KERNELS_PAD_H_
#define MEMPLAN_KERNELS_PAD_H_

#include "base.h"

namespace kernels {

constexpr int32_t kPadConstant = 0;
constexpr int32_t kPadReflect = 1;
constexpr int32_t kPadEdge = 2;
constexpr int32_t kPadWrap = 3;

// Dimensions are right-aligned; unused leading ones are 1, with begin 0.
struct PadParams {
  int32_t mode;             // kPad...
  int32_t in[kMaxRank];     // input dimensions
  int32_t out[kMaxRank];    // output dimensions
  int32_t begin[kMaxRank];  // output index of input index 0; negative: that many are cut off
};
MEMPLAN_FIELDS(PadParams, mode, in, out, begin);

// The input index at `at` (which may be outside) of a dimension of `dim` elements; -1: padding.
inline int32_t PadSource(int32_t mode, int32_t at, int32_t dim) {
  if (at >= 0 && at < dim) return at;
  if (mode == kPadConstant) return -1;
  if (mode == kPadEdge) return at < 0 ? 0 : dim - 1;
  // Reflection about the edge elements has period 2 (dim - 1), wrapping has period dim.
  const int32_t period = mode == kPadReflect ? (dim > 1 ? 2 * (dim - 1) : 1) : dim;
  const int32_t r = at % period + (at % period < 0 ? period : 0);
  return r < dim ? r : period - r;
}

// y = x padded; *value (null: 0) is the padding of kPadConstant. x has elements unless the mode is
// kPadConstant.
template <class T>
MEMPLAN_KERNEL void Pad(const PadParams& p, const T* x, const T* value, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* given = value;
  const T padding = given == nullptr ? T(0) : *given;
  constexpr int kLast = kMaxRank - 1;
  const int32_t out = p.out[kLast];
  const int32_t in = p.in[kLast];
  const int32_t begin = p.begin[kLast];
  // [first, last): the outputs of a row that are elements of the row of the input.
  const int32_t first = begin <= 0 ? 0 : begin < out ? begin : out;
  int32_t last = in + begin < out ? in + begin : out;
  if (last < first) last = first;
  int32_t rows = 1;
  for (int a = 0; a < kLast; ++a) rows *= p.out[a];
  Bits* to = y;
  for (int32_t row = 0; row < rows; ++row, to += out) {
    int32_t rest = row;
    int32_t stride = in;
    int32_t offset = 0;
    bool inside = true;
    for (int a = kLast - 1; a >= 0; --a) {
      const int32_t at = rest % p.out[a] - p.begin[a];
      rest /= p.out[a];
      const int32_t source = PadSource(p.mode, at, p.in[a]);
      inside = inside && source >= 0;
      offset += source * stride;
      stride *= p.in[a];
    }
    if (!inside) {
      for (int32_t i = 0; i < out; ++i) to[i] = padding;
      continue;
    }
    const Bits* from = x + offset;
    for (int32_t i = 0; i < first; ++i) {
      const int32_t source = PadSource(p.mode, i - begin, in);
      to[i] = source < 0 ? padding : from[source];
    }
    for (int32_t i = first; i < last; ++i) to[i] = from[i - begin];
    for (int32_t i = last; i < out; ++i) {
      const int32_t source = PadSource(p.mode, i - begin, in);
      to[i] = source < 0 ? padding : from[source];
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_PAD_H_
