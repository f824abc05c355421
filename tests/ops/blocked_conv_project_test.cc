// Depthwise convolutions with what is fused before and behind them, against Convs of plain images.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ops/blocked_image.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

constexpr const char* kActivations[] = {"", "Relu", "Clip", "HardSwish", "Silu"};

// A convolution, as attributes and operands of Conv.
struct Convolution {
  Tensor w, bias;
  bool has_bias = false;
  int64_t group = 1;
  std::vector<int64_t> stride = {1, 1};
  std::vector<int64_t> pads = {0, 0, 0, 0};
  Epilogue epilogue;
};

struct RandomChain {
  Tensor x, residual;
  bool plain_input = false;
  Convolution first, depthwise, project;  // the first one only in chains of three
};

Convolution RandomConvolution(int64_t in, int64_t out, std::vector<int64_t> taps, int64_t group,
                              std::mt19937& random) {
  Convolution c;
  c.group = group;
  c.w = RandomFloats({out, in / group, taps[0], taps[1]}, random);
  c.bias = RandomFloats({out}, random);
  c.has_bias = RandomInt(0, 1, random) == 0;
  c.epilogue.activation = kActivations[RandomInt(0, 4, random)];
  if (c.epilogue.activation == "Clip") {
    c.epilogue.alpha = -0.25F;
    c.epilogue.beta = 0.5F;
  }
  return c;
}

Tensor RunPlain(const Tensor& x, const Convolution& c, const Tensor* residual) {
  NodeUnderTest node("Conv");
  node.Input(x, false).Input(c.w, true);
  if (c.has_bias) node.Input(c.bias, true);
  if (residual != nullptr) node.Input(*residual, false);
  node.Set("group", c.group).Set("strides", c.stride).Set("pads", c.pads);
  node.node().epilogue = c.epilogue;
  node.node().epilogue.has_residual = residual != nullptr;
  return node.Run(BuiltinTargets().front()).value()[0];
}

RandomChain MakeRandom(bool three, std::mt19937& random) {
  RandomChain c;
  const int64_t hidden = RandomInt(1, 40, random);
  const int64_t out = RandomInt(1, 40, random);
  c.plain_input = three && RandomInt(0, 1, random) == 0;
  const int64_t in = !three          ? hidden
                     : c.plain_input ? RandomInt(1, 4, random)
                                     : RandomInt(8, 24, random);
  c.x = RandomFloats(
      {RandomInt(1, 2, random), in, RandomInt(5, 20, random), RandomInt(5, 33, random)}, random);
  const int64_t taps = c.plain_input ? 1 + 2 * RandomInt(0, 1, random) : 1;
  c.first = RandomConvolution(in, hidden, {taps, taps}, 1, random);
  if (c.plain_input) {
    c.first.pads.assign(4, taps / 2);
    for (int64_t& stride : c.first.stride) stride = RandomInt(1, 3, random);
  }
  const std::vector<int64_t> window = {1 + 2 * RandomInt(0, 2, random), RandomInt(1, 5, random)};
  c.depthwise = RandomConvolution(hidden, hidden, window, hidden, random);
  c.depthwise.pads = {window[0] / 2, window[1] / 2, window[0] / 2, window[1] / 2};
  for (int64_t& stride : c.depthwise.stride) stride = RandomInt(1, 3, random);
  c.project = RandomConvolution(hidden, out, {1, 1}, 1, random);
  return c;
}

void SetEpilogue(const Epilogue& epilogue, const std::string& prefix, NodeUnderTest& node) {
  node.Set(prefix + "_activation", epilogue.activation).Set(prefix + "_alpha", epilogue.alpha);
  node.Set(prefix + "_beta", epilogue.beta);
}

NodeUnderTest MakeFused(const RandomChain& c, bool three, const Tensor* residual) {
  NodeUnderTest node(three ? "BlockedConvDepthwiseConv" : "BlockedDepthwiseConv", "onnx_memplan");
  node.Input(c.plain_input ? c.x : Blocked(c.x, 3.5F), false);
  const auto add = [&](const Convolution& convolution) {
    node.Input(convolution.w, true);
    if (convolution.has_bias) {
      node.Input(convolution.bias, true);
    } else {
      node.NoInput();
    }
  };
  if (three) {
    add(c.first);
    node.Set("strides", c.first.stride).Set("pads", c.first.pads);
    SetEpilogue(c.first.epilogue, "first", node);
  }
  add(c.depthwise);
  node.Set("window_strides", c.depthwise.stride).Set("window_pads", c.depthwise.pads);
  SetEpilogue(c.depthwise.epilogue, "second", node);
  add(c.project);
  if (residual != nullptr) node.Input(Blocked(*residual, 2.5F), false);
  node.node().epilogue = c.project.epilogue;
  node.node().epilogue.has_residual = residual != nullptr;
  return node;
}

void Check(const RandomChain& c, bool three, std::mt19937& random) {
  Tensor v = three ? RunPlain(c.x, c.first, nullptr) : c.x;
  v = RunPlain(v, c.depthwise, nullptr);
  Shape out = v.shape();
  out[1] = c.project.w.shape()[0];
  const Tensor residual = RandomFloats(out, random);
  const bool has_residual = RandomInt(0, 2, random) == 0;
  const Tensor expected = RunPlain(v, c.project, has_residual ? &residual : nullptr);
  double largest = 1;
  for (const float value : expected.As<float>()) {
    largest = std::max(largest, static_cast<double>(std::abs(value)));
  }
  const int32_t residual_input = three ? 7 : 5;
  for (const Target& target : BuiltinTargets()) {
    SCOPED_TRACE(ShapeToString(c.x.shape()) + " to " + ShapeToString(out) + " for " + target.name);
    NodeUnderTest node = MakeFused(c, three, has_residual ? &residual : nullptr);
    for (const int32_t in_place : {-1, has_residual ? residual_input : -1}) {
      const absl::StatusOr<std::vector<Tensor>> results = node.Run(target, in_place);
      ASSERT_TRUE(results.ok()) << results.status();
      const Tensor y = Unblocked((*results)[0], out[1]);
      for (size_t i = 0; i < y.As<float>().size(); ++i) {
        ASSERT_NEAR(y.As<float>()[i], expected.As<float>()[i], 5e-6 * largest) << i;
      }
    }
  }
}

TEST(BlockedConvProject, OfThreeConvolutionsEqualsThem) {
  std::mt19937 random(20);
  for (int i = 0; i < 300 && !HasFailure(); ++i) Check(MakeRandom(true, random), true, random);
}

TEST(BlockedConvProject, OfTwoConvolutionsEqualsThem) {
  std::mt19937 random(21);
  for (int i = 0; i < 300 && !HasFailure(); ++i) Check(MakeRandom(false, random), false, random);
}

TEST(BlockedConvProject, RefusesOperandsThatDoNotFit) {
  std::mt19937 random(22);
  const RandomChain c = MakeRandom(true, random);
  RandomChain other = c;
  other.project.w = RandomFloats({4, c.project.w.shape()[1] + 1, 1, 1}, random);
  other.project.has_bias = false;
  EXPECT_FALSE(MakeFused(other, true, nullptr).Infer().ok());
  other = c;
  other.depthwise.w = RandomFloats({c.depthwise.w.shape()[0] + 8, 1, 3, 3}, random);
  EXPECT_FALSE(MakeFused(other, true, nullptr).Infer().ok());
  other = c;
  other.project.w = RandomFloats({c.project.w.shape()[0], c.project.w.shape()[1], 3, 3}, random);
  EXPECT_FALSE(MakeFused(other, true, nullptr).Infer().ok());
}

}  // namespace
}  // namespace onnx_memplan
