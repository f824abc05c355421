// Activation functions: the functors that both the elementwise kernels (unary.h) and the epilogues
// of convolutions and matrix products apply. All propagate NaN.
#ifndef MEMPLAN_KERNELS_ACTIVATION_H_
#define MEMPLAN_KERNELS_ACTIVATION_H_

#include "base.h"
#include "lane_math.h"
#include "lanes.h"
#include "vector.h"

namespace kernels {

// Functors: Apply(x, alpha, beta) for a floating-point T or a vector of floats, Relu for integers
// too. What alpha and beta mean, if anything, is said at each; names are those of the ONNX
// attributes.

struct Relu : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return AtLeast(x, Splat<T>(0));
  }
};

// alpha: the lower bound; beta: the upper one, which wins where they cross.
struct Clip : TakesLanes {
  template <class T>
  static T Apply(T x, float alpha, float beta) {
    return AtMost(AtLeast(x, Splat<T>(alpha)), Splat<T>(beta));
  }
};

struct LeakyRelu : TakesLanes {
  template <class T>
  static T Apply(T x, float alpha, float) {
    return x < Splat<T>(0) ? Splat<T>(alpha) * x : x;
  }
};

// x above the threshold alpha, else 0.
struct ThresholdedRelu : TakesLanes {
  template <class T>
  static T Apply(T x, float alpha, float) {
    return x <= Splat<T>(alpha) ? Splat<T>(0) : x;
  }
};

struct Elu : TakesLanes {
  template <class T>
  static T Apply(T x, float alpha, float) {
    return x < Splat<T>(0) ? Splat<T>(alpha) * (FastExpOf<1>(x) - Splat<T>(1)) : x;
  }
};

// beta: gamma.
struct Selu : TakesLanes {
  template <class T>
  static T Apply(T x, float alpha, float beta) {
    return Splat<T>(beta) * Elu::Apply(x, alpha, 0.0F);
  }
};

struct Celu : TakesLanes {
  template <class T>
  static T Apply(T x, float alpha, float) {
    const T scale = Splat<T>(alpha);
    return x < Splat<T>(0) ? scale * (FastExpOf<1>(x / scale) - Splat<T>(1)) : x;
  }
};

struct Sigmoid : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return SigmoidOf(x);
  }
};

struct Tanh : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return TanhOf(x);
  }
};

struct HardSigmoid : TakesLanes {
  template <class T>
  static T Apply(T x, float alpha, float beta) {
    return Clip::Apply(Splat<T>(alpha) * x + Splat<T>(beta), 0.0F, 1.0F);
  }
};

struct HardSwish : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return x * Clip::Apply(x * Splat<T>(1.0 / 6.0) + Splat<T>(0.5), 0.0F, 1.0F);
  }
};

// x * sigmoid(x), also called swish.
struct Silu : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return x / (Splat<T>(1) + FastExpOf<-1>(x));
  }
};

// x * sigmoid(alpha * x).
struct QuickGelu : TakesLanes {
  template <class T>
  static T Apply(T x, float alpha, float) {
    return x / (Splat<T>(1) + FastExpOf<-1>(Splat<T>(alpha) * x));
  }
};

struct Gelu : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    const T erf = ErfOf(x * Splat<T>(0.70710678118654752440));  // 1 / sqrt(2)
    return Splat<T>(0.5) * x * (Splat<T>(1) + erf);
  }
};

// Gelu by the tanh approximation; (1 + tanh(y)) / 2 = 1 / (1 + e^-2y).
struct GeluTanh : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    const T slope = Splat<T>(1.5957691216057307117);  // 2 sqrt(2 / pi)
    const T cubic = Splat<T>(0.044715 * 1.5957691216057307117);
    return x / (Splat<T>(1) + FastExpOf<-1>(x * (cubic * (x * x) + slope)));
  }
};

// log(1 + exp(x)), without overflow for large x.
struct Softplus : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return Relu::Apply(x, 0.0F, 0.0F) + Log1pOfUnit(FastExpOf<-1>(AbsOf(x)));
  }
};

struct Softsign : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    return x / (Splat<T>(1) + AbsOf(x));
  }
};

// x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2); the quotient is 1 in float long
// before n overflows.
struct Mish : TakesLanes {
  template <class T>
  static T Apply(T x, float, float) {
    const T e = FastExpOf<1>(AtMost(x, Splat<T>(20)));
    const T n = e * (e + Splat<T>(2));
    return x * (n / (n + Splat<T>(2)));
  }
};

// Activations as kernel parameters.
enum ActivationKind : int32_t {
  kNone,
  kRelu,
  kClip,
  kLeakyRelu,
  kThresholdedRelu,
  kElu,
  kSelu,
  kCelu,
  kSigmoid,
  kTanh,
  kHardSigmoid,
  kHardSwish,
  kSilu,
  kQuickGelu,
  kGelu,
  kGeluTanh,
  kSoftplus,
  kSoftsign,
  kMish,
};

// The activation `kind` of x, an element or a vector. In generated code `kind` is a constant, and
// the switch vanishes.
template <class T>
MEMPLAN_INLINE T Activate(int32_t kind, T x, float alpha, float beta) {
  switch (kind) {
    case kRelu:
      return Relu::Apply(x, alpha, beta);
    case kClip:
      return Clip::Apply(x, alpha, beta);
    case kLeakyRelu:
      return LeakyRelu::Apply(x, alpha, beta);
    case kThresholdedRelu:
      return ThresholdedRelu::Apply(x, alpha, beta);
    case kElu:
      return Elu::Apply(x, alpha, beta);
    case kSelu:
      return Selu::Apply(x, alpha, beta);
    case kCelu:
      return Celu::Apply(x, alpha, beta);
    case kSigmoid:
      return Sigmoid::Apply(x, alpha, beta);
    case kTanh:
      return Tanh::Apply(x, alpha, beta);
    case kHardSigmoid:
      return HardSigmoid::Apply(x, alpha, beta);
    case kHardSwish:
      return HardSwish::Apply(x, alpha, beta);
    case kSilu:
      return Silu::Apply(x, alpha, beta);
    case kQuickGelu:
      return QuickGelu::Apply(x, alpha, beta);
    case kGelu:
      return Gelu::Apply(x, alpha, beta);
    case kGeluTanh:
      return GeluTanh::Apply(x, alpha, beta);
    case kSoftplus:
      return Softplus::Apply(x, alpha, beta);
    case kSoftsign:
      return Softsign::Apply(x, alpha, beta);
    case kMish:
      return Mish::Apply(x, alpha, beta);
    default:
      return x;
  }
}

// y[i] = the activation `kind` of y[i].
MEMPLAN_INLINE void ActivateRow(int32_t kind, int32_t count, float alpha, float beta, float* y) {
  MapInLanes(count, y, y, [=](auto x) { return Activate(kind, x, alpha, beta); });
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_ACTIVATION_H_
