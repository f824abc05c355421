// Gradients of pools against central differences.
#include <gtest/gtest.h>

#include <cmath>
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
