// Copies between strided views, and fills. Elements are moved as bits, by width.
#ifndef MEMPLAN_KERNELS_STRIDED_COPY_H_
#define MEMPLAN_KERNELS_STRIDED_COPY_H_

#include "base.h"

namespace kernels {

// Offsets and strides in elements. Loops run in the order of dims, which need not be the order of
// either tensor; unused leading dims are 1.
struct StridedCopyParams {
  int32_t src_offset;
  int32_t dst_offset;
  int32_t dims[kMaxRank];
  int32_t src_strides[kMaxRank];
  int32_t dst_strides[kMaxRank];
};
MEMPLAN_FIELDS(StridedCopyParams, src_offset, dst_offset, dims, src_strides, dst_strides);

// The two inner loops of StridedCopy: rows x columns. When the source runs along the rows and the
// destination along the columns (a transposition), blocks keep the lines of both in the cache.
template <class T>
inline void StridedCopyPlane(const StridedCopyParams& p, const T* x, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const int32_t rows = p.dims[kMaxRank - 2];
  const int32_t columns = p.dims[kMaxRank - 1];
  const int32_t xr = p.src_strides[kMaxRank - 2];
  const int32_t xc = p.src_strides[kMaxRank - 1];
  const int32_t yr = p.dst_strides[kMaxRank - 2];
  const int32_t yc = p.dst_strides[kMaxRank - 1];
  if (xc == 1 && yc == 1) {
    for (int32_t r = 0; r < rows; ++r) {
      const Bits* from = x + r * xr;
      Bits* to = y + r * yr;
      for (int32_t c = 0; c < columns; ++c) to[c] = from[c];
    }
    return;
  }
  constexpr int32_t kBlock = 16;
  for (int32_t r0 = 0; r0 < rows; r0 += kBlock) {
    const int32_t r1 = rows - r0 < kBlock ? rows : r0 + kBlock;
    for (int32_t c0 = 0; c0 < columns; c0 += kBlock) {
      const int32_t c1 = columns - c0 < kBlock ? columns : c0 + kBlock;
      for (int32_t r = r0; r < r1; ++r) {
        const Bits* from = x + r * xr;
        Bits* to = y + r * yr;
        for (int32_t c = c0; c < c1; ++c) to[c * yc] = from[c * xc];
      }
    }
  }
}

// y[dst_offset + i . dst_strides] = x[src_offset + i . src_strides] for each index i within dims;
// nothing when both sides are the same place.
template <class T>
MEMPLAN_KERNEL void StridedCopy(const StridedCopyParams& p, const T* x, T* y) {
  const T* from = x + p.src_offset;
  T* to = y + p.dst_offset;
  if (from == to) return;
  const int32_t* d = p.dims;
  const int32_t* a = p.src_strides;
  const int32_t* b = p.dst_strides;
  for (int32_t i0 = 0; i0 < d[0]; ++i0) {
    for (int32_t i1 = 0; i1 < d[1]; ++i1) {
      for (int32_t i2 = 0; i2 < d[2]; ++i2) {
        for (int32_t i3 = 0; i3 < d[3]; ++i3) {
          for (int32_t i4 = 0; i4 < d[4]; ++i4) {
            for (int32_t i5 = 0; i5 < d[5]; ++i5) {
              const int32_t xi =
                  i0 * a[0] + i1 * a[1] + i2 * a[2] + i3 * a[3] + i4 * a[4] + i5 * a[5];
              const int32_t yi =
                  i0 * b[0] + i1 * b[1] + i2 * b[2] + i3 * b[3] + i4 * b[4] + i5 * b[5];
              StridedCopyPlane(p, from + xi, to + yi);
            }
          }
        }
      }
    }
  }
}

struct FillParams {
  int32_t count;  // elements
};
MEMPLAN_FIELDS(FillParams, count);

// y[i] = *value; 0 when value is null.
template <class T>
MEMPLAN_KERNEL void Fill(const FillParams& p, const T* value, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* from = value;
  Bits* to = y;
  const T bits = from == nullptr ? T(0) : *from;
  for (int32_t i = 0; i < p.count; ++i) to[i] = bits;
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_STRIDED_COPY_H_
