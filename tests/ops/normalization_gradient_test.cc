// Gradients of normalisations against central differences.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ops/gradient_test_util.h"

namespace onnx_memplan {
namespace {

using gradient_test::DistinctDoubles;
using gradient_test::PositiveDoubles;

GradientCase BatchCase(const Shape& shape, const cases::Attributes& attributes) {
  const int64_t channels = shape.size() > 1 ? shape[1] : 1;
  return {.op = "BatchNormalization",
          .inputs = {DistinctDoubles(shape, 1), DistinctDoubles({channels}, 2),
                     DistinctDoubles({channels}, 3), DistinctDoubles({channels}, 4),
                     PositiveDoubles({channels}, 5)},
          .attributes = attributes};
}

TEST(BatchNormalizationGradient, OfFrozenStatisticsAgrees) {
  for (const Shape& shape : {Shape{2, 3, 4, 5}, {5, 4}, {7}, {3, 2, 3}}) {
    ExpectGradientsAgree(BatchCase(shape, {{"epsilon", 0.01F}}));
    GradientCase fixed = BatchCase(shape, {});
    fixed.fixed = {3, 4};
    ExpectGradientsAgree(fixed);
  }
}

TEST(BatchNormalizationGradient, OfTheBatchsOwnStatisticsAgrees) {
  for (const Shape& shape : {Shape{2, 3, 4, 5}, {5, 4}, {7}, {70, 2, 3}}) {
    GradientCase c = BatchCase(shape, {{"training_mode", int64_t{1}}});
    c.fixed = {3, 4};
    ExpectGradientsAgree(c);
  }
}

TEST(BatchNormalizationGradient, AgreesWithRunningStatisticsAsOutputs) {
  // The loss does not depend on them: their gradients are left out by giving none.
  GradientCase c = BatchCase(
      {3, 2, 4}, {{"training_mode", int64_t{1}}, {"unbiased_running_variance", int64_t{1}}});
  c.fixed = {3, 4};
  c.num_outputs = 3;
  c.loss_outputs = 1;
  ExpectGradientsAgree(c);
}

TEST(GroupNormalizationGradient, Agrees) {
  for (const int64_t groups : {1, 2, 4}) {
    ExpectGradientsAgree({.op = "GroupNormalization",
                          .inputs = {DistinctDoubles({2, 4, 3, 2}, 1), DistinctDoubles({4}, 2),
                                     DistinctDoubles({4}, 3)},
                          .attributes = {{"num_groups", groups}, {"epsilon", 0.01F}}});
  }
}

TEST(InstanceNormalizationGradient, Agrees) {
  ExpectGradientsAgree({.op = "InstanceNormalization",
                        .inputs = {DistinctDoubles({2, 3, 3, 2}, 1), DistinctDoubles({3}, 2),
                                   DistinctDoubles({3}, 3)}});
}

TEST(LayerNormalizationGradient, AgreesForEveryFormOfScaleAndBias) {
  const Tensor x = DistinctDoubles({3, 2, 4}, 1);
  ExpectGradientsAgree({.op = "LayerNormalization",
                        .inputs = {x, DistinctDoubles({4}, 2), DistinctDoubles({4}, 3)}});
  ExpectGradientsAgree({.op = "LayerNormalization",
                        .inputs = {x, DistinctDoubles({2, 4}, 2)},
                        .attributes = {{"axis", int64_t{1}}, {"epsilon", 0.01F}}});
  // More rows than a block of column sums takes.
  ExpectGradientsAgree(
      {.op = "LayerNormalization",
       .inputs = {DistinctDoubles({150, 3}, 1), DistinctDoubles({3}, 2), DistinctDoubles({3}, 3)}});
  // Broadcast operands, known while planning and not.
  ExpectGradientsAgree({.op = "LayerNormalization",
                        .inputs = {x, DistinctDoubles({4}, 2), DistinctDoubles({1}, 3)},
                        .attributes = {{"axis", int64_t{-2}}},
                        .fixed = {1, 2}});
  ExpectGradientsAgree({.op = "LayerNormalization",
                        .inputs = {x, DistinctDoubles({2, 1}, 2), DistinctDoubles({1}, 3)},
                        .attributes = {{"axis", int64_t{-2}}}});
}

TEST(RmsNormalizationGradient, Agrees) {
  ExpectGradientsAgree({.op = "RMSNormalization",
                        .inputs = {DistinctDoubles({3, 2, 4}, 1), DistinctDoubles({4}, 2)}});
  ExpectGradientsAgree({.op = "RMSNormalization",
                        .inputs = {DistinctDoubles({70, 2, 3}, 1), DistinctDoubles({2, 3}, 2)},
                        .attributes = {{"axis", int64_t{1}}}});
  ExpectGradientsAgree({.op = "RMSNormalization",
                        .inputs = {DistinctDoubles({5, 2, 3}, 1), DistinctDoubles({2, 1}, 2)},
                        .attributes = {{"axis", int64_t{1}}}});
}

TEST(LpNormalizationGradient, Agrees) {
  for (const int64_t p : {1, 2}) {
    for (const int64_t axis : {0, 1, -1}) {
      ExpectGradientsAgree({.op = "LpNormalization",
                            .inputs = {DistinctDoubles({2, 3, 4}, 1)},
                            .attributes = {{"p", p}, {"axis", axis}}});
    }
  }
}

TEST(MeanVarianceNormalizationGradient, Agrees) {
  ExpectGradientsAgree(
      {.op = "MeanVarianceNormalization", .inputs = {DistinctDoubles({2, 3, 2, 3}, 1)}});
  ExpectGradientsAgree({.op = "MeanVarianceNormalization",
                        .inputs = {DistinctDoubles({2, 3, 4}, 1)},
                        .attributes = {{"axes", std::vector<int64_t>{-1, 1}}}});
}

TEST(LrnGradient, AgreesForOddAndEvenWindows) {
  for (const int64_t window : {1, 2, 3, 5}) {
    ExpectGradientsAgree(
        {.op = "LRN",
         .inputs = {DistinctDoubles({2, 4, 2, 3}, 1)},
         .attributes = {{"size", window}, {"alpha", 0.5F}, {"beta", 0.75F}, {"bias", 1.5F}}});
  }
}

}  // namespace
}  // namespace onnx_memplan
