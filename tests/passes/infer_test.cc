#include "passes/infer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "load/onnx_text.h"

namespace onnx_memplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Load;
using ::testing::Not;
using testing::ParseOnnx;

Graph Loaded(const std::string& text) {
  auto loaded = Load(ParseOnnx(text));
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return std::move(loaded->graph);
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

const Value& Output(const Graph& graph, size_t i) {
  return graph.values[static_cast<size_t>(graph.outputs[i])];
}

TEST(InferTest, ShapeChainsVanish) {
  Graph graph = Loaded(
      "g (float[2,3,4] x) => (float[?,?] y) { s = Shape(x) i = Constant<value = int64[1] {0}>() "
      "b = Gather(s, i) m = Constant<value = int64[1] {-1}>() t = Concat<axis = 0>(b, m) "
      "y = Reshape(x, t) }");
  ASSERT_TRUE(InferAndFold(graph).ok());
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.nodes[0].op_type, "Reshape");
  EXPECT_EQ(Output(graph, 0).type, (TensorType{DType::kFloat, {2, 12}}));
  // What only the folded nodes read is gone: x, the new shape, y.
  EXPECT_EQ(graph.values.size(), 3U);
}

TEST(InferTest, ShapeAndSizeAreKnownWhereTheDataIsNot) {
  Graph graph = Loaded(
      "g (float[2,3,4] x) => (int64[2] a, int64[1] b, int64[0] c, int64 d) { "
      "a = Shape<start = 1>(x) b = Shape<start = -2, end = -1>(x) c = Shape<start = 2, end = 1>(x) "
      "d = Size(x) }");
  ASSERT_TRUE(InferAndFold(graph).ok());
  EXPECT_TRUE(graph.nodes.empty());
  EXPECT_EQ(Output(graph, 0).constant, Tensor::VectorInt64({3, 4}));
  EXPECT_EQ(Output(graph, 1).constant, Tensor::VectorInt64({3}));
  EXPECT_EQ(Output(graph, 2).constant, Tensor::VectorInt64({}));
  EXPECT_EQ(Output(graph, 3).constant, Tensor::ScalarInt64(24));
}

TEST(InferTest, RangeSliceAndConstantOfShapeFold) {
  Graph graph = Loaded(
      "g () => (int64[?] y, float[?] z) { b = Constant<value_int = 2>() e = Constant<value_int = "
      "9>() "
      "d = Constant<value_int = 3>() y = Range(b, e, d) s = Shape(y) z = ConstantOfShape(s) }");
  ASSERT_TRUE(InferAndFold(graph).ok());
  EXPECT_EQ(Output(graph, 0).constant, Tensor::VectorInt64({2, 5, 8}));
  EXPECT_EQ(Output(graph, 1).constant, Tensor::FromVector<float>({3}, {0, 0, 0}));
}

TEST(InferTest, ConstantsThatGrowALotStayNodesUnlessTheyAreWeights) {
  const std::string head = "g () => (float[?] y) { s = Constant<value = int64[1] {1048576}>() ";
  Graph expanded = Loaded(head + "c = Constant<value_floats = [1.0]>() y = Expand(c, s) }");
  ASSERT_TRUE(InferAndFold(expanded).ok());
  EXPECT_EQ(expanded.nodes.size(), 1U);
  Graph filled = Loaded(head + "y = ConstantOfShape(s) }");
  ASSERT_TRUE(InferAndFold(filled).ok());
  EXPECT_TRUE(Output(filled, 0).constant.has_value());
}

TEST(InferTest, AbsurdResultsAreTypedAndNotComputed) {
  Graph graph = Loaded(
      "g () => (float[?] y) { s = Constant<value = int64[1] {1099511627776}>() "
      "y = ConstantOfShape(s) }");
  ASSERT_TRUE(InferAndFold(graph).ok());
  EXPECT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(Output(graph, 0).type->shape, (Shape{int64_t{1} << 40}));
}

TEST(InferTest, SizesThatOverflowAreRefused) {
  Graph graph = Loaded(
      "g () => (float[?] y) { s = Constant<value = int64[2] {4611686018427387904, 4}>() "
      "y = ConstantOfShape(s) }");
  const absl::Status status = InferAndFold(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(InferTest, SecondRunChangesNothing) {
  Graph graph = Loaded(
      "g (float[2,3] x) => (float[3,2] y) { s = Shape(x) r = Constant<value_ints = [3, 2]>() "
      "a = Relu(x) y = Reshape(a, r) }");
  ASSERT_TRUE(InferAndFold(graph).ok());
  const std::string once = graph.ToText();
  ASSERT_TRUE(InferAndFold(graph).ok());
  EXPECT_EQ(graph.ToText(), once);
}

TEST(InferTest, AllUnsupportedOperatorsAreListedAtOnce) {
  // Types end at the first one; those behind it are named all the same.
  Graph graph = Loaded(
      "g (float[2] x) => (float[2] z) { a = Nonsense(x) b = Relu(a) c = Rubbish(b) z = Nonsense(c) "
      "}");
  const absl::Status status = InferAndFold(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("3 nodes of 2 operators"), HasSubstr("Nonsense (2 nodes)"),
                    HasSubstr("Rubbish (1 node)"), HasSubstr("'Rubbish producing 'c''")));
  EXPECT_EQ(graph.nodes.size(), 4U) << "the graph keeps its nodes";
  EXPECT_TRUE(graph.Verify(/*typed=*/false).ok());
}

TEST(InferTest, UnsupportedElementTypesAreListedWithUnsupportedOperators) {
  Graph graph = Loaded(
      "g (bool[2] b, float[2] x) => (bool[2] y, float[2] z) { y = Identity(b) z = Nonsense(x) "
      "w = CumSum(h, i) h = Cast<to = 10>(x) i = Constant<value_int = 0>() }");
  EXPECT_THAT(MessageOf(InferAndFold(graph)),
              AllOf(HasSubstr("Nonsense"), HasSubstr("float16"), Not(HasSubstr("Identity"))));
}

TEST(InferTest, LongListsAreCut) {
  std::string text = "g (float[2] x) => (float[2] y) { y = Relu(x) ";
  for (int i = 0; i < 7; ++i) text += "v" + std::to_string(i) + " = Nonsense(x) ";
  Graph graph = Loaded(text + "}");
  EXPECT_THAT(MessageOf(InferAndFold(graph)),
              AllOf(HasSubstr("producing 'v4'"), Not(HasSubstr("producing 'v5'")),
                    HasSubstr("and 2 more")));
}

TEST(InferTest, OperatorsInsideSubgraphsAreListed) {
  Graph graph = Loaded(
      "g (bool c, float[2] x) => (float[2] y) { y = If(c) <"
      "then_branch = t () => (float[2] u) { u = Nonsense(x) },"
      "else_branch = e () => (float[2] u) { u = Abs(x) }> }");
  EXPECT_THAT(MessageOf(InferAndFold(graph)), AllOf(HasSubstr("If"), HasSubstr("Nonsense")));
}

TEST(InferTest, ShapeFromAnInputSaysToBindIt) {
  Graph graph = Loaded("g (float[6] x, int64[2] s) => (float[?,?] y) { y = Reshape(x, s) }");
  const absl::Status status = InferAndFold(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("value 's'"), HasSubstr("--bind")));
}

TEST(InferTest, NestedIfsWithKnownConditionsAreInlined) {
  Graph graph = Loaded(
      "g (float[2] x) => (float[2] y) { s = Size(x) two = Constant<value_int = 2>() "
      "c = Equal(s, two) y = If(c) <"
      "then_branch = t () => (float[2] u) { d = Not(c) u = If(d) <"
      "then_branch = tt () => (float[2] v) { v = Abs(x) },"
      "else_branch = te () => (float[2] v) { w = Neg(x) v = Add(w, x) }> },"
      "else_branch = e () => (float[2] u) { u = Exp(x) }> }");
  ASSERT_TRUE(InferAndFold(graph).ok());
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[0].op_type, "Neg");
  EXPECT_EQ(graph.nodes[1].op_type, "Add");
  EXPECT_TRUE(graph.Verify(/*typed=*/true).ok());
}

TEST(InferTest, CheckSupportedListsNodesThatCannotBeLowered) {
  Graph graph = Loaded("g (float16[2] x) => (float16[2] z) { y = Exp(x) z = Exp(y) }");
  ASSERT_TRUE(InferAndFold(graph).ok());
  const absl::Status status = CheckSupported(graph, BuiltinTargets().front());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MessageOf(status), HasSubstr("Exp (2 nodes)"));
}

}  // namespace
}  // namespace onnx_memplan
