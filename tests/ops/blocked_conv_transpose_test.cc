// Transposed convolutions of images in blocks of channels, against ConvTranspose of plain images.
#include "ops/host_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ops/blocked_image.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;

struct RandomTranspose {
  Tensor x, w, bias, residual;
  std::vector<int64_t> stride, pads, out_size;
  bool has_bias = false;
  Epilogue epilogue;

  std::string ToString() const {
    return ShapeToString(x.shape()) + " * " + ShapeToString(w.shape()) + " strides " +
           std::to_string(stride[0]) + " " + std::to_string(stride[1]) + " to " +
           ShapeToString(out_size);
  }
};

RandomTranspose MakeRandom(std::mt19937& random) {
  static constexpr const char* kActivations[] = {"", "Relu", "Silu"};
  RandomTranspose c;
  Shape x = {RandomInt(1, 2, random), RandomInt(1, 20, random)};
  Shape w = {x[1], RandomInt(1, 20, random)};
  c.pads.assign(4, 0);
  for (size_t i = 0; i < 2; ++i) {
    x.push_back(RandomInt(1, 20, random));
    w.push_back(RandomInt(1, 4, random));
    c.stride.push_back(RandomInt(1, 3, random));
    const int64_t full = (x[2 + i] - 1) * c.stride[i] + w[2 + i];
    c.pads[i] = RandomInt(0, std::min<int64_t>(2, (full - 1) / 2), random);
    c.pads[2 + i] = RandomInt(0, std::min<int64_t>(2, (full - 1) / 2), random);
    c.out_size.push_back(full - c.pads[i] - c.pads[2 + i]);
  }
  c.x = RandomFloats(x, random);
  c.w = RandomFloats(w, random);
  c.bias = RandomFloats({w[1]}, random);
  c.residual = RandomFloats({x[0], w[1], c.out_size[0], c.out_size[1]}, random);
  c.has_bias = RandomInt(0, 1, random) == 0;
  c.epilogue.has_residual = RandomInt(0, 2, random) == 0;
  c.epilogue.activation = kActivations[RandomInt(0, 2, random)];
  return c;
}

NodeUnderTest MakeNode(const RandomTranspose& c, bool blocked) {
  NodeUnderTest node(blocked ? "BlockedConvTranspose" : "ConvTranspose",
                     blocked ? "onnx_memplan" : "");
  node.Input(blocked ? Blocked(c.x, 3.5F) : c.x, false).Input(c.w, true);
  if (c.has_bias) node.Input(c.bias, true);
  if (c.epilogue.has_residual) node.Input(blocked ? Blocked(c.residual, 2.5F) : c.residual, false);
  node.Set("strides", c.stride);
  if (blocked) {
    node.Set("padding", std::vector<int64_t>{c.pads[0], c.pads[1]}).Set("output_size", c.out_size);
  } else {
    node.Set("pads", c.pads);
  }
  node.node().epilogue = c.epilogue;
  return node;
}

TEST(BlockedConvTranspose, EqualsConvTransposeForRandomShapesOnEveryTarget) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const RandomTranspose c = MakeRandom(random);
    SCOPED_TRACE(c.ToString());
    const Tensor expected = MakeNode(c, false).Run(BuiltinTargets().front()).value()[0];
    for (const Target& target : BuiltinTargets()) {
      for (const int32_t in_place : {-1, c.epilogue.has_residual ? (c.has_bias ? 3 : 2) : -1}) {
        const Tensor blocked = MakeNode(c, true).Run(target, in_place).value()[0];
        for (const float value : blocked.As<float>()) ASSERT_TRUE(std::isfinite(value));
        const Tensor y = Unblocked(blocked, c.w.shape()[1]);
        ASSERT_EQ(y.shape(), expected.shape());
        for (size_t at = 0; at < y.As<float>().size(); ++at) {
          ASSERT_NEAR(y.As<float>()[at], expected.As<float>()[at], 1e-4) << at;
        }
      }
    }
  }
}

TEST(BlockedConvTranspose, RefusesWhatDoesNotFit) {
  std::mt19937 random(2);
  NodeUnderTest node("BlockedConvTranspose", "onnx_memplan");
  node.Input(RandomFloats({1, 1, 3, 3, 8}, random), false);
  node.Input(RandomFloats({9, 4, 2, 2}, random), true);
  node.Set("output_size", std::vector<int64_t>{4, 4});
  EXPECT_THAT(std::string(node.Infer().status().message()), HasSubstr("9 channels"));
  NodeUnderTest sizeless("BlockedConvTranspose", "onnx_memplan");
  sizeless.Input(RandomFloats({1, 1, 3, 3, 8}, random), false);
  sizeless.Input(RandomFloats({8, 4, 2, 2}, random), true);
  EXPECT_THAT(std::string(sizeless.Infer().status().message()), HasSubstr("output_size"));
}

}  // namespace
}  // namespace onnx_memplan
