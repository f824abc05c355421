// Facts about element types, and arithmetic on them without undefined behaviour: integers wrap.
#ifndef MEMPLAN_KERNELS_ELEMENT_H_
#define MEMPLAN_KERNELS_ELEMENT_H_

#include "base.h"

namespace kernels {

// Wide: the type to calculate in. For integers it is unsigned and no narrower than int, so that
// neither promotion nor overflow is undefined. Lowest and highest are the values that lose every
// comparison: infinities for floating point.
template <class T>
struct Element;

#define MEMPLAN_ELEMENT_(T, WideT, is_float, is_signed, lowest, highest) \
  template <>                                                            \
  struct Element<T> {                                                    \
    using Wide = WideT;                                                  \
    static constexpr bool kIsFloat = is_float;                           \
    static constexpr bool kIsSigned = is_signed;                         \
    static constexpr T kLowest = lowest;                                 \
    static constexpr T kHighest = highest;                               \
  }
MEMPLAN_ELEMENT_(float, float, true, true, -INFINITY, INFINITY);
MEMPLAN_ELEMENT_(double, double, true, true, -static_cast<double>(INFINITY),
                 static_cast<double>(INFINITY));
MEMPLAN_ELEMENT_(int8_t, uint32_t, false, true, INT8_MIN, INT8_MAX);
MEMPLAN_ELEMENT_(int16_t, uint32_t, false, true, INT16_MIN, INT16_MAX);
MEMPLAN_ELEMENT_(int32_t, uint32_t, false, true, INT32_MIN, INT32_MAX);
MEMPLAN_ELEMENT_(int64_t, uint64_t, false, true, INT64_MIN, INT64_MAX);
MEMPLAN_ELEMENT_(uint8_t, uint32_t, false, false, 0, UINT8_MAX);
MEMPLAN_ELEMENT_(uint16_t, uint32_t, false, false, 0, UINT16_MAX);
MEMPLAN_ELEMENT_(uint32_t, uint32_t, false, false, 0, UINT32_MAX);
MEMPLAN_ELEMENT_(uint64_t, uint64_t, false, false, 0, UINT64_MAX);
MEMPLAN_ELEMENT_(bool, uint32_t, false, false, false, true);
#undef MEMPLAN_ELEMENT_

template <class T>
using Wide = typename Element<T>::Wide;

template <class T>
MEMPLAN_KERNEL bool IsNegative(T x) {
  if constexpr (Element<T>::kIsSigned) {
    return x < T(0);
  } else {
    return false;
  }
}

template <class T>
MEMPLAN_KERNEL T WrapAdd(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
}

template <class T>
MEMPLAN_KERNEL T WrapSub(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
}

template <class T>
MEMPLAN_KERNEL T WrapMul(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
}

template <class T>
MEMPLAN_KERNEL T WrapNeg(T x) {
  if constexpr (Element<T>::kIsFloat) {
    return -x;
  } else {
    return WrapSub(T(0), x);
  }
}

template <class T>
MEMPLAN_KERNEL T WrapAbs(T x) {
  if constexpr (Element<T>::kIsFloat) {
    return std::fabs(x);
  } else {
    return IsNegative(x) ? WrapNeg(x) : x;
  }
}

// The larger and the smaller one; NaN if either is.
template <class T>
MEMPLAN_KERNEL T NanMax(T a, T b) {
  if constexpr (Element<T>::kIsFloat) {
    return a > b ? a : (a != a ? a : b);
  } else {
    return a > b ? a : b;
  }
}

template <class T>
MEMPLAN_KERNEL T NanMin(T a, T b) {
  if constexpr (Element<T>::kIsFloat) {
    return a < b ? a : (a != a ? a : b);
  } else {
    return a < b ? a : b;
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_ELEMENT_H_
