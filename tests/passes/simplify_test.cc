#include <gtest/gtest.h>

#include "passes/graph_maker.h"

namespace onnx_memplan::testing {
namespace {

TEST(EliminateNoOps, DropsNodesThatGiveTheirInput) {
  GraphMaker make;
  ValueId v = make.Input({2, 3, 4});
  v = make.Op("Identity", {v});
  v = make.Op("Dropout", {v});
  v = make.Op("Cast", {v}, {{"to", int64_t{1}}});
  v = make.Op("Transpose", {v}, {{"perm", std::vector<int64_t>{0, 1, 2}}});
  v = make.Op("Pad", {v, make.Ints({0, 0, 0, 0, 0, 0})});
  v = make.Op("Slice", {v, make.Ints({0}), make.Ints({100}), make.Ints({1})});
  v = make.Op("Expand", {v, make.Ints({3, 1})});
  v = make.Op("Concat", {v}, {{"axis", int64_t{1}}});
  v = make.Op("Reshape", {v, make.Ints({0, 3, -1})});
  v = make.Op("Mul", {make.Scalar(1, {1, 1}), v});
  v = make.Op("Sub", {v, make.Scalar(0)});
  make.Output(make.Op("Relu", {v}));
  const Graph after = Optimized(make.graph(), {"eliminate-no-ops"});
  ASSERT_EQ(after.nodes.size(), 1u) << after.ToText();
}

TEST(EliminateNoOps, KeepsWhatChangesValuesOrShape) {
  GraphMaker make;
  const ValueId x = make.Input({2, 3});
  make.Output(
      make.Op("Slice", {x, make.Ints({2}), make.Ints({-10}), make.Ints({1}), make.Ints({-1})}));
  make.Output(make.Op("Mul", {x, make.Scalar(1, {1, 1, 1})}));
  make.Output(make.Op("Sub", {make.Scalar(0), x}));
  make.Output(make.Op("Pad", {x, make.Ints({1, 0, -1, 0})}));
  const Graph after = Optimized(make.graph(), {"eliminate-no-ops"});
  EXPECT_EQ(after.nodes.size(), 4u) << after.ToText();
}

TEST(EliminateNoOps, ReluOfWhatIsNotNegative) {
  GraphMaker make;
  const ValueId x = make.Op("Relu", {make.Input({1, 2, 4, 4})});
  const ValueId y = make.Op("Sigmoid", {make.Input({1, 2, 4, 4})});
  const ValueId z = make.Op("Concat", {x, y}, {{"axis", int64_t{1}}});
  make.Output(make.Op("Neg", {make.Op("Relu", {z})}));
  make.Output(make.Op("Relu", {make.Op("Sub", {x, y})}));
  EXPECT_EQ(Count(Optimized(make.graph(), {"eliminate-no-ops"}), "Relu"), 2);
}

TEST(EliminateNoOps, OutputKeepsItsNameWhenItsNodeGoes) {
  GraphMaker make;
  const ValueId x = make.Op("Relu", {make.Input({4})});
  make.Output(make.Op("Identity", {x}));
  make.Output(make.Op("Neg", {x}));
  const Graph after = Optimized(make.graph(), {"eliminate-no-ops"});
  EXPECT_EQ(Count(after, "Identity"), 0);
}

TEST(EliminateNoOps, TwoOutputsOfOneValueStayTwoValues) {
  GraphMaker make;
  const ValueId x = make.Op("Relu", {make.Input({4})});
  make.Output(x);
  make.Output(make.Op("Identity", {x}));
  make.Output(make.Op("Identity", {x}));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(Count(after, "Identity"), 2) << after.ToText();
}

TEST(EliminateNoOps, DropsEmptyPartsOfConcat) {
  GraphMaker make;
  const ValueId x = make.Input({2, 3});
  const ValueId empty = make.Op("Slice", {x, make.Ints({0}), make.Ints({0}), make.Ints({1})});
  make.Output(make.Op("Concat", {empty, x, x}, {{"axis", int64_t{1}}}));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(Only(after, "Concat").inputs.size(), 2u) << after.ToText();
}

TEST(MergeViews, ChainBecomesOneReshape) {
  GraphMaker make;
  ValueId v = make.Op("Relu", {make.Input({1, 4, 6, 1})});
  v = make.Op("Squeeze", {v, make.Ints({3})});
  v = make.Op("Unsqueeze", {v, make.Ints({0})});
  v = make.Op("Reshape",
              {
                  v,
                  make.Ints({2, 0, -1}),
              },
              {{"allowzero", int64_t{0}}});
  v = make.Op("Flatten", {v});
  make.Output(make.Op("Neg", {v}));
  const Graph after = Optimized(make.graph(), {"merge-views"});
  EXPECT_EQ(after.nodes.size(), 3u) << after.ToText();
}

TEST(MergeViews, ChainThatComesBackVanishes) {
  GraphMaker make;
  ValueId v = make.Op("Relu", {make.Input({4, 6})});
  v = make.Op("Reshape", {v, make.Ints({24})});
  v = make.Op("Reshape", {v, make.Ints({4, 6})});
  make.Output(v);
  EXPECT_EQ(Optimized(make.graph(), {"merge-views"}).nodes.size(), 1u);
}

TEST(MergeViews, TransposeOfOnesIsAReshape) {
  GraphMaker make;
  ValueId v = make.Op("Relu", {make.Input({1, 4, 6, 1})});
  make.Output(make.Op("Transpose", {v}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}}));
  make.Output(make.Op("Transpose", {v}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}));
  const Graph after = Optimized(make.graph(), {"merge-views"});
  EXPECT_EQ(Count(after, "Transpose"), 1) << after.ToText();
}

TEST(MergeViews, OtherReadersOfTheMiddleStayServed) {
  GraphMaker make;
  const ValueId a = make.Op("Reshape", {make.Input({4, 6}), make.Ints({24})});
  const ValueId b = make.Op("Reshape", {a, make.Ints({2, 12})});
  make.Output(a);
  make.Output(b);
  make.Output(make.Op("Neg", {a}));
  Optimized(make.graph(), {"merge-views"});
}

TEST(MergeViews, EmptyTensorsKeepTheirShape) {
  GraphMaker make;
  const ValueId v = make.Op("Relu", {make.Input({0, 4})});
  const ValueId w = make.Op("Flatten", {make.Op("Unsqueeze", {v, make.Ints({1})})});
  make.Output(make.Op("Neg", {w}));
  Optimized(make.graph());
}

TEST(RemoveDeadCode, DropsNodesAndOptionalOutputsThatNothingReads) {
  GraphMaker make;
  const ValueId x = make.Input({1, 2, 6, 6});
  const auto pool = make.OpWithOutputs("LayerNormalization", {x, make.Constant({6})}, 3);
  make.Op("Neg", {make.Op("Relu", {x})});
  make.Output(pool[0]);
  const Graph after = Optimized(make.graph(), {"remove-dead-code"});
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.nodes[0].outputs.size(), 1u);
}

TEST(RemoveDeadCode, SplitKeepsAllItsParts) {
  GraphMaker make;
  const auto parts =
      make.OpWithOutputs("Split", {make.Input({6})}, 3, {{"num_outputs", int64_t{3}}});
  make.Output(make.Op("Neg", {parts[0]}));
  EXPECT_EQ(Only(Optimized(make.graph()), "Split").outputs.size(), 3u);
}

TEST(ShareCommonSubexpressions, EqualNodesAndConstantsAreOne) {
  GraphMaker make;
  const ValueId x = make.Input({2, 3});
  const auto branch = [&] {
    return make.Op("LeakyRelu", {make.Op("Add", {x, make.Scalar(0.25)})}, {{"alpha", 0.5F}});
  };
  make.Output(make.Op("Mul", {branch(), branch()}));
  const Graph after = Optimized(make.graph(), {"share-common-subexpressions"});
  EXPECT_EQ(after.nodes.size(), 3u) << after.ToText();
  EXPECT_EQ(after.values.size(), 5u) << after.ToText();
}

TEST(ShareCommonSubexpressions, AttributesMustBeEqualToTheBit) {
  GraphMaker make;
  const ValueId x = make.Input({2, 3});
  const ValueId a = make.Op("LeakyRelu", {x}, {{"alpha", 0.5F}});
  const ValueId b = make.Op("LeakyRelu", {x}, {{"alpha", 0.50000006F}});
  const ValueId c = make.Op("LeakyRelu", {x});
  make.Output(make.Op("Sum", {a, b, c}));
  EXPECT_EQ(Count(Optimized(make.graph(), {"share-common-subexpressions"}), "LeakyRelu"), 3);
}

TEST(ShareCommonSubexpressions, EqualGraphOutputsStayTwoOutputs) {
  GraphMaker make;
  const ValueId x = make.Input({2, 3});
  make.Output(make.Op("Relu", {x}));
  make.Output(make.Op("Relu", {x}));
  Optimized(make.graph());
}

TEST(ShareCommonSubexpressions, OutputAndInternalTwinAreOne) {
  GraphMaker make;
  const ValueId x = make.Input({2, 3});
  const ValueId inner = make.Op("Relu", {x});
  make.Output(make.Op("Neg", {inner}));
  make.Output(make.Op("Relu", {x}));
  EXPECT_EQ(Count(Optimized(make.graph(), {"share-common-subexpressions"}), "Relu"), 1);
}

TEST(ShareConcatPrefixes, DenseBlockBecomesAChain) {
  GraphMaker make;
  std::vector<ValueId> parts = {make.Op("Relu", {make.Input({1, 3, 4, 4})})};
  for (int i = 0; i < 4; ++i) {
    const ValueId all =
        parts.size() == 1 ? parts[0] : make.Op("Concat", parts, {{"axis", int64_t{1}}});
    const ValueId w = make.Constant({2, make.ShapeOf(all)[1], 1, 1});
    parts.push_back(make.Op("Conv", {all, w}));
  }
  make.Output(make.Op("Concat", parts, {{"axis", int64_t{1}}}));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(Count(after, "Concat"), 4);
  for (const Node& node : after.nodes) {
    if (node.Is("Concat")) {
      EXPECT_EQ(node.inputs.size(), 2u) << after.ToText();
    }
  }
}

TEST(ShareConcatPrefixes, NotAcrossAnOuterDimension) {
  GraphMaker make;
  const ValueId x = make.Input({2, 3});
  const ValueId y = make.Op("Relu", {x});
  make.Output(make.Op("Concat", {x, y}, {{"axis", int64_t{1}}}));
  make.Output(make.Op("Concat", {x, y, y}, {{"axis", int64_t{1}}}));
  const Graph after = Optimized(make.graph());
  EXPECT_EQ(after.nodes.back().inputs.size(), 3u) << after.ToText();
}

TEST(SeparateOutputs, InputConstantAndTwiceListedOutputsAreCopied) {
  GraphMaker make;
  const ValueId x = make.Input({2, 3});
  const ValueId y = make.Op("Relu", {x});
  Graph graph = make.graph();
  graph.outputs = {y, x, y};
  graph.outputs.push_back(graph.AddConstant("known", Tensor::ScalarInt64(4)));
  ASSERT_TRUE(OptimizeGraph({}, graph).ok());
  ASSERT_TRUE(graph.Verify(true).ok());
  std::vector<std::string> names;
  for (ValueId v : graph.outputs) names.push_back(graph.values[static_cast<size_t>(v)].name);
  EXPECT_EQ(names, (std::vector<std::string>{"Relu", "input_output", "Relu_output", "known"}));
  EXPECT_EQ(Count(graph, "Identity"), 3);
  const std::vector<Tensor> inputs = RandomInputs(graph, 1);
  const std::vector<Tensor> outputs = RunGraph(graph, inputs);
  EXPECT_TRUE(outputs[1] == inputs[0]);
  EXPECT_TRUE(outputs[2] == outputs[0]);
  // A second run comes to the same.
  const std::string text = graph.ToText();
  const auto runs = OptimizeGraph({}, graph);
  ASSERT_TRUE(runs.ok());
  EXPECT_EQ(graph.ToText(), text);
}

}  // namespace
}  // namespace onnx_memplan::testing
