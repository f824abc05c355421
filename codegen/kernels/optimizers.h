// Updates of parameters by their gradients. The numbers have PyTorch's meaning
// (torch.optim.SGD, Adam, AdamW; torch.nn.utils.clip_grad_norm_).
#ifndef MEMPLAN_KERNELS_OPTIMIZERS_H_
#define MEMPLAN_KERNELS_OPTIMIZERS_H_

#include "base.h"

namespace kernels {

struct OptimizerParams {
  double beta1;
  double beta2;
  float momentum;
  float weight_decay;
  float epsilon;
  int32_t nesterov;
  int32_t decoupled;  // weight decay as in AdamW: apart from the gradient
  int32_t every;      // steps whose gradients are averaged before an update
  int32_t count;      // elements
  int32_t padding;    // keeps the struct free of holes
};
MEMPLAN_FIELDS(OptimizerParams, beta1, beta2, momentum, weight_decay, epsilon, nesterov, decoupled,
               every, count, padding);

// Whether step number `step` (from 1) ends a group of p.every steps.
static inline bool UpdatesNow(const OptimizerParams& p, const int64_t* step) {
  return p.every == 1 || *step % p.every == 0;
}

// What the gradients are multiplied by: clipping and the mean over p.every steps.
static inline float GradientScale(const OptimizerParams& p, const float* scale) {
  return (scale == nullptr ? 1.0F : *scale) / static_cast<float>(p.every);
}

// Rules: made once for an update, then applied to ranges of elements. Outputs may be the same place
// as the operands of the same index, and nothing else may overlap.

// w -= rate * (g + decay * w).
struct Sgd {
  float rate;
  float scale;
  float decay;

  Sgd(const OptimizerParams& p, float learning_rate, const float* gradient_scale, const int64_t*)
      : rate(learning_rate), scale(GradientScale(p, gradient_scale)), decay(p.weight_decay) {}

  template <class T>
  void Apply(int32_t count, const T* w, const T* g, const T*, const T*, T* w_out, T*, T*) const {
    for (int32_t i = 0; i < count; ++i) {
      w_out[i] = w[i] - T(rate) * (T(scale) * g[i] + T(decay) * w[i]);
    }
  }
};

// m = momentum * m + g; w -= rate * m, or Nesterov's rate * (g + momentum * m).
struct SgdMomentum {
  float rate;
  float scale;
  float decay;
  float momentum;
  float from_gradient;  // 1 with Nesterov
  float from_moment;

  SgdMomentum(const OptimizerParams& p, float learning_rate, const float* gradient_scale,
              const int64_t*)
      : rate(learning_rate),
        scale(GradientScale(p, gradient_scale)),
        decay(p.weight_decay),
        momentum(p.momentum),
        from_gradient(p.nesterov != 0 ? 1.0F : 0.0F),
        from_moment(p.nesterov != 0 ? p.momentum : 1.0F) {}

  template <class T>
  void Apply(int32_t count, const T* w, const T* g, const T* m, const T*, T* w_out, T* m_out,
             T*) const {
    for (int32_t i = 0; i < count; ++i) {
      const T gradient = T(scale) * g[i] + T(decay) * w[i];
      const T moment = T(momentum) * m[i] + gradient;
      m_out[i] = moment;
      w_out[i] = w[i] - T(rate) * (T(from_gradient) * gradient + T(from_moment) * moment);
    }
  }
};

// Adam (arXiv 1412.6980) and AdamW (arXiv 1711.05101).
struct Adam {
  float scale;
  float decay;  // into the gradient
  float keep;   // of the weight: 1 - rate * decay with decoupled decay
  float beta1;
  float beta2;
  float other1;  // 1 - beta1, rounded once
  float other2;
  float step_size;
  float root;  // of the correction of the second moment
  float epsilon;

  Adam(const OptimizerParams& p, float learning_rate, const float* gradient_scale,
       const int64_t* step)
      : scale(GradientScale(p, gradient_scale)),
        decay(p.decoupled != 0 ? 0.0F : p.weight_decay),
        keep(p.decoupled != 0 ? static_cast<float>(1.0 - static_cast<double>(learning_rate) *
                                                             static_cast<double>(p.weight_decay))
                              : 1.0F),
        beta1(static_cast<float>(p.beta1)),
        beta2(static_cast<float>(p.beta2)),
        other1(static_cast<float>(1.0 - p.beta1)),
        other2(static_cast<float>(1.0 - p.beta2)),
        epsilon(p.epsilon) {
    const double t = static_cast<double>(*step / p.every);
    step_size = static_cast<float>(static_cast<double>(learning_rate) / (1.0 - pow(p.beta1, t)));
    root = static_cast<float>(sqrt(1.0 - pow(p.beta2, t)));
  }

  template <class T>
  void Apply(int32_t count, const T* w, const T* g, const T* m, const T* v, T* w_out, T* m_out,
             T* v_out) const {
    for (int32_t i = 0; i < count; ++i) {
      const T gradient = T(scale) * g[i] + T(decay) * w[i];
      const T first = T(beta1) * m[i] + T(other1) * gradient;
      const T second = T(beta2) * v[i] + T(other2) * gradient * gradient;
      m_out[i] = first;
      v_out[i] = second;
      w_out[i] =
          T(keep) * w[i] - T(step_size) * first / (SquareRoot(second) / T(root) + T(epsilon));
    }
  }

 private:
  static float SquareRoot(float x) { return sqrtf(x); }
  static double SquareRoot(double x) { return sqrt(x); }
};

// Between two updates of a group everything stays as it is; `step`, `scale`, `m` and `v` are null
// where the rule needs none.
template <class T, class Rule>
MEMPLAN_KERNEL void Update(const OptimizerParams& p, const T* w, const T* g, const float* rate,
                           const int64_t* step, const float* scale, const T* m, const T* v,
                           T* w_out, T* m_out, T* v_out) {
  if (UpdatesNow(p, step)) {
    Rule(p, *rate, scale, step).Apply(p.count, w, g, m, v, w_out, m_out, v_out);
    return;
  }
  for (int32_t i = 0; i < p.count; ++i) {
    w_out[i] = w[i];
    if (m != nullptr) m_out[i] = m[i];
    if (v != nullptr) v_out[i] = v[i];
  }
}

// The sum of the gradients since the last update: starts anew at the first step of a group.
template <class T>
MEMPLAN_KERNEL void AccumulateGradient(const OptimizerParams& p, const T* sum, const T* g,
                                       const int64_t* step, T* sum_out) {
  if (*step % p.every == 1) {
    for (int32_t i = 0; i < p.count; ++i) sum_out[i] = g[i];
  } else {
    for (int32_t i = 0; i < p.count; ++i) sum_out[i] = sum[i] + g[i];
  }
}

struct ClipCoefficientParams {
  float max_norm;
  int32_t every;  // the gradients are sums over that many steps
};
MEMPLAN_FIELDS(ClipCoefficientParams, max_norm, every);

// min(1, max_norm / (norm + 1e-6)) of gradients whose sum of squares is given.
template <class T>
MEMPLAN_KERNEL void ClipCoefficient(const ClipCoefficientParams& p, const T* sum_of_squares,
                                    float* scale) {
  const float norm =
      static_cast<float>(sqrt(static_cast<double>(*sum_of_squares))) / static_cast<float>(p.every);
  const float ratio = p.max_norm / (norm + 1e-6F);
  *scale = ratio < 1.0F ? ratio : 1.0F;
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_OPTIMIZERS_H_
