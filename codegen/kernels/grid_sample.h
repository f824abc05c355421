// Sampling of images at given coordinates.
#ifndef MEMPLAN_KERNELS_GRID_SAMPLE_H_
#define MEMPLAN_KERNELS_GRID_SAMPLE_H_

#include "base.h"

namespace kernels {

constexpr int32_t kSampleNearest = 0;
constexpr int32_t kSampleLinear = 1;
constexpr int32_t kSampleCubic = 2;

constexpr int32_t kSampleZeros = 0;
constexpr int32_t kSampleBorder = 1;
constexpr int32_t kSampleReflection = 2;

// x: batch x channels x in[0] x in[1] x in[2]; grid: batch x points x rank; y: batch x channels x
// points. Two-dimensional images have in[0] = 1.
struct GridSampleParams {
  int32_t mode;     // kSampleNearest...
  int32_t padding;  // kSampleZeros...
  int32_t align_corners;
  int32_t rank;  // 2 or 3 coordinates, of the last dimension first
  int32_t batch;
  int32_t channels;
  int32_t in[3];
  int32_t points;
};
MEMPLAN_FIELDS(GridSampleParams, mode, padding, align_corners, rank, batch, channels, in, points);

// `x` mirrored at the ends of [low, high] until it is within.
template <class T>
inline T Mirror(T x, T low, T high) {
  const T range = high - low;
  if (range <= T(0)) return low;
  const T distance = std::fabs(x - low);
  const T turns = std::floor(distance / range);
  const T rest = distance - turns * range;
  // An even number of turns runs forward.
  return std::floor(turns / T(2)) * T(2) == turns ? low + rest : high - rest;
}

// The element that integral coordinate `at` reads along a dimension of `dim`; -1: a zero.
template <class T>
inline int32_t SampleIndex(const GridSampleParams& p, T at, int32_t dim) {
  const T last = static_cast<T>(dim - 1);
  if (at >= T(0) && at <= last) return static_cast<int32_t>(at);
  if (p.padding == kSampleZeros || at != at) return -1;
  if (p.padding == kSampleReflection) {
    at = p.align_corners != 0 ? Mirror(at, T(0), last) : Mirror(at, T(-0.5), last + T(0.5));
    // Halfway between elements cannot happen; rounding errors can.
    at = std::floor(at + T(0.5));
  }
  if (!(at > T(0))) return 0;
  return at > last ? dim - 1 : static_cast<int32_t>(at);
}

// Up to four taps along one dimension.
template <class T>
struct SampleTaps {
  int32_t count;
  int32_t index[4];  // -1: a zero
  T weight[4];
};

// The taps for normalised coordinate `g`, in [-1, 1] within the image.
template <class T>
inline void FindTaps(const GridSampleParams& p, T g, int32_t dim, SampleTaps<T>* taps) {
  const T size = static_cast<T>(dim);
  T x =
      p.align_corners != 0 ? (g + T(1)) / T(2) * (size - T(1)) : ((g + T(1)) * size - T(1)) / T(2);
  if (p.mode == kSampleNearest) x = std::nearbyint(x);
  const T low = p.align_corners != 0 ? T(0) : T(-0.5);
  const T high = p.align_corners != 0 ? size - T(1) : size - T(0.5);
  if (x < low || x > high) {
    if (p.padding == kSampleBorder) x = x < low ? T(0) : size - T(1);
    if (p.padding == kSampleReflection) x = Mirror(x, low, high);
  }
  if (p.mode == kSampleNearest) {
    taps->count = 1;
    taps->index[0] = SampleIndex(p, x, dim);
    taps->weight[0] = T(1);
    return;
  }
  const T floor = std::floor(x);
  const T t = x - floor;
  if (p.mode == kSampleLinear) {
    taps->count = 2;
    taps->weight[0] = T(1) - t;
    taps->weight[1] = t;
    for (int i = 0; i < 2; ++i) taps->index[i] = SampleIndex(p, floor + static_cast<T>(i), dim);
    return;
  }
  // Cubic convolution with a = -0.75.
  const T a = T(-0.75);
  taps->count = 4;
  for (int i = 0; i < 4; ++i) {
    const T d = std::fabs(static_cast<T>(i - 1) - t);
    taps->weight[i] = d <= T(1) ? ((a + T(2)) * d - (a + T(3))) * d * d + T(1)
                                : ((a * d - T(5) * a) * d + T(8) * a) * d - T(4) * a;
    taps->index[i] = SampleIndex(p, floor + static_cast<T>(i - 1), dim);
  }
}

// Those of a point, by dimension of the image.
template <class T>
inline void FindPointTaps(const GridSampleParams& p, const T* at, SampleTaps<T> (&taps)[3]) {
  taps[0].count = 1;
  taps[0].index[0] = 0;
  taps[0].weight[0] = T(1);
  FindTaps(p, at[0], p.in[2], &taps[2]);
  FindTaps(p, at[1], p.in[1], &taps[1]);
  if (p.rank == 3) FindTaps(p, at[2], p.in[0], &taps[0]);
}

template <class T>
MEMPLAN_KERNEL void GridSample(const GridSampleParams& p, const T* x, const T* grid, T* y) {
  const int32_t plane = p.in[0] * p.in[1] * p.in[2];
  for (int32_t n = 0; n < p.batch; ++n) {
    for (int32_t q = 0; q < p.points; ++q) {
      SampleTaps<T> taps[3] = {};
      FindPointTaps(p, grid + (n * p.points + q) * p.rank, taps);
      for (int32_t c = 0; c < p.channels; ++c) {
        const T* image = x + (n * p.channels + c) * plane;
        T sum = T(0);
        for (int32_t i = 0; i < taps[0].count; ++i) {
          for (int32_t j = 0; j < taps[1].count; ++j) {
            for (int32_t k = 0; k < taps[2].count; ++k) {
              const int32_t z = taps[0].index[i];
              const int32_t r = taps[1].index[j];
              const int32_t s = taps[2].index[k];
              if (z < 0 || r < 0 || s < 0) continue;
              sum += taps[0].weight[i] * taps[1].weight[j] * taps[2].weight[k] *
                     image[(z * p.in[1] + r) * p.in[2] + s];
            }
          }
        }
        y[(n * p.channels + c) * p.points + q] = sum;
      }
    }
  }
}

// The gradient of x: each point's goes to the elements that it reads, with its weights in them.
template <class T>
MEMPLAN_KERNEL void GridSampleGrad(const GridSampleParams& p, const T* dy, const T* grid, T* dx) {
  const int32_t plane = p.in[0] * p.in[1] * p.in[2];
  for (int32_t i = 0; i < p.batch * p.channels * plane; ++i) dx[i] = T(0);
  for (int32_t n = 0; n < p.batch; ++n) {
    for (int32_t q = 0; q < p.points; ++q) {
      SampleTaps<T> taps[3] = {};
      FindPointTaps(p, grid + (n * p.points + q) * p.rank, taps);
      for (int32_t c = 0; c < p.channels; ++c) {
        T* image = dx + (n * p.channels + c) * plane;
        const T gradient = dy[(n * p.channels + c) * p.points + q];
        for (int32_t i = 0; i < taps[0].count; ++i) {
          for (int32_t j = 0; j < taps[1].count; ++j) {
            for (int32_t k = 0; k < taps[2].count; ++k) {
              const int32_t z = taps[0].index[i];
              const int32_t r = taps[1].index[j];
              const int32_t s = taps[2].index[k];
              if (z < 0 || r < 0 || s < 0) continue;
              image[(z * p.in[1] + r) * p.in[2] + s] +=
                  taps[0].weight[i] * taps[1].weight[j] * taps[2].weight[k] * gradient;
            }
          }
        }
      }
    }
  }
}

// x: batch x channels x height x width; rois: count x 4 (x1, y1, x2, y2); batch_indices: count;
// y: count x channels x out_height x out_width.
struct RoiAlignParams {
  float spatial_scale;
  float offset;  // 0.5 for half_pixel coordinates
  int32_t count;
  int32_t batch;
  int32_t channels;
  int32_t height;
  int32_t width;
  int32_t out_height;
  int32_t out_width;
  int32_t sampling_ratio;  // samples for each axis of an output; 0: one for each input element
  int32_t is_max;          // 1: maximum of the weighted elements, 0: mean of the samples
};
MEMPLAN_FIELDS(RoiAlignParams, spatial_scale, offset, count, batch, channels, height, width,
               out_height, out_width, sampling_ratio, is_max);

// The two elements around `at` along a dimension of `dim` elements; false: beyond it.
template <class T>
inline bool RoiTaps(T at, int32_t dim, int32_t* low, int32_t* high, T* weight) {
  if (!(at >= T(-1) && at <= static_cast<T>(dim))) return false;
  if (at < T(0)) at = T(0);
  *low = static_cast<int32_t>(at);
  if (*low >= dim - 1) {
    *low = *high = dim - 1;
    *weight = T(0);
  } else {
    *high = *low + 1;
    *weight = at - static_cast<T>(*low);
  }
  return true;
}

// One output: the mean or maximum over a grid of rows x columns samples from (top, left) on.
template <class T>
inline T RoiBin(const RoiAlignParams& p, const T* image, T top, T left, T row_step, T column_step,
                int32_t rows, int32_t columns) {
  T result = T(0);
  bool first = true;
  for (int32_t i = 0; i < rows; ++i) {
    const T v = top + (static_cast<T>(i) + T(0.5)) * row_step;
    for (int32_t j = 0; j < columns; ++j) {
      const T u = left + (static_cast<T>(j) + T(0.5)) * column_step;
      int32_t y0 = 0, y1 = 0, x0 = 0, x1 = 0;
      T wy = T(0), wx = T(0);
      T part[4] = {T(0), T(0), T(0), T(0)};
      if (RoiTaps(v, p.height, &y0, &y1, &wy) && RoiTaps(u, p.width, &x0, &x1, &wx)) {
        part[0] = (T(1) - wy) * (T(1) - wx) * image[y0 * p.width + x0];
        part[1] = (T(1) - wy) * wx * image[y0 * p.width + x1];
        part[2] = wy * (T(1) - wx) * image[y1 * p.width + x0];
        part[3] = wy * wx * image[y1 * p.width + x1];
      }
      if (p.is_max != 0) {
        for (int k = 0; k < 4; ++k) {
          if (first || part[k] > result) result = part[k];
          first = false;
        }
      } else {
        result += part[0] + part[1] + part[2] + part[3];
      }
    }
  }
  if (p.is_max != 0) return result;
  const int32_t samples = rows * columns;
  return samples > 1 ? result / static_cast<T>(samples) : result;
}

template <class T>
MEMPLAN_KERNEL void RoiAlign(const RoiAlignParams& p, const T* x, const T* rois,
                             const int64_t* batch_indices, T* y) {
  const T scale = static_cast<T>(p.spatial_scale);
  const T offset = static_cast<T>(p.offset);
  for (int32_t n = 0; n < p.count; ++n) {
    const T* roi = rois + 4 * n;
    const T left = roi[0] * scale - offset;
    const T top = roi[1] * scale - offset;
    T width = roi[2] * scale - offset - left;
    T height = roi[3] * scale - offset - top;
    if (p.offset == 0.0F) {
      // Without half-pixel coordinates, regions are at least one element large.
      if (!(width > T(1))) width = T(1);
      if (!(height > T(1))) height = T(1);
    }
    const T bin_height = height / static_cast<T>(p.out_height);
    const T bin_width = width / static_cast<T>(p.out_width);
    // Samples for each output; bounded against regions far larger than the image.
    int32_t rows = p.sampling_ratio;
    int32_t columns = p.sampling_ratio;
    if (p.sampling_ratio <= 0) {
      const T most = T(4096);
      const T r = std::ceil(bin_height);
      const T c = std::ceil(bin_width);
      rows = r > T(0) ? static_cast<int32_t>(r < most ? r : most) : 0;
      columns = c > T(0) ? static_cast<int32_t>(c < most ? c : most) : 0;
    }
    const int64_t given = batch_indices[n];
    const int32_t image = given < 0          ? 0
                          : given >= p.batch ? p.batch - 1
                                             : static_cast<int32_t>(given);
    for (int32_t c = 0; c < p.channels; ++c) {
      const T* plane = x + (image * p.channels + c) * p.height * p.width;
      for (int32_t i = 0; i < p.out_height; ++i) {
        for (int32_t j = 0; j < p.out_width; ++j) {
          *y++ = RoiBin(p, plane, top + static_cast<T>(i) * bin_height,
                        left + static_cast<T>(j) * bin_width, bin_height / static_cast<T>(rows),
                        bin_width / static_cast<T>(columns), rows, columns);
        }
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_GRID_SAMPLE_H_
