#include "load/training_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "load/onnx_text.h"

namespace onnx_memplan {
namespace {

using ::testing::Contains;
using testing::Evaluate;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Load;
using testing::ParseOnnx;
using testing::Ramp;
using ::testing::SizeIs;

// The domain com.microsoft beside ai.onnx.
onnx::ModelProto ParseTraining(const std::string& graph, int opset = 15) {
  onnx::ModelProto model = ParseOnnx(graph, opset);
  onnx::OperatorSetIdProto& import = *model.add_opset_import();
  import.set_domain("com.microsoft");
  import.set_version(1);
  return model;
}

constexpr char kDeeployLoss[] =
    "g (float[1,3] scores, int64[1] labels) => (float[1,3] log_prob, float[1,3] grad) {\n"
    "  log_prob = SoftmaxCrossEntropyLoss(scores, labels)\n"
    "  grad = com.microsoft.SoftmaxCrossEntropyLossGrad(log_prob, labels)\n"
    "}";

TEST(TrainingGraphsTest, LossWhoseGradientTakesItForLogProbabilitiesGivesThese) {
  const auto outputs = Evaluate(ParseTraining(kDeeployLoss),
                                {{"scores", Tensor::FromVector<float>({1, 3}, {0, 1, 2})},
                                 {"labels", Tensor::FromVector<int64_t>({1}, {1})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const double sum = 1 + std::exp(1.0) + std::exp(2.0);
  for (size_t i = 0; i < 3; ++i) {
    const double log_probability = static_cast<double>(i) - std::log(sum);
    EXPECT_NEAR((*outputs)[0].As<float>()[i], log_probability, 1e-6);
    EXPECT_NEAR((*outputs)[1].As<float>()[i], std::exp(log_probability) - (i == 1 ? 1 : 0), 1e-6);
  }
}

TEST(TrainingGraphsTest, LossOfOneOutputStaysTheLossWhereItsGradientDoesNotReadIt) {
  const auto loaded =
      Load(ParseTraining("g (float[1,3] scores, int64[1] labels) => (float loss) {\n"
                         "  loss = SoftmaxCrossEntropyLoss(scores, labels)\n"
                         "}"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->graph.nodes[0].outputs, SizeIs(1));
  EXPECT_THAT(loaded->info.warnings, IsEmpty());
}

TEST(TrainingGraphsTest, ReadingTheLossOtherwiseIsAWarning) {
  const auto loaded = Load(ParseTraining(kDeeployLoss));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->info.warnings, Contains(HasSubstr("'log_prob'")));
}

TEST(TrainingGraphsTest, WhatIsWrittenOverAnInputIsAnAdditionalOutput) {
  const std::string graph =
      "g (float[2] buffer, float[2] gradient, bool[1] overwrite) => (bool[1] done) {\n"
      "  done = com.microsoft.InPlaceAccumulatorV2(buffer, gradient, overwrite)\n"
      "}";
  const auto loaded = Load(ParseTraining(graph));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_THAT(loaded->graph.outputs, SizeIs(2));
  EXPECT_EQ(loaded->graph.values[static_cast<size_t>(loaded->graph.outputs[1])].name,
            "buffer.updated");
  EXPECT_THAT(loaded->info.warnings, Contains(HasSubstr("'buffer'")));
  const Tensor buffer = Tensor::FromVector<float>({2}, {1, 2});
  const Tensor gradient = Tensor::FromVector<float>({2}, {10, 20});
  for (const bool overwrite : {false, true}) {
    const auto outputs =
        Evaluate(ParseTraining(graph), {{"buffer", buffer},
                                        {"gradient", gradient},
                                        {"overwrite", Tensor::FromVector<bool>({1}, {overwrite})}});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_THAT(*outputs, SizeIs(2));
    EXPECT_EQ((*outputs)[1], overwrite ? gradient : Tensor::FromVector<float>({2}, {11, 22}));
  }
}

TEST(TrainingGraphsTest, InternalLossIsTheLossWithItsIgnoredClass) {
  const auto outputs = Evaluate(
      ParseTraining("g (float[2,3] scores, int64[2] labels) => (float loss, float[2,3] grad) {\n"
                    "  ignored = Constant<value_int = 2>()\n"
                    "  one = Constant<value_float = 1.0>()\n"
                    "  loss, log_prob = com.microsoft.SoftmaxCrossEntropyLossInternal"
                    "<output_type = 1>(scores, labels, , ignored)\n"
                    "  grad = com.microsoft.SoftmaxCrossEntropyLossInternalGrad<output_type = 1>"
                    "(one, log_prob, labels, , ignored)\n"
                    "}"),
      {{"scores", Tensor::FromVector<float>({2, 3}, {0, 0, 0, 5, 6, 7})},
       {"labels", Tensor::FromVector<int64_t>({2}, {1, 2})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_NEAR((*outputs)[0].As<float>()[0], std::log(3.0), 1e-6);
  const double expected[] = {1.0 / 3, -2.0 / 3, 1.0 / 3, 0, 0, 0};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR((*outputs)[1].As<float>()[i], expected[i], 1e-6);
}

TEST(TrainingGraphsTest, AxesLeftBehindAsAnAttributeHold) {
  const auto outputs =
      Evaluate(ParseTraining("g (float[1,1,3] x) => (float[1,3] y) { y = Squeeze<axes = 1>(x) }"),
               {{"x", Ramp({1, 1, 3})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0].shape(), (Shape{1, 3}));
}

}  // namespace
}  // namespace onnx_memplan
