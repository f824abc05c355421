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
  for (int32_t c = 0; c < p.channels; ++c) {
    const ChannelStatistics<T> current = StatisticsOf(p, x, c);
    saved_mean[c] = current.mean;
    saved_inverse[c] = current.inverse;
    UpdateRunning(p, current, c, mean, variance, running_mean, running_variance);
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
