// BatchNormalization in training in two parts, so that the second can run again from the saved
// statistics when its result is not kept for the backward pass.
#ifndef MEMPLAN_KERNELS_BATCH_STATISTICS_H_
#define MEMPLAN_KERNELS_BATCH_STATISTICS_H_

#include "base.h"
#include "normalization.h"

namespace kernels {

// Mean and 1 / sqrt(variance + epsilon) of each channel; the running statistics take them in as in
// BatchNormalizationTraining, and may lie over the old ones or be null.
template <class T>
MEMPLAN_KERNEL void BatchStatistics(const BatchTrainingParams& p, const T* x, const T* mean,
                                    const T* variance, T* saved_mean, T* saved_inverse,
                                    T* running_mean, T* running_variance) {
  const T count = static_cast<T>(p.outer) * static_cast<T>(p.inner);
  const T momentum = T(p.momentum);
  for (int32_t c = 0; c < p.channels; ++c) {
    const auto row_of = [&p, x, c](int32_t o) { return x + (o * p.channels + c) * p.inner; };
    const T sum = SumRows<T>(p.outer, [&p, row_of](int32_t o) {
                    const T* row = row_of(o);
                    const auto element = [row](int32_t i) { return row[i]; };
                    return SumPair<T>{SumElements<T>(p.inner, element), T(0)};
                  }).first;
    const T current_mean = sum / count;
    const T squares = SumRows<T>(p.outer, [&p, row_of, current_mean](int32_t o) {
                        const T* row = row_of(o);
                        const auto square = [row, current_mean](int32_t i) {
                          return (row[i] - current_mean) * (row[i] - current_mean);
                        };
                        return SumPair<T>{SumElements<T>(p.inner, square), T(0)};
                      }).first;
    const T current_variance = squares / count;
    saved_mean[c] = current_mean;
    saved_inverse[c] = T(1) / std::sqrt(current_variance + T(p.epsilon));
    if (running_mean != nullptr) {
      running_mean[c] = mean[c] * momentum + current_mean * (T(1) - momentum);
    }
    if (running_variance != nullptr) {
      const T taken = p.unbiased != 0 && count > T(1) ? squares / (count - T(1)) : current_variance;
      running_variance[c] = variance[c] * momentum + taken * (T(1) - momentum);
    }
  }
}

// y = (x - mean[c]) * inverse[c] * scale[c] + bias[c]; y may lie over x.
template <class T>
MEMPLAN_KERNEL void NormalizeByStatistics(const BatchNormalizationParams& p, const T* x,
                                          const T* scale, const T* bias, const T* mean,
                                          const T* inverse, T* y) {
  for (int32_t c = 0; c < p.channels; ++c) {
    const T factor = scale[c] * inverse[c];
    const T offset = bias[c] - mean[c] * factor;
    for (int32_t o = 0; o < p.outer; ++o) {
      const int32_t row = (o * p.channels + c) * p.inner;
      ScaleRow(p.inner, x + row, factor, offset, y + row);
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BATCH_STATISTICS_H_
