#include "load/opset_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "load/onnx_text.h"

namespace onnx_memplan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::Evaluate;
using ::testing::HasSubstr;
using testing::Load;
using testing::ParseOnnx;
using testing::Ramp;

// A model that imports all of these versions of ai.onnx, under both of its names.
onnx::ModelProto Mixed(const std::string& graph, std::initializer_list<int> opsets) {
  onnx::ModelProto model = ParseOnnx(graph);
  model.clear_opset_import();
  for (const int opset : opsets) {
    onnx::OperatorSetIdProto& import = *model.add_opset_import();
    import.set_domain(model.opset_import_size() % 2 == 0 ? "ai.onnx" : "");
    import.set_version(opset);
  }
  return model;
}

std::string MessageOf(const onnx::ModelProto& model) {
  return std::string(Load(model).status().message());
}

TEST(OpsetChoiceTest, EachNodeIsReadInTheVersionWhoseFormItHas) {
  const std::string graph =
      "g (float[2,1,3] x) => (float[2] y) { one = Constant<value = int64[1] {1}>() "
      "a = Squeeze<axes = [1]>(x) b = Unsqueeze(a, one) y = ReduceSum<axes = [1, 2], keepdims = "
      "0>(b) }";
  const auto mixed = Evaluate(Mixed(graph, {19, 19, 12}), {{"x", Ramp({2, 1, 3})}});
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  const auto one_version = Evaluate(
      ParseOnnx("g (float[2,1,3] x) => (float[2] y) { axes = Constant<value = int64[2] {1, 2}>() "
                "y = ReduceSum<keepdims = 0>(x, axes) }"),
      {{"x", Ramp({2, 1, 3})}});
  ASSERT_TRUE(one_version.ok()) << one_version.status();
  EXPECT_EQ(*mixed, *one_version);
}

TEST(OpsetChoiceTest, SeveralVersionsAreAWarningAndTheNewestIsReported) {
  const auto loaded = Load(Mixed("g (float[2] x) => (float[2] y) { y = Relu(x) }", {12, 19}));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->info.opset_imports.at(""), 19);
  EXPECT_THAT(loaded->info.warnings, Contains(HasSubstr("opsets 12, 19 of ai.onnx")));
}

TEST(OpsetChoiceTest, OneVersionTwiceIsNoWarning) {
  const auto loaded = Load(Mixed("g (float[2] x) => (float[2] y) { y = Relu(x) }", {19, 19}));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->info.warnings.empty());
}

TEST(OpsetChoiceTest, WhatMeansSomethingElseIsRefusedByNameAndVersions) {
  EXPECT_THAT(MessageOf(Mixed("g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis = 1>(x) }",
                              {12, 19})),
              AllOf(HasSubstr("operator Softmax"), HasSubstr("opsets 12 and 19")));
  EXPECT_THAT(
      MessageOf(Mixed("g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }", {12, 19})),
      HasSubstr("operator Softmax"));
}

TEST(OpsetChoiceTest, SoftmaxOfTheLastAxisMeansTheSame) {
  for (const char* attribute : {"<axis = 2>", "<axis = -1>"}) {
    const auto loaded = Load(Mixed(
        "g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax" + std::string(attribute) + "(x) }",
        {12, 19}));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
  }
  EXPECT_TRUE(Load(Mixed("g (float[2,3] x) => (float[2,3] y) { y = Softmax(x) }", {12, 19})).ok());
}

TEST(OpsetChoiceTest, SoftmaxOfAnUnknownRankIsRefused) {
  EXPECT_THAT(
      MessageOf(Mixed("g (float[2,3,4] x) => (float[2,3,4] y) { a = Relu(x) y = Softmax<axis = "
                      "2>(a) }",
                      {12, 19})),
      HasSubstr("operator Softmax"));
}

TEST(OpsetChoiceTest, SplitIntoEqualPartsIsTheOldForm) {
  const auto outputs = Evaluate(
      Mixed("g (float[4] x) => (float[2] y, float[2] z) { y, z = Split<axis = 0>(x) }", {13, 18}),
      {{"x", Ramp({4})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->size(), 2U);
}

TEST(OpsetChoiceTest, AnUnknownNewestVersionIsNamed) {
  EXPECT_THAT(MessageOf(Mixed("g (float[2] x) => (float[2] y) { y = Relu(x) }",
                              {12, static_cast<int>(kCanonicalOpset) + 1})),
              HasSubstr("operator Relu of opset 23"));
}

}  // namespace
}  // namespace onnx_memplan
