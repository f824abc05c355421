// Images to blocks of channels and back, and channels in another order.
#include "ops/host_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/blocked_image.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

Tensor RandomImage(std::mt19937& random) {
  return RandomFloats({RandomInt(1, 3, random), RandomInt(1, 40, random), RandomInt(1, 12, random),
                       RandomInt(1, 12, random)},
                      random);
}

TEST(BlockChannels, PutsEightChannelsSideBySideAndZerosBehindTheLast) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const Tensor x = RandomImage(random);
    for (const Target& target : BuiltinTargets()) {
      NodeUnderTest node("BlockChannels", "onnx_memplan");
      node.Input(x, false);
      ASSERT_EQ(node.Run(target).value()[0], Blocked(x, 0)) << ShapeToString(x.shape());
    }
  }
}

TEST(UnblockChannels, IsTheInverseOfBlockChannels) {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    const Tensor x = RandomImage(random);
    for (const Target& target : BuiltinTargets()) {
      NodeUnderTest node("UnblockChannels", "onnx_memplan");
      node.Input(Blocked(x, 3.5F), false).Set("channels", x.shape()[1]);
      ASSERT_EQ(node.Run(target).value()[0], x) << ShapeToString(x.shape());
    }
  }
}

TEST(BlockedGatherChannels, TakesAnyChannels) {
  std::mt19937 random(3);
  std::set<std::string> names;
  for (int i = 0; i < 200; ++i) {
    const Tensor x = RandomImage(random);
    const Shape& s = x.shape();
    // A shuffle of two groups, or any channels.
    std::vector<int64_t> channels;
    const bool shuffles = s[1] % 2 == 0 && RandomInt(0, 1, random) == 0;
    const int64_t count = shuffles ? s[1] : RandomInt(1, 30, random);
    for (int64_t c = 0; c < count; ++c) {
      channels.push_back(shuffles ? c % 2 * s[1] / 2 + c / 2 : RandomInt(0, s[1] - 1, random));
    }
    const int64_t pixels = s[2] * s[3];
    for (const Target& target : BuiltinTargets()) {
      NodeUnderTest node("BlockedGatherChannels", "onnx_memplan");
      node.Input(Blocked(x, 3.5F), false).Set("channels", channels);
      names.insert(node.Lower(target).value().calls[0].name);
      const Tensor y = Unblocked(node.Run(target).value()[0], count);
      for (int64_t at = 0; at < y.NumElements(); ++at) {
        const int64_t plane = at / pixels;
        const int64_t from =
            (plane / count * s[1] + channels[static_cast<size_t>(plane % count)]) * pixels +
            at % pixels;
        ASSERT_EQ(y.As<float>()[static_cast<size_t>(at)], x.As<float>()[static_cast<size_t>(from)]);
      }
    }
  }
  EXPECT_THAT(names, Contains("kernels::GatherChannelsFromTwo"));
  EXPECT_THAT(names, Contains("kernels::GatherChannels"));
}

TEST(BlockedLayout, RefusesWhatDoesNotFit) {
  std::mt19937 random(4);
  NodeUnderTest gather("BlockedGatherChannels", "onnx_memplan");
  gather.Input(RandomFloats({1, 2, 3, 3, 8}, random), false);
  gather.Set("channels", std::vector<int64_t>{0, 16});
  EXPECT_THAT(std::string(gather.Infer().status().message()), HasSubstr("no channel 16"));
  NodeUnderTest unblock("UnblockChannels", "onnx_memplan");
  unblock.Input(RandomFloats({1, 2, 3, 3, 8}, random), false).Set("channels", int64_t{8});
  EXPECT_THAT(std::string(unblock.Infer().status().message()), HasSubstr("8 channels"));
}

}  // namespace
}  // namespace onnx_memplan
