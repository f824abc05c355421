// Losses of training, and the gradients of losses.
//
// Cross-entropies take a distribution q over the classes of each place: the target's class, or its
// probabilities, smoothed and weighted. The loss is the sum of -q * log(p); its gradient by the
// scores is p * sum(q) - q. With label smoothing e, C classes and weights w, as PyTorch defines
// them: q[c] = w[c] * e / C, plus (1 - e) * w[c] * the target's probability of c.
#ifndef MEMPLAN_KERNELS_TRAINING_LOSSES_H_
#define MEMPLAN_KERNELS_TRAINING_LOSSES_H_

#include "base.h"
#include "lane_math.h"
#include "lanes.h"
#include "losses.h"
#include "reduce.h"

namespace kernels {

// Scores of batch x classes x inner elements.
struct CrossEntropyParams {
  int64_t ignore_index;  // a target class that counts nothing
  double smoothing;      // of the labels
  int32_t reduction;     // LossReduction
  int32_t batch;
  int32_t classes;
  int32_t inner;
};
MEMPLAN_FIELDS(CrossEntropyParams, ignore_index, smoothing, reduction, batch, classes, inner);

// Targets that are a class for each place: batch x inner.
struct ClassTarget {
  template <class T, class Index>
  static bool Counts(const CrossEntropyParams& p, const Index* target, int32_t place) {
    const auto at = static_cast<int64_t>(target[place]);
    return at != p.ignore_index && at >= 0 && at < p.classes;
  }
  // What the place adds to the divisor of a mean.
  template <class T, class Index>
  static T Norm(const Index* target, int32_t place, const T* weight) {
    return weight == nullptr ? T(1) : weight[target[place]];
  }
  // q of class c at place i of batch element b.
  template <class T, class Index>
  static T Share(const CrossEntropyParams& p, const Index* target, int32_t b, int32_t i, int32_t c,
                 const T* weight) {
    const T smoothed = T(p.smoothing) / static_cast<T>(p.classes);
    const T w = weight == nullptr ? T(1) : weight[c];
    const bool is_target = static_cast<int64_t>(target[b * p.inner + i]) == c;
    return w * (is_target ? T(1) - T(p.smoothing) + smoothed : smoothed);
  }
};

// Targets that are probabilities, laid out as the scores.
struct ProbabilityTarget {
  template <class T>
  static bool Counts(const CrossEntropyParams&, const T*, int32_t) {
    return true;
  }
  template <class T>
  static T Norm(const T*, int32_t, const T*) {
    return T(1);
  }
  template <class T>
  static T Share(const CrossEntropyParams& p, const T* target, int32_t b, int32_t i, int32_t c,
                 const T* weight) {
    const T smoothed = T(p.smoothing) / static_cast<T>(p.classes);
    const T w = weight == nullptr ? T(1) : weight[c];
    return w * ((T(1) - T(p.smoothing)) * target[(b * p.classes + c) * p.inner + i] + smoothed);
  }
};

// The loss from log probabilities. weight may be null: all 1.
template <class T, class Label, class Target>
MEMPLAN_KERNEL void CrossEntropy(const CrossEntropyParams& p, const T* log_probability,
                                 const Label* target, const T* weight, T* y) {
  T loss_sum = T(0);
  T norm_sum = T(0);
  for (int32_t b = 0; b < p.batch; ++b) {
    // Partial sums by batch element: shorter sums round less.
    T batch_loss = T(0);
    T batch_norm = T(0);
    for (int32_t i = 0; i < p.inner; ++i) {
      const int32_t place = b * p.inner + i;
      T loss = T(0);
      if (Target::template Counts<T>(p, target, place)) {
        const T* line = log_probability + b * p.classes * p.inner + i;
        for (int32_t c = 0; c < p.classes; ++c) {
          const T share = Target::Share(p, target, b, i, c, weight);
          // Nothing times an infinite logarithm is nothing.
          if (share != T(0)) loss -= share * line[c * p.inner];
        }
        batch_loss += loss;
        batch_norm += Target::Norm(target, place, weight);
      }
      if (p.reduction == kLossNone) y[place] = loss;
    }
    loss_sum += batch_loss;
    norm_sum += batch_norm;
  }
  if (p.reduction == kLossSum) *y = loss_sum;
  if (p.reduction == kLossMean) *y = loss_sum / norm_sum;
}

// What 1 of the loss is of the gradient of a place: dloss, over the divisor of a mean.
template <class T, class Label, class Target>
inline T LossFactor(const CrossEntropyParams& p, const T* dloss, const Label* target,
                    const T* weight) {
  const T factor = dloss == nullptr ? T(1) : *dloss;
  if (p.reduction != kLossMean) return factor;
  T norm = T(0);
  for (int32_t b = 0; b < p.batch; ++b) {
    T batch_norm = T(0);
    for (int32_t place = b * p.inner; place < (b + 1) * p.inner; ++place) {
      if (Target::template Counts<T>(p, target, place)) {
        batch_norm += Target::Norm(target, place, weight);
      }
    }
    norm += batch_norm;
  }
  return factor / norm;
}

struct ExpOfElement : TakesLanes {
  template <class V>
  static V Apply(V x) {
    return ExpOf(x);
  }
};

// dx = the gradient by the scores, from the log probabilities, which it may lie over. dloss is one
// number, or with kLossNone one for each place; null: 1.
template <class T, class Label, class Target>
MEMPLAN_KERNEL void CrossEntropyGrad(const CrossEntropyParams& p, const T* dloss,
                                     const T* log_probability, const Label* target, const T* weight,
                                     T* dx) {
  const T factor = LossFactor<T, Label, Target>(p, dloss, target, weight);
  MapRow<ExpOfElement>(p.batch * p.classes * p.inner, log_probability, dx);
  for (int32_t b = 0; b < p.batch; ++b) {
    for (int32_t i = 0; i < p.inner; ++i) {
      const int32_t place = b * p.inner + i;
      T* line = dx + b * p.classes * p.inner + i;
      if (!Target::template Counts<T>(p, target, place)) {
        for (int32_t c = 0; c < p.classes; ++c) line[c * p.inner] = T(0);
        continue;
      }
      T total = T(0);
      for (int32_t c = 0; c < p.classes; ++c) {
        total += Target::Share(p, target, b, i, c, weight);
      }
      const T scale = p.reduction == kLossNone && dloss != nullptr ? dloss[place] : factor;
      for (int32_t c = 0; c < p.classes; ++c) {
        const T share = Target::Share(p, target, b, i, c, weight);
        line[c * p.inner] = (line[c * p.inner] * total - share) * scale;
      }
    }
  }
}

// dx = the gradient of NegativeLogLikelihoodLoss by the log probabilities.
template <class T, class Label>
MEMPLAN_KERNEL void NegativeLogLikelihoodGrad(const CrossEntropyParams& p, const T* dloss,
                                              const Label* target, const T* weight, T* dx) {
  const T factor = LossFactor<T, Label, ClassTarget>(p, dloss, target, weight);
  for (int32_t i = 0; i < p.batch * p.classes * p.inner; ++i) dx[i] = T(0);
  for (int32_t b = 0; b < p.batch; ++b) {
    for (int32_t i = 0; i < p.inner; ++i) {
      const int32_t place = b * p.inner + i;
      if (!ClassTarget::Counts<T>(p, target, place)) continue;
      const auto c = static_cast<int32_t>(target[place]);
      const T scale = p.reduction == kLossNone && dloss != nullptr ? dloss[place] : factor;
      dx[(b * p.classes + c) * p.inner + i] = -ClassTarget::Norm(target, place, weight) * scale;
    }
  }
}

// Losses of each element x of a prediction and t of a target, with their derivative by x.
struct ElementLossParams {
  int32_t count;
  int32_t reduction;  // LossReduction
  int32_t weights;    // number of weights, which belong to the elements in turn; 0: none
  float delta;        // of Huber
};
MEMPLAN_FIELDS(ElementLossParams, count, reduction, weights, delta);

struct SquaredError {
  template <class T>
  static T Value(T x, T t, T, T) {
    return (x - t) * (x - t);
  }
  template <class T>
  static T Slope(T x, T t, T, T) {
    return T(2) * (x - t);
  }
};

struct AbsoluteError {
  template <class T>
  static T Value(T x, T t, T, T) {
    return std::fabs(x - t);
  }
  template <class T>
  static T Slope(T x, T t, T, T) {
    return x > t ? T(1) : x < t ? T(-1) : T(0);
  }
};

// Squared up to delta, linear beyond.
struct HuberError {
  template <class T>
  static T Value(T x, T t, T delta, T) {
    const T size = std::fabs(x - t);
    return size <= delta ? T(0.5) * size * size : delta * (size - T(0.5) * delta);
  }
  template <class T>
  static T Slope(T x, T t, T delta, T) {
    const T difference = x - t;
    return difference > delta ? delta : difference < -delta ? -delta : difference;
  }
};

// -(weight * t * log(p) + (1 - t) * log(1 - p)) with p = sigmoid(x), without an exponential that
// overflows.
struct LogisticError {
  template <class T>
  static T Value(T x, T t, T, T weight) {
    const T softplus = std::log1p(std::exp(-std::fabs(x))) + (x < T(0) ? -x : T(0));
    return (T(1) - t) * x + (T(1) + (weight - T(1)) * t) * softplus;
  }
  template <class T>
  static T Slope(T x, T t, T, T weight) {
    // 1 - sigmoid(x).
    const T small = std::exp(-std::fabs(x));
    const T rest = (x < T(0) ? T(1) : small) / (T(1) + small);
    return (T(1) - t) - (T(1) + (weight - T(1)) * t) * rest;
  }
};

// y = the errors, their sum or their mean. weight may be null: all 1.
template <class T, class Error>
MEMPLAN_KERNEL void ElementLoss(const ElementLossParams& p, const T* x, const T* target,
                                const T* weight, T* y) {
  const auto error = [&p, x, target, weight](int32_t i) {
    const T w = weight == nullptr ? T(1) : weight[i % p.weights];
    return Error::Value(x[i], target[i], T(p.delta), w);
  };
  if (p.reduction == kLossNone) {
    for (int32_t i = 0; i < p.count; ++i) y[i] = error(i);
    return;
  }
  const T sum = SumElements<T>(p.count, error);
  *y = p.reduction == kLossMean ? sum / static_cast<T>(p.count) : sum;
}

// dx may lie over x or over the target. dloss as for CrossEntropyGrad.
template <class T, class Error>
MEMPLAN_KERNEL void ElementLossGrad(const ElementLossParams& p, const T* dloss, const T* x,
                                    const T* target, const T* weight, T* dx) {
  const T factor = p.reduction == kLossMean ? *dloss / static_cast<T>(p.count) : *dloss;
  for (int32_t i = 0; i < p.count; ++i) {
    const T w = weight == nullptr ? T(1) : weight[i % p.weights];
    const T scale = p.reduction == kLossNone ? dloss[i] : factor;
    dx[i] = Error::Slope(x[i], target[i], T(p.delta), w) * scale;
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_TRAINING_LOSSES_H_
