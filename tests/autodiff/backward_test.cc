#include "autodiff/backward.h"

#include <gmock/gmock.h>

#include <cmath>

#include "autodiff/training_util.h"

namespace onnx_memplan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

double LossOf(const Graph& graph, const Data& data) {
  return Evaluate(graph, data).at(graph.values[At(graph.outputs[0])].name).As<double>()[0];
}

Tensor Moved(const Tensor& tensor, size_t element, double by) {
  std::vector<double> values(tensor.As<double>().begin(), tensor.As<double>().end());
  values[element] += by;
  return Tensor::FromVector<double>(tensor.shape(), values);
}

// A model in double whose output is the loss: the gradients of `names`, which are inputs, against
// central differences. Returns the graph with the gradients.
Graph ExpectGradients(const std::string& text, const std::vector<std::string>& names,
                      const Data& given = {}) {
  const Graph forward = TypedText(text);
  Data data = given;
  data.merge(RandomInputs(forward, 5));
  Graph graph = forward;
  std::vector<ValueId> wanted;
  for (const std::string& name : names) wanted.push_back(Find(graph, name));
  const absl::StatusOr<std::vector<ValueId>> gradients =
      AddBackward(graph.outputs[0], wanted, graph);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  if (!gradients.ok()) return graph;
  const absl::Status verified = graph.Verify(/*typed=*/true);
  EXPECT_TRUE(verified.ok()) << verified;
  const Data all = Evaluate(graph, data);
  for (size_t i = 0; i < names.size(); ++i) {
    const ValueId gradient = (*gradients)[i];
    EXPECT_NE(gradient, kNoValue) << names[i];
    if (gradient == kNoValue) continue;
    const Tensor& got = all.at(graph.values[At(gradient)].name);
    EXPECT_EQ(got.type(), data.at(names[i]).type());
    for (size_t j = 0; j < got.As<double>().size(); ++j) {
      constexpr double kStep = 1e-5;
      Data up = data;
      Data down = data;
      up[names[i]] = Moved(data[names[i]], j, kStep);
      down[names[i]] = Moved(data[names[i]], j, -kStep);
      const double expected = (LossOf(forward, up) - LossOf(forward, down)) / (2 * kStep);
      EXPECT_NEAR(got.As<double>()[j], expected, 1e-7) << names[i] << " element " << j;
    }
  }
  return graph;
}

TEST(AddBackward, ConvolutionsPoolingAndDenseLayer) {
  ExpectGradients(R"(g (double[2,2,6,6] x, double[3,2,3,3] w1, double[3] b1, double[4,3,2,2] w2,
                        double[3,16] w3, double[3] b3, int64[2] t) => (double loss) {
    c1 = Conv <pads = [1,1,1,1]> (x, w1, b1)
    r1 = Sigmoid(c1)
    p1 = AveragePool <kernel_shape = [2,2], strides = [2,2]> (r1)
    c2 = Conv(p1, w2)
    r2 = Tanh(c2)
    f = Flatten(r2)
    y = Gemm <transB = 1> (f, w3, b3)
    loss = SoftmaxCrossEntropyLoss(y, t)
  })",
                  {"x", "w1", "b1", "w2", "w3", "b3"});
}

TEST(AddBackward, BatchNormalizationByTheBatch) {
  ExpectGradients(R"(g (double[4,2] x, double[2,3] w, double[3] s, double[3] b, double[4,3] t)
                     => (double loss) <double[3] m = {0, 0, 0}, double[3] v = {1, 1, 1}> {
    y = MatMul(x, w)
    n, mm, vv = BatchNormalization <training_mode = 1> (y, s, b, m, v)
    e = Sub(n, t)
    q = Mul(e, e)
    loss = ReduceMean <keepdims = 0> (q)
  })",
                  {"x", "s", "b", "t"});
}

TEST(AddBackward, AttentionHead) {
  ExpectGradients(R"(g (double[3,4] x, double[4,4] q, double[4,4] k, double[4,4] v)
                     => (double loss) {
    qx = MatMul(x, q)
    kx = MatMul(x, k)
    vx = MatMul(x, v)
    kt = Transpose(kx)
    s = MatMul(qx, kt)
    p = Softmax(s)
    a = MatMul(p, vx)
    r = Add(a, x)
    loss = ReduceSumSquare <keepdims = 0> (r)
  })",
                  {"x", "q", "k", "v"});
}

TEST(AddBackward, AParameterOfSeveralLayersGetsTheSum) {
  const Graph graph = ExpectGradients(R"(g (double[2,3] x, double[3,3] w) => (double loss) {
    a = MatMul(x, w)
    b = Tanh(a)
    c = MatMul(b, w)
    d = Gemm <transB = 1> (c, w)
    loss = ReduceSum <keepdims = 0> (d)
  })",
                                      {"w", "x"});
  EXPECT_GE(CountOf(graph, "Add"), 2);
}

TEST(AddBackward, BothOperandsMayBeOneValue) {
  ExpectGradients(R"(g (double[2,2] x) => (double loss) {
    a = Mul(x, x)
    b = MatMul(a, a)
    c = Sub(b, b)
    d = Add(c, b)
    loss = ReduceSum <keepdims = 0> (d)
  })",
                  {"x"});
}

TEST(AddBackward, SeveralReadersAndBroadcasting) {
  ExpectGradients(R"(g (double[3,2] x, double[2] b, double s) => (double loss) {
    y = Add(x, b)
    u = Mul(y, s)
    v = Exp(y)
    w = Div(u, v)
    z = Mul(w, y)
    loss = ReduceMean <keepdims = 0> (z)
  })",
                  {"x", "b", "s"});
}

TEST(AddBackward, BranchesThatDoNotLeadToTheLossCostNothing) {
  const std::string text = R"(g (double[2,2] x, double[2,2] w, double[2,2] u)
                              => (double loss, double[2,2] other) {
    a = MatMul(x, w)
    other = MatMul(a, u)
    unused = Erf(a)
    loss = ReduceSumSquare <keepdims = 0> (a)
  })";
  Graph graph = TypedText(text);
  const absl::StatusOr<std::vector<ValueId>> gradients =
      AddBackward(graph.outputs[0], {Find(graph, "w"), Find(graph, "u")}, graph);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_NE((*gradients)[0], kNoValue);
  EXPECT_EQ((*gradients)[1], kNoValue);
  // One product for w, none for x, which nobody asked for.
  EXPECT_EQ(CountOf(graph, "MatMul") + CountOf(graph, "Gemm") + CountOf(graph, "FusedMatMul"), 3)
      << graph.ToText();
  ExpectGradients(text, {"x", "w"});
}

TEST(AddBackward, IntegersHaveNoGradientAndStopNone) {
  ExpectGradients(R"(g (double[4,3] table, int64[2] rows, double[2,3] y) => (double loss) {
    g = Gather(table, rows)
    m = Mul(g, y)
    i = ArgMax <axis = 1, keepdims = 1> (m)
    f = Cast <to = 11> (i)
    p = Mul(m, f)
    s = Add(p, m)
    loss = ReduceSum <keepdims = 0> (s)
  })",
                  {"table", "y"});
}

TEST(AddBackward, TheLossItselfHasGradientOne) {
  Graph graph = TypedText("g (double[1] x) => (double[1] y) { y = Identity(x) }");
  const auto gradients = AddBackward(graph.inputs[0], {graph.inputs[0]}, graph);
  ASSERT_TRUE(gradients.ok());
  EXPECT_EQ(graph.values[At((*gradients)[0])].constant, Tensor::FromVector<double>({1}, {1.0}));
}

TEST(AddBackward, AnOperatorWithoutARuleIsNamedWithItsNode) {
  Graph graph = TypedText(R"(g (float[3] x) => (float[3] y, float loss) {
    a = Neg(x)
    y = Mul(a, x)
    loss = ReduceSum <keepdims = 0> (y)
  })");
  // Gradients have none themselves.
  graph.nodes[1].op_type = "ReluGrad";
  graph.nodes[1].domain = kMicrosoft;
  graph.nodes[1].name = "the_node";
  const absl::Status status = AddBackward(graph.outputs[1], {graph.inputs[0]}, graph).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("the_node"), HasSubstr("ReluGrad"), HasSubstr("--freeze")));
}

TEST(AddBackward, ALossIsOneFloatingPointNumber) {
  Graph graph = TypedText("g (float[2] x) => (float[2] y) { y = Neg(x) }");
  EXPECT_EQ(AddBackward(graph.outputs[0], {graph.inputs[0]}, graph).status().code(),
            absl::StatusCode::kInvalidArgument);
  graph = TypedText("g (float[2] x) => (int64 y) { y = ArgMax <keepdims = 0> (x) }");
  EXPECT_EQ(AddBackward(graph.outputs[0], {graph.inputs[0]}, graph).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace onnx_memplan::testing
