#include "load/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "load/onnx_text.h"

namespace onnx_memplan {
namespace {

using ::testing::ElementsAre;
using testing::Evaluate;
using testing::Load;
using testing::ParseOnnx;
using testing::Ramp;

Graph TypedGraph(const std::string& text) {
  auto loaded = Load(ParseOnnx(text));
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(InferAndFold(loaded->graph).ok());
  return std::move(loaded->graph);
}

onnx::ModelProto Exported(const Graph& graph) {
  const auto bytes = ExportOnnx(graph);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(*bytes));
  return model;
}

std::vector<std::string> OpTypes(const onnx::ModelProto& model) {
  std::vector<std::string> types;
  for (const auto& node : model.graph().node()) types.push_back(node.op_type());
  return types;
}

constexpr char kNetwork[] =
    "g (float[2,3] x) => (float[2,2] y, int64[2] s) { "
    "w = Constant<value = float[3,2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}>() m = MatMul(x, w) "
    "y = LeakyRelu<alpha = 0.1>(m) s = Shape(m) }";

TEST(ExportTest, ExportedModelLoadsAndComputesTheSame) {
  const Graph graph = TypedGraph(kNetwork);
  const auto expected = Evaluate(ParseOnnx(kNetwork), {{"x", Ramp({2, 3})}});
  const auto outputs = Evaluate(Exported(graph), {{"x", Ramp({2, 3})}});
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(*outputs, *expected);
}

TEST(ExportTest, EpiloguesBecomeNodes) {
  Graph graph = TypedGraph(
      "g (float[2,3] x, float[2,2] r) => (float[2,2] y) { "
      "w = Constant<value = float[3,2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}>() "
      "y = MatMul(x, w) }");
  Node& node = graph.nodes[0];
  node.inputs.push_back(graph.inputs[1]);
  node.epilogue.has_residual = true;
  EXPECT_THAT(OpTypes(Exported(graph)), ElementsAre("MatMul", "Add"));
  node.epilogue.activation = "LeakyRelu";
  node.epilogue.alpha = 0.5F;
  EXPECT_THAT(OpTypes(Exported(graph)), ElementsAre("MatMul", "Add", "LeakyRelu"));
  node.epilogue.activation = "Clip";
  EXPECT_THAT(OpTypes(Exported(graph)), ElementsAre("MatMul", "Add", "Clip"));
  node.epilogue.activation = "Silu";
  EXPECT_THAT(OpTypes(Exported(graph)), ElementsAre("MatMul", "Add", "Sigmoid", "Mul"));

  const auto outputs = Evaluate(Exported(graph), {{"x", Ramp({2, 3})}, {"r", Ramp({2, 2})}});
  const auto expected =
      Evaluate(ParseOnnx("g (float[2,3] x, float[2,2] r) => (float[2,2] y) { "
                         "w = Constant<value = float[3,2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}>() "
                         "m = MatMul(x, w) a = Add(m, r) g = Sigmoid(a) y = Mul(a, g) }"),
               {{"x", Ramp({2, 3})}, {"r", Ramp({2, 2})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(*outputs, *expected);
}

TEST(ExportTest, OutputsThatNoNodeMakesAreCopied) {
  const Graph graph =
      TypedGraph("g (float[2] x) => (float[2] x, float[2] a, float[2] a) { a = Neg(x) }");
  EXPECT_THAT(OpTypes(Exported(graph)), ElementsAre("Neg", "Identity", "Identity"));
}

TEST(ExportTest, SameGraphGivesTheSameBytes) {
  EXPECT_EQ(*ExportOnnx(TypedGraph(kNetwork)), *ExportOnnx(TypedGraph(kNetwork)));
}

TEST(ExportTest, SubgraphsAreRefused) {
  const auto loaded =
      Load(ParseOnnx("g (bool c, float[2] x) => (float[2] y) { y = If(c) <"
                     "then_branch = t () => (float[2] u) { u = Neg(x) },"
                     "else_branch = e () => (float[2] u) { u = Abs(x) }> }"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(ExportOnnx(loaded->graph).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace onnx_memplan
