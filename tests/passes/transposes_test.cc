#include <gtest/gtest.h>

#include "passes/graph_maker.h"

namespace onnx_memplan::testing {
namespace {

using Perm = std::vector<int64_t>;

ValueId Transpose(GraphMaker& make, ValueId v, Perm perm) {
  return make.Op("Transpose", {v}, {{"perm", std::move(perm)}});
}

TEST(Transposes, InversesCancelAcrossElementwiseNodes) {
  GraphMaker make;
  ValueId v = Transpose(make, make.Op("Neg", {make.Input({2, 3, 4, 5})}), {0, 2, 3, 1});
  v = make.Op("Relu", {v});
  v = make.Op("Add", {v, make.Constant({3})});
  v = make.Op("Mul", {make.Constant({4, 1, 3}), v});
  v = make.Op("Clip", {v, make.Scalar(-1), make.Scalar(1)});
  v = make.Op("Concat", {v, v}, {{"axis", int64_t{3}}});
  v = Transpose(make, v, {0, 3, 1, 2});
  make.Output(make.Op("Exp", {v}));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(Count(after, "Transpose"), 0) << after.ToText();
}

TEST(Transposes, TwoBecomeOneBehindTheirSum) {
  GraphMaker make;
  const ValueId a = Transpose(make, make.Input({2, 3, 4}), {2, 0, 1});
  const ValueId b = Transpose(make, make.Input({2, 3, 4}), {2, 0, 1});
  make.Output(make.Op("Add", {a, b}));
  EXPECT_EQ(Count(Optimized(make.graph()), "Transpose"), 1);
}

TEST(Transposes, DifferentOrdersOrOtherReadersStayInPlace) {
  GraphMaker make;
  const ValueId a = Transpose(make, make.Input({3, 3, 3}), {2, 0, 1});
  const ValueId b = Transpose(make, make.Input({3, 3, 3}), {1, 0, 2});
  make.Output(make.Op("Add", {a, b}));
  const ValueId c = Transpose(make, make.Input({3, 3, 3}), {2, 1, 0});
  make.Output(c);
  make.Output(make.Op("Relu", {c}));
  EXPECT_EQ(Count(Optimized(make.graph()), "Transpose"), 3);
}

TEST(Transposes, SinkBelowReductionsAndSoftmax) {
  GraphMaker make;
  const ValueId x = make.Op("Neg", {make.Input({2, 3, 4})});
  make.Output(make.Op("ReduceSum", {Transpose(make, x, {2, 0, 1}), make.Ints({0, 2})},
                      {{"keepdims", int64_t{0}}}));
  make.Output(make.Op("ReduceMax", {Transpose(make, x, {1, 2, 0}), make.Ints({1})}));
  make.Output(make.Op("ReduceMax", {Transpose(make, x, {2, 1, 0}), make.Ints({1})},
                      {{"keepdims", int64_t{0}}}));
  make.Output(make.Op("Softmax", {Transpose(make, x, {0, 2, 1})}));
  Optimized(make.graph());
}

TEST(Transposes, OfAMatrixBecomesAFlagOfGemm) {
  for (const bool left : {false, true}) {
    GraphMaker make;
    const ValueId a = left ? Transpose(make, make.Input({4, 3}), {1, 0}) : make.Input({3, 4});
    const ValueId b = left ? make.Input({4, 5}) : Transpose(make, make.Input({5, 4}), {1, 0});
    make.Output(make.Op("Gemm", {a, b}));
    EXPECT_EQ(Optimized(make.graph()).nodes.size(), 1u);
  }
}

TEST(Transposes, BeforeAFlattenedGemmGoIntoItsWeights) {
  for (const int64_t trans_b : {0, 1}) {
    GraphMaker make;
    ValueId v = Transpose(make, make.Op("Relu", {make.Input({2, 3, 4, 5})}), {0, 2, 3, 1});
    v = make.Op("Reshape", {v, make.Ints({2, 60})});
    const ValueId b = trans_b != 0 ? make.Constant({7, 60}) : make.Constant({60, 7});
    make.Output(make.Op("Gemm", {v, b}, {{"transB", trans_b}}));
    EXPECT_EQ(Count(Optimized(make.graph()), "Transpose"), 0);
  }
}

TEST(Transposes, OfTheLastTwoDimensionsBecomesAFlagOfMatMul) {
  for (const bool left : {false, true}) {
    GraphMaker make;
    ValueId a = make.Input(left ? Shape{2, 3, 4, 5} : Shape{2, 3, 5, 4});
    ValueId b = make.Input(left ? Shape{2, 3, 4, 6} : Shape{2, 3, 6, 4});
    (left ? a : b) = Transpose(make, left ? a : b, {0, 1, 3, 2});
    make.Output(make.Op("MatMul", {a, b}));
    const Graph after = Optimized(make.graph());
    EXPECT_EQ(after.nodes.size(), 1u) << after.ToText();
  }
}

TEST(Transposes, OfAnUnknownMatrixThatManyRowsMeetStays) {
  GraphMaker make;
  const ValueId b = Transpose(make, make.Input({20, 4}), {1, 0});
  make.Output(make.Op("MatMul", {make.Input({30, 4}), b}));
  EXPECT_EQ(Count(Optimized(make.graph()), "Transpose"), 1);
}

}  // namespace
}  // namespace onnx_memplan::testing
