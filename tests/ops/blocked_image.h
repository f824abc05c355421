// Images to blocks of channels and back, by their definition.
#ifndef ONNX_MEMPLAN_TESTS_OPS_BLOCKED_IMAGE_H_
#define ONNX_MEMPLAN_TESTS_OPS_BLOCKED_IMAGE_H_

#include <cstdint>
#include <vector>

#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

constexpr int64_t kTestBlock = 8;

// Where element (image, channel, pixel) of [.., channels, pixels] lies in blocks.
inline int64_t BlockedAt(int64_t image, int64_t channel, int64_t pixel, int64_t channels,
                         int64_t pixels) {
  const int64_t blocks = (channels + kTestBlock - 1) / kTestBlock;
  return ((image * blocks + channel / kTestBlock) * pixels + pixel) * kTestBlock +
         channel % kTestBlock;
}

// [batch, channels, height, width] in blocks; lanes without a channel hold `filler`.
inline Tensor Blocked(const Tensor& image, float filler) {
  const Shape& s = image.shape();
  const int64_t pixels = s[2] * s[3];
  const Shape blocked = {s[0], (s[1] + kTestBlock - 1) / kTestBlock, s[2], s[3], kTestBlock};
  std::vector<float> values(static_cast<size_t>(CheckedNumElements(blocked).value()), filler);
  const auto from = image.As<float>();
  for (int64_t i = 0; i < image.NumElements(); ++i) {
    const int64_t plane = i / pixels;
    values[static_cast<size_t>(BlockedAt(plane / s[1], plane % s[1], i % pixels, s[1], pixels))] =
        from[static_cast<size_t>(i)];
  }
  return Tensor::FromVector<float>(blocked, values);
}

// The image of `channels` channels in a blocked tensor.
inline Tensor Unblocked(const Tensor& blocked, int64_t channels) {
  const Shape& s = blocked.shape();
  const int64_t pixels = s[2] * s[3];
  const Shape shape = {s[0], channels, s[2], s[3]};
  std::vector<float> values(static_cast<size_t>(CheckedNumElements(shape).value()));
  const auto from = blocked.As<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t plane = static_cast<int64_t>(i) / pixels;
    values[i] = from[static_cast<size_t>(BlockedAt(
        plane / channels, plane % channels, static_cast<int64_t>(i) % pixels, channels, pixels))];
  }
  return Tensor::FromVector<float>(shape, values);
}

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_TESTS_OPS_BLOCKED_IMAGE_H_
