// Normalisations. Statistics take two passes (mean, then squared deviations), which loses no digits
// where the mean is large. In-place safe unless said otherwise: what an element needs is read
// before it is written.
#ifndef MEMPLAN_KERNELS_NORMALIZATION_H_
#define MEMPLAN_KERNELS_NORMALIZATION_H_

#include "activation.h"
#include "base.h"
#include "lanes.h"
#include "reduce.h"

namespace kernels {

template <class T>
inline T MeanOfRow(int32_t count, const T* x) {
  return SumElements<T>(count, [x](int32_t i) { return x[i]; }) / static_cast<T>(count);
}

// The mean of (x - mean)^2.
template <class T>
inline T VarianceOfRow(int32_t count, const T* x, T mean) {
  const T sum = SumElements<T>(count, [x, mean](int32_t i) {
    const T deviation = x[i] - mean;
    return deviation * deviation;
  });
  return sum / static_cast<T>(count);
}

// Two sums at once.
template <class T>
struct SumPair {
  T first;
  T second;
};

// The sums over `outer` rows of what row_sums(o) gives, joined by blocks so that many rows lose no
// more digits than one.
template <class T, class RowSums>
inline SumPair<T> SumRows(int32_t outer, RowSums row_sums) {
  constexpr int32_t kBlock = 64;
  SumPair<T> total = {T(0), T(0)};
  for (int32_t begin = 0; begin < outer; begin += kBlock) {
    const int32_t end = outer - begin < kBlock ? outer : begin + kBlock;
    SumPair<T> block = {T(0), T(0)};
    for (int32_t o = begin; o < end; ++o) {
      const SumPair<T> row = row_sums(o);
      block.first += row.first;
      block.second += row.second;
    }
    total.first += block.first;
    total.second += block.second;
  }
  return total;
}

// x of outer x channels x inner elements.
struct BatchNormalizationParams {
  int32_t outer;
  int32_t channels;
  int32_t inner;
  float epsilon;
};
MEMPLAN_FIELDS(BatchNormalizationParams, outer, channels, inner, epsilon);

// y = x * factor + offset.
template <class T>
MEMPLAN_INLINE void ScaleRow(int32_t count, const T* x, T factor, T offset, T* y) {
  ForLanes<T>(count, [=](auto zero, int32_t i) {
    using V = decltype(zero);
    Store(Load<V>(x + i) * factor + offset, y + i);
  });
}

struct ScaleShiftParams {
  int32_t outer;
  int32_t channels;
  int32_t inner;
  int32_t activation;  // an ActivationKind
  float alpha;         // of the activation
  float beta;
};
MEMPLAN_FIELDS(ScaleShiftParams, outer, channels, inner, activation, alpha, beta);

// y = activation(x * scale[c] + shift[c]).
template <class T>
MEMPLAN_KERNEL void ScaleShift(const ScaleShiftParams& p, const T* x, const T* scale,
                               const T* shift, T* y) {
  const int32_t kind = p.activation;
  const float alpha = p.alpha;
  const float beta = p.beta;
  for (int32_t o = 0; o < p.outer; ++o) {
    const ptrdiff_t plane = static_cast<ptrdiff_t>(o) * p.channels * p.inner;
    if (p.inner == 1) {
      ForLanes<T>(p.channels, [=](auto zero, int32_t c) {
        using V = decltype(zero);
        const V scaled = Load<V>(x + plane + c) * Load<V>(scale + c) + Load<V>(shift + c);
        Store(Activate(kind, scaled, alpha, beta), y + plane + c);
      });
      continue;
    }
    for (int32_t c = 0; c < p.channels; ++c) {
      const ptrdiff_t row = plane + static_cast<ptrdiff_t>(c) * p.inner;
      const T factor = scale[c];
      const T offset = shift[c];
      MapInLanes(p.inner, x + row, y + row,
                 [=](auto value) { return Activate(kind, value * factor + offset, alpha, beta); });
    }
  }
}

// y = (x - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + bias[c].
template <class T>
MEMPLAN_KERNEL void BatchNormalization(const BatchNormalizationParams& p, const T* x,
                                       const T* scale, const T* bias, const T* mean,
                                       const T* variance, T* y) {
  for (int32_t c = 0; c < p.channels; ++c) {
    const T factor = scale[c] / std::sqrt(variance[c] + T(p.epsilon));
    const T offset = bias[c] - mean[c] * factor;
    for (int32_t o = 0; o < p.outer; ++o) {
      const int32_t row = (o * p.channels + c) * p.inner;
      ScaleRow(p.inner, x + row, factor, offset, y + row);
    }
  }
}

// BatchNormalization in training: see BatchNormalizationTraining.
struct BatchTrainingParams {
  int32_t outer;
  int32_t channels;
  int32_t inner;
  float epsilon;
  float momentum;    // weight of the old running statistics
  int32_t unbiased;  // 1: the running variance takes in the unbiased one
};
MEMPLAN_FIELDS(BatchTrainingParams, outer, channels, inner, epsilon, momentum, unbiased);

template <class T>
struct ChannelStatistics {
  T mean;
  T squares;  // sum of the squared distances to the mean
  T inverse;  // 1 / sqrt(population variance + epsilon)
};

// Elements of a channel.
template <class T>
MEMPLAN_INLINE T ChannelCount(const BatchTrainingParams& p) {
  return static_cast<T>(p.outer) * static_cast<T>(p.inner);
}

// Of channel c of x.
template <class T>
MEMPLAN_INLINE ChannelStatistics<T> StatisticsOf(const BatchTrainingParams& p, const T* x,
                                                 int32_t c) {
  const auto row_of = [&p, x, c](int32_t o) { return x + (o * p.channels + c) * p.inner; };
  const T sum = SumRows<T>(p.outer, [&p, row_of](int32_t o) {
                  const T* row = row_of(o);
                  const auto element = [row](int32_t i) { return row[i]; };
                  return SumPair<T>{SumElements<T>(p.inner, element), T(0)};
                }).first;
  const T mean = sum / ChannelCount<T>(p);
  const T squares =
      SumRows<T>(p.outer, [&p, row_of, mean](int32_t o) {
        const T* row = row_of(o);
        const auto square = [row, mean](int32_t i) { return (row[i] - mean) * (row[i] - mean); };
        return SumPair<T>{SumElements<T>(p.inner, square), T(0)};
      }).first;
  return {mean, squares, T(1) / std::sqrt(squares / ChannelCount<T>(p) + T(p.epsilon))};
}

// new = old * momentum + current * (1 - momentum), for channel c; the new ones may lie over the old
// ones, or be null.
template <class T>
MEMPLAN_INLINE void UpdateRunning(const BatchTrainingParams& p, const ChannelStatistics<T>& current,
                                  int32_t c, const T* mean, const T* variance, T* running_mean,
                                  T* running_variance) {
  const T momentum = T(p.momentum);
  const T count = ChannelCount<T>(p);
  if (running_mean != nullptr) {
    running_mean[c] = mean[c] * momentum + current.mean * (T(1) - momentum);
  }
  if (running_variance != nullptr) {
    const T divisor = p.unbiased != 0 && count > T(1) ? count - T(1) : count;
    running_variance[c] = variance[c] * momentum + current.squares / divisor * (T(1) - momentum);
  }
}

// BatchNormalization with the statistics of x itself, which also enter the running ones and are
// saved for the gradient. y may lie over x; running_mean and running_variance over mean and
// variance. Any result but y may be null.
template <class T>
MEMPLAN_KERNEL void BatchNormalizationTraining(const BatchTrainingParams& p, const T* x,
                                               const T* scale, const T* bias, const T* mean,
                                               const T* variance, T* y, T* running_mean,
                                               T* running_variance, T* saved_mean,
                                               T* saved_inverse) {
  for (int32_t c = 0; c < p.channels; ++c) {
    const ChannelStatistics<T> current = StatisticsOf(p, x, c);
    const T factor = scale[c] * current.inverse;
    const T offset = bias[c] - current.mean * factor;
    for (int32_t o = 0; o < p.outer; ++o) {
      const int32_t row = (o * p.channels + c) * p.inner;
      ScaleRow(p.inner, x + row, factor, offset, y + row);
    }
    UpdateRunning(p, current, c, mean, variance, running_mean, running_variance);
    if (saved_mean != nullptr) saved_mean[c] = current.mean;
    if (saved_inverse != nullptr) saved_inverse[c] = current.inverse;
  }
}

// x of outer groups of group_channels x inner elements; the channels of num_groups groups follow
// one another. InstanceNormalization: groups of one channel.
struct GroupNormalizationParams {
  int32_t outer;
  int32_t num_groups;
  int32_t group_channels;
  int32_t inner;
  float epsilon;
};
MEMPLAN_FIELDS(GroupNormalizationParams, outer, num_groups, group_channels, inner, epsilon);

// Each group to mean 0 and variance 1, then * scale[c] + bias[c].
template <class T>
MEMPLAN_KERNEL void GroupNormalization(const GroupNormalizationParams& p, const T* x,
                                       const T* scale, const T* bias, T* y) {
  const int32_t group_elements = p.group_channels * p.inner;
  for (int32_t g = 0; g < p.outer * p.num_groups; ++g) {
    const T* group = x + g * group_elements;
    const T mean = MeanOfRow(group_elements, group);
    const T variance = VarianceOfRow(group_elements, group, mean);
    const T inverse = T(1) / std::sqrt(variance + T(p.epsilon));
    const int32_t first_channel = g % p.num_groups * p.group_channels;
    for (int32_t c = 0; c < p.group_channels; ++c) {
      const T factor = scale[first_channel + c] * inverse;
      const T offset = bias[first_channel + c];
      const T* from = group + c * p.inner;
      T* to = y + g * group_elements + c * p.inner;
      for (int32_t i = 0; i < p.inner; ++i) to[i] = (from[i] - mean) * factor + offset;
    }
  }
}

// x of outer rows of count elements.
struct LayerNormalizationParams {
  int32_t outer;
  int32_t count;
  float epsilon;
};
MEMPLAN_FIELDS(LayerNormalizationParams, outer, count, epsilon);

// Each row to mean 0 and variance 1, then * scale[i] + bias[i]. bias, mean and inverse_deviation
// (by row: 1 / sqrt(variance + epsilon)) may be null.
template <class T>
MEMPLAN_KERNEL void LayerNormalization(const LayerNormalizationParams& p, const T* x,
                                       const T* scale, const T* bias, T* y, T* mean,
                                       T* inverse_deviation) {
  for (int32_t o = 0; o < p.outer; ++o) {
    const T* from = x + o * p.count;
    T* to = y + o * p.count;
    const T row_mean = MeanOfRow(p.count, from);
    const T variance = VarianceOfRow(p.count, from, row_mean);
    const T inverse = T(1) / std::sqrt(variance + T(p.epsilon));
    if (bias != nullptr) {
      for (int32_t i = 0; i < p.count; ++i) {
        to[i] = (from[i] - row_mean) * inverse * scale[i] + bias[i];
      }
    } else {
      for (int32_t i = 0; i < p.count; ++i) to[i] = (from[i] - row_mean) * inverse * scale[i];
    }
    if (mean != nullptr) mean[o] = row_mean;
    if (inverse_deviation != nullptr) inverse_deviation[o] = inverse;
  }
}

// Each row over the root of its mean square, then * scale[i].
template <class T>
MEMPLAN_KERNEL void RmsNormalization(const LayerNormalizationParams& p, const T* x, const T* scale,
                                     T* y) {
  for (int32_t o = 0; o < p.outer; ++o) {
    const T* from = x + o * p.count;
    T* to = y + o * p.count;
    const T mean_square = VarianceOfRow(p.count, from, T(0));
    const T inverse = T(1) / std::sqrt(mean_square + T(p.epsilon));
    for (int32_t i = 0; i < p.count; ++i) to[i] = from[i] * inverse * scale[i];
  }
}

// Lines of `count` elements along an axis of a tensor of outer x count x inner elements.
struct LpNormalizationParams {
  int32_t outer;
  int32_t count;
  int32_t inner;
  int32_t p;  // 1 or 2
};
MEMPLAN_FIELDS(LpNormalizationParams, outer, count, inner, p);

// Each line over its p-norm; a line of zeros stays.
template <class T>
MEMPLAN_KERNEL void LpNormalization(const LpNormalizationParams& p, const T* x, T* y) {
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t i = 0; i < p.inner; ++i) {
      const T* from = x + o * p.count * p.inner + i;
      T* to = y + o * p.count * p.inner + i;
      const int32_t stride = p.inner;
      const bool squares = p.p == 2;
      const T sum = SumElements<T>(p.count, [from, stride, squares](int32_t c) {
        const T value = from[c * stride];
        return squares ? value * value : std::fabs(value);
      });
      const T norm = squares ? std::sqrt(sum) : sum;
      const T divisor = norm == T(0) ? T(1) : norm;
      for (int32_t c = 0; c < p.count; ++c) to[c * stride] = from[c * stride] / divisor;
    }
  }
}

// Each set of elements that a reduction over `p` would make one result of, to mean 0 and deviation
// 1; `innermost_reduced` as for ReduceRows.
template <class T>
inline void NormalizeSet(const ReduceParams& p, int32_t row_length, const T* x, T* y) {
  const int32_t rows = NumIndices(p.reduced_rank, p.reduced_dims);
  const T count = static_cast<T>(p.reduced_count);
  const auto row_offset = [&p](int32_t r) {
    return StridedOffset(r, p.reduced_rank, p.reduced_dims, p.reduced_strides);
  };
  T sum = T(0);
  for (int32_t r = 0; r < rows; ++r) {
    const T* row = x + row_offset(r);
    sum += SumElements<T>(row_length, [row](int32_t i) { return row[i]; });
  }
  const T mean = sum / count;
  T squares = T(0);
  for (int32_t r = 0; r < rows; ++r) {
    squares += VarianceOfRow(row_length, x + row_offset(r), mean) * static_cast<T>(row_length);
  }
  // The function body of the ONNX operator has this guard against a deviation of zero.
  const T deviation = std::sqrt(squares / count) + T(1e-9);
  for (int32_t r = 0; r < rows; ++r) {
    const int32_t row = row_offset(r);
    for (int32_t i = 0; i < row_length; ++i) y[row + i] = (x[row + i] - mean) / deviation;
  }
}

template <class T>
MEMPLAN_KERNEL void MeanVarianceRows(const ReduceParams& p, const T* x, T* y) {
  const int32_t sets = NumIndices(p.kept_rank, p.kept_dims);
  for (int32_t k = 0; k < sets; ++k) {
    const int32_t at = StridedOffset(k, p.kept_rank, p.kept_dims, p.kept_strides);
    NormalizeSet(p, p.inner, x + at, y + at);
  }
}

template <class T>
MEMPLAN_KERNEL void MeanVarianceColumns(const ReduceParams& p, const T* x, T* y) {
  const int32_t sets = NumIndices(p.kept_rank, p.kept_dims);
  for (int32_t k = 0; k < sets; ++k) {
    const int32_t at = StridedOffset(k, p.kept_rank, p.kept_dims, p.kept_strides);
    for (int32_t c = 0; c < p.inner; ++c) NormalizeSet(p, 1, x + at + c, y + at + c);
  }
}

// Local response normalisation of x of outer x channels x inner elements.
struct LrnParams {
  int32_t outer;
  int32_t channels;
  int32_t inner;
  int32_t before;  // channels of the window before the one it belongs to
  int32_t after;
  float scale;  // of the sum of squares: alpha / window size
  float beta;
  float bias;
};
MEMPLAN_FIELDS(LrnParams, outer, channels, inner, before, after, scale, beta, bias);

// kLanes neighbouring positions of one channel.
template <class T, int32_t kLanes>
inline void LrnLines(const LrnParams& p, int32_t first, int32_t last, int32_t channel, const T* x,
                     T* y) {
  T sum[kLanes] = {};
  for (int32_t c = first; c <= last; ++c) {
    for (int32_t l = 0; l < kLanes; ++l) sum[l] += x[c * p.inner + l] * x[c * p.inner + l];
  }
  for (int32_t l = 0; l < kLanes; ++l) {
    const T base = T(p.bias) + T(p.scale) * sum[l];
    // The usual exponent without a power: base^0.75 = sqrt(base) * sqrt(sqrt(base)).
    const T power =
        p.beta == 0.75F ? std::sqrt(base) * std::sqrt(std::sqrt(base)) : std::pow(base, T(p.beta));
    y[channel * p.inner + l] = x[channel * p.inner + l] / power;
  }
}

// y = x / (bias + scale * (sum of x^2 over the window of channels))^beta. Not in-place safe.
template <class T>
MEMPLAN_KERNEL void Lrn(const LrnParams& p, const T* x, T* y) {
  for (int32_t o = 0; o < p.outer; ++o) {
    const int32_t plane = o * p.channels * p.inner;
    for (int32_t c = 0; c < p.channels; ++c) {
      const int32_t first = c < p.before ? 0 : c - p.before;
      const int32_t last = p.channels - 1 - c < p.after ? p.channels - 1 : c + p.after;
      int32_t i = 0;
      for (; i + 8 <= p.inner; i += 8) {
        LrnLines<T, 8>(p, first, last, c, x + plane + i, y + plane + i);
      }
      for (; i < p.inner; ++i) {
        LrnLines<T, 1>(p, first, last, c, x + plane + i, y + plane + i);
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_NORMALIZATION_H_
