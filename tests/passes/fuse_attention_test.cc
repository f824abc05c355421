#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "passes/graph_maker.h"

namespace onnx_memplan::testing {
namespace {

using Numbers = std::vector<int64_t>;

struct Heads {
  int64_t batch = 2, heads = 3, rows = 5, keys = 7, depth = 4, columns = 6;
};

// x [batch][rows][heads * depth] as [batch][heads][rows][depth].
ValueId SplitHeads(GraphMaker& make, ValueId x, int64_t heads, Numbers perm = {0, 2, 1, 3}) {
  const Shape shape = make.ShapeOf(x);
  const ValueId split =
      make.Op("Reshape", {x, make.Ints({shape[0], shape[1], heads, shape[2] / heads})});
  return make.Op("Transpose", {split}, {{"perm", std::move(perm)}});
}

ValueId JoinHeads(GraphMaker& make, ValueId x) {
  const Shape shape = make.ShapeOf(x);
  const ValueId rows = make.Op("Transpose", {x}, {{"perm", Numbers{0, 2, 1, 3}}});
  return make.Op("Reshape", {rows, make.Ints({shape[0], shape[2], shape[1] * shape[3]})});
}

TEST(FuseAttention, TakesHeadsFromWhereTheyAre) {
  const Heads h;
  GraphMaker make;
  const ValueId q = make.Input({h.batch, h.rows, h.heads * h.depth});
  const ValueId k = make.Input({h.batch, h.keys, h.heads * h.depth});
  const ValueId v = make.Input({h.batch, h.keys, h.heads * h.columns});
  const ValueId scores =
      make.Op("MatMul", {SplitHeads(make, q, h.heads), SplitHeads(make, k, h.heads, {0, 2, 3, 1})});
  const ValueId scaled = make.Op("Div", {scores, make.Scalar(2)});
  const ValueId weights = make.Op("Softmax", {scaled}, {{"axis", int64_t{-1}}});
  make.Output(JoinHeads(make, make.Op("MatMul", {weights, SplitHeads(make, v, h.heads)})));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(Count(after, "Attention"), 1) << after.ToText();
  EXPECT_EQ(Count(after, "Transpose"), 0) << after.ToText();
  EXPECT_EQ(Count(after, "Softmax"), 0) << after.ToText();
}

// The ways of scaling and masking, in the order of the steps.
TEST(FuseAttention, ScalesAndMasks) {
  const Heads h;
  const std::vector<Shape> masks = {{h.keys},
                                    {h.rows, h.keys},
                                    {h.batch, 1, 1, h.keys},
                                    {1, h.heads, h.rows, h.keys},
                                    {h.rows, 1},
                                    {h.batch, h.heads, h.rows, h.keys}};
  for (int variant = 0; variant < 18; ++variant) {
    SCOPED_TRACE(variant);
    GraphMaker make;
    const ValueId q = make.Input({h.batch, h.heads, h.rows, h.depth});
    const ValueId k = make.Input({h.batch, h.heads, h.depth, h.keys});
    const ValueId v = make.Input({h.batch, h.heads, h.keys, h.columns});
    const Shape& shape = masks[static_cast<size_t>(variant % 6)];
    const ValueId mask = variant < 12 ? make.Input(shape) : make.Constant(shape);
    ValueId scores = make.Op("MatMul", {q, k});
    if (variant % 4 == 1) scores = make.Op("Mul", {make.Scalar(0.5), scores});
    if (variant % 4 == 2) scores = make.Op("Div", {scores, make.Scalar(3, {1})});
    scores = make.Op("Add", variant % 2 == 0 ? std::vector<ValueId>{scores, mask}
                                             : std::vector<ValueId>{mask, scores});
    const ValueId weights = make.Op("Softmax", {scores}, {{"axis", int64_t{3}}});
    make.Output(make.Op("MatMul", {weights, v}));
    const Graph after = Optimized(make.graph());
    EXPECT_EQ(Count(after, "Attention"), 1) << after.ToText();
    EXPECT_EQ(after.nodes.size(), 1u) << after.ToText();
  }
}

TEST(FuseAttention, CausalMasksAwayWhatFollows) {
  for (const int64_t rows : {int64_t{9}, int64_t{16}, int64_t{33}}) {
    GraphMaker make;
    const ValueId q = make.Input({2, rows, 8});
    const ValueId k = make.Input({2, 8, rows});
    const ValueId v = make.Input({2, rows, 3});
    const ValueId mask = make.Op("Trilu", {make.Scalar(-1e9, {rows, rows}), make.Ints({1})},
                                 {{"upper", int64_t{1}}});
    const ValueId scores = make.Op("Add", {make.Op("MatMul", {q, k}), mask});
    make.Output(make.Op("MatMul", {make.Op("Softmax", {scores}), v}));
    EXPECT_EQ(Count(Optimized(make.graph()), "Attention"), 1);
  }
}

TEST(FuseAttention, TakesQueriesKeysAndValuesFromOneTensor) {
  const int64_t rows = 5, heads = 2, depth = 4;
  for (int variant = 0; variant < 3; ++variant) {
    SCOPED_TRACE(variant);
    GraphMaker make;
    const ValueId all = make.Op("Tanh", {make.Input({rows, 3 * heads * depth})});
    std::vector<ValueId> parts;
    if (variant == 0) {
      parts = make.OpWithOutputs("Split", {all}, 3,
                                 {{"axis", int64_t{1}}, {"num_outputs", int64_t{3}}});
    } else if (variant == 1) {
      for (int64_t i = 0; i < 3; ++i) {
        parts.push_back(make.Op("Slice", {all, make.Ints({i * heads * depth}),
                                          make.Ints({(i + 1) * heads * depth}), make.Ints({1})}));
      }
    } else {
      const ValueId split = make.Op("Reshape", {all, make.Ints({rows, 3, heads, depth})});
      const ValueId first = make.Op("Transpose", {split}, {{"perm", Numbers{1, 2, 0, 3}}});
      for (int64_t i = 0; i < 3; ++i) {
        const ValueId index = make.Op("Squeeze", {make.Ints({i}), make.Ints({0})});
        parts.push_back(make.Op("Gather", {first, index}));
      }
    }
    const auto heads_of = [&](ValueId part, Numbers perm) {
      const ValueId split = make.Op("Reshape", {part, make.Ints({rows, heads, depth})});
      return make.Op("Transpose", {split}, {{"perm", std::move(perm)}});
    };
    const bool split = variant < 2;
    const ValueId q = split ? heads_of(parts[0], {1, 0, 2}) : parts[0];
    const ValueId k = split ? heads_of(parts[1], {1, 2, 0})
                            : make.Op("Transpose", {parts[1]}, {{"perm", Numbers{0, 2, 1}}});
    const ValueId v = split ? heads_of(parts[2], {1, 0, 2}) : parts[2];
    const ValueId weights = make.Op("Softmax", {make.Op("MatMul", {q, k})});
    make.Output(make.Op("MatMul", {weights, v}));
    const Graph after = Optimized(make.graph());
    EXPECT_EQ(Count(after, "Attention"), 1) << after.ToText();
    EXPECT_EQ(after.nodes.size(), 2u) << after.ToText();
  }
}

// As Softmax before opset 13 needs it.
TEST(FuseAttention, LooksThroughFlattenedScoresAndConditionsThatHold) {
  GraphMaker make;
  const ValueId q = make.Input({2, 3, 5, 8});
  const ValueId k = make.Input({2, 3, 8, 7});
  const ValueId v = make.Input({2, 3, 7, 4});
  const ValueId masked = make.Op("Add", {make.Op("MatMul", {q, k}), make.Input({2, 1, 1, 7})});
  const ValueId holds = make.Op("GreaterOrEqual", {make.Scalar(1, {5, 7}), make.Scalar(0)});
  const ValueId scores = make.Op("Where", {holds, masked, make.Scalar(-10000)});
  const ValueId flat = make.Op("Reshape", {scores, make.Ints({30, 7})});
  const ValueId weights = make.Op("Softmax", {flat}, {{"axis", int64_t{1}}});
  const ValueId again = make.Op("Reshape", {weights, make.Ints({2, 3, 5, 7})});
  make.Output(make.Op("MatMul", {again, v}));
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 1u);
}

// One head of keys and values for all heads of queries.
TEST(FuseAttention, SharesKeysAmongHeads) {
  GraphMaker make;
  const ValueId q = make.Input({2, 4, 5, 8});
  const ValueId k = make.Input({2, 1, 8, 6});
  const ValueId v = make.Input({2, 1, 6, 8});
  const ValueId weights = make.Op("Softmax", {make.Op("MatMul", {q, k})});
  make.Output(make.Op("MatMul", {weights, v}));
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 1u);
}

// One query of one head: a block of it, filled up to a vector, is larger than its scores.
TEST(FuseAttention, NotWhereAllScoresTakeLessMemory) {
  GraphMaker make;
  const ValueId scores = make.Op("MatMul", {make.Input({1, 8}), make.Input({8, 6})});
  make.Output(make.Op("MatMul", {make.Op("Softmax", {scores}), make.Input({6, 8})}));
  EXPECT_EQ(Count(Optimized(make.graph()), "Attention"), 0);
}

TEST(FuseAttention, NotWhereScoresOrWeightsAreReadElsewhere) {
  for (int variant = 0; variant < 3; ++variant) {
    SCOPED_TRACE(variant);
    GraphMaker make;
    const ValueId q = make.Input({4, 15, 8});
    const ValueId scores = make.Op("MatMul", {q, make.Input({4, 8, 16})});
    const ValueId weights = make.Op("Softmax", {scores});
    make.Output(make.Op("MatMul", {weights, make.Input({4, 16, 8})}));
    if (variant == 0) make.Output(make.Op("Tanh", {scores}));
    if (variant == 1) make.Output(make.Op("Tanh", {weights}));
    if (variant == 2) make.Output(weights);
    EXPECT_EQ(Count(Optimized(make.graph()), "Attention"), 0);
  }
}

TEST(FuseAttention, NotOverOtherAxesOtherStepsOrOtherTypes) {
  for (int variant = 0; variant < 4; ++variant) {
    SCOPED_TRACE(variant);
    GraphMaker make;
    const DType dtype = variant == 0 ? DType::kDouble : DType::kFloat;
    const ValueId q = make.Input({4, 15, 8}, dtype);
    ValueId scores = make.Op("MatMul", {q, make.Input({4, 8, 16}, dtype)});
    if (variant == 1) scores = make.Op("Tanh", {scores});
    // A mask that is scaled as well.
    if (variant == 2) {
      scores = make.Op("Mul", {make.Op("Add", {scores, make.Input({16})}), make.Input({1})});
    }
    const ValueId weights = make.Op("Softmax", {scores}, {{"axis", int64_t{variant == 3 ? 1 : 2}}});
    make.Output(make.Op("MatMul", {weights, make.Input({4, 16, 8}, dtype)}));
    EXPECT_EQ(Count(Optimized(make.graph()), "Attention"), 0);
  }
}

}  // namespace
}  // namespace onnx_memplan::testing
