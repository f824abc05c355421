// Activation functions: the functors that both the elementwise kernels (unary.h) and the epilogues
// of convolutions and matrix products apply. All propagate NaN.
#ifndef MEMPLAN_KERNELS_ACTIVATION_H_
#define MEMPLAN_KERNELS_ACTIVATION_H_

#include "base.h"

namespace kernels {

// Functors: Apply(x, alpha, beta) for a floating-point T, some for integers too. What alpha and
// beta mean, if anything, is said at each; names are those of the ONNX attributes.

struct Relu {
  template <class T>
  static T Apply(T x, float, float) {
    return x < T(0) ? T(0) : x;
  }
};

// alpha: the lower bound; beta: the upper one, which wins where they cross.
struct Clip {
  template <class T>
  static T Apply(T x, float alpha, float beta) {
    const T above = x < T(alpha) ? T(alpha) : x;
    return above > T(beta) ? T(beta) : above;
  }
};

struct LeakyRelu {
  template <class T>
  static T Apply(T x, float alpha, float) {
    return x < T(0) ? T(alpha) * x : x;
  }
};

// x above the threshold alpha, else 0.
struct ThresholdedRelu {
  template <class T>
  static T Apply(T x, float alpha, float) {
    return x <= T(alpha) ? T(0) : x;
  }
};

struct Elu {
  template <class T>
  static T Apply(T x, float alpha, float) {
    return x < T(0) ? T(alpha) * (std::exp(x) - T(1)) : x;
  }
};

// beta: gamma.
struct Selu {
  template <class T>
  static T Apply(T x, float alpha, float beta) {
    return T(beta) * (x <= T(0) ? T(alpha) * (std::exp(x) - T(1)) : x);
  }
};

struct Celu {
  template <class T>
  static T Apply(T x, float alpha, float) {
    return x < T(0) ? T(alpha) * (std::exp(x / T(alpha)) - T(1)) : x;
  }
};

struct Sigmoid {
  template <class T>
  static T Apply(T x, float, float) {
    return T(1) / (T(1) + std::exp(-x));
  }
};

struct Tanh {
  template <class T>
  static T Apply(T x, float, float) {
    return std::tanh(x);
  }
};

struct HardSigmoid {
  template <class T>
  static T Apply(T x, float alpha, float beta) {
    return Clip::Apply(T(alpha) * x + T(beta), 0.0F, 1.0F);
  }
};

struct HardSwish {
  template <class T>
  static T Apply(T x, float, float) {
    return x * Clip::Apply(x * (T(1) / T(6)) + T(0.5), 0.0F, 1.0F);
  }
};

// x * sigmoid(x), also called swish.
struct Silu {
  template <class T>
  static T Apply(T x, float, float) {
    return x / (T(1) + std::exp(-x));
  }
};

// x * sigmoid(alpha * x).
struct QuickGelu {
  template <class T>
  static T Apply(T x, float alpha, float) {
    return x / (T(1) + std::exp(-T(alpha) * x));
  }
};

struct Gelu {
  template <class T>
  static T Apply(T x, float, float) {
    return T(0.5) * x * (T(1) + std::erf(x * T(0.70710678118654752440)));  // 1 / sqrt(2)
  }
};

// Gelu by the tanh approximation.
struct GeluTanh {
  template <class T>
  static T Apply(T x, float, float) {
    const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);  // sqrt(2 / pi)
    return T(0.5) * x * (T(1) + std::tanh(inner));
  }
};

// log(1 + exp(x)), without overflow for large x.
struct Softplus {
  template <class T>
  static T Apply(T x, float, float) {
    return Relu::Apply(x, 0.0F, 0.0F) + std::log1p(std::exp(-std::fabs(x)));
  }
};

struct Softsign {
  template <class T>
  static T Apply(T x, float, float) {
    return x / (T(1) + std::fabs(x));
  }
};

struct Mish {
  template <class T>
  static T Apply(T x, float, float) {
    return x * std::tanh(Softplus::Apply(x, 0.0F, 0.0F));
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

// The activation `kind` of x. In generated code `kind` is a constant, and the switch vanishes.
template <class T>
MEMPLAN_KERNEL T Activate(int32_t kind, T x, float alpha, float beta) {
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

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_ACTIVATION_H_
