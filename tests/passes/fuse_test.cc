#include <gtest/gtest.h>

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
