// Every variant of Conv that lowering can choose, against the definition in double precision.
#include "ops/host_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "ops/epilogue.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

struct RandomConv {
  std::vector<int64_t> in_size, taps, stride, dilation, pads;
  int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;  // channels of one group
  Tensor x, w, bias;
  bool has_bias = false;
  Tensor residual;
  Epilogue epilogue;
  bool constant_weights = true;

  std::vector<int64_t> OutSize() const {
    std::vector<int64_t> out;
    const size_t axes = in_size.size();
    for (size_t i = 0; i < axes; ++i) {
      out.push_back((in_size[i] + pads[i] + pads[axes + i] - (taps[i] - 1) * dilation[i] - 1) /
                        stride[i] +
                    1);
    }
    return out;
  }
  Shape OutShape() const {
    Shape shape = {batch, groups * out_channels};
    for (int64_t size : OutSize()) shape.push_back(size);
    return shape;
  }
  std::string ToString() const {
    std::string text = ShapeToString(x.shape()) + " * " + ShapeToString(w.shape()) + " groups " +
                       std::to_string(groups);
    for (const auto* list : {&stride, &dilation, &pads}) {
      text += " [";
      for (int64_t value : *list) text += " " + std::to_string(value);
      text += " ]";
    }
    return text + (has_bias ? " bias" : "") + (epilogue.has_residual ? " residual " : " ") +
           epilogue.activation;
  }
};

// The definition, computed in double.
std::vector<double> Expected(const RandomConv& c) {
  const size_t axes = c.in_size.size();
  const std::vector<int64_t> out = c.OutSize();
  int64_t in_volume = 1, out_volume = 1, tap_count = 1;
  for (size_t i = 0; i < axes; ++i) {
    in_volume *= c.in_size[i];
    out_volume *= out[i];
    tap_count *= c.taps[i];
  }
  const auto x = c.x.As<float>();
  const auto w = c.w.As<float>();
  const ActivationParams activation = EpilogueParams(c.epilogue);
  std::vector<double> y;
  for (int64_t n = 0; n < c.batch; ++n) {
    for (int64_t oc = 0; oc < c.groups * c.out_channels; ++oc) {
      const int64_t group = oc / c.out_channels;
      for (int64_t pixel = 0; pixel < out_volume; ++pixel) {
        double sum =
            c.has_bias ? static_cast<double>(c.bias.As<float>()[static_cast<size_t>(oc)]) : 0;
        for (int64_t ic = 0; ic < c.in_channels; ++ic) {
          for (int64_t tap = 0; tap < tap_count; ++tap) {
            int64_t q = pixel, t = tap, at = 0, scale = 1;
            bool inside = true;
            for (size_t i = axes; i-- > 0;) {
              const int64_t in_at =
                  q % out[i] * c.stride[i] + t % c.taps[i] * c.dilation[i] - c.pads[i];
              q /= out[i];
              t /= c.taps[i];
              inside = inside && in_at >= 0 && in_at < c.in_size[i];
              at += in_at * scale;
              scale *= c.in_size[i];
            }
            if (!inside) continue;
            const int64_t channel = (n * c.groups + group) * c.in_channels + ic;
            sum += static_cast<double>(x[static_cast<size_t>(channel * in_volume + at)]) *
                   static_cast<double>(
                       w[static_cast<size_t>((oc * c.in_channels + ic) * tap_count + tap)]);
          }
        }
        if (c.epilogue.has_residual) {
          sum += static_cast<double>(c.residual.As<float>()[y.size()]);
        }
        y.push_back(kernels::Activate(activation.kind, sum, activation.alpha, activation.beta));
      }
    }
  }
  return y;
}

Epilogue RandomEpilogue(std::mt19937& random) {
  static constexpr const char* kNames[] = {"",          "",     "Relu",     "Clip",
                                           "LeakyRelu", "Silu", "HardSwish"};
  Epilogue epilogue;
  epilogue.has_residual = RandomInt(0, 2, random) == 0;
  epilogue.activation = kNames[RandomInt(0, std::size(kNames) - 1, random)];
  if (epilogue.activation == "Clip") epilogue = {epilogue.has_residual, "Clip", -0.25F, 0.5F};
  if (epilogue.activation == "LeakyRelu") epilogue.alpha = 0.125F;
  return epilogue;
}

// Fills in the data of a convolution whose sizes are set.
void FillIn(RandomConv* c, std::mt19937& random) {
  Shape x = {c->batch, c->groups * c->in_channels};
  Shape w = {c->groups * c->out_channels, c->in_channels};
  for (int64_t size : c->in_size) x.push_back(size);
  for (int64_t size : c->taps) w.push_back(size);
  c->x = RandomFloats(x, random);
  c->w = RandomFloats(w, random);
  c->has_bias = RandomInt(0, 1, random) == 0;
  c->bias = RandomFloats({c->groups * c->out_channels}, random);
  c->epilogue = RandomEpilogue(random);
  c->residual = RandomFloats(c->OutShape(), random);
  c->constant_weights = RandomInt(0, 3, random) != 0;
}

RandomConv MakeRandomConv(std::mt19937& random) {
  RandomConv c;
  // 0: pointwise, 1: depthwise, 2: one window, else any.
  const int64_t style = RandomInt(0, 5, random);
  const auto axes = static_cast<size_t>(RandomInt(1, style == 1 ? 2 : 3, random));
  c.batch = RandomInt(1, 2, random);
  c.groups = style == 1 ? RandomInt(2, 5, random) : style == 2 ? 1 : RandomInt(1, 4, random) / 2;
  c.groups = std::max<int64_t>(c.groups, 1);
  c.in_channels = style == 1 ? 1 : RandomInt(1, 40, random);
  c.out_channels = style == 1 ? RandomInt(1, 2, random) : RandomInt(1, 20, random);
  c.pads.assign(2 * axes, 0);
  for (size_t i = 0; i < axes; ++i) {
    c.in_size.push_back(RandomInt(1, axes == 1 ? 90 : axes == 2 ? 20 : 6, random));
    c.taps.push_back(style == 0 ? 1 : RandomInt(1, 5, random));
    c.stride.push_back(style == 0 ? 1 : RandomInt(1, 3, random));
    c.dilation.push_back(style == 0 ? 1 : RandomInt(1, 3, random));
    const int64_t reach = (c.taps[i] - 1) * c.dilation[i] + 1;
    if (style == 2) c.in_size[i] = reach;
    if (style > 2 || style == 1) {
      c.pads[i] = RandomInt(0, 3, random);
      c.pads[axes + i] = RandomInt(0, 3, random);
    }
    const int64_t missing = reach - (c.in_size[i] + c.pads[i] + c.pads[axes + i]);
    if (missing > 0) c.in_size[i] += missing;
  }
  if (style == 1 && RandomInt(0, 1, random) == 0) {
    c.taps.assign(axes, RandomInt(0, 1, random) == 0 ? 3 : 5);
    for (size_t i = 0; i < axes; ++i) c.in_size[i] += 4 * c.dilation[i];
  }
  FillIn(&c, random);
  return c;
}

// Runs `c` on `target`, once more over its residual, and compares; the kernel's name.
std::string CheckConv(const RandomConv& c, const Target& target) {
  SCOPED_TRACE(c.ToString() + " for " + target.name);
  NodeUnderTest node("Conv");
  node.Input(c.x, false).Input(c.w, c.constant_weights);
  if (c.has_bias) node.Input(c.bias, c.constant_weights);
  if (c.epilogue.has_residual) node.Input(c.residual, false);
  node.Set("group", c.groups).Set("strides", c.stride).Set("dilations", c.dilation);
  node.Set("pads", c.pads);
  node.node().epilogue = c.epilogue;
  const absl::StatusOr<Lowering> lowering = node.Lower(target);
  EXPECT_TRUE(lowering.ok()) << lowering.status();
  if (!lowering.ok()) return "";
  const std::vector<double> expected = Expected(c);
  const double terms = static_cast<double>(c.w.NumElements() / (c.groups * c.out_channels));
  for (const int32_t in_place : {-1, c.epilogue.has_residual ? (c.has_bias ? 3 : 2) : -1}) {
    const absl::StatusOr<std::vector<Tensor>> results = node.Run(target, in_place);
    EXPECT_TRUE(results.ok()) << results.status();
    if (!results.ok()) return "";
    EXPECT_EQ((*results)[0].shape(), c.OutShape());
    const auto y = (*results)[0].As<float>();
    for (size_t i = 0; i < expected.size(); ++i) {
      if (!(std::abs(static_cast<double>(y[i]) - expected[i]) <= 1e-6 * (terms + 2))) {
        ADD_FAILURE() << lowering->calls[0].name << " gives " << y[i] << " for " << expected[i]
                      << " at " << i << " of " << expected.size()
                      << (in_place >= 0 ? " in place" : "");
        return lowering->calls[0].name;
      }
    }
  }
  return lowering->calls[0].name;
}

TEST(Conv, EqualsItsDefinitionForRandomShapesOnEveryTarget) {
  std::mt19937 random(1);
  std::set<std::string> names;
  for (int i = 0; i < 300 && !::testing::Test::HasFailure(); ++i) {
    const RandomConv c = MakeRandomConv(random);
    for (const Target& target : BuiltinTargets()) names.insert(CheckConv(c, target));
  }
  for (const char* kernel :
       {"ConvGemm<4, ", "ConvGemm<8, ", "ConvGemm<16, ", "ConvPointwise<4, ", "ConvPointwise<8, ",
        "ConvPointwise<16, ", "Depthwise<4, 3, 3", "Depthwise<16, 0, 0", "DepthwisePlane<8, 3, 3",
        "DepthwisePlane<8, 5, 5", "MatMul<"}) {
    EXPECT_THAT(names, Contains(HasSubstr(kernel)));
  }
}

TEST(Conv, AddsBlocksOfChannelsThatDoNotFitThePanel) {
  std::mt19937 random(2);
  for (const int64_t taps : {1, 3}) {
    RandomConv c;
    c.in_channels = 600;
    c.out_channels = 9;
    c.in_size = {5, 9};
    c.taps = {taps, taps};
    c.stride = {1, 1};
    c.dilation = {1, 1};
    c.pads = {taps / 2, taps / 2, taps / 2, taps / 2};
    for (int i = 0; i < 4; ++i) {
      FillIn(&c, random);
      for (const Target& target : BuiltinTargets()) CheckConv(c, target);
    }
  }
}

TEST(Conv, WindowsOfARowAreReadWhereTheyAre) {
  std::mt19937 random(5);
  std::set<std::string> names;
  for (int i = 0; i < 60; ++i) {
    RandomConv c;
    const size_t axes = i % 2 == 0 ? 1 : 2;
    c.batch = RandomInt(1, 2, random);
    c.out_channels = RandomInt(0, 2, random) == 0 ? 1 : RandomInt(1, 40, random);
    c.in_size.assign(axes, 1);
    c.taps.assign(axes, 1);
    c.stride.assign(axes, RandomInt(0, 1, random) == 0 ? 1 : RandomInt(1, 70, random));
    c.dilation.assign(axes, 1);
    c.pads.assign(2 * axes, 0);
    c.taps.back() = RandomInt(2, 300, random);
    c.in_size.back() = c.taps.back() + RandomInt(1, 200, random);
    FillIn(&c, random);
    for (const Target& target : BuiltinTargets()) names.insert(CheckConv(c, target));
  }
  for (const char* kernel : {"MatMul<", "MatMulDot<", "MatMulRepacked<"}) {
    EXPECT_THAT(names, Contains(HasSubstr(kernel)));
  }
}

TEST(Conv, BlocksOfChannelsMayBeTheOuterLoop) {
  std::mt19937 random(8);
  RandomConv c;
  c.in_channels = 260;
  c.out_channels = 129;
  c.in_size = {7, 7};
  c.taps = {3, 3};
  c.stride = {1, 1};
  c.dilation = {1, 1};
  c.pads = {1, 1, 1, 1};
  for (int i = 0; i < 5; ++i) {
    FillIn(&c, random);
    c.constant_weights = true;
    for (const Target& target : BuiltinTargets()) CheckConv(c, target);
  }
}

TEST(Conv, DepthwiseOfNarrowPlanes) {
  std::mt19937 random(7);
  std::set<std::string> names;
  for (int64_t width = 1; width < 12; ++width) {
    for (const int64_t taps : {3, 5}) {
      RandomConv c;
      c.groups = 3;
      c.in_size = {RandomInt(1, 9, random), width};
      c.taps = {taps, taps};
      c.stride = {RandomInt(1, 3, random), RandomInt(1, 2, random)};
      c.dilation = {1, RandomInt(1, 2, random)};
      c.pads = {taps / 2, RandomInt(2, 5, random), taps / 2, RandomInt(4, 6, random)};
      FillIn(&c, random);
      for (const Target& target : BuiltinTargets()) names.insert(CheckConv(c, target));
    }
  }
  EXPECT_THAT(names, Contains(HasSubstr("DepthwisePlane<4, 3, 3")));
  EXPECT_THAT(names, Contains(HasSubstr("DepthwisePlane<4, 5, 5")));
}

TEST(Conv, DepthwiseWithALargePlaneKeepsARingOfRows) {
  std::mt19937 random(6);
  for (const int64_t stride : {1, 2, 3}) {
    RandomConv c;
    c.groups = 2;
    c.in_size = {70, 65};
    c.taps = {5, 5};
    c.stride = {stride, stride};
    c.dilation = {1, 2};
    c.pads = {2, 3, 2, 4};
    for (int i = 0; i < 4; ++i) {
      FillIn(&c, random);
      for (const Target& target : BuiltinTargets()) {
        EXPECT_THAT(CheckConv(c, target), HasSubstr("::Depthwise<"));
      }
    }
  }
}

TEST(Conv, PanelsStaySmallBesideTheTensors) {
  std::mt19937 random(3);
  for (const Target& target : BuiltinTargets()) {
    NodeUnderTest node("Conv");
    node.Input(RandomFloats({1, 64, 32, 32}, random), false);
    node.Input(RandomFloats({64, 64, 3, 3}, random), true);
    node.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
    const absl::StatusOr<Lowering> lowering = node.Lower(target);
    ASSERT_TRUE(lowering.ok()) << lowering.status();
    EXPECT_LE(lowering->scratch_bytes, 2 * 64 * 32 * 32 * 4 / 50) << target.name;
    EXPECT_EQ(lowering->macs, int64_t{64} * 32 * 32 * 64 * 9);
  }
}

TEST(Conv, AutoPadFollowsTheStandard) {
  std::mt19937 random(4);
  NodeUnderTest node("Conv");
  node.Input(RandomFloats({1, 1, 5, 6}, random), false);
  node.Input(RandomFloats({1, 1, 3, 2}, random), true);
  node.Set("strides", std::vector<int64_t>{2, 2}).Set("auto_pad", std::string("SAME_LOWER"));
  EXPECT_EQ(node.Infer().value()[0].shape, (Shape{1, 1, 3, 3}));
  node.Set("auto_pad", std::string("VALID"));
  EXPECT_EQ(node.Infer().value()[0].shape, (Shape{1, 1, 2, 3}));
  node.Set("auto_pad", std::string("SOMEHOW"));
  EXPECT_THAT(std::string(node.Infer().status().message()), HasSubstr("SOMEHOW"));
}

TEST(Conv, RefusesWhatDoesNotFit) {
  std::mt19937 random(5);
  const auto message = [&](Shape x, Shape w, const std::string& attribute,
                           std::vector<int64_t> values) {
    NodeUnderTest node("Conv");
    node.Input(RandomFloats(std::move(x), random), false);
    node.Input(RandomFloats(std::move(w), random), true);
    if (!attribute.empty()) node.Set(attribute, std::move(values));
    return std::string(node.Infer().status().message());
  };
  EXPECT_THAT(message({1, 3, 4, 4}, {2, 4, 1, 1}, "", {}), HasSubstr("groups do not fit"));
  EXPECT_THAT(message({1, 3, 4, 4}, {2, 3, 5, 5}, "", {}), HasSubstr("reaches over 5"));
  EXPECT_THAT(message({1, 3, 4, 4}, {2, 3, 1, 1}, "strides", {0, 1}), HasSubstr("strides"));
  EXPECT_THAT(message({1, 3, 4, 4}, {2, 3, 1, 1}, "pads", {1, 1}), HasSubstr("pads"));
  EXPECT_THAT(message({1, 3, 4, 4}, {2, 3, 1, 1}, "kernel_shape", {2, 2}),
              HasSubstr("kernel_shape"));
}

}  // namespace
}  // namespace onnx_memplan
