// Derivatives of elementwise functions: dX = dY * f'(saved), where `saved` is the function's
// operand or, where its derivative can be written in it, its result. Element i of every operand is
// read before element i of the result is written: the result may lie over any of them.
#ifndef MEMPLAN_KERNELS_ACTIVATION_GRADIENT_H_
#define MEMPLAN_KERNELS_ACTIVATION_GRADIENT_H_

#include "base.h"
#include "lane_math.h"
#include "lanes.h"

namespace kernels {

// The vector of the first `count` elements of `x`, which fill no vector; the others are 0.
template <class V, class T>
MEMPLAN_INLINE V LoadFirst(int32_t count, const T* x) {
  T padded[LanesOf<T>::kCount] = {};
  for (int32_t l = 0; l < count; ++l) padded[l] = x[l];
  return Load<V>(padded);
}

// y[i] = function(x[i]...), where `function` maps vectors. y may be any x.
template <class T, class Mapping, class... Operands>
MEMPLAN_INLINE void MapTogether(int32_t count, T* y, Mapping function, const Operands*... x) {
  using V = typename LanesOf<T>::Type;
  constexpr int32_t kStep = LanesOf<T>::kCount;
  int32_t i = 0;
  for (; i + kStep <= count; i += kStep) Store(function(Load<V>(x + i)...), y + i);
  if (kStep == 1 || i == count) return;
  T rest[kStep];
  Store(function(LoadFirst<V>(count - i, x + i)...), rest);
  for (int32_t l = 0; l < count - i; ++l) y[i + l] = rest[l];
}

// dx[i] = Function::Apply(dy[i], saved[i], alpha, beta).
template <class Function, class T>
MEMPLAN_INLINE void GradientRow(int32_t count, const T* dy, const T* saved, float alpha, float beta,
                                T* dx) {
  if constexpr (Function::kTakesLanes) {
    MapTogether(
        count, dx, [=](auto g, auto s) { return Function::Apply(g, s, alpha, beta); }, dy, saved);
  } else {
    for (int32_t i = 0; i < count; ++i) dx[i] = Function::Apply(dy[i], saved[i], alpha, beta);
  }
}

struct ActivationGradientParams {
  int32_t count;  // elements
  float alpha;    // meaning: the functor's
  float beta;
};
MEMPLAN_FIELDS(ActivationGradientParams, count, alpha, beta);

template <class T, class Function>
MEMPLAN_KERNEL void ActivationGradient(const ActivationGradientParams& p, const T* dy,
                                       const T* saved, T* dx) {
  GradientRow<Function>(p.count, dy, saved, p.alpha, p.beta, dx);
}

struct BiasActivationGradientParams {
  int32_t rows;
  int32_t columns;
};
MEMPLAN_FIELDS(BiasActivationGradientParams, rows, columns);

// dx[r][c] = dy[r][c] * f'(x[r][c] + bias[c]).
template <class T, class Function>
MEMPLAN_KERNEL void BiasActivationGradient(const BiasActivationGradientParams& p, const T* dy,
                                           const T* x, const T* bias, T* dx) {
  for (int32_t r = 0; r < p.rows; ++r) {
    MapTogether(
        p.columns, dx, [](auto g, auto s, auto b) { return Function::Apply(g, s + b, 0.0F, 0.0F); },
        dy, x, bias);
    dy += p.columns;
    x += p.columns;
    dx += p.columns;
  }
}

// Functors. `x`: the function's operand is saved; `y`: its result.

struct AbsGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T x, float, float) {
    const T zero = Splat<T>(0);
    return x > zero ? dy : (x < zero ? -dy : zero);
  }
};

// y or x.
struct ReluGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float, float) {
    return y > Splat<T>(0) ? dy : Splat<T>(0);
  }
};

// alpha: the slope below zero; y where that is not negative, else x.
struct LeakyReluGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float alpha, float) {
    return y > Splat<T>(0) ? dy : Splat<T>(alpha) * dy;
  }
};

// x; alpha: the threshold.
struct ThresholdedReluGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T x, float alpha, float) {
    return x > Splat<T>(alpha) ? dy : Splat<T>(0);
  }
};

// y; alpha is not negative.
struct EluGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float alpha, float) {
    return y > Splat<T>(0) ? dy : dy * (y + Splat<T>(alpha));
  }
};

// y; beta: gamma. Neither is negative.
struct SeluGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float alpha, float beta) {
    const T gamma = Splat<T>(beta);
    return dy * (y > Splat<T>(0) ? gamma : y + Splat<T>(alpha) * gamma);
  }
};

// y, which has the sign of x for any alpha.
struct CeluGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float alpha, float) {
    return y > Splat<T>(0) ? dy : dy * (y / Splat<T>(alpha) + Splat<T>(1));
  }
};

struct SigmoidGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float, float) {
    return dy * (y * (Splat<T>(1) - y));
  }
};

struct TanhGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float, float) {
    return dy * (Splat<T>(1) - y * y);
  }
};

// y: strictly between its bounds.
struct HardSigmoidGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float alpha, float) {
    const T inner = y < Splat<T>(1) ? Splat<T>(alpha) * dy : Splat<T>(0);
    return y > Splat<T>(0) ? inner : Splat<T>(0);
  }
};

// x. At the kinks the inner piece counts.
struct HardSwishGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T x, float, float) {
    const T inner = x > Splat<T>(3) ? dy : dy * (x * Splat<T>(1.0 / 3.0) + Splat<T>(0.5));
    return x < Splat<T>(-3) ? Splat<T>(0) : inner;
  }
};

// x; s + alpha x s (1 - s) with s = sigmoid(alpha x).
struct QuickGeluGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T x, float alpha, float) {
    const T scaled = Splat<T>(alpha) * x;
    const T s = SigmoidOf(scaled);
    return dy * (s * (Splat<T>(1) + scaled * (Splat<T>(1) - s)));
  }
};

// x; the normal distribution and x times its density.
struct GeluGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T x, float, float) {
    const T erf = ErfOf(x * Splat<T>(0.70710678118654752440));  // 1 / sqrt(2)
    const T density =
        Splat<T>(0.39894228040143267794) * ExpOf(Splat<T>(-0.5) * x * x);  // 1/sqrt(2 pi)
    return dy * (Splat<T>(0.5) * (Splat<T>(1) + erf) + x * density);
  }
};

// x; of the tanh approximation x s with s = sigmoid(2 root (x + 0.044715 x^3)): the derivative
// keeps its digits where tanh is near -1.
struct GeluTanhGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T x, float, float) {
    const T root = Splat<T>(1.5957691216057307117);  // 2 sqrt(2 / pi)
    const T square = x * x;
    const T s = SigmoidOf(root * (x + Splat<T>(0.044715) * square * x));
    const T slope = root * (Splat<T>(1) + Splat<T>(3 * 0.044715) * square);
    return dy * (s + x * slope * (s * (Splat<T>(1) - s)));
  }
};

// y; the sigmoid of x is 1 - e^-y.
struct SoftplusGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float, float) {
    return dy * (Splat<T>(1) - ExpOf(-y));
  }
};

// y; 1 / (1 + |x|) is 1 - |y|.
struct SoftsignGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float, float) {
    const T inverse = Splat<T>(1) - AbsOf(y);
    return dy * (inverse * inverse);
  }
};

// x; with e = e^x and n = e (e + 2), tanh(softplus(x)) is n / (n + 2) and its derivative
// 4 e (e + 1) / (n + 2)^2.
struct MishGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T x, float, float) {
    const T bound = Splat<T>(20);
    const T two = Splat<T>(2);
    const T e = ExpOf(x > bound ? bound : x);
    const T n = e * (e + two);
    const T inverse = Splat<T>(1) / (n + two);
    const T derivative = Splat<T>(4) * (e * inverse) * ((e + Splat<T>(1)) * inverse);
    return dy * (n * inverse + x * derivative);
  }
};

// x; alpha: lambd.
struct ShrinkGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T x, float alpha, float) {
    return AbsOf(x) > Splat<T>(alpha) ? dy : Splat<T>(0);
  }
};

// y.
struct SqrtGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float, float) {
    return Splat<T>(0.5) * dy / y;
  }
};

// y.
struct ReciprocalGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float, float) {
    return -dy * (y * y);
  }
};

// x.
struct ErfGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T x, float, float) {
    return dy * (Splat<T>(1.12837916709551257390) * ExpOf(-x * x));  // 2 / sqrt(pi)
  }
};

// y.
struct TanGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T y, float, float) {
    return dy * (Splat<T>(1) + y * y);
  }
};

// x.
struct AtanGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T x, float, float) {
    return dy / (Splat<T>(1) + x * x);
  }
};

// x.
struct AtanhGrad : TakesLanes {
  template <class T>
  static T Apply(T dy, T x, float, float) {
    return dy / (Splat<T>(1) - x * x);
  }
};

// Those of x with functions of <cmath>.
#define MEMPLAN_MATH_GRADIENT_(Name, ...)     \
  struct Name : TakesElements {               \
    template <class T>                        \
    static T Apply(T dy, T x, float, float) { \
      return __VA_ARGS__;                     \
    }                                         \
  }
MEMPLAN_MATH_GRADIENT_(SinGrad, dy* std::cos(x));
MEMPLAN_MATH_GRADIENT_(CosGrad, -dy* std::sin(x));
MEMPLAN_MATH_GRADIENT_(SinhGrad, dy* std::cosh(x));
MEMPLAN_MATH_GRADIENT_(CoshGrad, dy* std::sinh(x));
MEMPLAN_MATH_GRADIENT_(AsinGrad, dy / std::sqrt(T(1) - x * x));
MEMPLAN_MATH_GRADIENT_(AcosGrad, -dy / std::sqrt(T(1) - x * x));
MEMPLAN_MATH_GRADIENT_(AsinhGrad, dy / std::sqrt(x * x + T(1)));
MEMPLAN_MATH_GRADIENT_(AcoshGrad, dy / std::sqrt(x * x - T(1)));
#undef MEMPLAN_MATH_GRADIENT_

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_ACTIVATION_GRADIENT_H_
