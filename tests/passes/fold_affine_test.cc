#include <gtest/gtest.h>

#include "passes/graph_maker.h"

namespace onnx_memplan::testing {
namespace {

ValueId BatchNorm(GraphMaker& make, ValueId x) {
  const Shape channels = {make.ShapeOf(x)[1]};
  return make.Op("BatchNormalization",
                 {x, make.Constant(channels, 0.5, 2), make.Constant(channels),
                  make.Constant(channels), make.Constant(channels, 0.1, 2)},
                 {{"epsilon", 1e-3F}});
}

TEST(FoldAffine, BatchNormalizationVanishesIntoConv) {
  for (const int64_t group : {1, 2}) {
    for (const bool bias : {false, true}) {
      GraphMaker make;
      std::vector<ValueId> inputs = {make.Input({2, 4, 5, 5}), make.Constant({6, 4 / group, 3, 3})};
      if (bias) inputs.push_back(make.Constant({6}));
      const ValueId y = make.Op("Conv", inputs, {{"group", group}});
      make.Output(BatchNorm(make, y));
      const Graph after = Optimized(make.graph());
      EXPECT_EQ(after.nodes.size(), 1u) << after.ToText();
    }
  }
}

TEST(FoldAffine, BatchNormalizationVanishesIntoGroupedConvTranspose) {
  GraphMaker make;
  const ValueId y =
      make.Op("ConvTranspose", {make.Input({1, 4, 5, 5}), make.Constant({4, 3, 2, 2})},
              {{"group", int64_t{2}}, {"strides", std::vector<int64_t>{2, 2}}});
  make.Output(BatchNorm(make, y));
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 1u);
}

TEST(FoldAffine, BatchNormalizationVanishesIntoGemm) {
  for (const int64_t trans_b : {0, 1}) {
    GraphMaker make;
    const ValueId b = trans_b != 0 ? make.Constant({5, 4}) : make.Constant({4, 5});
    const ValueId y = make.Op("Gemm", {make.Input({3, 4}), b, make.Constant({1, 5})},
                              {{"alpha", 0.5F}, {"beta", 2.0F}, {"transB", trans_b}});
    make.Output(BatchNorm(make, y));
    EXPECT_EQ(Optimized(make.graph()).nodes.size(), 1u);
  }
}

TEST(FoldAffine, GemmWithABiasForEachRowIsLeftAlone) {
  GraphMaker make;
  const ValueId y =
      make.Op("Gemm", {make.Input({3, 4}), make.Constant({4, 5}), make.Constant({3, 1})});
  make.Output(BatchNorm(make, y));
  EXPECT_EQ(Count(Optimized(make.graph()), "BatchNormalization"), 1);
}

TEST(FoldAffine, ValueThatIsReadElsewhereIsLeftAlone) {
  GraphMaker make;
  const ValueId y = make.Op("Conv", {make.Input({1, 4, 5, 5}), make.Constant({4, 4, 1, 1})});
  make.Output(BatchNorm(make, y));
  make.Output(make.Op("Neg", {y}));
  EXPECT_EQ(Count(Optimized(make.graph()), "BatchNormalization"), 1);
  GraphMaker other;
  const ValueId z = other.Op("Conv", {other.Input({1, 4, 5, 5}), other.Constant({4, 4, 1, 1})});
  other.Output(z);
  other.Output(BatchNorm(other, z));
  EXPECT_EQ(Count(Optimized(other.graph()), "BatchNormalization"), 1);
}

TEST(FoldAffine, ArithmeticWithConstantsForEachChannelVanishesIntoConv) {
  GraphMaker make;
  ValueId v = make.Op("Conv", {make.Input({1, 4, 5, 5}), make.Constant({6, 4, 3, 3})});
  v = make.Op("Add", {make.Constant({6, 1, 1}), v});
  v = make.Op("Mul", {v, make.Constant({1, 6, 1, 1}, 1, 2)});
  v = make.Op("Sub", {v, make.Constant({1, 1, 1, 1})});
  v = make.Op("Div", {v, make.Constant({6, 1, 1}, 1, 2)});
  v = make.Op("Sub", {make.Scalar(3), v});
  make.Output(make.Op("Neg", {v}));
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 1u);
}

TEST(FoldAffine, ConstantsAlongAnotherDimensionAreLeftAlone) {
  GraphMaker make;
  ValueId v = make.Op("Conv", {make.Input({1, 4, 5, 5}), make.Constant({5, 4, 1, 1})});
  v = make.Op("Mul", {v, make.Constant({5}, 1, 2)});
  v = make.Op("Add", {v, make.Constant({5, 1}, 1, 2)});
  make.Output(v);
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 3u);
}

TEST(FoldAffine, BroadcastThatEnlargesIsLeftAlone) {
  GraphMaker make;
  const ValueId v = make.Op("Conv", {make.Input({1, 4, 1, 1}), make.Constant({5, 4, 1, 1})});
  make.Output(make.Op("Add", {v, make.Constant({3, 5, 1, 1})}));
  make.Output(make.Op("Mul", {make.Op("Gemm", {make.Input({1, 4}), make.Constant({4, 5})}),
                              make.Scalar(2, {1, 1, 1})}));
  Optimized(make.graph());
}

TEST(FoldAffine, BiasOfMatMulOfManyDimensionsEndsInGemm) {
  GraphMaker make;
  ValueId v = make.Op("MatMul", {make.Input({2, 3, 4}), make.Constant({4, 5})});
  v = make.Op("Add", {make.Constant({5}), v});
  make.Output(make.Op("Mul", {v, make.Constant({1, 1, 5})}));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(Only(after, "Gemm").inputs.size(), 3u);
  EXPECT_EQ(after.nodes.size(), 3u) << after.ToText();
}

TEST(FoldAffine, AttentionScaleGoesIntoTheProjection) {
  GraphMaker make;
  const ValueId x = make.Input({1, 6, 8});
  const auto heads = [&](std::vector<int64_t> perm) {
    ValueId v = make.Op("MatMul", {x, make.Constant({8, 8})});
    v = make.Op("Add", {v, make.Constant({8})});
    v = make.Op("Reshape", {v, make.Ints({1, 6, 2, 4})});
    return make.Op("Transpose", {v}, {{"perm", std::move(perm)}});
  };
  const ValueId scores = make.Op("MatMul", {heads({0, 2, 1, 3}), heads({0, 2, 3, 1})});
  make.Output(make.Op("Softmax", {make.Op("Div", {scores, make.Scalar(2)})}));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(Count(after, "Div") + Count(after, "Mul"), 0) << after.ToText();
}

TEST(FoldAffine, ScaleAndShiftOfNormalisationsAreMerged) {
  GraphMaker make;
  ValueId v = BatchNorm(make, make.Op("Relu", {make.Input({1, 4, 5, 5})}));
  v = make.Op("Mul", {v, make.Constant({1, 4, 1, 1})});
  v = make.Op("Add", {v, make.Constant({4, 1, 1})});
  v = BatchNorm(make, v);
  v = make.Op("InstanceNormalization", {v, make.Constant({4}), make.Constant({4})});
  v = make.Op("Mul", {v, make.Constant({4, 1, 1})});
  v = make.Op("LayerNormalization", {v, make.Constant({5})}, {{"axis", int64_t{-1}}});
  v = make.Op("Mul", {v, make.Constant({5})});
  v = make.Op("Add", {v, make.Constant({5})});
  make.Output(v);
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(after.nodes.size(), 4u) << after.ToText();
}

TEST(FoldAffine, ScaleBeforeConvGoesIntoItsWeightsAndShiftWhereNothingIsPadded) {
  for (const int64_t pad : {0, 1}) {
    GraphMaker make;
    ValueId v = make.Op("Sub", {make.Input({1, 4, 6, 6}), make.Constant({4, 1, 1})});
    v = make.Op("Div", {v, make.Constant({1, 4, 1, 1}, 1, 2)});
    v = make.Op("Conv", {v, make.Constant({6, 2, 3, 3}), make.Constant({6})},
                {{"group", int64_t{2}}, {"pads", std::vector<int64_t>{pad, pad, pad, pad}}});
    make.Output(v);
    EXPECT_EQ(Optimized(make.graph()).nodes.size(), pad == 0 ? 1u : 2u);
  }
}

TEST(FoldAffine, DepthwiseConvOfOneTapIsAScale) {
  GraphMaker make;
  ValueId v = make.Op("Relu", {make.Input({1, 4, 6, 6})});
  v = make.Op("Conv", {v, make.Constant({4, 1, 1, 1}), make.Constant({4})},
              {{"group", int64_t{4}}});
  v = make.Op("Conv", {v, make.Constant({6, 4, 3, 3})});
  v = make.Op("Conv", {v, make.Constant({6, 1, 1, 1})}, {{"group", int64_t{6}}});
  make.Output(v);
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 2u);
}

TEST(FoldAffine, FactorOfATensorGoesIntoTheProductThatReadsIt) {
  GraphMaker make;
  ValueId v = make.Op("Div", {make.Op("Tanh", {make.Input({1, 6, 8})}), make.Scalar(3)});
  v = make.Op("Reshape", {v, make.Ints({2, 3, 8})});
  make.Output(make.Op("MatMul", {v, make.Input({2, 8, 5})}));
  EXPECT_EQ(Count(Optimized(make.graph()), "Div"), 0);
}

TEST(FoldAffine, ScaleAndShiftBeforeGemm) {
  for (const int64_t trans_b : {0, 1}) {
    GraphMaker make;
    ValueId v = BatchNorm(make, make.Op("Relu", {make.Input({3, 4})}));
    const ValueId b = trans_b != 0 ? make.Constant({5, 4}) : make.Constant({4, 5});
    make.Output(make.Op("Gemm", {v, b, make.Constant({5})},
                        {{"alpha", 0.5F}, {"beta", 3.0F}, {"transB", trans_b}}));
    EXPECT_EQ(Optimized(make.graph()).nodes.size(), 2u);
  }
}

TEST(MergeAffine, ScaleAndShiftThatStayAreOneNode) {
  for (const bool uniform : {false, true}) {
    GraphMaker make;
    ValueId v = make.Op("Relu", {make.Input({2, 4, 6, 6})});
    v = make.Op("Mul", {v, uniform ? make.Scalar(0.7) : make.Constant({4, 1, 1})});
    v = make.Op("Add", {v, make.Scalar(0.3)});
    v = make.Op("Sub", {v, make.Constant({1, 4, 1, 1})});
    make.Output(make.Op("Tanh", {v}));
    const Graph after = Optimized(make.graph());
    EXPECT_EQ(after.nodes.size(), 2u) << after.ToText();
    EXPECT_EQ(Count(after, "BatchNormalization"), 1);
  }
}

TEST(MergeAffine, AlongAnotherDimensionStays) {
  GraphMaker make;
  ValueId v = make.Op("Relu", {make.Input({2, 4, 6, 5})});
  v = make.Op("Mul", {v, make.Constant({5})});
  make.Output(make.Op("Add", {v, make.Constant({5})}));
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 3u);
}

TEST(FactorGates, GatedResidualIsOneProduct) {
  for (int variant = 0; variant < 4; ++variant) {
    GraphMaker make;
    const ValueId x = make.Op("Relu", {make.Input({1, 4, 6, 6})});
    const ValueId g = make.Op("Sigmoid", {make.Op("GlobalAveragePool", {x})});
    const ValueId product = variant % 2 == 0 ? make.Op("Mul", {x, g}) : make.Op("Mul", {g, x});
    make.Output(variant < 2 ? make.Op("Add", {x, product}) : make.Op("Add", {product, x}));
    const Graph after = Optimized(make.graph());
    const Node mul = Only(after, "Mul");
    EXPECT_EQ(after.outputs[0], mul.outputs.at(0)) << after.ToText();
  }
}

TEST(MergeScalars, ChainsOfOneKindBecomeOne) {
  GraphMaker make;
  ValueId v = make.Op("Relu", {make.Input({3, 4})});
  v = make.Op("Mul", {v, make.Scalar(3)});
  v = make.Op("Div", {v, make.Scalar(7, {1})});
  v = make.Op("Neg", {v});
  v = make.Op("Add", {v, make.Scalar(3)});
  v = make.Op("Sub", {v, make.Scalar(0.5)});
  make.Output(v);
  EXPECT_EQ(Optimized(make.graph(), {"merge-scalars"}).nodes.size(), 3u);
}

}  // namespace
}  // namespace onnx_memplan::testing
