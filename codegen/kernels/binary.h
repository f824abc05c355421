// Elementwise functions of two operands with numpy broadcasting.
//
// In-place safe for an operand that is not broadcast and as wide as the result: the loops visit the
// result in order, and read both operands of an element before they write it.
#ifndef MEMPLAN_KERNELS_BINARY_H_
#define MEMPLAN_KERNELS_BINARY_H_

#include "activation.h"
#include "base.h"
#include "element.h"
#include "lanes.h"

namespace kernels {

// A loop nest over the result, which is contiguous; outermost dimension first. The steps of the
// innermost dimension are 0 or 1.
struct BinaryParams {
  int32_t rank;  // at least 1
  int32_t dims[kMaxRank];
  int32_t a_strides[kMaxRank];  // elements; 0: broadcast
  int32_t b_strides[kMaxRank];
};
MEMPLAN_FIELDS(BinaryParams, rank, dims, a_strides, b_strides);

// One row of the innermost dimension, whole vectors of it where the functor takes them; returns how
// many elements are done.
template <class T, class Function>
MEMPLAN_INLINE int32_t BinaryRowInLanes(int32_t count, const T* a, int32_t a_step, const T* b,
                                        int32_t b_step, T* y) {
  int32_t i = 0;
  if constexpr (Function::kTakesLanes && LanesOf<T>::kCount > 1) {
    using V = typename LanesOf<T>::Type;
    constexpr int32_t kStep = LanesOf<T>::kCount;
    if (a_step == 0 && b_step == 0) return 0;
    // A fixed operand is read before anything is written over it.
    const T a_fixed = *a;
    const T b_fixed = *b;
    for (; i + kStep <= count; i += kStep) {
      const V va = a_step != 0 ? Load<V>(a + i) : Splat<V>(a_fixed);
      const V vb = b_step != 0 ? Load<V>(b + i) : Splat<V>(b_fixed);
      Store(Function::Apply(va, vb), y + i);
    }
  }
  return i;
}

// One row of the innermost dimension.
template <class A, class B, class Y, class Function>
MEMPLAN_KERNEL void BinaryRow(int32_t count, const A* a, int32_t a_step, const B* b, int32_t b_step,
                              Y* y) {
  const A a_fixed = *a;
  const B b_fixed = *b;
  int32_t i = 0;
  if constexpr (Function::kTakesLanes) {
    i = BinaryRowInLanes<Y, Function>(count, a, a_step, b, b_step, y);
  }
  if (a_step != 0 && b_step != 0) {
    for (; i < count; ++i) y[i] = Function::Apply(a[i], b[i]);
  } else if (a_step != 0) {
    for (; i < count; ++i) y[i] = Function::Apply(a[i], b_fixed);
  } else if (b_step != 0) {
    for (; i < count; ++i) y[i] = Function::Apply(a_fixed, b[i]);
  } else {
    const Y fixed = Function::Apply(a_fixed, b_fixed);
    for (; i < count; ++i) y[i] = fixed;
  }
}

// y[i] = Function::Apply(a[i], b[i]).
template <class A, class B, class Y, class Function>
MEMPLAN_KERNEL void Binary(const BinaryParams& p, const A* a, const B* b, Y* y) {
  const int32_t last = p.rank - 1;
  const int32_t count = p.dims[last];
  int32_t rows = 1;
  for (int32_t d = 0; d < last; ++d) rows *= p.dims[d];
  if (count == 0) return;
  int32_t index[kMaxRank] = {};
  for (int32_t row = 0; row < rows; ++row) {
    BinaryRow<A, B, Y, Function>(count, a, p.a_strides[last], b, p.b_strides[last], y);
    y += count;
    // To the next row.
    for (int32_t d = last - 1; d >= 0; --d) {
      a += p.a_strides[d];
      b += p.b_strides[d];
      if (++index[d] < p.dims[d]) break;
      a -= p.a_strides[d] * p.dims[d];
      b -= p.b_strides[d] * p.dims[d];
      index[d] = 0;
    }
  }
}

struct Add : TakesLanes {
  template <class T>
  static T Apply(T a, T b) {
    return WrapAdd(a, b);
  }
};

struct Sub : TakesLanes {
  template <class T>
  static T Apply(T a, T b) {
    return WrapSub(a, b);
  }
};

struct Mul : TakesLanes {
  template <class T>
  static T Apply(T a, T b) {
    return WrapMul(a, b);
  }
};

// Integers truncate towards zero; division by zero, which has no value, gives zero.
struct Div : TakesLanes {
  template <class T>
  static T Apply(T a, T b) {
    if constexpr (Element<T>::kIsFloat) {
      return a / b;
    } else {
      if (b == T(0)) return T(0);
      if (Element<T>::kIsSigned && b == static_cast<T>(-1)) return WrapNeg(a);
      return static_cast<T>(a / b);
    }
  }
};

// The remainder of the division that truncates: it has the sign of a. Zero for integers over zero.
struct Fmod : TakesElements {
  template <class T>
  static T Apply(T a, T b) {
    if constexpr (Element<T>::kIsFloat) {
      return std::fmod(a, b);
    } else {
      if (b == T(0) || (Element<T>::kIsSigned && b == static_cast<T>(-1))) return T(0);
      return static_cast<T>(a % b);
    }
  }
};

// The remainder of the division that rounds down: it has the sign of b.
struct Mod : TakesElements {
  template <class T>
  static T Apply(T a, T b) {
    const T remainder = Fmod::Apply(a, b);
    const bool signs_differ = IsNegative(remainder) != IsNegative(b);
    return remainder != T(0) && signs_differ ? WrapAdd(remainder, b) : remainder;
  }
};

// a to the power of b, in a's type. Integers to integers wrap; to negative ones, truncate.
struct Pow : TakesElements {
  template <class A, class B>
  static A Apply(A a, B b) {
    if constexpr (!Element<A>::kIsFloat && !Element<B>::kIsFloat) {
      return Integers(a, b);
    } else if constexpr (Element<A>::kIsFloat) {
      return static_cast<A>(std::pow(a, static_cast<A>(b)));
    } else {
      return static_cast<A>(std::pow(static_cast<double>(a), static_cast<double>(b)));
    }
  }
  template <class A, class B>
  static A Integers(A a, B b) {
    if (IsNegative(b)) {
      if (a == A(1)) return a;
      if (Element<A>::kIsSigned && a == static_cast<A>(-1)) {
        return b % B(2) == B(0) ? A(1) : a;
      }
      return A(0);
    }
    A result = A(1);
    for (; b != B(0); b = static_cast<B>(b / B(2))) {
      if (b % B(2) != B(0)) result = WrapMul(result, a);
      a = WrapMul(a, a);
    }
    return result;
  }
};

struct Max : TakesLanes {
  template <class T>
  static T Apply(T a, T b) {
    return NanMax(a, b);
  }
};

struct Min : TakesLanes {
  template <class T>
  static T Apply(T a, T b) {
    return NanMin(a, b);
  }
};

// b: the slope below zero.
struct PRelu : TakesLanes {
  template <class T>
  static T Apply(T a, T b) {
    return a < Splat<T>(0) ? WrapMul(a, b) : a;
  }
};

// b: the bias.
struct BiasGelu : TakesLanes {
  template <class T>
  static T Apply(T a, T b) {
    return Gelu::Apply(a + b, 0.0F, 0.0F);
  }
};

struct BiasGeluTanh : TakesLanes {
  template <class T>
  static T Apply(T a, T b) {
    return GeluTanh::Apply(a + b, 0.0F, 0.0F);
  }
};

// Shifts of unsigned integers; all bits leave where the distance reaches the width.
struct ShiftLeft : TakesElements {
  template <class T>
  static T Apply(T a, T b) {
    return b < T(8 * sizeof(T)) ? static_cast<T>(static_cast<Wide<T>>(a) << b) : T(0);
  }
};

struct ShiftRight : TakesElements {
  template <class T>
  static T Apply(T a, T b) {
    return b < T(8 * sizeof(T)) ? static_cast<T>(static_cast<Wide<T>>(a) >> b) : T(0);
  }
};

struct BitwiseAnd : TakesElements {
  template <class T>
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) & static_cast<Wide<T>>(b));
  }
};

struct BitwiseOr : TakesElements {
  template <class T>
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) | static_cast<Wide<T>>(b));
  }
};

struct BitwiseXor : TakesElements {
  template <class T>
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) ^ static_cast<Wide<T>>(b));
  }
};

struct LogicalAnd : TakesElements {
  static bool Apply(bool a, bool b) { return a && b; }
};

struct LogicalOr : TakesElements {
  static bool Apply(bool a, bool b) { return a || b; }
};

struct LogicalXor : TakesElements {
  static bool Apply(bool a, bool b) { return a != b; }
};

struct Equal : TakesElements {
  template <class T>
  static bool Apply(T a, T b) {
    return a == b;
  }
};

struct Greater : TakesElements {
  template <class T>
  static bool Apply(T a, T b) {
    return a > b;
  }
};

struct GreaterOrEqual : TakesElements {
  template <class T>
  static bool Apply(T a, T b) {
    return a >= b;
  }
};

struct Less : TakesElements {
  template <class T>
  static bool Apply(T a, T b) {
    return a < b;
  }
};

struct LessOrEqual : TakesElements {
  template <class T>
  static bool Apply(T a, T b) {
    return a <= b;
  }
};

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BINARY_H_
