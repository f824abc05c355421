// ConvTranspose on every target, against its definition: each input is scattered over its window.
#include "ops/host_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "ops/epilogue.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;
using IntList = std::vector<int64_t>;

struct RandomTranspose {
  std::vector<int64_t> in_size, taps, stride, dilation, pads, extra, out_size;
  int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;  // channels of one group
  Tensor x, w, bias, residual;
  Epilogue epilogue;
  bool constant_weights = true;

  Shape OutShape() const {
    Shape shape = {batch, groups * out_channels};
    shape.insert(shape.end(), out_size.begin(), out_size.end());
    return shape;
  }
};

RandomTranspose MakeRandom(std::mt19937& random) {
  static constexpr const char* kNames[] = {"", "Relu", "Silu"};
  RandomTranspose c;
  const auto axes = static_cast<size_t>(RandomInt(1, 3, random));
  c.batch = RandomInt(1, 2, random);
  c.groups = RandomInt(1, 2, random);
  c.in_channels = RandomInt(0, 3, random) == 0 ? 1 : RandomInt(1, 12, random);
  c.out_channels = RandomInt(0, 3, random) == 0 ? 1 : RandomInt(1, 12, random);
  c.pads.assign(2 * axes, 0);
  Shape x = {c.batch, c.groups * c.in_channels}, w = {c.groups * c.in_channels, c.out_channels};
  for (size_t i = 0; i < axes; ++i) {
    c.in_size.push_back(RandomInt(1, axes == 1 ? 50 : axes == 2 ? 9 : 4, random));
    c.taps.push_back(RandomInt(1, 4, random));
    c.stride.push_back(RandomInt(1, 4, random));
    c.dilation.push_back(RandomInt(1, 3, random));
    c.extra.push_back(RandomInt(0, c.stride[i] - 1, random));
    int64_t out =
        c.stride[i] * (c.in_size[i] - 1) + c.extra[i] + (c.taps[i] - 1) * c.dilation[i] + 1;
    c.pads[i] = std::min<int64_t>(RandomInt(0, 2, random), out - 1);
    out -= c.pads[i];
    c.pads[axes + i] = std::min<int64_t>(RandomInt(0, 2, random), out - 1);
    c.out_size.push_back(out - c.pads[axes + i]);
    x.push_back(c.in_size[i]);
    w.push_back(c.taps[i]);
  }
  c.x = RandomFloats(x, random);
  c.w = RandomFloats(w, random);
  c.bias = RandomFloats({c.groups * c.out_channels}, random);
  c.residual = RandomFloats(c.OutShape(), random);
  c.epilogue.activation = kNames[RandomInt(0, 2, random)];
  c.epilogue.has_residual = RandomInt(0, 2, random) == 0;
  c.constant_weights = RandomInt(0, 1, random) != 0;
  return c;
}

std::vector<double> Expected(const RandomTranspose& c) {
  const size_t axes = c.in_size.size();
  int64_t in_volume = 1, out_volume = 1, tap_count = 1;
  for (size_t i = 0; i < axes; ++i) {
    in_volume *= c.in_size[i];
    out_volume *= c.out_size[i];
    tap_count *= c.taps[i];
  }
  std::vector<double> y(static_cast<size_t>(c.batch * c.groups * c.out_channels * out_volume));
  for (size_t i = 0; i < y.size(); ++i) {
    const auto channel = static_cast<int64_t>(i) / out_volume % (c.groups * c.out_channels);
    y[i] = static_cast<double>(c.bias.As<float>()[static_cast<size_t>(channel)]);
    if (c.epilogue.has_residual) y[i] += static_cast<double>(c.residual.As<float>()[i]);
  }
  for (int64_t plane = 0; plane < c.batch * c.groups * c.in_channels; ++plane) {
    const int64_t group = plane / c.in_channels;  // over all images
    const int64_t channel = plane % (c.groups * c.in_channels);
    for (int64_t at = 0; at < in_volume; ++at) {
      const auto x =
          static_cast<double>(c.x.As<float>()[static_cast<size_t>(plane * in_volume + at)]);
      for (int64_t tap = 0; tap < tap_count; ++tap) {
        int64_t q = at, t = tap, out = 0, scale = 1;
        bool inside = true;
        for (size_t i = axes; i-- > 0;) {
          const int64_t o =
              q % c.in_size[i] * c.stride[i] + t % c.taps[i] * c.dilation[i] - c.pads[i];
          q /= c.in_size[i];
          t /= c.taps[i];
          inside = inside && o >= 0 && o < c.out_size[i];
          out += o * scale;
          scale *= c.out_size[i];
        }
        if (!inside) continue;
        for (int64_t oc = 0; oc < c.out_channels; ++oc) {
          y[static_cast<size_t>((group * c.out_channels + oc) * out_volume + out)] +=
              x * static_cast<double>(c.w.As<float>()[static_cast<size_t>(
                      (channel * c.out_channels + oc) * tap_count + tap)]);
        }
      }
    }
  }
  const ActivationParams act = EpilogueParams(c.epilogue);
  for (double& value : y) value = kernels::Activate(act.kind, value, act.alpha, act.beta);
  return y;
}

TEST(ConvTranspose, EqualsItsDefinitionForRandomShapesOnEveryTarget) {
  std::mt19937 random(1);
  for (int i = 0; i < 300 && !::testing::Test::HasFailure(); ++i) {
    const RandomTranspose c = MakeRandom(random);
    NodeUnderTest node("ConvTranspose");
    node.Input(c.x, false).Input(c.w, c.constant_weights).Input(c.bias, true);
    if (c.epilogue.has_residual) node.Input(c.residual, false);
    node.Set("group", c.groups).Set("strides", c.stride).Set("dilations", c.dilation);
    node.Set("pads", c.pads).Set("output_padding", c.extra);
    node.node().epilogue = c.epilogue;
    const std::vector<double> expected = Expected(c);
    for (const Target& target : BuiltinTargets()) {
      for (const int32_t in_place : {-1, c.epilogue.has_residual ? 3 : -1}) {
        const absl::StatusOr<std::vector<Tensor>> results = node.Run(target, in_place);
        ASSERT_TRUE(results.ok()) << results.status();
        ASSERT_EQ((*results)[0].shape(), c.OutShape());
        const auto y = (*results)[0].As<float>();
        for (size_t at = 0; at < expected.size(); ++at) {
          ASSERT_NEAR(y[at], expected[at], 1e-4)
              << ShapeToString(c.x.shape()) << " * " << ShapeToString(c.w.shape()) << " for "
              << target.name << " at " << at;
        }
      }
    }
  }
}

TEST(ConvTranspose, AddsBlocksOfChannelsThatDoNotFitThePanel) {
  std::mt19937 random(2);
  RandomTranspose c;
  c.in_channels = 700;
  c.out_channels = 5;
  c.in_size = {5, 4};
  c.taps = {2, 3};
  c.stride = {2, 2};
  c.dilation = {1, 1};
  c.pads = {0, 0, 0, 0};
  c.out_size = {10, 9};
  c.x = RandomFloats({1, 700, 5, 4}, random);
  c.w = RandomFloats({700, 5, 2, 3}, random);
  c.bias = RandomFloats({5}, random);
  const std::vector<double> expected = Expected(c);
  for (const bool constant_weights : {true, false}) {
    NodeUnderTest node("ConvTranspose");
    node.Input(c.x, false).Input(c.w, constant_weights).Input(c.bias, true);
    node.Set("strides", c.stride);
    for (const Target& target : BuiltinTargets()) {
      const Tensor y = node.Run(target).value()[0];
      for (size_t at = 0; at < expected.size(); ++at) {
        ASSERT_NEAR(y.As<float>()[at], expected[at], 1e-3);
      }
    }
  }
}

TEST(ConvTranspose, OfOnePixelKernelsEqualsItsDefinitionWithWeightsOfRunTime) {
  std::mt19937 random(5);
  for (const int64_t width : {1, 3, 8, 40}) {
    RandomTranspose c;
    c.batch = 2;
    c.in_channels = 9;
    c.out_channels = 7;
    c.in_size = c.out_size = {2, width};
    c.taps = c.stride = c.dilation = {1, 1};
    c.pads = {0, 0, 0, 0};
    c.x = RandomFloats({2, 9, 2, width}, random);
    c.w = RandomFloats({9, 7, 1, 1}, random);
    c.bias = RandomFloats({7}, random);
    const std::vector<double> expected = Expected(c);
    NodeUnderTest node("ConvTranspose");
    node.Input(c.x, false).Input(c.w, false).Input(c.bias, false);
    for (const Target& target : BuiltinTargets()) {
      const Tensor y = node.Run(target).value()[0];
      for (size_t at = 0; at < expected.size(); ++at) {
        ASSERT_NEAR(y.As<float>()[at], expected[at], 1e-4) << width << " for " << target.name;
      }
    }
  }
}

TEST(ConvTranspose, OfOneChannelToAGroupEqualsItsDefinitionWithWeightsOfRunTime) {
  std::mt19937 random(7);
  for (const IntList& taps : {IntList{3, 3}, {5, 5}, {4, 2}, {1, 1}}) {
    for (const int64_t stride : {1, 2}) {
      for (const int64_t pad : {0, 1, 2}) {
        RandomTranspose c;
        c.batch = 2;
        c.groups = 5;
        c.in_size = {7, 19};
        c.taps = taps;
        c.stride = {stride, stride};
        c.dilation = {1, 1};
        c.pads = {pad, pad, pad, 0};
        c.out_size = {6 * stride + taps[0] - 2 * pad, 18 * stride + taps[1] - pad};
        c.x = RandomFloats({2, 5, 7, 19}, random);
        c.w = RandomFloats({5, 1, taps[0], taps[1]}, random);
        c.bias = RandomFloats({5}, random);
        const std::vector<double> expected = Expected(c);
        NodeUnderTest node("ConvTranspose");
        node.Input(c.x, false).Input(c.w, false).Input(c.bias, false).Set("group", c.groups);
        node.Set("strides", c.stride).Set("pads", c.pads);
        for (const Target& target : BuiltinTargets()) {
          const Tensor y = node.Run(target).value()[0];
          ASSERT_EQ(y.shape(), c.OutShape());
          for (size_t at = 0; at < expected.size(); ++at) {
            ASSERT_NEAR(y.As<float>()[at], expected[at], 1e-4)
                << ShapeToString(c.w.shape()) << ", stride " << stride << ", padding " << pad
                << " for " << target.name;
          }
        }
      }
    }
  }
}

TEST(ConvTranspose, OfOnePixelEqualsItsDefinitionWithWeightsOfRunTime) {
  std::mt19937 random(6);
  for (const IntList& taps : {IntList{3, 4}, {1, 1}}) {
    RandomTranspose c;
    c.batch = 3;
    c.in_channels = 9;
    c.out_channels = 7;
    c.in_size = c.stride = c.dilation = {1, 1};
    c.taps = c.out_size = taps;
    c.pads = {0, 0, 0, 0};
    c.x = RandomFloats({3, 9, 1, 1}, random);
    c.w = RandomFloats({9, 7, taps[0], taps[1]}, random);
    c.bias = Tensor::FromVector<float>({7}, std::vector<float>(7, 0));
    const std::vector<double> expected = Expected(c);
    NodeUnderTest node("ConvTranspose");
    node.Input(c.x, false).Input(c.w, false);
    for (const Target& target : BuiltinTargets()) {
      const Tensor y = node.Run(target).value()[0];
      for (size_t at = 0; at < expected.size(); ++at) {
        ASSERT_NEAR(y.As<float>()[at], expected[at], 1e-4) << "for " << target.name;
      }
    }
  }
}

TEST(ConvTranspose, OutputShapeAndAutoPadDecideThePadding) {
  std::mt19937 random(3);
  NodeUnderTest node("ConvTranspose");
  node.Input(RandomFloats({1, 1, 3, 3}, random), false);
  node.Input(RandomFloats({1, 2, 3, 3}, random), true);
  node.Set("strides", std::vector<int64_t>{3, 2});
  EXPECT_EQ(node.Infer().value()[0].shape, (Shape{1, 2, 9, 7}));
  node.Set("output_shape", std::vector<int64_t>{10, 8});
  EXPECT_EQ(node.Infer().value()[0].shape, (Shape{1, 2, 10, 8}));
  NodeUnderTest same("ConvTranspose");
  same.Input(RandomFloats({1, 1, 3, 3}, random), false);
  same.Input(RandomFloats({1, 2, 3, 3}, random), true);
  same.Set("strides", std::vector<int64_t>{2, 2}).Set("auto_pad", std::string("SAME_UPPER"));
  EXPECT_EQ(same.Infer().value()[0].shape, (Shape{1, 2, 6, 6}));
}

TEST(ConvTranspose, RefusesWhatDoesNotFit) {
  std::mt19937 random(4);
  NodeUnderTest node("ConvTranspose");
  node.Input(RandomFloats({1, 2, 3}, random), false).Input(RandomFloats({2, 1, 2}, random), true);
  node.Set("pads", std::vector<int64_t>{2, 2});
  EXPECT_THAT(std::string(node.Infer().status().message()), HasSubstr("leaves nothing"));
  node.Set("group", int64_t{3});
  EXPECT_THAT(std::string(node.Infer().status().message()), HasSubstr("groups do not fit"));
}

}  // namespace
}  // namespace onnx_memplan
