#include <gtest/gtest.h>

#include <numeric>

#include "onnx_memplan/compare.h"
#include "passes/graph_maker.h"

namespace onnx_memplan::testing {
namespace {

ValueId Conv(GraphMaker& make, ValueId x, int64_t channels) {
  return make.Op(
      "Conv", {x, make.Constant({channels, make.ShapeOf(x)[1], 1, 1}), make.Constant({channels})});
}

TEST(FuseActivations, EachActivationVanishesIntoConv) {
  const std::vector<std::pair<std::string, Attributes>> activations = {
      {"Relu", {}},
      {"LeakyRelu", {{"alpha", 0.2F}}},
      {"Elu", {{"alpha", 0.7F}}},
      {"Sigmoid", {}},
      {"Tanh", {}},
      {"HardSigmoid", {{"alpha", 0.3F}, {"beta", 0.4F}}},
      {"HardSwish", {}},
      {"Gelu", {}},
      {"Gelu", {{"approximate", std::string("tanh")}}},
      {"Softplus", {}},
      {"Mish", {}},
  };
  for (const auto& [type, attributes] : activations) {
    GraphMaker make;
    const ValueId y = Conv(make, make.Input({1, 3, 4, 4}), 5);
    make.Output(make.Op(type, {y}, attributes));
    const Graph after = Optimized(make.graph());
    ASSERT_EQ(after.nodes.size(), 1u) << after.ToText();
    EXPECT_EQ(after.nodes[0].epilogue.activation, type);
    EXPECT_EQ(after.nodes[0].name, "node_0");
  }
}

TEST(FuseActivations, ClipWithOneBoundOrTwo) {
  for (const bool upper : {false, true}) {
    GraphMaker make;
    const ValueId y = Conv(make, make.Input({1, 3, 4, 4}), 5);
    make.Output(make.Op("Clip", {y, make.Scalar(-0.1), upper ? make.Scalar(0.5) : kNoValue}));
    EXPECT_EQ(Optimized(make.graph()).nodes.size(), 1u);
  }
}

TEST(FuseActivations, SiluNeedsNoSecondTensor) {
  GraphMaker make;
  const ValueId y = Conv(make, make.Input({1, 3, 4, 4}), 5);
  make.Output(make.Op("Mul", {make.Op("Sigmoid", {y}), y}));
  const Graph after = Optimized(make.graph());
  ASSERT_EQ(after.nodes.size(), 1u) << after.ToText();
  EXPECT_EQ(after.nodes[0].epilogue.activation, "Silu");
}

TEST(FuseActivations, NotWhereTheValueBeforeIsReadToo) {
  GraphMaker make;
  const ValueId y = Conv(make, make.Input({1, 3, 4, 4}), 5);
  make.Output(make.Op("Relu", {y}));
  make.Output(make.Op("Mul", {make.Op("Sigmoid", {y}), y}));
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 3u);
  GraphMaker other;
  const ValueId z = Conv(other, other.Input({1, 3, 4, 4}), 5);
  other.Output(z);
  other.Output(other.Op("Relu", {z}));
  EXPECT_EQ(Optimized(other.graph()).nodes.size(), 2u);
}

TEST(FuseActivations, OneKernelTakesOneActivation) {
  GraphMaker make;
  const ValueId y = Conv(make, make.Input({1, 3, 4, 4}), 5);
  make.Output(make.Op("Tanh", {make.Op("Relu", {y})}));
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 2u);
}

TEST(FuseActivations, ReachThroughReshapeAndTranspose) {
  GraphMaker make;
  ValueId v = make.Op("MatMul", {make.Input({2, 3, 4}), make.Constant({4, 6})});
  v = make.Op("Transpose", {v}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  make.Output(make.Op("Relu", {v}));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(Count(after, "Relu"), 0) << after.ToText();
}

TEST(FuseActivations, OnlyWhereThereIsAKernel) {
  // A product of two unknown matrices, narrow and transposed: no fast kernel may take it.
  for (const int64_t columns : {1, 2, 5, 7, 40}) {
    for (const int64_t trans_b : {0, 1}) {
      GraphMaker make;
      const ValueId b = make.Input(trans_b != 0 ? Shape{columns, 6} : Shape{6, columns});
      const ValueId y =
          make.Op("Gemm", {make.Input({6, 3}), b}, {{"transA", int64_t{1}}, {"transB", trans_b}});
      make.Output(make.Op("Relu", {make.Op("Add", {y, make.Input({3, columns})})}));
      Optimized(make.graph());
    }
  }
}

TEST(MatMulToGemm, BiasNeedNotBeKnownNorTheMatrix) {
  for (const Shape& bias : {Shape{5}, Shape{1, 5}, Shape{3, 1}, Shape{}}) {
    for (const bool known : {false, true}) {
      GraphMaker make;
      const ValueId a = make.Input({3, 4});
      const ValueId b = make.Input({4, 5});
      const ValueId c = known ? make.Constant(bias) : make.Input(bias);
      make.Output(make.Op("Add", {c, make.Op("MatMul", {a, b})}));
      EXPECT_EQ(Optimized(make.graph()).nodes.size(), 1u);
    }
  }
}

TEST(MatMulToGemm, BiasThatEnlargesOrComesLaterIsAdded) {
  GraphMaker make;
  const ValueId a = make.Input({1, 4});
  const ValueId product = make.Op("MatMul", {a, make.Input({4, 5})});
  make.Output(make.Op("Add", {product, make.Input({3, 5})}));
  const ValueId other = make.Op("MatMul", {a, make.Input({4, 5})});
  make.Output(make.Op("Add", {other, make.Op("Exp", {make.Input({5})})}));
  EXPECT_EQ(Count(Optimized(make.graph()), "Add"), 2);
}

// ONNX has no such Gemm; training graphs of Deeploy have.
TEST(GemmToMatMul, GemmOfOtherRanksIsAProductOfBatches) {
  struct Case {
    Shape a, b, c;
    int64_t trans_a, trans_b;
    Shape output;
  };
  const Case kCases[] = {
      {{2, 3, 4}, {4, 5}, {5}, 0, 0, {2, 3, 5}},
      {{4}, {5, 4}, {5}, 0, 1, {5}},
      {{2, 4, 3}, {2, 5, 4}, {2, 1, 5}, 1, 1, {2, 3, 5}},
      {{1, 2, 4, 3}, {1, 2, 4, 5}, {}, 1, 0, {1, 2, 3, 5}},
      {{2, 3, 4}, {2, 4, 5}, {2, 3, 1}, 0, 0, {2, 3, 5}},
  };
  for (const Case& c : kCases) {
    for (const float beta : {1.0F, 0.0F, 0.5F}) {
      GraphMaker make;
      const ValueId gemm =
          make.Op("Gemm", {make.Input(c.a), make.Input(c.b), make.Input(c.c)},
                  {{"transA", c.trans_a}, {"transB", c.trans_b}, {"alpha", 2.0F}, {"beta", beta}});
      EXPECT_EQ(make.ShapeOf(gemm), c.output);
      make.Output(gemm);
      Graph graph = make.graph();
      ASSERT_TRUE(OptimizeGraph({.only_named = true}, graph).ok());
      EXPECT_EQ(Count(graph, "Gemm"), 0);
      EXPECT_EQ(Count(graph, "Add"), beta == 0 ? 0 : 1);
      // The product and the sum, each by the operators that ONNX has.
      GraphMaker same;
      ValueId a = same.Input(c.a);
      ValueId b = same.Input(c.b);
      const ValueId addend = same.Input(c.c);
      const auto swapped = [&](ValueId v) {
        std::vector<int64_t> order(same.ShapeOf(v).size());
        std::iota(order.begin(), order.end(), 0);
        std::swap(order[order.size() - 1], order[order.size() - 2]);
        return same.Op("Transpose", {v}, {{"perm", order}});
      };
      if (c.trans_a != 0) a = swapped(a);
      if (c.trans_b != 0) b = swapped(b);
      const ValueId product = same.Op("Mul", {same.Op("MatMul", {a, b}), same.Scalar(2)});
      const ValueId scaled = same.Op("Mul", {addend, same.Scalar(static_cast<double>(beta))});
      same.Output(same.Op("Add", {product, scaled}));
      const std::vector<Tensor> inputs = RandomInputs(graph, 3);
      const auto difference =
          CompareTensors(RunGraph(graph, inputs)[0], RunGraph(same.graph(), inputs)[0]);
      ASSERT_TRUE(difference.ok()) << difference.status();
      EXPECT_LE(difference->largest, 1e-5 * difference->scale);
    }
  }
}

TEST(GemmToMatMul, GemmOfMatricesStays) {
  GraphMaker make;
  make.Output(make.Op("Gemm", {make.Input({3, 4}), make.Input({4, 5})}));
  EXPECT_EQ(Count(Optimized(make.graph()), "Gemm"), 1);
}

TEST(FuseResidualAdd, GoesIntoTheLaterProducerWithTheActivationBehind) {
  GraphMaker make;
  const ValueId x = make.Op("Relu", {make.Input({1, 3, 4, 4})});
  const ValueId a = Conv(make, x, 5);
  const ValueId b = Conv(make, x, 5);
  make.Output(make.Op("Relu", {make.Op("Add", {b, a})}));
  const Graph after = Optimized(make.graph());
  ASSERT_EQ(after.nodes.size(), 3u) << after.ToText();
  EXPECT_TRUE(after.nodes[1].epilogue.empty());
  EXPECT_TRUE(after.nodes[2].epilogue.has_residual);
  EXPECT_EQ(after.nodes[2].epilogue.activation, "Relu");
  EXPECT_EQ(after.nodes[2].name, "node_2");
}

TEST(FuseResidualAdd, DoesNotMakeAProducerWait) {
  GraphMaker make;
  const ValueId x = make.Op("Relu", {make.Input({1, 5, 4, 4})});
  const ValueId a = Conv(make, x, 5);
  const ValueId b = make.Op("Exp", {make.Op("Neg", {x})});
  make.Output(make.Op("Add", {a, b}));
  EXPECT_EQ(Count(Optimized(make.graph()), "Add"), 1);
}

TEST(FuseResidualAdd, NotWithActivationBetweenOrBroadcastOrItself) {
  GraphMaker make;
  const ValueId x = make.Input({1, 5, 4, 4});
  const ValueId a = make.Op("Relu", {Conv(make, x, 5)});
  make.Output(make.Op("Add", {a, x}));
  make.Output(make.Op("Add", {Conv(make, x, 5), make.Input({1, 1, 4, 4})}));
  const ValueId c = Conv(make, x, 5);
  make.Output(make.Op("Add", {c, c}));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(Count(after, "Add"), 3) << after.ToText();
}

TEST(FuseResidualAdd, ReachesGemmThroughItsReshape) {
  GraphMaker make;
  const ValueId x = make.Input({2, 3, 4});
  ValueId v = make.Op("MatMul", {make.Op("Tanh", {x}), make.Constant({4, 4})});
  v = make.Op("Add", {v, make.Constant({4})});
  make.Output(make.Op("Relu", {make.Op("Add", {x, v})}));
  const Graph after = Optimized(make.graph());
  const Node gemm = Only(after, "Gemm");
  EXPECT_TRUE(gemm.epilogue.has_residual);
  EXPECT_EQ(gemm.epilogue.activation, "Relu");
  EXPECT_EQ(Count(after, "Add"), 0) << after.ToText();
}

TEST(FuseActivations, BatchNormalizationThatStaysTakesThemWhereItsStatisticsAreKnown) {
  for (const Shape& shape : {Shape{2, 5, 3, 7}, Shape{1, 19, 4, 4}, Shape{3, 21}}) {
    for (const char* activation : {"Relu", "Sigmoid", "HardSwish"}) {
      for (const bool known : {false, true}) {
        GraphMaker make;
        const Shape channels = {shape[1]};
        // Softmax keeps the normalisation from being folded away.
        const ValueId x = make.Op("Softmax", {make.Input(shape)});
        const ValueId mean = known ? make.Constant(channels) : make.Input(channels);
        const ValueId y =
            make.Op("BatchNormalization", {x, make.Constant(channels), make.Constant(channels),
                                           mean, make.Constant(channels, 0.5, 1)});
        make.Output(make.Op(activation, {y}));
        EXPECT_EQ(Count(Optimized(make.graph()), activation), known ? 0 : 1) << activation;
      }
    }
  }
}

TEST(FuseResidualAdd, OmittedBiasStaysOmitted) {
  GraphMaker make;
  const ValueId x = make.Input({1, 3, 4, 4});
  const ValueId y = make.Op("Conv", {make.Op("Tanh", {x}), make.Constant({3, 3, 1, 1}), kNoValue});
  make.Output(make.Op("Add", {y, x}));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(Only(after, "Conv").inputs.size(), 3u) << after.ToText();
}

TEST(FoldPadding, IntoConvWhateverItsOwnPads) {
  GraphMaker make;
  const ValueId x = make.Input({1, 3, 5, 5});
  const ValueId y = make.Op("Pad", {x, make.Ints({0, 0, 1, 0, 0, 0, 2, 3})});
  make.Output(make.Op(
      "Conv", {y, make.Constant({4, 3, 3, 3})},
      {{"pads", std::vector<int64_t>{0, 1, 0, 0}}, {"strides", std::vector<int64_t>{2, 1}}}));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(after.nodes.size(), 1u) << after.ToText();
}

TEST(FoldPadding, NotOfChannelsOrNegativeOrByAnotherValue) {
  for (const std::vector<int64_t>& pads : {std::vector<int64_t>{0, 1, 0, 0, 0, 0, 0, 0},
                                           std::vector<int64_t>{0, 0, -1, 0, 0, 0, 1, 0}}) {
    GraphMaker make;
    const ValueId y = make.Op("Pad", {make.Input({1, 3, 5, 5}), make.Ints(pads)});
    make.Output(make.Op("Conv", {y, make.Constant({4, make.ShapeOf(y)[1], 3, 3})}));
    EXPECT_EQ(Optimized(make.graph()).nodes.size(), 2u);
  }
  GraphMaker make;
  const ValueId y = make.Op(
      "Pad", {make.Input({1, 3, 5, 5}), make.Ints({0, 0, 1, 1, 0, 0, 1, 1}), make.Scalar(0.5)});
  make.Output(make.Op("Conv", {y, make.Constant({4, 3, 3, 3})}));
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 2u);
}

TEST(FoldPadding, IntoAveragePoolCountsThePadding) {
  GraphMaker make;
  const ValueId y = make.Op("Pad", {make.Input({1, 3, 5, 5}), make.Ints({0, 0, 1, 1, 0, 0, 1, 1})});
  make.Output(make.Op("AveragePool", {y}, {{"kernel_shape", std::vector<int64_t>{3, 3}}}));
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 1u);
}

TEST(FoldPadding, OfZeroIntoMaxPoolNeedsAnImageWithoutNegatives) {
  for (const bool relu : {false, true}) {
    GraphMaker make;
    const ValueId x = make.Op(relu ? "Relu" : "Neg", {make.Input({1, 3, 5, 5})});
    const ValueId y = make.Op("Pad", {x, make.Ints({0, 0, 1, 1, 0, 0, 1, 1})});
    make.Output(make.Op(
        "MaxPool", {y},
        {{"kernel_shape", std::vector<int64_t>{3, 3}}, {"strides", std::vector<int64_t>{2, 2}}}));
    EXPECT_EQ(Optimized(make.graph()).nodes.size(), relu ? 2u : 3u);
  }
}

}  // namespace
}  // namespace onnx_memplan::testing
