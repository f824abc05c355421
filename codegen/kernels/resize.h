// Resampling by tables that the generator computes: for each output index of an axis, which input
// indices it takes (taps) and with which weights.
#ifndef MEMPLAN_KERNELS_RESIZE_H_
#define MEMPLAN_KERNELS_RESIZE_H_

#include "base.h"
#include "element.h"

namespace kernels {

constexpr int kResizeAxes = 4;

// The tensor is outer x in[0] x in[1] x in[2] x in[3] x inner; unused leading axes are 1 with one
// tap. The table of axis a starts at entry first[a] and holds out[a] * taps[a] entries.
struct ResizeParams {
  float extrapolation;  // value where an index is negative
  int32_t outer;
  int32_t inner;
  int32_t in[kResizeAxes];
  int32_t out[kResizeAxes];
  int32_t taps[kResizeAxes];
  int32_t first[kResizeAxes];
};
MEMPLAN_FIELDS(ResizeParams, extrapolation, outer, inner, in, out, taps, first);

// One tap for each axis, all indices within the input. Elements are moved as bits, by width.
template <class T>
MEMPLAN_KERNEL void ResizeNearest(const ResizeParams& p, const T* x, const int32_t* indices, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* from = x;
  Bits* to = y;
  const int32_t* i0 = indices + p.first[0];
  const int32_t* i1 = indices + p.first[1];
  const int32_t* i2 = indices + p.first[2];
  const int32_t* i3 = indices + p.first[3];
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t a = 0; a < p.out[0]; ++a) {
      for (int32_t b = 0; b < p.out[1]; ++b) {
        for (int32_t c = 0; c < p.out[2]; ++c) {
          const int32_t plane = ((o * p.in[0] + i0[a]) * p.in[1] + i1[b]) * p.in[2] + i2[c];
          const Bits* row = from + plane * p.in[3] * p.inner;
          for (int32_t d = 0; d < p.out[3]; ++d) {
            for (int32_t k = 0; k < p.inner; ++k) to[k] = row[i3[d] * p.inner + k];
            to += p.inner;
          }
        }
      }
    }
  }
}

// `value` as T: truncated, and within the range of T.
template <class T, class Sum>
inline T ResizeResult(Sum value) {
  if constexpr (!Element<T>::kIsFloat) {
    if (value <= static_cast<Sum>(Element<T>::kLowest)) return Element<T>::kLowest;
    if (value >= static_cast<Sum>(Element<T>::kHighest)) return Element<T>::kHighest;
  }
  return static_cast<T>(value);
}

// The weighted sum of the taps of all axes, in the type Sum.
template <class T, class Sum>
MEMPLAN_KERNEL void ResizeWeighted(const ResizeParams& p, const T* x, const int32_t* indices,
                                   const float* weights, T* y) {
  const int32_t outputs[kResizeAxes] = {p.out[0], p.out[1], p.out[2], p.out[3]};
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t a = 0; a < outputs[0]; ++a) {
      const int32_t ta = p.first[0] + a * p.taps[0];
      for (int32_t b = 0; b < outputs[1]; ++b) {
        const int32_t tb = p.first[1] + b * p.taps[1];
        for (int32_t c = 0; c < outputs[2]; ++c) {
          const int32_t tc = p.first[2] + c * p.taps[2];
          const bool outside = indices[ta] < 0 || indices[tb] < 0 || indices[tc] < 0;
          for (int32_t d = 0; d < outputs[3]; ++d) {
            const int32_t td = p.first[3] + d * p.taps[3];
            for (int32_t k = 0; k < p.inner; ++k) {
              if (outside || indices[td] < 0) {
                *y++ = ResizeResult<T>(static_cast<Sum>(p.extrapolation));
                continue;
              }
              Sum sum = 0;
              for (int32_t i = ta; i < ta + p.taps[0]; ++i) {
                const int32_t at0 = o * p.in[0] + indices[i];
                for (int32_t j = tb; j < tb + p.taps[1]; ++j) {
                  const int32_t at1 = at0 * p.in[1] + indices[j];
                  const Sum w1 = static_cast<Sum>(weights[i]) * static_cast<Sum>(weights[j]);
                  for (int32_t l = tc; l < tc + p.taps[2]; ++l) {
                    const T* row = x + (at1 * p.in[2] + indices[l]) * p.in[3] * p.inner + k;
                    Sum part = 0;
                    for (int32_t m = td; m < td + p.taps[3]; ++m) {
                      part += static_cast<Sum>(weights[m]) *
                              static_cast<Sum>(row[indices[m] * p.inner]);
                    }
                    sum += w1 * static_cast<Sum>(weights[l]) * part;
                  }
                }
              }
              *y++ = ResizeResult<T>(sum);
            }
          }
        }
      }
    }
  }
}

// The adjoint of ResizeWeighted: dx is the sum of the gradients of all outputs that an element is
// part of, with its weights in them.
template <class T>
MEMPLAN_KERNEL void ResizeGrad(const ResizeParams& p, const T* dy, const int32_t* indices,
                               const float* weights, T* dx) {
  const int32_t inputs = p.outer * p.in[0] * p.in[1] * p.in[2] * p.in[3] * p.inner;
  for (int32_t i = 0; i < inputs; ++i) dx[i] = T(0);
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t a = 0; a < p.out[0]; ++a) {
      const int32_t ta = p.first[0] + a * p.taps[0];
      for (int32_t b = 0; b < p.out[1]; ++b) {
        const int32_t tb = p.first[1] + b * p.taps[1];
        for (int32_t c = 0; c < p.out[2]; ++c) {
          const int32_t tc = p.first[2] + c * p.taps[2];
          const bool outside = indices[ta] < 0 || indices[tb] < 0 || indices[tc] < 0;
          for (int32_t d = 0; d < p.out[3]; ++d) {
            const int32_t td = p.first[3] + d * p.taps[3];
            const T* from = dy;
            dy += p.inner;
            if (outside || indices[td] < 0) continue;
            for (int32_t i = ta; i < ta + p.taps[0]; ++i) {
              const int32_t at0 = o * p.in[0] + indices[i];
              for (int32_t j = tb; j < tb + p.taps[1]; ++j) {
                const int32_t at1 = at0 * p.in[1] + indices[j];
                const T w1 = static_cast<T>(weights[i]) * static_cast<T>(weights[j]);
                for (int32_t l = tc; l < tc + p.taps[2]; ++l) {
                  const T w2 = w1 * static_cast<T>(weights[l]);
                  T* row = dx + (at1 * p.in[2] + indices[l]) * p.in[3] * p.inner;
                  for (int32_t m = td; m < td + p.taps[3]; ++m) {
                    const T w = w2 * static_cast<T>(weights[m]);
                    T* to = row + indices[m] * p.inner;
                    for (int32_t k = 0; k < p.inner; ++k) to[k] += w * from[k];
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_RESIZE_H_
