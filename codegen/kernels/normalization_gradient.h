// Gradients of normalisations. A gradient dx may lie over dy or over x: sums are taken first, and
// each element is read before it is written.
#ifndef MEMPLAN_KERNELS_NORMALIZATION_GRADIENT_H_
#define MEMPLAN_KERNELS_NORMALIZATION_GRADIENT_H_

#include "base.h"
#include "lanes.h"
#include "normalization.h"
#include "reduce.h"

namespace kernels {

// The sums of dy and of dy * (x - mean) over a row.
template <class T>
inline SumPair<T> GradientSums(int32_t count, const T* dy, const T* x, T mean) {
  return {SumLanes<T>(count, [dy](auto zero, int32_t i) { return Load<decltype(zero)>(dy + i); }),
          SumLanes<T>(count, [dy, x, mean](auto zero, int32_t i) {
            using V = decltype(zero);
            return Load<V>(dy + i) * (Load<V>(x + i) - mean);
          })};
}

// dx = factor * (dy - shift - (x - center) * slope).
template <class T>
MEMPLAN_INLINE void CenteredGradientRow(int32_t count, const T* dy, const T* x, T factor, T shift,
                                        T center, T slope, T* dx) {
  ForLanes<T>(count, [=](auto zero, int32_t i) {
    using V = decltype(zero);
    Store((Load<V>(dy + i) - shift - (Load<V>(x + i) - center) * slope) * factor, dx + i);
  });
}

// x of outer x channels x inner elements.
struct BatchNormalizationGradParams {
  int32_t outer;
  int32_t channels;
  int32_t inner;
};
MEMPLAN_FIELDS(BatchNormalizationGradParams, outer, channels, inner);

// With the statistics of x itself: mean and inverse = 1 / sqrt(variance + epsilon) by channel.
// Any result may be null.
template <class T>
MEMPLAN_KERNEL void BatchNormalizationGrad(const BatchNormalizationGradParams& p, const T* dy,
                                           const T* x, const T* scale, const T* mean,
                                           const T* inverse, T* dx, T* dscale, T* dbias) {
  const T count = static_cast<T>(p.outer) * static_cast<T>(p.inner);
  for (int32_t c = 0; c < p.channels; ++c) {
    const T center = mean[c];
    const SumPair<T> sums = SumRows<T>(p.outer, [&p, dy, x, c, center](int32_t o) {
      const int32_t row = (o * p.channels + c) * p.inner;
      return GradientSums(p.inner, dy + row, x + row, center);
    });
    if (dx != nullptr) {
      const T factor = scale[c] * inverse[c];
      const T shift = sums.first / count;
      const T slope = sums.second * inverse[c] * inverse[c] / count;
      for (int32_t o = 0; o < p.outer; ++o) {
        const int32_t row = (o * p.channels + c) * p.inner;
        CenteredGradientRow(p.inner, dy + row, x + row, factor, shift, center, slope, dx + row);
      }
    }
    if (dscale != nullptr) dscale[c] = sums.second * inverse[c];
    if (dbias != nullptr) dbias[c] = sums.first;
  }
}

// dscale of statistics that do not depend on x: the sum of dy * (x - mean) * inverse.
template <class T>
MEMPLAN_KERNEL void ChannelScaleGrad(const BatchNormalizationGradParams& p, const T* dy, const T* x,
                                     const T* mean, const T* inverse, T* dscale) {
  for (int32_t c = 0; c < p.channels; ++c) {
    const T center = mean[c];
    const SumPair<T> sums = SumRows<T>(p.outer, [&p, dy, x, c, center](int32_t o) {
      const int32_t row = (o * p.channels + c) * p.inner;
      return GradientSums(p.inner, dy + row, x + row, center);
    });
    dscale[c] = sums.second * inverse[c];
  }
}

// Statistics are taken anew. Any result may be null.
template <class T>
MEMPLAN_KERNEL void GroupNormalizationGrad(const GroupNormalizationParams& p, const T* dy,
                                           const T* x, const T* scale, T* dx, T* dscale, T* dbias) {
  const int32_t group_elements = p.group_channels * p.inner;
  const int32_t channels = p.num_groups * p.group_channels;
  for (int32_t c = 0; c < channels; ++c) {
    if (dscale != nullptr) dscale[c] = T(0);
    if (dbias != nullptr) dbias[c] = T(0);
  }
  for (int32_t g = 0; g < p.outer * p.num_groups; ++g) {
    const int32_t at = g * group_elements;
    const T mean = MeanOfRow(group_elements, x + at);
    const T variance = VarianceOfRow(group_elements, x + at, mean);
    const T inverse = T(1) / std::sqrt(variance + T(p.epsilon));
    const int32_t first_channel = g % p.num_groups * p.group_channels;
    T shift = T(0);
    T slope = T(0);
    for (int32_t c = 0; c < p.group_channels; ++c) {
      const int32_t row = at + c * p.inner;
      const SumPair<T> sums = GradientSums(p.inner, dy + row, x + row, mean);
      const T factor = scale[first_channel + c];
      shift += factor * sums.first;
      slope += factor * sums.second;
      if (dscale != nullptr) dscale[first_channel + c] += sums.second * inverse;
      if (dbias != nullptr) dbias[first_channel + c] += sums.first;
    }
    if (dx == nullptr) continue;
    shift /= static_cast<T>(group_elements);
    slope *= inverse * inverse / static_cast<T>(group_elements);
    for (int32_t c = 0; c < p.group_channels; ++c) {
      const int32_t row = at + c * p.inner;
      const T factor = scale[first_channel + c];
      ForLanes<T>(p.inner, [=](auto zero, int32_t i) {
        using V = decltype(zero);
        const V centered = Load<V>(x + row + i) - mean;
        const V value = (Load<V>(dy + row + i) * factor - shift - centered * slope) * inverse;
        Store(value, dx + row + i);
      });
    }
  }
}

// Sums by column over the rows so far: what a block of rows adds goes to `block` first.
template <class T>
struct ColumnSums {
  T* total;  // null: not asked for
  T* block;
};
template <class T>
inline void StartColumns(int32_t count, const ColumnSums<T>& sums) {
  for (int32_t i = 0; sums.total != nullptr && i < count; ++i) sums.total[i] = sums.block[i] = T(0);
}
template <class T>
inline void JoinColumns(int32_t count, const ColumnSums<T>& sums) {
  if (sums.total == nullptr || sums.total == sums.block) return;
  for (int32_t i = 0; i < count; ++i) {
    sums.total[i] += sums.block[i];
    sums.block[i] = T(0);
  }
}

// Rows that go to one block of column sums.
constexpr int32_t kColumnBlock = 64;

// Bytes of scratch for the column sums of rows of `count` elements.
constexpr int64_t ColumnSumScratchBytes(int64_t outer, int64_t count, int64_t element_bytes,
                                        int64_t columns) {
  return outer > kColumnBlock ? count * element_bytes * columns : 0;
}

// LayerNormalization, or RMSNormalization with kCenters = false, whose mean is 0. mean and inverse
// by row; null: taken anew. Any result may be null. scratch: ColumnSumScratchBytes for two columns.
template <class T, bool kCenters>
MEMPLAN_KERNEL void LayerNormalizationGrad(const LayerNormalizationParams& p, const T* dy,
                                           const T* x, const T* scale, const T* mean,
                                           const T* inverse, T* scratch, T* dx, T* dscale,
                                           T* dbias) {
  const bool blocks = p.outer > kColumnBlock;
  const ColumnSums<T> scale_sums = {dscale, blocks ? scratch : dscale};
  const ColumnSums<T> bias_sums = {dbias, blocks ? scratch + p.count : dbias};
  StartColumns(p.count, scale_sums);
  StartColumns(p.count, bias_sums);
  for (int32_t o = 0; o < p.outer; ++o) {
    const T* from = x + o * p.count;
    const T* gradient = dy + o * p.count;
    const T center = !kCenters ? T(0) : mean != nullptr ? mean[o] : MeanOfRow(p.count, from);
    const T factor = inverse != nullptr
                         ? inverse[o]
                         : T(1) / std::sqrt(VarianceOfRow(p.count, from, center) + T(p.epsilon));
    if (dscale != nullptr) {
      T* sums = scale_sums.block;
      ForLanes<T>(p.count, [=](auto zero, int32_t i) {
        using V = decltype(zero);
        const V normalized = (Load<V>(from + i) - center) * factor;
        Store(Load<V>(sums + i) + Load<V>(gradient + i) * normalized, sums + i);
      });
    }
    if (dbias != nullptr) {
      T* sums = bias_sums.block;
      ForLanes<T>(p.count, [=](auto zero, int32_t i) {
        using V = decltype(zero);
        Store(Load<V>(sums + i) + Load<V>(gradient + i), sums + i);
      });
    }
    if (o % kColumnBlock == kColumnBlock - 1) {
      JoinColumns(p.count, scale_sums);
      JoinColumns(p.count, bias_sums);
    }
    if (dx == nullptr) continue;
    const T count = static_cast<T>(p.count);
    const auto scaled = [gradient, scale](auto zero, int32_t i) {
      using V = decltype(zero);
      return Load<V>(gradient + i) * Load<V>(scale + i);
    };
    const T shift = kCenters ? SumLanes<T>(p.count, scaled) / count : T(0);
    const T slope = SumLanes<T>(p.count,
                                [scaled, from, center](auto zero, int32_t i) {
                                  using V = decltype(zero);
                                  return scaled(zero, i) * (Load<V>(from + i) - center);
                                }) *
                    factor * factor / count;
    T* to = dx + o * p.count;
    ForLanes<T>(p.count, [=](auto zero, int32_t i) {
      using V = decltype(zero);
      const V centered = Load<V>(from + i) - center;
      Store((scaled(zero, i) - shift - centered * slope) * factor, to + i);
    });
  }
  JoinColumns(p.count, scale_sums);
  JoinColumns(p.count, bias_sums);
}

// Lines as of LpNormalization.
template <class T>
MEMPLAN_KERNEL void LpNormalizationGrad(const LpNormalizationParams& p, const T* dy, const T* x,
                                        T* dx) {
  const int32_t stride = p.inner;
  const bool squares = p.p == 2;
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t i = 0; i < p.inner; ++i) {
      const int32_t line = o * p.count * p.inner + i;
      const T* from = x + line;
      const T* gradient = dy + line;
      const T sum = SumElements<T>(p.count, [from, stride, squares](int32_t c) {
        const T value = from[c * stride];
        return squares ? value * value : std::fabs(value);
      });
      const T norm = squares ? std::sqrt(sum) : sum;
      const T dot = SumElements<T>(p.count, [from, gradient, stride](int32_t c) {
        return from[c * stride] * gradient[c * stride];
      });
      T* to = dx + line;
      for (int32_t c = 0; c < p.count; ++c) {
        if (norm == T(0)) {
          to[c * stride] = gradient[c * stride];
          continue;
        }
        const T value = from[c * stride];
        const T sign = value > T(0) ? T(1) : value < T(0) ? T(-1) : T(0);
        const T slope = squares ? value / norm : sign;
        to[c * stride] = (gradient[c * stride] - slope * dot / norm) / norm;
      }
    }
  }
}

// Bytes of scratch for LrnGrad.
constexpr int64_t LrnGradScratchBytes(int64_t channels, int64_t element_bytes) {
  return channels * 2 * element_bytes;
}

// With s = bias + scale * (sum of x^2 over the window of channels), of y = x * s^-beta:
// dx = dy * s^-beta - 2 * scale * beta * x * (sum of dy * x * s^(-beta - 1) over the channels in
// whose window x is). One position at a time; scratch holds, by channel, s^-beta and the terms of
// the sum.
template <class T>
MEMPLAN_KERNEL void LrnGrad(const LrnParams& p, const T* dy, const T* x, T* scratch, T* dx) {
  T* power = scratch;
  T* term = scratch + p.channels;
  for (int32_t o = 0; o < p.outer; ++o) {
    for (int32_t i = 0; i < p.inner; ++i) {
      const int32_t line = o * p.channels * p.inner + i;
      for (int32_t c = 0; c < p.channels; ++c) {
        const int32_t first = c < p.before ? 0 : c - p.before;
        const int32_t last = p.channels - 1 - c < p.after ? p.channels - 1 : c + p.after;
        T sum = T(0);
        for (int32_t k = first; k <= last; ++k) {
          sum += x[line + k * p.inner] * x[line + k * p.inner];
        }
        const T base = T(p.bias) + T(p.scale) * sum;
        power[c] = std::pow(base, -T(p.beta));
        term[c] = dy[line + c * p.inner] * x[line + c * p.inner] * power[c] / base;
      }
      for (int32_t c = 0; c < p.channels; ++c) {
        // The channels whose window has c: the window mirrored.
        const int32_t first = c < p.after ? 0 : c - p.after;
        const int32_t last = p.channels - 1 - c < p.before ? p.channels - 1 : c + p.before;
        T sum = T(0);
        for (int32_t k = first; k <= last; ++k) sum += term[k];
        const int32_t at = line + c * p.inner;
        dx[at] = dy[at] * power[c] - T(2) * T(p.scale) * T(p.beta) * x[at] * sum;
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_NORMALIZATION_GRADIENT_H_
