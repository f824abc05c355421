// Linear quantisation as elementwise arithmetic between floats and integers.
#ifndef MEMPLAN_KERNELS_QUANTIZE_H_
#define MEMPLAN_KERNELS_QUANTIZE_H_

#include "base.h"
#include "element.h"

namespace kernels {

// outer x channels x inner elements; scale and zero point have one entry for each channel.
struct QuantizeParams {
  int32_t outer;
  int32_t channels;
  int32_t inner;
};
MEMPLAN_FIELDS(QuantizeParams, outer, channels, inner);

// round(value) + zero_point in the range of Q; ties go to even.
template <class Q>
inline Q Saturate(float value, float zero_point) {
  const float shifted = std::nearbyint(value) + zero_point;
  if (!(shifted > static_cast<float>(Element<Q>::kLowest))) return Element<Q>::kLowest;
  if (shifted >= static_cast<float>(Element<Q>::kHighest)) return Element<Q>::kHighest;
  return static_cast<Q>(shifted);
}

// y = saturate(round(x / scale) + zero_point); zero_point null: 0.
template <class Q>
MEMPLAN_KERNEL void QuantizeLinear(const QuantizeParams& p, const float* x, const float* scale,
                                   const Q* zero_point, Q* y) {
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t c = 0; c < p.channels; ++c) {
      const float step = scale[c];
      const float zero = zero_point == nullptr ? 0.0F : static_cast<float>(zero_point[c]);
      for (int32_t i = 0; i < p.inner; ++i) y[i] = Saturate<Q>(x[i] / step, zero);
      x += p.inner;
      y += p.inner;
    }
  }
}

// y = (x - zero_point) * scale; zero_point null: 0.
template <class Q>
MEMPLAN_KERNEL void DequantizeLinear(const QuantizeParams& p, const Q* x, const float* scale,
                                     const Q* zero_point, float* y) {
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t c = 0; c < p.channels; ++c) {
      const float step = scale[c];
      const Q zero = zero_point == nullptr ? static_cast<Q>(0) : zero_point[c];
      for (int32_t i = 0; i < p.inner; ++i) {
        y[i] = static_cast<float>(WrapSub(static_cast<int32_t>(x[i]), static_cast<int32_t>(zero))) *
               step;
      }
      x += p.inner;
      y += p.inner;
    }
  }
}

struct DynamicQuantizeParams {
  int32_t count;  // elements
};
MEMPLAN_FIELDS(DynamicQuantizeParams, count);

// Quantises x to uint8 with the scale and zero point that just hold its range and 0.
MEMPLAN_KERNEL void DynamicQuantizeLinear(const DynamicQuantizeParams& p, const float* x,
                                          uint8_t* y, float* scale, uint8_t* zero_point) {
  float low = 0.0F;
  float high = 0.0F;
  for (int32_t i = 0; i < p.count; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  const float step = high > low ? (high - low) / 255.0F : 1.0F;
  const uint8_t zero = Saturate<uint8_t>(-low / step, 0.0F);
  for (int32_t i = 0; i < p.count; ++i) {
    y[i] = Saturate<uint8_t>(x[i] / step, static_cast<float>(zero));
  }
  if (scale != nullptr) *scale = step;
  if (zero_point != nullptr) *zero_point = zero;
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_QUANTIZE_H_
