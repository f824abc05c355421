#include "ops/host_kernels.h"

#include "ops/winograd_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/winograd_transform.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

// G of Y = A^T [(G g G^T) . (B^T d B)] A: row i has the powers 0, 1, 2 of point i over the product
// of its distances from the other points; the last one stands for infinity.
std::vector<std::array<double, 3>> TapTransform(int32_t tile) {
  constexpr double kNear = kernels::kWinogradNear;
  constexpr double kFar = kernels::kWinogradFar;
  MEMPLAN_CHECK(tile == 2 || tile == 4);
  const std::vector<double> points = tile == 2 ? std::vector<double>{0, 1, -1}
                                               : std::vector<double>{0, kNear, -kNear, kFar, -kFar};
  std::vector<std::array<double, 3>> rows;
  for (size_t i = 0; i < points.size(); ++i) {
    double distances = 1;
    for (size_t k = 0; k < points.size(); ++k) {
      if (k != i) distances *= points[i] - points[k];
    }
    rows.push_back({1 / distances, points[i] / distances, points[i] * points[i] / distances});
  }
  rows.push_back({0, 0, 1});
  return rows;
}

}  // namespace

Tensor PackWinogradWeights(std::span<const float> weights, int64_t out_channels,
                           int64_t in_channels, int32_t tile, int32_t lanes,
                           int32_t panel_channels) {
  const std::vector<std::array<double, 3>> transform = TapTransform(tile);
  const int64_t points = tile + 2;
  const int64_t depth =
      (in_channels + kernels::kChannelBlock - 1) / kernels::kChannelBlock * kernels::kChannelBlock;
  const int64_t padded_out = (out_channels + lanes - 1) / lanes * lanes;
  std::vector<float> packed(static_cast<size_t>(points * points * depth * padded_out), 0.0F);
  for (int64_t out = 0; out < out_channels; ++out) {
    const int64_t first = out / panel_channels * panel_channels;
    const int64_t width = std::min<int64_t>(panel_channels, padded_out - first);
    float* panel = packed.data() + first * points * points * depth + (out - first);
    for (int64_t in = 0; in < in_channels; ++in) {
      const float* taps = weights.data() + (out * in_channels + in) * 9;
      for (int64_t place = 0; place < points * points; ++place) {
        const std::array<double, 3>& down = transform[static_cast<size_t>(place / points)];
        const std::array<double, 3>& across = transform[static_cast<size_t>(place % points)];
        double sum = 0;
        for (size_t i = 0; i < 3; ++i) {
          for (size_t j = 0; j < 3; ++j) {
            sum += down[i] * across[j] * static_cast<double>(taps[i * 3 + j]);
          }
        }
        panel[(place * depth + in) * width] = static_cast<float>(sum);
      }
    }
  }
  const auto count = static_cast<int64_t>(packed.size());
  return Tensor::FromVector<float>({count}, packed);
}

}  // namespace onnx_memplan
