// Cases of the operators on images in blocks of channels.
#ifndef ONNX_MEMPLAN_TESTS_OPS_CASES_BLOCKED_H_
#define ONNX_MEMPLAN_TESTS_OPS_CASES_BLOCKED_H_

#include <algorithm>
#include <vector>

#include "ops/cases.h"

namespace onnx_memplan::cases {

inline std::vector<OpCase> BlockedCases() {
  using IntList = std::vector<int64_t>;
  const char* const domain = "onnx_memplan";
  // Two pixels of ten channels; channel c of pixel i is 10 i + c.
  std::vector<float> plain, blocked;
  for (int c = 0; c < 10; ++c) {
    for (int i = 0; i < 2; ++i) plain.push_back(static_cast<float>(10 * i + c));
  }
  for (int block = 0; block < 2; ++block) {
    for (int i = 0; i < 2; ++i) {
      for (int c = 8 * block; c < 8 * block + 8; ++c) {
        blocked.push_back(c < 10 ? static_cast<float>(10 * i + c) : 0.0F);
      }
    }
  }
  const Tensor image = Floats({1, 10, 1, 2}, plain);
  const Tensor blocks = Floats({1, 2, 1, 2, 8}, blocked);
  const Tensor ones = Floats({1, 10, 1, 1}, std::vector<float>(10, 1.0F));
  // Channel 0 only.
  const auto first_lane = [](const std::vector<float>& pixels) {
    std::vector<float> values;
    for (const float pixel : pixels) {
      values.push_back(pixel);
      values.insert(values.end(), 7, 0.0F);
    }
    return Floats({1, 1, 1, static_cast<int64_t>(pixels.size()), 8}, values);
  };
  // Ones, summed over 16 channels and the taps that are inside of the image.
  std::vector<float> tap_counts;
  for (int i = 0; i < 12 * 12; ++i) {
    const int high = i / 12 % 11 == 0 ? 2 : 3;
    const int wide = i % 12 % 11 == 0 ? 2 : 3;
    tap_counts.insert(tap_counts.end(), 8, static_cast<float>(16 * high * wide));
  }
  tap_counts.resize(2 * tap_counts.size());
  std::copy_n(tap_counts.begin(), tap_counts.size() / 2, tap_counts.begin() + 12 * 12 * 8);
  return {
      {"BlockChannels", {image}, {blocks}, {}, domain},
      {"UnblockChannels", {blocks}, {image}, {{"channels", int64_t{10}}}, domain},
      {"BlockedConv", {blocks, ones}, {first_lane({45, 145})}, {}, domain},
      {"BlockedConv",
       {Floats({1, 1, 1, 3}, {1, 2, 3}), Floats({1, 1, 1, 3}, {1, 10, 100}), Floats({1}, {0.5F})},
       {first_lane({210.5F, 321.5F, 32.5F})},
       {{"pads", IntList{0, 1, 0, 1}}},
       domain},
      {"BlockedConv",
       {first_lane({1, 2, 3}), Floats({1, 1, 1, 1}, {2})},
       {first_lane({2, 6})},
       {{"strides", IntList{1, 2}}},
       domain},
      // Each channel by itself, of three taps.
      {"BlockedConv",
       {Floats({1, 1, 1, 2, 8}, {1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 1, 1, 1, 1}),
        Floats({8, 1, 1, 3}, {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3,  //
                              1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3})},
       {Floats({1, 1, 1, 2, 8}, {5, 7, 9, 11, 13, 15, 17, 19, 3, 4, 5, 6, 7, 8, 9, 10})},
       {{"group", int64_t{8}}, {"pads", IntList{0, 1, 0, 1}}},
       domain},
      // One tap: may work in place.
      {"BlockedConv",
       {blocks, Floats({10, 1, 1, 1}, std::vector<float>(10, 1.0F))},
       {blocks},
       {{"group", int64_t{10}}},
       domain},
      // With room for Winograd.
      {"BlockedConv",
       {Floats({1, 2, 12, 12, 8}, std::vector<float>(2 * 12 * 12 * 8, 1.0F)),
        Floats({16, 16, 3, 3}, std::vector<float>(16 * 16 * 9, 1.0F))},
       {Floats({1, 2, 12, 12, 8}, tap_counts)},
       {{"pads", IntList{1, 1, 1, 1}}, {"scratch_room_bytes", int64_t{1} << 18}},
       domain,
       1e-5},
      {"BlockedConvPool",
       {Floats({1, 1, 1, 3}, {1, 3, 2}), Floats({1, 1, 1, 1}, {2}), Floats({1}, {1})},
       {first_lane({7, 7})},
       {{"window_kernel_shape", IntList{1, 2}}},
       domain},
      {"BlockedConvDepthwise",
       {Floats({1, 1, 1, 3}, {1, 3, 2}), Floats({1, 1, 1, 1}, {2}), Floats({1}, {1}),
        Floats({1, 1, 1, 2}, {10, 1}), Floats({1}, {0.5F})},
       {first_lane({37.5F, 75.5F})},
       {},
       domain},
      // As above, then 3 y - 1.
      {"BlockedConvDepthwiseConv",
       {Floats({1, 1, 1, 3}, {1, 3, 2}), Floats({1, 1, 1, 1}, {2}), Floats({1}, {1}),
        Floats({1, 1, 1, 2}, {10, 1}), Floats({1}, {0.5F}), Floats({1, 1, 1, 1}, {3}),
        Floats({1}, {-1})},
       {first_lane({111.5F, 225.5F})},
       {},
       domain},
      {"BlockedDepthwiseConv",
       {first_lane({1, 3, 2}), Floats({1, 1, 1, 2}, {10, 1}), Floats({1}, {0.5F}),
        Floats({1, 1, 1, 1}, {3}), Floats({1}, {-1})},
       {first_lane({39.5F, 96.5F})},
       {},
       domain},
      {"BlockedMaxPool",
       {first_lane({1, -2, 3})},
       {first_lane({1, 3})},
       {{"kernel_shape", IntList{1, 2}}},
       domain},
      {"BlockedAveragePool",
       {first_lane({1, -2, 3})},
       {first_lane({1, 0.5F})},
       {{"kernel_shape", IntList{1, 2}}, {"strides", IntList{1, 2}}, {"pads", IntList{0, 1, 0, 0}}},
       domain},
      {"BlockedGlobalMaxPool", {first_lane({1, -2, 4})}, {first_lane({4})}, {}, domain},
      {"BlockedGlobalAveragePool", {first_lane({1, -2, 4})}, {first_lane({1})}, {}, domain},
      {"BlockedConvTranspose",
       {first_lane({1, 2}), Floats({1, 1, 1, 2}, {1, 10}), Floats({1}, {0.5F})},
       {first_lane({10.5F, 2.5F, 20.5F})},
       {{"strides", IntList{1, 2}}, {"padding", IntList{0, 1}}, {"output_size", IntList{1, 3}}},
       domain},
      {"BlockedGatherChannels",
       {blocks},
       {Floats({1, 1, 1, 2, 8}, {9, 0, 1, 1, 1, 1, 1, 1, 19, 10, 11, 11, 11, 11, 11, 11})},
       {{"channels", IntList{9, 0, 1}}},
       domain},
  };
}

}  // namespace onnx_memplan::cases

#endif  // ONNX_MEMPLAN_TESTS_OPS_CASES_BLOCKED_H_
