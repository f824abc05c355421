// Gradients of Conv and ConvTranspose against central differences, and ConvWeightGrad on every
// target against its plain kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "ops/gradient_test_util.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using gradient_test::DistinctDoubles;
using IntList = std::vector<int64_t>;

TEST(ConvGradient, AgreesForOneTwoAndThreeAxes) {
  ExpectGradientsAgree({.op = "Conv",
                        .inputs = {DistinctDoubles({2, 3, 9}, 1), DistinctDoubles({4, 3, 3}, 2),
                                   DistinctDoubles({4}, 3)},
                        .attributes = {{"pads", IntList{1, 1}}}});
  ExpectGradientsAgree({.op = "Conv",
                        .inputs = {DistinctDoubles({2, 2, 6, 5}, 1),
                                   DistinctDoubles({3, 2, 3, 3}, 2), DistinctDoubles({3}, 3)},
                        .attributes = {{"pads", IntList{1, 1, 1, 1}}}});
  ExpectGradientsAgree(
      {.op = "Conv",
       .inputs = {DistinctDoubles({1, 2, 4, 3, 5}, 1), DistinctDoubles({2, 2, 2, 2, 3}, 2)},
       .attributes = {{"strides", IntList{2, 1, 2}}, {"pads", IntList{1, 0, 1, 0, 1, 1}}}});
}

TEST(ConvGradient, AgreesWhereWindowsLeaveTheEndOfTheInputUnread) {
  ExpectGradientsAgree(
      {.op = "Conv",
       .inputs = {DistinctDoubles({1, 2, 8, 9}, 1), DistinctDoubles({3, 2, 2, 3}, 2)},
       .attributes = {{"strides", IntList{3, 4}}, {"pads", IntList{0, 1, 0, 0}}}});
  // The last windows reach past the input.
  ExpectGradientsAgree(
      {.op = "Conv",
       .inputs = {DistinctDoubles({1, 1, 5, 5}, 1), DistinctDoubles({1, 1, 3, 3}, 2)},
       .attributes = {{"strides", IntList{2, 2}}, {"pads", IntList{0, 2, 3, 2}}}});
}

TEST(ConvGradient, AgreesForGroupsDilationsAndAutomaticPadding) {
  ExpectGradientsAgree(
      {.op = "Conv",
       .inputs = {DistinctDoubles({2, 6, 5, 5}, 1), DistinctDoubles({9, 2, 2, 2}, 2)},
       .attributes = {{"group", int64_t{3}}, {"dilations", IntList{2, 1}}}});
  ExpectGradientsAgree({.op = "Conv",
                        .inputs = {DistinctDoubles({2, 4, 7, 6}, 1),
                                   DistinctDoubles({4, 1, 3, 3}, 2), DistinctDoubles({4}, 3)},
                        .attributes = {{"group", int64_t{4}},
                                       {"strides", IntList{2, 2}},
                                       {"auto_pad", std::string("SAME_UPPER")}}});
  ExpectGradientsAgree(
      {.op = "Conv",
       .inputs = {DistinctDoubles({1, 2, 5, 6}, 1), DistinctDoubles({4, 1, 5, 5}, 2)},
       .attributes = {{"group", int64_t{2}}, {"auto_pad", std::string("SAME_LOWER")}}});
  ExpectGradientsAgree(
      {.op = "Conv",
       .inputs = {DistinctDoubles({2, 5, 4, 4}, 1), DistinctDoubles({6, 5, 1, 1}, 2)}});
  // One window.
  ExpectGradientsAgree(
      {.op = "Conv",
       .inputs = {DistinctDoubles({3, 2, 4, 3}, 1), DistinctDoubles({5, 2, 4, 3}, 2)}});
}

TEST(ConvTransposeGradient, Agrees) {
  ExpectGradientsAgree({.op = "ConvTranspose",
                        .inputs = {DistinctDoubles({2, 3, 5}, 1), DistinctDoubles({3, 2, 3}, 2),
                                   DistinctDoubles({2}, 3)},
                        .attributes = {{"strides", IntList{2}}, {"pads", IntList{1, 1}}}});
  ExpectGradientsAgree(
      {.op = "ConvTranspose",
       .inputs = {DistinctDoubles({1, 4, 3, 4}, 1), DistinctDoubles({4, 3, 2, 3}, 2)},
       .attributes = {{"group", int64_t{2}},
                      {"strides", IntList{2, 3}},
                      {"dilations", IntList{2, 1}},
                      {"output_padding", IntList{1, 2}}}});
  // More than a stride of output that no input contributes to.
  ExpectGradientsAgree(
      {.op = "ConvTranspose",
       .inputs = {DistinctDoubles({1, 1, 3, 3}, 1), DistinctDoubles({1, 2, 2, 2}, 2)},
       .attributes = {{"strides", IntList{2, 2}}, {"output_shape", IntList{10, 5}}}});
  ExpectGradientsAgree(
      {.op = "ConvTranspose",
       .inputs = {DistinctDoubles({1, 1, 3, 3}, 1), DistinctDoubles({1, 2, 3, 3}, 2)},
       .attributes = {{"strides", IntList{2, 2}}, {"auto_pad", std::string("SAME_LOWER")}}});
}

TEST(ConvWeightGrad, EqualsItsDefinitionForRandomShapesOnEveryTarget) {
  std::mt19937 random(5);
  for (int i = 0; i < 150 && !::testing::Test::HasFailure(); ++i) {
    const auto axes = static_cast<size_t>(RandomInt(1, 3, random));
    const int64_t batch = RandomInt(1, 3, random), groups = RandomInt(1, 2, random);
    const int64_t in_channels = RandomInt(1, 20, random), out_channels = RandomInt(1, 40, random);
    Shape x = {batch, groups * in_channels}, dy = {batch, groups * out_channels};
    IntList taps, stride, dilation, pads(2 * axes, 0);
    for (size_t axis = 0; axis < axes; ++axis) {
      x.push_back(RandomInt(1, axes == 1 ? 90 : axes == 2 ? 12 : 5, random));
      dy.push_back(RandomInt(1, axes == 1 ? 90 : axes == 2 ? 12 : 5, random));
      taps.push_back(RandomInt(1, 3, random));
      stride.push_back(RandomInt(1, 3, random));
      dilation.push_back(RandomInt(1, 2, random));
      pads[axis] = RandomInt(0, 3, random);
    }
    const Tensor x_data = RandomFloats(x, random), dy_data = RandomFloats(dy, random);
    const auto make = [&](const Tensor& a, const Tensor& b) {
      NodeUnderTest node("ConvWeightGrad", kMemplan);
      node.Input(a, false).Input(b, false).Set("kernel_shape", taps).Set("strides", stride);
      node.Set("dilations", dilation).Set("pads", pads).Set("group", groups);
      return node;
    };
    const auto widen = [](const Tensor& tensor) {
      return Tensor::FromVector<double>(tensor.shape(),
                                        {tensor.As<float>().begin(), tensor.As<float>().end()});
    };
    const Tensor expected =
        make(widen(x_data), widen(dy_data)).Run(BuiltinTargets().front()).value()[0];
    for (const Target& target : BuiltinTargets()) {
      const absl::StatusOr<std::vector<Tensor>> result = make(x_data, dy_data).Run(target);
      ASSERT_TRUE(result.ok()) << result.status();
      for (size_t at = 0; at < expected.As<double>().size(); ++at) {
        ASSERT_NEAR((*result)[0].As<float>()[at], expected.As<double>()[at], 2e-4)
            << ShapeToString(x) << " with " << ShapeToString(dy) << " for " << target.name;
      }
    }
  }
}

}  // namespace
}  // namespace onnx_memplan
