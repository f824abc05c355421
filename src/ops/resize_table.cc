// Formulas of ONNX's operator definition of Resize-19. Coordinates are calculated in float like in
// ONNX Runtime, so that ties of nearest fall the same way.
#include "ops/resize_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace onnx_memplan {
namespace {

// The input coordinate of output index `i`.
float SourceCoordinate(const std::string& mode, const ResizeAxis& axis, int64_t i) {
  const auto at = static_cast<float>(i);
  const auto in = static_cast<float>(axis.in);
  if (mode == "align_corners") {
    return axis.out == 1 ? 0.0F : at * (in - 1) / (axis.length - 1);
  }
  if (mode == "asymmetric") return at / axis.scale;
  if (mode == "tf_half_pixel_for_nn") return (at + 0.5F) / axis.scale;
  if (mode == "pytorch_half_pixel") {
    return axis.out > 1 ? (at + 0.5F) / axis.scale - 0.5F : 0.0F;
  }
  if (mode == "half_pixel_symmetric") {
    const float adjustment = static_cast<float>(axis.out) / axis.length;
    return in / 2 * (1 - adjustment) + (at + 0.5F) / axis.scale - 0.5F;
  }
  if (mode == "tf_crop_and_resize") {
    const float span = axis.roi_end - axis.roi_start;
    if (axis.out == 1) return 0.5F * (axis.roi_start + axis.roi_end) * (in - 1);
    return axis.roi_start * (in - 1) + at * span * (in - 1) / static_cast<float>(axis.out - 1);
  }
  return (at + 0.5F) / axis.scale - 0.5F;  // half_pixel
}

// The cubic convolution kernel of Keys with parameter a.
double Cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0.0;
}

double FilterWeight(const ResizeRule& rule, const ResizeAxis& axis, double distance) {
  if (rule.antialias) distance *= std::min(static_cast<double>(axis.scale), 1.0);
  if (rule.mode == "cubic") return Cubic(distance, rule.cubic_coeff_a);
  return std::max(0.0, 1 - std::abs(distance));
}

int64_t NearestIndex(const std::string& mode, float x) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5F));
  return static_cast<int64_t>(std::ceil(x - 0.5F));  // round_prefer_floor
}

// Fills the taps of one output index, read at coordinate `x`.
void FillTaps(const ResizeRule& rule, const ResizeAxis& axis, float x, int32_t taps,
              int32_t* indices, float* weights) {
  const auto clamp = [&](int64_t index) {
    return static_cast<int32_t>(std::clamp(index, int64_t{0}, axis.in - 1));
  };
  if (rule.mode == "nearest") {
    indices[0] = clamp(NearestIndex(rule.nearest_mode, x));
    weights[0] = 1;
    return;
  }
  const double floor = std::floor(static_cast<double>(x));
  const double ratio = static_cast<double>(x) - floor;
  const int64_t first = static_cast<int64_t>(floor) + 1 - taps / 2;
  std::vector<double> exact(static_cast<size_t>(taps));
  double sum = 0;
  for (int32_t t = 0; t < taps; ++t) {
    const int64_t index = first + t;
    indices[t] = clamp(index);
    double& weight = exact[static_cast<size_t>(t)];
    weight = FilterWeight(rule, axis, static_cast<double>(t + 1 - taps / 2) - ratio);
    if (rule.exclude_outside && (index < 0 || index >= axis.in)) weight = 0;
    sum += weight;
  }
  for (int32_t t = 0; t < taps; ++t) {
    const double weight = exact[static_cast<size_t>(t)];
    weights[t] = static_cast<float>(sum == 0 ? weight : weight / sum);
  }
}

}  // namespace

bool ResizeTable::IsIdentity(int64_t in) const {
  if (static_cast<int64_t>(indices.size()) != in * taps) return false;
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto output = static_cast<int32_t>(i / static_cast<size_t>(taps));
    if (indices[i] < 0 || (indices[i] != output && weights[i] != 0)) return false;
  }
  return true;
}

bool ResizeTable::Extrapolates() const {
  return std::any_of(indices.begin(), indices.end(), [](int32_t index) { return index < 0; });
}

int64_t ResizeTaps(const ResizeRule& rule, const ResizeAxis& axis) {
  if (rule.mode == "nearest") return 1;
  // Input elements that the filter reaches, more when antialiasing a reduction. The taps begin at
  // floor(coordinate) + 1 - taps / 2.
  const double radius = rule.mode == "linear" ? 1 : 2;
  double scale = rule.antialias ? std::min(static_cast<double>(axis.scale), 1.0) : 1.0;
  scale = std::max(scale, radius / (1 << 16));
  return 2 * (1 - static_cast<int64_t>(std::floor(-radius / scale) + 1));
}

ResizeTable MakeResizeTable(const ResizeRule& rule, const ResizeAxis& axis) {
  ResizeTable table;
  table.taps = static_cast<int32_t>(ResizeTaps(rule, axis));
  const auto taps = static_cast<size_t>(table.taps);
  table.indices.resize(static_cast<size_t>(axis.out) * taps);
  table.weights.resize(table.indices.size());
  for (int64_t i = 0; i < axis.out; ++i) {
    float x = SourceCoordinate(rule.coordinates, axis, i);
    int32_t* indices = &table.indices[static_cast<size_t>(i) * taps];
    const bool outside = !(x >= 0 && x <= static_cast<float>(axis.in - 1));
    if (rule.coordinates == "tf_crop_and_resize" && outside) {
      std::fill(indices, indices + taps, -1);
      continue;
    }
    // Beyond the edges every tap reads the edge; the bound keeps indices representable.
    const auto reach = static_cast<float>(axis.in) + static_cast<float>(table.taps);
    x = std::isnan(x) ? 0.0F : std::clamp(x, -reach, 2 * reach);
    FillTaps(rule, axis, x, table.taps, indices, &table.weights[static_cast<size_t>(i) * taps]);
  }
  return table;
}

}  // namespace onnx_memplan
