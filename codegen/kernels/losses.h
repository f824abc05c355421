// Losses over classes: x of batch x classes x inner elements, targets of batch x inner.
#ifndef MEMPLAN_KERNELS_LOSSES_H_
#define MEMPLAN_KERNELS_LOSSES_H_

#include "base.h"
#include "reduce.h"
#include "softmax.h"

namespace kernels {

enum LossReduction : int32_t { kLossNone, kLossMean, kLossSum };

struct ClassLossParams {
  int64_t ignore_index;  // a target that counts nothing; -1, which is no class, for none
  int32_t reduction;     // LossReduction
  int32_t batch;
  int32_t classes;
  int32_t inner;
};
MEMPLAN_FIELDS(ClassLossParams, ignore_index, reduction, batch, classes, inner);

// The log probability of class `target`, from log probabilities or from scores. `x` is the line of
// `count` elements at distance `stride`.
struct FromLogProbabilities {
  template <class T>
  static T LogProbability(int32_t, int32_t stride, const T* x, int32_t target) {
    return x[target * stride];
  }
};

struct FromScores {
  template <class T>
  static T LogProbability(int32_t count, int32_t stride, const T* x, int32_t target) {
    const auto element = [x, stride](int32_t c) { return x[c * stride]; };
    const T highest = ReduceElements<T, ShiftOf>(count, element);
    const T sum = SumElements<T>(
        count, [element, highest](int32_t c) { return std::exp(element(c) - highest); });
    return x[target * stride] - highest - std::log(sum);
  }
};

// The weighted negative log probability of each target, or their sum, or that over the sum of the
// weights. A target that is ignored or no class counts nothing. weight may be null: all 1.
template <class T, class Index, class Source>
MEMPLAN_KERNEL void ClassLoss(const ClassLossParams& p, const T* x, const Index* target,
                              const T* weight, T* y) {
  T loss_sum = T(0);
  T weight_sum = T(0);
  for (int32_t b = 0; b < p.batch; ++b) {
    // Partial sums by batch element: shorter sums round less.
    T batch_loss = T(0);
    T batch_weight = T(0);
    for (int32_t i = 0; i < p.inner; ++i) {
      const int64_t at = target[b * p.inner + i];
      T loss = T(0);
      if (at != p.ignore_index && at >= 0 && at < p.classes) {
        const auto c = static_cast<int32_t>(at);
        const T w = weight != nullptr ? weight[c] : T(1);
        const T* line = x + b * p.classes * p.inner + i;
        loss = -w * Source::LogProbability(p.classes, p.inner, line, c);
        batch_loss += loss;
        batch_weight += w;
      }
      if (p.reduction == kLossNone) y[b * p.inner + i] = loss;
    }
    loss_sum += batch_loss;
    weight_sum += batch_weight;
  }
  if (p.reduction == kLossSum) *y = loss_sum;
  if (p.reduction == kLossMean) *y = loss_sum / weight_sum;
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_LOSSES_H_
