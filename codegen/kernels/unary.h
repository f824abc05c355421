// Elementwise functions of one operand. In-place safe: element i is read before it is written and
// never after.
#ifndef MEMPLAN_KERNELS_UNARY_H_
#define MEMPLAN_KERNELS_UNARY_H_

#include "activation.h"
#include "base.h"
#include "element.h"
#include "lane_math.h"
#include "lanes.h"

namespace kernels {

struct UnaryParams {
  int32_t count;  // elements
  float alpha;    // meaning: the functor's
  float beta;
};
MEMPLAN_FIELDS(UnaryParams, count, alpha, beta);

// y[i] = Function::Apply(x[i], alpha, beta).
template <class T, class Function>
MEMPLAN_KERNEL void Unary(const UnaryParams& p, const T* x, T* y) {
  MapRow<Function>(p.count, x, y, p.alpha, p.beta);
}

// The same with a truth value as the result.
template <class T, class Function>
MEMPLAN_KERNEL void UnaryPredicate(const UnaryParams& p, const T* x, bool* y) {
  for (int32_t i = 0; i < p.count; ++i) y[i] = Function::Apply(x[i], p.alpha, p.beta);
}

// Functors; activations are in activation.h.

struct Abs : TakesElements {
  template <class T>
  static T Apply(T x, float, float) {
    return WrapAbs(x);
  }
};

struct Neg : TakesElements {
  template <class T>
  static T Apply(T x, float, float) {
    return WrapNeg(x);
  }
};

// -1, 0, 1 or NaN.
struct Sign : TakesElements {
  template <class T>
  static T Apply(T x, float, float) {
    return IsNegative(x) ? T(-1) : x > T(0) ? T(1) : x;
  }
};

struct Reciprocal : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return Splat<T>(1) / x;
  }
};

struct Square : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return x * x;
  }
};

struct Cube : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return x * x * x;
  }
};

// Halves go to the even neighbour: the default rounding mode is assumed.
struct Round : TakesElements {
  template <class T>
  static T Apply(T x, float, float) {
    return std::nearbyint(x);
  }
};

// x + beta below -alpha, x - beta above alpha, else 0.
struct Shrink : TakesElements {
  template <class T>
  static T Apply(T x, float alpha, float beta) {
    return x < -T(alpha) ? x + T(beta) : x > T(alpha) ? x - T(beta) : T(0);
  }
};

// x / alpha.
struct DivideByAlpha : TakesLanes {
  template <class T>
  static T Apply(T x, float alpha, float) {
    return x / Splat<T>(alpha);
  }
};

struct LogicalNot : TakesElements {
  static bool Apply(bool x, float, float) { return !x; }
};

struct BitwiseNot : TakesElements {
  template <class T>
  static T Apply(T x, float, float) {
    return static_cast<T>(~static_cast<Wide<T>>(x));
  }
};

struct IsNan {
  template <class T>
  static bool Apply(T x, float, float) {
    return x != x;
  }
};

// alpha: not zero to detect -infinity; beta: +infinity.
struct IsInf {
  template <class T>
  static bool Apply(T x, float alpha, float beta) {
    return (alpha != 0.0F && x == Element<T>::kLowest) ||
           (beta != 0.0F && x == Element<T>::kHighest);
  }
};

struct Exp : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return ExpOf(x);
  }
};

struct Log : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return LogOf(x);
  }
};

struct Erf : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return ErfOf(x);
  }
};

// The other functions of <cmath> under their ONNX names.
#define MEMPLAN_MATH_FUNCTOR_(Name, function) \
  struct Name : TakesElements {               \
    template <class T>                        \
    static T Apply(T x, float, float) {       \
      return std::function(x);                \
    }                                         \
  }
MEMPLAN_MATH_FUNCTOR_(Ceil, ceil);
MEMPLAN_MATH_FUNCTOR_(Floor, floor);
MEMPLAN_MATH_FUNCTOR_(Sqrt, sqrt);
MEMPLAN_MATH_FUNCTOR_(Sin, sin);
MEMPLAN_MATH_FUNCTOR_(Cos, cos);
MEMPLAN_MATH_FUNCTOR_(Tan, tan);
MEMPLAN_MATH_FUNCTOR_(Asin, asin);
MEMPLAN_MATH_FUNCTOR_(Acos, acos);
MEMPLAN_MATH_FUNCTOR_(Atan, atan);
MEMPLAN_MATH_FUNCTOR_(Sinh, sinh);
MEMPLAN_MATH_FUNCTOR_(Cosh, cosh);
MEMPLAN_MATH_FUNCTOR_(Asinh, asinh);
MEMPLAN_MATH_FUNCTOR_(Acosh, acosh);
MEMPLAN_MATH_FUNCTOR_(Atanh, atanh);
#undef MEMPLAN_MATH_FUNCTOR_

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_UNARY_H_
