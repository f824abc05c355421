// Discrete Fourier transforms by their definition.
#ifndef MEMPLAN_KERNELS_DFT_H_
#define MEMPLAN_KERNELS_DFT_H_

#include "base.h"

namespace kernels {

// x holds batches of signals: time x inner x components (1: real, 2: complex). Each batch gives
// `frames` transforms, which start `frame_stride` elements apart.
struct DftParams {
  int32_t batches;
  int32_t frames;
  int32_t batch_stride;  // elements of x from one batch to the next
  int32_t frame_stride;
  int32_t length;  // elements of time that are there, at most `points`; zeros follow
  int32_t inner;
  int32_t components;
  int32_t points;  // of the transform
  int32_t bins;    // of the result, at most `points`
  int32_t inverse;
};
MEMPLAN_FIELDS(DftParams, batches, frames, batch_stride, frame_stride, length, inner, components,
               points, bins, inverse);

// y: batches x frames x bins x inner x 2. roots: cosine and sine of 2 pi k / points for each k.
// window: a factor for each element of time; null: 1.
template <class T>
MEMPLAN_KERNEL void Dft(const DftParams& p, const T* x, const T* window, const T* roots, T* y) {
  const T direction = p.inverse != 0 ? T(1) : T(-1);
  const T scale = p.inverse != 0 ? T(1) / static_cast<T>(p.points) : T(1);
  for (int32_t b = 0; b < p.batches; ++b) {
    for (int32_t f = 0; f < p.frames; ++f) {
      const T* signal = x + b * p.batch_stride + f * p.frame_stride;
      for (int32_t k = 0; k < p.bins; ++k) {
        for (int32_t i = 0; i < p.inner; ++i) {
          T real = T(0);
          T imaginary = T(0);
          int32_t turn = 0;  // k * n modulo points
          for (int32_t n = 0; n < p.length; ++n) {
            const T* at = signal + (n * p.inner + i) * p.components;
            const T factor = window == nullptr ? T(1) : window[n];
            const T re = at[0] * factor;
            const T im = p.components > 1 ? at[1] * factor : T(0);
            const T c = roots[2 * turn];
            const T s = direction * roots[2 * turn + 1];
            real += re * c - im * s;
            imaginary += re * s + im * c;
            turn += k;
            if (turn >= p.points) turn -= p.points;
          }
          *y++ = real * scale;
          *y++ = imaginary * scale;
        }
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_DFT_H_
