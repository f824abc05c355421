// Depthwise convolutions of images in blocks of channels, against Conv of plain images.
#include "ops/host_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

struct RandomDepthwise {
  Tensor x, w, bias, residual;
  std::vector<int64_t> stride, dilation, pads;
  int64_t channels = 1;
  bool has_bias = false;
  Epilogue epilogue;

  std::string ToString() const {
    std::string text = ShapeToString(x.shape()) + " * " + ShapeToString(w.shape());
    for (const auto* list : {&stride, &dilation, &pads}) {
      text += " [";
      for (int64_t value : *list) text += " " + std::to_string(value);
      text += " ]";
    }
    return text + (has_bias ? " bias" : "") + (epilogue.has_residual ? " residual " : " ") +
           epilogue.activation;
  }
};

RandomDepthwise MakeRandom(std::mt19937& random) {
  static constexpr const char* kActivations[] = {"", "Relu", "Clip", "HardSwish", "Silu"};
  RandomDepthwise c;
  c.channels = RandomInt(2, 20, random);
  Shape x = {RandomInt(1, 2, random), c.channels};
  Shape w = {c.channels, 1};
  Shape y = x;
  c.pads.assign(4, 0);
  // 0: 3 taps, 1: 5 taps, 2: one tap, 3: any, 4: 7 taps.
  const int64_t style = RandomInt(0, 4, random);
  for (size_t i = 0; i < 2; ++i) {
    w.push_back(style == 0 ? 3 : style == 1 ? 5 : style == 2 ? 1 : RandomInt(1, 7, random));
    c.stride.push_back(RandomInt(1, style == 3 ? 3 : 2, random));
    c.dilation.push_back(style == 3 ? RandomInt(1, 3, random) : 1);
    const int64_t reach = (w[2 + i] - 1) * c.dilation[i] + 1;
    c.pads[i] = RandomInt(0, RandomInt(0, 3, random) == 0 ? 9 : reach / 2, random);
    c.pads[2 + i] = RandomInt(0, RandomInt(0, 3, random) == 0 ? 9 : reach / 2, random);
    int64_t size = RandomInt(1, 35, random);
    size = std::max(size, reach - c.pads[i] - c.pads[2 + i]);
    x.push_back(size);
    y.push_back((size + c.pads[i] + c.pads[2 + i] - reach) / c.stride[i] + 1);
  }
  c.x = RandomFloats(x, random);
  c.w = RandomFloats(w, random);
  c.bias = RandomFloats({c.channels}, random);
  c.residual = RandomFloats(y, random);
  c.has_bias = RandomInt(0, 1, random) == 0;
  c.epilogue.has_residual = RandomInt(0, 2, random) == 0;
  c.epilogue.activation = kActivations[RandomInt(0, 4, random)];
  if (c.epilogue.activation == "Clip") {
    c.epilogue.alpha = -0.25F;
    c.epilogue.beta = 0.5F;
  }
  return c;
}

NodeUnderTest MakeNode(const RandomDepthwise& c, bool blocked) {
  NodeUnderTest node(blocked ? "BlockedConv" : "Conv", blocked ? "onnx_memplan" : "");
  node.Input(blocked ? Blocked(c.x, 3.5F) : c.x, false).Input(c.w, true);
  if (c.has_bias) node.Input(c.bias, true);
  if (c.epilogue.has_residual) node.Input(blocked ? Blocked(c.residual, 2.5F) : c.residual, false);
  node.Set("group", c.channels).Set("strides", c.stride).Set("dilations", c.dilation);
  node.Set("pads", c.pads);
  node.node().epilogue = c.epilogue;
  return node;
}

// Runs `c` on `target`, once more over its residual, and compares; the kernel's name.
std::string Check(const RandomDepthwise& c, const Tensor& expected, const Target& target) {
  SCOPED_TRACE(c.ToString() + " for " + target.name);
  NodeUnderTest node = MakeNode(c, true);
  const std::string name = node.Lower(target).value().calls[0].name;
  const double tolerance = 1e-6 * static_cast<double>(c.w.shape()[2] * c.w.shape()[3] + 2);
  for (const int32_t in_place : {-1, c.epilogue.has_residual ? (c.has_bias ? 3 : 2) : -1}) {
    const Tensor blocked = node.Run(target, in_place).value()[0];
    for (const float value : blocked.As<float>()) EXPECT_TRUE(std::isfinite(value));
    const Tensor y = Unblocked(blocked, c.channels);
    EXPECT_EQ(y.shape(), expected.shape());
    for (size_t i = 0; i < y.As<float>().size(); ++i) {
      const float difference = std::abs(y.As<float>()[i] - expected.As<float>()[i]);
      if (!(static_cast<double>(difference) <= tolerance)) {
        ADD_FAILURE() << name << " gives " << y.As<float>()[i] << " for " << expected.As<float>()[i]
                      << " at " << i;
        return name;
      }
    }
  }
  return name;
}

TEST(BlockedDepthwise, EqualsConvForRandomShapesOnEveryTarget) {
  std::mt19937 random(1);
  std::set<std::string> names;
  for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) {
    const RandomDepthwise c = MakeRandom(random);
    const Tensor expected = MakeNode(c, false).Run(BuiltinTargets().front()).value()[0];
    for (const Target& target : BuiltinTargets()) names.insert(Check(c, expected, target));
  }
  for (const char* kernel :
       {"Depthwise<4, 3, 1>", "Depthwise<4, 5, 2>", "Depthwise<4, 0, 0>", "Depthwise<8, 3, 1>",
        "Depthwise<8, 3, 2>", "Depthwise<8, 5, 1>", "Depthwise<8, 5, 2>", "Depthwise<8, 7, 1>",
        "Depthwise<8, 7, 2>", "Depthwise<8, 0, 0>"}) {
    EXPECT_THAT(names, Contains(HasSubstr(kernel)));
  }
}

TEST(BlockedDepthwise, OfOneTapWorksInPlace) {
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    RandomDepthwise c = MakeRandom(random);
    c.w = RandomFloats({c.channels, 1, 1, 1}, random);
    c.stride = c.dilation = {1, 1};
    c.pads = {0, 0, 0, 0};
    c.residual = RandomFloats(c.x.shape(), random);
    for (const Target& target : BuiltinTargets()) {
      NodeUnderTest node = MakeNode(c, true);
      const std::vector<Tensor> apart = node.Run(target).value();
      EXPECT_EQ(node.Run(target, 0).value(), apart) << c.ToString();
    }
  }
}

TEST(BlockedDepthwise, TakesABiasThatIsKnownAtRunTimeOnly) {
  std::mt19937 random(2);
  RandomDepthwise c = MakeRandom(random);
  c.has_bias = true;
  c.epilogue = {};
  NodeUnderTest node("BlockedConv", "onnx_memplan");
  node.Input(Blocked(c.x, 0), false).Input(c.w, true).Input(c.bias, false);
  node.Set("group", c.channels).Set("strides", c.stride).Set("dilations", c.dilation);
  node.Set("pads", c.pads);
  const Target& target = BuiltinTargets().back();
  const Tensor expected = MakeNode(c, false).Run(target).value()[0];
  const Tensor y = Unblocked(node.Run(target).value()[0], c.channels);
  for (size_t i = 0; i < y.As<float>().size(); ++i) {
    ASSERT_NEAR(y.As<float>()[i], expected.As<float>()[i], 1e-5);
  }
}

}  // namespace
}  // namespace onnx_memplan
