// Conversion between element types. In-place safe where both are equally wide.
#ifndef MEMPLAN_KERNELS_CAST_H_
#define MEMPLAN_KERNELS_CAST_H_

#include "base.h"
#include "element.h"

namespace kernels {

struct CastParams {
  int32_t count;  // elements
};
MEMPLAN_FIELDS(CastParams, count);

// x towards zero; what does not fit, NaN too, gives the lowest value, as on x86 (and so in numpy
// and ONNX Runtime there).
template <class Float>
MEMPLAN_KERNEL int32_t TruncateToInt32(Float x) {
  constexpr Float kEnd = Float(2147483648.0);
  return x >= -kEnd && x < kEnd ? static_cast<int32_t>(x) : INT32_MIN;
}

template <class Float>
MEMPLAN_KERNEL int64_t TruncateToInt64(Float x) {
  constexpr Float kEnd = Float(9223372036854775808.0);
  return x >= -kEnd && x < kEnd ? static_cast<int64_t>(x) : INT64_MIN;
}

// One element. Integers keep their low bits. Floating point to bool: whether not zero; to an
// integer: towards zero, then (for types narrower than int32, and uint32) the low bits.
template <class From, class To>
MEMPLAN_KERNEL To CastElement(From x) {
  if constexpr (Element<From>::kIsFloat && !Element<To>::kIsFloat) {
    if constexpr (Element<To>::kHighest == To(1)) {
      return x != From(0);  // bool
    } else if constexpr (sizeof(To) < 4 || (sizeof(To) == 4 && Element<To>::kIsSigned)) {
      return static_cast<To>(TruncateToInt32(x));
    } else if constexpr (Element<To>::kIsSigned || sizeof(To) == 4) {
      return static_cast<To>(TruncateToInt64(x));
    } else {
      constexpr From kHalf = From(9223372036854775808.0);
      if (x >= kHalf && x < From(2) * kHalf) return static_cast<To>(x);
      return static_cast<To>(TruncateToInt64(x));
    }
  } else if constexpr (Element<To>::kHighest == To(1)) {
    return x != From(0);
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
MEMPLAN_KERNEL void Cast(const CastParams& p, const From* x, To* y) {
  for (int32_t i = 0; i < p.count; ++i) y[i] = CastElement<From, To>(x[i]);
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_CAST_H_
