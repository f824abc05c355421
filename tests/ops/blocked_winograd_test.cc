// Every variant of the Winograd convolution, against the definition in double precision, and the
// choice among them.
#include "ops/host_kernels.h"

#include "kernels/blocked_winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/blocked.h"
#include "ops/epilogue.h"
#include "ops/run_node.h"
#include "ops/winograd_lowering.h"

namespace onnx_memplan {
namespace {

constexpr int64_t kBlock = kernels::kChannelBlock;

struct Case {
  kernels::BlockedConvParams p = {};
  Tensor x, w, bias, residual;
  bool has_bias = false;
  Epilogue epilogue;

  int64_t InPixels() const { return int64_t{p.in_size[0]} * p.in_size[1]; }
  int64_t OutPixels() const { return int64_t{p.out_size[0]} * p.out_size[1]; }
  Shape OutShape() const {
    return BlockedShape({p.batch, p.out_channels, p.out_size[0], p.out_size[1]});
  }
  std::string ToString() const {
    return ShapeToString(x.shape()) + " * " + ShapeToString(w.shape()) + " to " +
           ShapeToString(OutShape()) + " padding " + std::to_string(p.padding[0]) + " " +
           std::to_string(p.padding[1]) + (has_bias ? " bias" : "") +
           (epilogue.has_residual ? " residual " : " ") + epilogue.activation;
  }
  const float* Bias() const { return has_bias ? bias.As<float>().data() : nullptr; }
  const float* Residual() const {
    return epilogue.has_residual ? residual.As<float>().data() : nullptr;
  }
};

// The element of a blocked image.
int64_t At(int64_t image, int64_t channel, int64_t pixel, int64_t channels, int64_t pixels) {
  const int64_t blocks = (channels + kBlock - 1) / kBlock;
  return ((image * blocks + channel / kBlock) * pixels + pixel) * kBlock + channel % kBlock;
}

// The sum of one output, before the epilogue; magnitude: that of its terms' absolute values.
double Sum(const Case& c, int64_t image, int64_t out, int64_t qy, int64_t qx, double* magnitude) {
  const auto x = c.x.As<float>();
  const auto w = c.w.As<float>();
  double sum = 0;
  *magnitude = 0;
  for (int64_t in = 0; in < c.p.in_channels; ++in) {
    for (int64_t tap = 0; tap < 9; ++tap) {
      const int64_t iy = qy + tap / 3 - c.p.padding[0];
      const int64_t ix = qx + tap % 3 - c.p.padding[1];
      if (iy < 0 || iy >= c.p.in_size[0] || ix < 0 || ix >= c.p.in_size[1]) continue;
      const int64_t at = At(image, in, iy * c.p.in_size[1] + ix, c.p.in_channels, c.InPixels());
      const double term =
          static_cast<double>(x[static_cast<size_t>(at)]) *
          static_cast<double>(w[static_cast<size_t>((out * c.p.in_channels + in) * 9 + tap)]);
      sum += term;
      *magnitude += std::abs(term);
    }
  }
  return sum;
}

Case RandomCase(std::mt19937& random) {
  Case c;
  c.p.batch = static_cast<int32_t>(RandomInt(1, 2, random));
  c.p.in_channels = static_cast<int32_t>(RandomInt(1, 20, random));
  c.p.out_channels = static_cast<int32_t>(RandomInt(1, 40, random));
  c.p.in_blocked = 1;
  for (int i = 0; i < 2; ++i) {
    c.p.taps[i] = 3;
    c.p.stride[i] = 1;
    c.p.dilation[i] = 1;
    c.p.in_size[i] = static_cast<int32_t>(RandomInt(1, 11, random));
    c.p.padding[i] = static_cast<int32_t>(RandomInt(c.p.in_size[i] < 3 ? 1 : 0, 2, random));
    const auto after = static_cast<int32_t>(RandomInt(c.p.in_size[i] < 3 ? 1 : 0, 2, random));
    c.p.out_size[i] = c.p.in_size[i] + c.p.padding[i] + after - 2;
  }
  c.x = RandomFloats(BlockedShape({c.p.batch, c.p.in_channels, c.p.in_size[0], c.p.in_size[1]}),
                     random);
  c.w = RandomFloats({c.p.out_channels, c.p.in_channels, 3, 3}, random);
  c.has_bias = RandomInt(0, 1, random) == 1;
  c.bias = RandomFloats({c.p.out_channels}, random);
  c.epilogue.has_residual = RandomInt(0, 2, random) == 0;
  c.residual = RandomFloats(c.OutShape(), random);
  const char* activations[] = {"", "Relu", "Clip", "HardSwish", "Silu", "LeakyRelu"};
  c.epilogue.activation = activations[RandomInt(0, 5, random)];
  if (c.epilogue.activation == "Clip") {
    c.epilogue.alpha = -0.5F;
    c.epilogue.beta = 1.5F;
  } else if (c.epilogue.activation == "LeakyRelu") {
    c.epilogue.alpha = 0.125F;
  }
  SetActivation(FuseActivation(c.epilogue), &c.p);
  return c;
}

// Runs the kernel as the lowering says. In place: the output lies over the residual.
std::vector<float> RunVariant(const Case& c, const WinogradVariant& variant, bool in_place) {
  Graph graph;
  Node node;
  node.op_type = "BlockedConv";
  node.domain = kMemplan;
  node.epilogue = c.epilogue;
  node.inputs = {graph.AddValue("x", c.x.type()), graph.AddConstant("w", c.w),
                 c.has_bias ? graph.AddConstant("bias", c.bias) : kNoValue};
  if (c.epilogue.has_residual) node.inputs.push_back(graph.AddValue("r", c.residual.type()));
  node.outputs = {graph.AddValue("y", TensorType{DType::kFloat, c.OutShape()})};
  const Lowering lowering = LowerWinogradVariant(NodeContext(graph, node), c.p, variant);
  std::vector<float> y(c.residual.As<float>().size(), std::numeric_limits<float>::quiet_NaN());
  if (in_place) std::copy_n(c.Residual(), y.size(), y.data());
  // Canaries behind the scratch; NaN in it shows what is read before it is written.
  std::vector<std::byte> scratch(static_cast<size_t>(lowering.scratch_bytes) + 64, std::byte{0xff});
  const auto bytes = [](const float* values) { return reinterpret_cast<const std::byte*>(values); };
  const std::byte* inputs[] = {bytes(c.x.As<float>().data()), bytes(c.w.As<float>().data()),
                               bytes(c.Bias()), bytes(in_place ? y.data() : c.Residual())};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(y.data())};
  for (const KernelCall& call : lowering.calls) {
    InvokeOnHost(call, inputs, outputs, scratch.data());
  }
  EXPECT_TRUE(std::all_of(scratch.end() - 64, scratch.end(),
                          [](std::byte b) { return b == std::byte{0xff}; }));
  return y;
}

void ExpectDefinition(const Case& c, const WinogradVariant& variant, const std::vector<float>& y) {
  // Of the sum of the terms' magnitudes; the activations' slopes are at most about 1.2.
  const double relative = variant.tile == 4 ? 4e-6 : 1e-6;
  for (int64_t image = 0; image < c.p.batch; ++image) {
    for (int64_t out = 0; out < c.p.out_channels; ++out) {
      for (int64_t pixel = 0; pixel < c.OutPixels(); ++pixel) {
        const auto at = static_cast<size_t>(At(image, out, pixel, c.p.out_channels, c.OutPixels()));
        double magnitude = 0;
        double sum =
            Sum(c, image, out, pixel / c.p.out_size[1], pixel % c.p.out_size[1], &magnitude);
        if (c.has_bias) sum += static_cast<double>(c.Bias()[out]);
        if (c.epilogue.has_residual) sum += static_cast<double>(c.Residual()[at]);
        if (c.p.clamps != 0) {
          sum = std::clamp(sum, static_cast<double>(c.p.lowest), static_cast<double>(c.p.highest));
        }
        const double expected = kernels::Activate(c.p.activation, sum, c.p.alpha, c.p.beta);
        // Patches mix neighbours of up to the tile's distance, so terms of theirs leave an error.
        ASSERT_NEAR(y[at], expected, relative * (magnitude + c.p.in_channels + 2))
            << "image " << image << " channel " << out << " pixel " << pixel;
      }
    }
  }
}

TEST(BlockedWinogradTest, EveryVariantComputesTheDefinitionForRandomShapes) {
  std::mt19937 random(5);
  for (int i = 0; i < 1000; ++i) {
    const Case c = RandomCase(random);
    const auto variants = WinogradVariants();
    WinogradVariant variant =
        variants[static_cast<size_t>(RandomInt(0, std::ssize(variants) - 1, random))];
    variant.group_tiles = variant.rows * static_cast<int32_t>(RandomInt(1, 3, random));
    SCOPED_TRACE(c.ToString() + " lanes " + std::to_string(variant.lanes) + " rows " +
                 std::to_string(variant.rows) + " tile " + std::to_string(variant.tile) +
                 " group " + std::to_string(variant.group_tiles));
    const std::vector<float> y = RunVariant(c, variant, /*in_place=*/false);
    ExpectDefinition(c, variant, y);
    for (const float value : y) ASSERT_TRUE(std::isfinite(value));
    if (c.epilogue.has_residual) {
      ASSERT_EQ(RunVariant(c, variant, /*in_place=*/true), y);
    }
    if (HasFatalFailure()) return;
  }
}

// A layer of 3 x 3 taps and as many outputs as inputs.
kernels::BlockedConvParams Square(int32_t in_channels, int32_t out_channels, int32_t pixels) {
  kernels::BlockedConvParams p = {};
  p.batch = 1;
  p.in_channels = in_channels;
  p.out_channels = out_channels;
  p.in_blocked = 1;
  for (int i = 0; i < 2; ++i) {
    p.in_size[i] = pixels;
    p.out_size[i] = pixels;
    p.taps[i] = 3;
    p.stride[i] = 1;
    p.dilation[i] = 1;
    p.padding[i] = 1;
  }
  return p;
}

// The error of a layer of a real network: 256 channels, inputs after Relu. The root mean square is
// in units of the outputs', and compared with that of BlockedConvPlain, which sums in float.
struct Errors {
  double winograd = 0;
  double plain = 0;
};

Errors MeasureErrors(int32_t tile) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Case c;
  c.p = Square(256, 16, 14);
  std::vector<float> x(static_cast<size_t>(256 * c.InPixels()));
  for (float& value : x) value = std::max(normal(random), 0.0F);
  std::vector<float> w(16 * 256 * 9);
  for (float& value : w) value = normal(random) * 0.03F;
  c.x = Tensor::FromVector<float>(BlockedShape({1, 256, 14, 14}), x);
  c.w = Tensor::FromVector<float>({16, 256, 3, 3}, w);
  c.residual = RandomFloats(c.OutShape(), random);
  std::vector<float> plain(c.residual.As<float>().size());
  kernels::BlockedConvPlain(c.p, x.data(), w.data(), nullptr, nullptr, plain.data());
  const std::vector<float> y =
      RunVariant(c, {.lanes = 8, .rows = 6, .columns = 2, .tile = tile, .group_tiles = 12}, false);
  Errors errors;
  double squares = 0;
  for (int64_t out = 0; out < 16; ++out) {
    for (int64_t pixel = 0; pixel < c.OutPixels(); ++pixel) {
      double magnitude = 0;
      const double expected = Sum(c, 0, out, pixel / 14, pixel % 14, &magnitude);
      const auto at = static_cast<size_t>(At(0, out, pixel, 16, c.OutPixels()));
      squares += expected * expected;
      errors.winograd += std::pow(static_cast<double>(y[at]) - expected, 2);
      errors.plain += std::pow(static_cast<double>(plain[at]) - expected, 2);
    }
  }
  errors.winograd = std::sqrt(errors.winograd / squares);
  errors.plain = std::sqrt(errors.plain / squares);
  return errors;
}

TEST(BlockedWinogradTest, TilesOfTwoAreMoreExactThanTheSumInFloat) {
  const Errors errors = MeasureErrors(2);
  EXPECT_LT(errors.winograd, errors.plain);
}

TEST(BlockedWinogradTest, TilesOfFourLoseLessThanThreeTimesTheErrorOfTheSumInFloat) {
  const Errors errors = MeasureErrors(4);
  EXPECT_LT(errors.winograd, 3 * errors.plain);
  EXPECT_LT(errors.winograd, 2e-6);
}

// ---- The choice

constexpr int64_t kPlenty = int64_t{1} << 30;

class WinogradChoiceTest : public ::testing::TestWithParam<const char*> {
 protected:
  Target target_ = FindTarget(GetParam()).value();
};

TEST_P(WinogradChoiceTest, LargeImagesGetTilesOfFour) {
  for (const int32_t pixels : {56, 28, 14}) {
    const auto variant = ChooseWinograd(target_, Square(64, 64, pixels), kPlenty);
    ASSERT_TRUE(variant.has_value()) << pixels;
    EXPECT_EQ(variant->tile, 4) << pixels;
  }
}

TEST_P(WinogradChoiceTest, SmallLayersToo) {
  EXPECT_TRUE(ChooseWinograd(target_, Square(16, 16, 12), int64_t{1} << 18).has_value());
}

TEST_P(WinogradChoiceTest, ManyWeightsAndFewPixelsGetTilesOfTwo) {
  const auto variant = ChooseWinograd(target_, Square(512, 512, 7), kPlenty);
  ASSERT_TRUE(variant.has_value());
  EXPECT_EQ(variant->tile, 2);
  EXPECT_GE(variant->group_tiles, 16);
}

TEST_P(WinogradChoiceTest, StaysWithinTheBudget) {
  for (int64_t budget = 1024; budget < 1024 * 1024; budget *= 2) {
    const auto variant = ChooseWinograd(target_, Square(64, 64, 56), budget);
    if (!variant) continue;
    EXPECT_LE(kernels::BlockedWinogradScratchBytes(64, variant->tile, variant->group_tiles,
                                                   variant->panel_channels()),
              budget);
  }
  EXPECT_FALSE(ChooseWinograd(target_, Square(64, 64, 56), 1024).has_value());
}

TEST_P(WinogradChoiceTest, DeclinesOtherConvolutionsAndFewChannels) {
  kernels::BlockedConvParams p = Square(64, 64, 56);
  p.stride[0] = 2;
  EXPECT_FALSE(ChooseWinograd(target_, p, kPlenty).has_value());
  p = Square(64, 64, 56);
  p.dilation[1] = 2;
  EXPECT_FALSE(ChooseWinograd(target_, p, kPlenty).has_value());
  p = Square(64, 64, 56);
  p.in_blocked = 0;
  EXPECT_FALSE(ChooseWinograd(target_, p, kPlenty).has_value());
  EXPECT_FALSE(ChooseWinograd(target_, Square(2, 2, 56), kPlenty).has_value());
}

TEST_P(WinogradChoiceTest, IsOffWhereWeightsMustNotGrow) {
  target_.optimize = OptimizeFor::kSize;
  EXPECT_FALSE(ChooseWinograd(target_, Square(64, 64, 56), kPlenty).has_value());
}

INSTANTIATE_TEST_SUITE_P(Targets, WinogradChoiceTest, ::testing::Values("x86-64-v3", "x86-64-v4"));

TEST(WinogradTargetTest, IsOffWhereThereAreNoWideVectors) {
  EXPECT_FALSE(
      ChooseWinograd(FindTarget("generic").value(), Square(64, 64, 56), kPlenty).has_value());
}

}  // namespace
}  // namespace onnx_memplan
