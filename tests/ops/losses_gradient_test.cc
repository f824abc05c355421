// Losses and their gradients: against central differences, and in numbers that PyTorch 1.13 gave.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/gradient_test_util.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using gradient_test::DistinctDoubles;
using gradient_test::PositiveDoubles;

const Tensor kScores = DistinctDoubles({3, 4}, 1);
const Tensor kClasses = Tensor::FromVector<int64_t>({3}, {2, 0, 3});
const Tensor kPixelScores = DistinctDoubles({2, 3, 2, 5}, 2);
const Tensor kPixelClasses = Tensor::FromVector<int64_t>(
    {2, 2, 5}, {0, 1, 2, 1, 0, 2, 2, 1, 0, 1, 1, 1, 0, 2, 0, 1, 2, 0, 0, 1});

TEST(SoftmaxGradient, AgreesAlongEveryAxis) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const int64_t axis : {0, 1, 2, -1}) {
      ExpectGradientsAgree(
          {.op = op, .inputs = {DistinctDoubles({2, 5, 19}, 1)}, .attributes = {{"axis", axis}}});
    }
  }
}

TEST(SoftmaxGradient, OfTheOlderOperatorTakesAllAxesFromOneOnAsALine) {
  std::mt19937 random(1);
  const Tensor dy = RandomFloats({2, 3, 4}, random);
  const Tensor y = RandomFloats({2, 3, 4}, random);
  for (const char* name : {"SoftmaxGrad", "LogSoftmaxGrad"}) {
    NodeUnderTest older(name, kMicrosoft), newer(std::string(name) + "_13", kMicrosoft);
    older.Input(dy, false).Input(y, false).Set("axis", int64_t{1});
    newer.Input(dy.Reshaped({2, 12}), false).Input(y.Reshaped({2, 12}), false);
    const Target& target = BuiltinTargets().front();
    EXPECT_EQ(older.Run(target).value()[0], newer.Run(target).value()[0].Reshaped({2, 3, 4}));
  }
}

TEST(LossGradient, OfClassesAgreesForEveryReduction) {
  for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    for (const char* reduction : {"none", "sum", "mean"}) {
      const cases::Attributes attributes = {{"reduction", std::string(reduction)}};
      ExpectGradientsAgree(
          {.op = op, .inputs = {kScores, kClasses}, .attributes = attributes, .runtime = {1}});
      ExpectGradientsAgree({.op = op,
                            .inputs = {kPixelScores, kPixelClasses, PositiveDoubles({3}, 3)},
                            .attributes = attributes,
                            .fixed = {2},
                            .runtime = {1}});
    }
    ExpectGradientsAgree({.op = op,
                          .inputs = {kPixelScores, kPixelClasses, PositiveDoubles({3}, 3)},
                          .attributes = {{"ignore_index", int64_t{1}}},
                          .fixed = {2}});
    ExpectGradientsAgree({.op = op,
                          .inputs = {kScores, Tensor::FromVector<int32_t>({3}, {2, 0, 3})},
                          .attributes = {{"ignore_index", int64_t{0}}}});
  }
}

TEST(LossGradient, AgreesWhereLogProbabilitiesAreAnOutput) {
  ExpectGradientsAgree({.op = "SoftmaxCrossEntropyLoss",
                        .inputs = {kScores, kClasses},
                        .num_outputs = 2,
                        .loss_outputs = 1});
}

TEST(LossGradient, OfSmoothedLabelsAgrees) {
  for (const char* reduction : {"none", "sum", "mean"}) {
    const cases::Attributes attributes = {{"reduction", std::string(reduction)},
                                          {"label_smoothing", 0.1F},
                                          {"ignore_index", int64_t{1}}};
    ExpectGradientsAgree({.op = "SmoothCrossEntropy",
                          .inputs = {kPixelScores, kPixelClasses, PositiveDoubles({3}, 3)},
                          .attributes = attributes,
                          .domain = kMemplan,
                          .fixed = {2}});
    ExpectGradientsAgree({.op = "SmoothCrossEntropy",
                          .inputs = {kScores, kClasses},
                          .attributes = attributes,
                          .domain = kMemplan});
  }
}

TEST(LossGradient, OfProbabilitiesAgrees) {
  for (const char* reduction : {"none", "sum", "mean"}) {
    for (const float smoothing : {0.0F, 0.2F}) {
      ExpectGradientsAgree(
          {.op = "SoftmaxCrossEntropyWithProbabilities",
           .inputs = {kPixelScores, PositiveDoubles({2, 3, 2, 5}, 4), PositiveDoubles({3}, 3)},
           .attributes = {{"reduction", std::string(reduction)}, {"label_smoothing", smoothing}},
           .domain = kMemplan,
           .fixed = {1, 2}});
    }
  }
}

TEST(LossGradient, ByElementAgrees) {
  const Tensor x = DistinctDoubles({3, 4}, 1);
  const Tensor target = DistinctDoubles({3, 4}, 2);
  for (const char* reduction : {"none", "sum", "mean"}) {
    const cases::Attributes attributes = {{"reduction", std::string(reduction)}, {"delta", 0.7F}};
    for (const char* op : {"MseLoss", "L1Loss", "HuberLoss"}) {
      ExpectGradientsAgree(
          {.op = op, .inputs = {x, target}, .attributes = attributes, .domain = kMemplan});
    }
    for (const Shape& shape : {Shape{4}, {3, 4}, {1}, {}}) {
      ExpectGradientsAgree({.op = "BCEWithLogitsLoss",
                            .inputs = {x, PositiveDoubles({3, 4}, 2), PositiveDoubles(shape, 3)},
                            .attributes = attributes,
                            .domain = kMemplan,
                            .fixed = {1, 2}});
    }
  }
}

// ---- Numbers of PyTorch

double LossOf(const std::string& op, const std::vector<Tensor>& inputs,
              const cases::Attributes& attributes) {
  NodeUnderTest node(op, kMemplan);
  for (const Tensor& input : inputs) node.Input(input, false);
  for (const auto& [name, value] : attributes) node.Set(name, value);
  return node.Run(BuiltinTargets().front()).value()[0].As<double>()[0];
}

const Tensor kLogits = Tensor::FromVector<double>({2, 3}, {0.5, -1.0, 2.0, 1.5, 0.25, -0.75});
const Tensor kWeights = Tensor::FromVector<double>({3}, {0.5, 1.0, 2.0});
const Tensor kLabels = Tensor::FromVector<int64_t>({2}, {2, 1});
const Tensor kHalves = Tensor::FromVector<double>({2, 3}, {0.2, 0.3, 0.5, 0.1, 0.6, 0.3});

TEST(TrainingLoss, IsWhatPyTorchGives) {
  const auto smoothed = cases::Attributes{{"label_smoothing", 0.125F}};
  EXPECT_NEAR(LossOf("SmoothCrossEntropy", {kLogits, kLabels, kWeights}, smoothed),
              0.7615436517830229, 1e-12);
  EXPECT_NEAR(LossOf("SmoothCrossEntropy", {kLogits, kLabels, kWeights},
                     {{"label_smoothing", 0.125F}, {"ignore_index", int64_t{1}}}),
              0.30686799995626346, 1e-12);
  EXPECT_NEAR(
      LossOf("SoftmaxCrossEntropyWithProbabilities", {kLogits, kHalves, kWeights}, smoothed),
      1.9463885789559454, 1e-12);
  EXPECT_NEAR(LossOf("MseLoss", {kLogits, kHalves}, {}), 1.2025000000000001, 1e-12);
  EXPECT_NEAR(LossOf("L1Loss", {kLogits, kHalves}, {}), 0.9833333333333334, 1e-12);
  EXPECT_NEAR(LossOf("HuberLoss", {kLogits, kHalves}, {{"delta", 0.75F}}), 0.4864583333333334,
              1e-12);
  EXPECT_NEAR(LossOf("BCEWithLogitsLoss", {kLogits, kHalves, kWeights}, {}), 0.9667562219594344,
              1e-12);
}

TEST(TrainingLoss, OfLogitsDoesNotOverflow) {
  const Tensor far = Tensor::FromVector<double>({2}, {-1e3, 1e3});
  const Tensor target = Tensor::FromVector<double>({2}, {0, 1});
  EXPECT_EQ(LossOf("BCEWithLogitsLoss", {far, target}, {}), 0);
}

}  // namespace
}  // namespace onnx_memplan
