// Gradients of pools against central differences.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "ops/gradient_test_util.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using gradient_test::DistinctDoubles;
using IntList = std::vector<int64_t>;

const Tensor kImage = DistinctDoubles({2, 3, 6, 7}, 1);
const Tensor kLine = DistinctDoubles({2, 2, 11}, 2);
const Tensor kVolume = DistinctDoubles({1, 2, 4, 3, 5}, 3);

void ExpectPoolAgrees(const std::string& op, const cases::Attributes& more) {
  const auto with = [&](cases::Attributes attributes) {
    attributes.insert(more.begin(), more.end());
    return attributes;
  };
  ExpectGradientsAgree(
      {.op = op,
       .inputs = {kImage},
       .attributes = with({{"kernel_shape", IntList{2, 2}}, {"strides", IntList{2, 2}}})});
  ExpectGradientsAgree({.op = op,
                        .inputs = {kImage},
                        .attributes = with({{"kernel_shape", IntList{3, 3}},
                                            {"strides", IntList{2, 1}},
                                            {"pads", IntList{1, 1, 1, 0}}})});
  ExpectGradientsAgree({.op = op,
                        .inputs = {kLine},
                        .attributes = with({{"kernel_shape", IntList{3}},
                                            {"strides", IntList{3}},
                                            {"dilations", IntList{2}},
                                            {"ceil_mode", int64_t{1}}})});
  ExpectGradientsAgree({.op = op,
                        .inputs = {kVolume},
                        .attributes = with({{"kernel_shape", IntList{2, 2, 3}},
                                            {"auto_pad", std::string("SAME_UPPER")}})});
}

TEST(PoolGradient, OfMaxPoolAgrees) {
  ExpectPoolAgrees("MaxPool", {});
  ExpectGradientsAgree(
      {.op = "MaxPool",
       .inputs = {kImage},
       .attributes = {{"kernel_shape", IntList{2, 3}}, {"storage_order", int64_t{1}}},
       .num_outputs = 2});
  // An index that takes two bytes.
  ExpectGradientsAgree({.op = "MaxPool",
                        .inputs = {DistinctDoubles({1, 1, 300}, 4)},
                        .attributes = {{"kernel_shape", IntList{290}}},
                        .tolerance = {.step = 1e-5}});
}

TEST(PoolGradient, OfAveragePoolAgrees) {
  ExpectPoolAgrees("AveragePool", {});
  ExpectPoolAgrees("AveragePool", {{"count_include_pad", int64_t{1}}});
}

TEST(PoolGradient, OfLpPoolAgrees) {
  for (const int64_t p : {1, 2, 3}) ExpectPoolAgrees("LpPool", {{"p", p}});
}

TEST(PoolGradient, OfGlobalPoolsAgrees) {
  for (const char* op : {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"}) {
    for (const Tensor& x : {kImage, kLine, kVolume, DistinctDoubles({3, 4}, 5)}) {
      ExpectGradientsAgree({.op = op, .inputs = {x}});
    }
  }
}

TEST(MaxPoolIndexed, EqualsMaxPoolAndPointsAtTheMaximumOnEveryTarget) {
  std::mt19937 random(3);
  for (int i = 0; i < 200 && !::testing::Test::HasFailure(); ++i) {
    const auto size = [&](int64_t low, int64_t high) { return RandomInt(low, high, random); };
    const IntList taps = {size(1, 3), size(1, 3)}, stride = {size(1, 3), size(1, 3)};
    const IntList dilation = {size(1, 2), size(1, 2)};
    const IntList pads = {size(0, taps[0] - 1), size(0, taps[1] - 1), size(0, taps[0] - 1),
                          size(0, taps[1] - 1)};
    const Tensor x = RandomFloats({1, 2, size(5, 9), size(5, 45)}, random);
    const auto make = [&](const char* op, const char* domain) {
      NodeUnderTest node(op, domain);
      node.Input(x, false).Set("kernel_shape", taps).Set("strides", stride).Set("pads", pads);
      node.Set("dilations", dilation).Set("ceil_mode", int64_t{i % 2});
      return node;
    };
    for (const Target& target : BuiltinTargets()) {
      const std::vector<Tensor> expected = make("MaxPool", "").Outputs(2).Run(target).value();
      const std::vector<Tensor> results =
          make("MaxPoolIndexed", kMemplan).Outputs(2).Run(target).value();
      ASSERT_EQ(results[0], expected[0]);
      const Shape& y = results[0].shape();
      for (int64_t at = 0; at < results[0].NumElements(); ++at) {
        const auto tap = static_cast<int64_t>(results[1].As<uint8_t>()[static_cast<size_t>(at)]);
        const int64_t row = at / y[3] % y[2] * stride[0] + tap / taps[1] * dilation[0] - pads[0];
        const int64_t column = at % y[3] * stride[1] + tap % taps[1] * dilation[1] - pads[1];
        const int64_t plane = at / y[3] / y[2];
        ASSERT_EQ((plane * x.shape()[2] + row) * x.shape()[3] + column,
                  expected[1].As<int64_t>()[static_cast<size_t>(at)])
            << "element " << at << " of " << ShapeToString(x.shape()) << " for " << target.name;
      }
    }
  }
}

TEST(MaxPoolIndexed, TakesTheFirstOfEqualElements) {
  NodeUnderTest node("MaxPoolIndexed", kMemplan);
  node.Input(Tensor::FromVector<float>({1, 1, 2, 4}, {1, 2, 5, 5, 2, 2, 5, 5}), false);
  node.Set("kernel_shape", IntList{2, 2}).Set("strides", IntList{2, 2}).Outputs(2);
  const std::vector<Tensor> results = node.Run(BuiltinTargets().front()).value();
  EXPECT_EQ(results[0], Tensor::FromVector<float>({1, 1, 1, 2}, {2, 5}));
  EXPECT_EQ(results[1], Tensor::FromVector<uint8_t>({1, 1, 1, 2}, {1, 0}));
}

}  // namespace
}  // namespace onnx_memplan
