#include <gtest/gtest.h>

#include "passes/graph_maker.h"

namespace onnx_memplan::testing {
namespace {

const char kPass[] = "remove-constant-channels";

Graph Removed(const GraphMaker& make) { return Optimized(make.graph(), {kPass}); }

// Random weights whose rows (of dimension `axis`) from `live` on are zero.
ValueId Weights(GraphMaker& make, Shape shape, int64_t live, size_t axis = 0) {
  Shape zeros = shape;
  zeros[axis] -= live;
  shape[axis] = live;
  return make.Op("Concat", {make.Constant(shape), make.Constant(zeros, 0, 0)},
                 {{"axis", static_cast<int64_t>(axis)}});
}

// `dead` channels of value `bias`, the last ones, behind random ones.
ValueId Bias(GraphMaker& make, int64_t channels, int64_t dead, double bias) {
  return make.Op("Concat", {make.Constant({channels - dead}), make.Constant({dead}, bias, bias)},
                 {{"axis", int64_t{0}}});
}

Attributes Padded(int64_t pad) { return {{"pads", std::vector<int64_t>{pad, pad, pad, pad}}}; }

// 1 x 3 x 8 x 8 to `channels`, `dead` of which are `bias`.
ValueId DeadConv(GraphMaker& make, int64_t channels, int64_t dead, double bias) {
  return make.Op("Conv",
                 {make.Input({1, 3, 8, 8}), Weights(make, {channels, 3, 3, 3}, channels - dead),
                  Bias(make, channels, dead, bias)},
                 Padded(1));
}

std::vector<Shape> ConvShapes(const Graph& graph) {
  std::vector<Shape> shapes;
  for (const Node& node : graph.nodes) {
    if (node.Is("Conv") || node.Is("Gemm")) {
      shapes.push_back(graph.values[static_cast<size_t>(node.inputs[1])].type->shape);
    }
  }
  return shapes;
}

TEST(RemoveChannels, ZeroAfterReluGoesThroughPaddedDepthwiseConv) {
  GraphMaker make;
  ValueId v = make.Op("Relu", {DeadConv(make, 10, 3, -0.5)});
  Attributes attributes = Padded(1);
  attributes["group"] = int64_t{10};
  v = make.Op("Conv", {v, make.Constant({10, 1, 3, 3}), Bias(make, 10, 3, 0.25)}, attributes);
  v = make.Op("Clip", {v, make.Scalar(0), make.Scalar(6)});
  make.Output(make.Op("Conv", {v, make.Constant({4, 10, 1, 1})}));
  const Graph after = Removed(make);
  EXPECT_EQ(ConvShapes(after), (std::vector<Shape>{{7, 3, 3, 3}, {7, 1, 3, 3}, {4, 7, 1, 1}}))
      << after.ToText();
}

TEST(RemoveChannels, WeightsThatCannotChangeTheBiasCountAsZero) {
  for (const double scale : {1e-30, 1e-12}) {
    GraphMaker make;
    const ValueId tiny = make.Op("Mul", {make.Constant({3, 3, 3, 3}), make.Scalar(scale)});
    const ValueId weights =
        make.Op("Concat", {make.Constant({7, 3, 3, 3}), tiny}, {{"axis", int64_t{0}}});
    ValueId v = make.Op("Conv", {make.Input({1, 3, 8, 8}), weights, Bias(make, 10, 3, 0.5)});
    v = make.Op("Relu", {v});
    make.Output(make.Op("Conv", {v, make.Constant({4, 10, 1, 1}), make.Constant({4})}));
    EXPECT_EQ(ConvShapes(Removed(make))[0][0], scale < 1e-20 ? 7 : 10);
  }
}

TEST(RemoveChannels, ValueOtherThanZeroGoesOnlyWhereNothingIsPadded) {
  for (const int64_t pad : {0, 1}) {
    GraphMaker make;
    const ValueId v = make.Op("Sigmoid", {DeadConv(make, 10, 3, 0.5)});
    make.Output(
        make.Op("Conv", {v, make.Constant({4, 10, 3, 3}), make.Constant({4})}, Padded(pad)));
    EXPECT_EQ(ConvShapes(Removed(make))[0], (Shape{pad == 0 ? 7 : 10, 3, 3, 3}));
  }
}

TEST(RemoveChannels, ChannelThatNoWeightReadsGoesThoughItIsNotKnown) {
  GraphMaker make;
  ValueId v = make.Op("Conv", {make.Input({2, 3, 8, 8}), make.Constant({6, 3, 3, 3})});
  v = make.Op("Relu", {v});
  make.Output(make.Op("Conv", {v, Weights(make, {4, 6, 3, 3}, 5, 1)}, Padded(1)));
  EXPECT_EQ(ConvShapes(Removed(make)), (std::vector<Shape>{{5, 3, 3, 3}, {4, 5, 3, 3}}));
}

TEST(RemoveChannels, ReaderThatGoesTakesWhatItAloneReads) {
  GraphMaker make;
  ValueId v = make.Op("Conv", {make.Input({1, 3, 4, 4}), make.Constant({4, 3, 1, 1})});
  // Channel 3 is read by channel 5 alone, which is read by nothing.
  const ValueId both =
      make.Op("Concat", {Weights(make, {5, 4, 1, 1}, 3, 1), make.Constant({1, 4, 1, 1})},
              {{"axis", int64_t{0}}});
  v = make.Op("Relu", {make.Op("Conv", {v, both})});
  make.Output(make.Op("Conv", {v, Weights(make, {2, 6, 1, 1}, 5, 1)}));
  EXPECT_EQ(ConvShapes(Removed(make)),
            (std::vector<Shape>{{3, 3, 1, 1}, {5, 3, 1, 1}, {2, 5, 1, 1}}));
}

TEST(RemoveChannels, PoolsFlatteningAndGemm) {
  for (const char* pool : {"MaxPool", "AveragePool", "GlobalAveragePool"}) {
    GraphMaker make;
    ValueId v = make.Op("Relu", {DeadConv(make, 10, 3, 0.5)});
    Attributes attributes;
    if (pool[0] != 'G') {
      attributes = Padded(1);
      attributes["kernel_shape"] = std::vector<int64_t>{3, 3};
      attributes["strides"] = std::vector<int64_t>{2, 2};
    }
    v = make.Op(pool, {v}, attributes);
    const int64_t columns = make.ShapeOf(v)[1] * make.ShapeOf(v)[2] * make.ShapeOf(v)[3];
    v = make.Op("Reshape", {v, make.Ints({1, -1})});
    v = make.Op("Gemm", {v, make.Constant({5, columns}), make.Constant({5})},
                {{"transB", int64_t{1}}, {"alpha", 0.5F}, {"beta", 2.0F}});
    make.Output(v);
    const Graph after = Removed(make);
    EXPECT_EQ(ConvShapes(after), (std::vector<Shape>{{7, 3, 3, 3}, {5, columns / 10 * 7}}))
        << after.ToText();
  }
}

TEST(RemoveChannels, AverageThatCountsPaddingStopsValuesOtherThanZero) {
  for (const double bias : {0.5, -0.5}) {
    GraphMaker make;
    ValueId v = make.Op("Relu", {DeadConv(make, 10, 3, bias)});
    Attributes attributes = Padded(1);
    attributes["kernel_shape"] = std::vector<int64_t>{3, 3};
    attributes["count_include_pad"] = int64_t{1};
    v = make.Op("AveragePool", {v}, attributes);
    make.Output(make.Op("Conv", {v, make.Constant({4, 10, 1, 1})}));
    EXPECT_EQ(ConvShapes(Removed(make))[0], (Shape{bias > 0 ? 10 : 7, 3, 3, 3}));
  }
}

TEST(RemoveChannels, ConcatMovesChannels) {
  GraphMaker make;
  const ValueId a = make.Op("Relu", {DeadConv(make, 6, 2, 0.5)});
  const ValueId b = make.Op("Relu", {DeadConv(make, 5, 1, 0.25)});
  const ValueId v = make.Op("Concat", {a, b}, {{"axis", int64_t{1}}});
  make.Output(make.Op("Conv", {v, make.Constant({3, 11, 1, 1})}));
  const Graph after = Removed(make);
  EXPECT_EQ(ConvShapes(after), (std::vector<Shape>{{4, 3, 3, 3}, {4, 3, 3, 3}, {3, 8, 1, 1}}));
}

TEST(RemoveChannels, SumKeepsAChannelThatOneOperandNeeds) {
  GraphMaker make;
  const ValueId a = make.Op("Relu", {DeadConv(make, 8, 4, 0.5)});
  const ValueId b = make.Op("Relu", {DeadConv(make, 8, 2, 0.25)});
  const ValueId v = make.Op("Relu", {make.Op("Add", {a, b})});
  make.Output(make.Op("Conv", {v, make.Constant({3, 8, 1, 1})}));
  EXPECT_EQ(ConvShapes(Removed(make)),
            (std::vector<Shape>{{6, 3, 3, 3}, {6, 3, 3, 3}, {3, 6, 1, 1}}));
}

TEST(RemoveChannels, GateOfAZeroIsNotComputed) {
  GraphMaker make;
  const ValueId a = make.Op("Relu", {DeadConv(make, 8, 3, -1)});
  ValueId gate = make.Op("GlobalAveragePool", {a});
  gate = make.Op("Conv", {gate, make.Constant({8, 8, 1, 1}), make.Constant({8})});
  gate = make.Op("Sigmoid", {gate});
  const ValueId v = make.Op("Mul", {a, gate});
  make.Output(make.Op("Conv", {v, make.Constant({3, 8, 3, 3})}, Padded(1)));
  EXPECT_EQ(ConvShapes(Removed(make)),
            (std::vector<Shape>{{5, 3, 3, 3}, {5, 5, 1, 1}, {3, 5, 3, 3}}));
}

TEST(RemoveChannels, BatchNormalizationThatStays) {
  GraphMaker make;
  ValueId v = make.Op("Relu", {DeadConv(make, 6, 2, -1)});
  v = make.Op("BatchNormalization", {v, make.Constant({6}), make.Constant({6}), make.Constant({6}),
                                     make.Constant({6}, 0.5, 1)});
  v = make.Op("Relu", {v});
  make.Output(make.Op("Conv", {v, make.Constant({3, 6, 1, 1})}));
  EXPECT_EQ(ConvShapes(Removed(make)), (std::vector<Shape>{{4, 3, 3, 3}, {3, 4, 1, 1}}));
}

TEST(RemoveChannels, GraphOutputsAndUnknownReadersKeepTheirs) {
  {
    GraphMaker make;
    const ValueId v = make.Op("Relu", {DeadConv(make, 6, 2, -1)});
    make.Output(v);
    make.Output(make.Op("Conv", {v, make.Constant({3, 6, 1, 1})}));
    EXPECT_EQ(ConvShapes(Removed(make))[0][0], 6);
  }
  {
    GraphMaker make;
    const ValueId v = make.Op("Softmax", {DeadConv(make, 6, 2, -1)}, {{"axis", int64_t{1}}});
    make.Output(make.Op("Conv", {v, make.Constant({3, 6, 1, 1})}));
    EXPECT_EQ(ConvShapes(Removed(make))[0][0], 6);
  }
  {
    GraphMaker make;
    const ValueId v = make.Op("Conv", {make.Input({1, 8, 4, 4}), Weights(make, {8, 4, 1, 1}, 6)},
                              {{"group", int64_t{2}}});
    make.Output(make.Op("Conv", {v, make.Constant({3, 8, 1, 1})}));
    EXPECT_EQ(ConvShapes(Removed(make))[0][0], 8);
  }
}

TEST(RemoveChannels, OneChannelStaysWhereAllAreKnown) {
  GraphMaker make;
  const ValueId v = make.Op("Relu", {DeadConv(make, 4, 4, 0.5)});
  make.Output(make.Op("Conv", {v, make.Constant({3, 4, 1, 1})}));
  EXPECT_EQ(ConvShapes(Removed(make)), (std::vector<Shape>{{1, 3, 3, 3}, {3, 1, 1, 1}}));
}

TEST(RemoveChannels, BlocksOfChannelsStayWhole) {
  GraphMaker make;
  ValueId v = make.Op("Relu", {DeadConv(make, 24, 11, 0.5)});
  v = make.Op("Relu",
              {make.Op("Conv", {v, Weights(make, {10, 24, 1, 1}, 9), make.Constant({10})})});
  make.Output(make.Op("Conv", {v, make.Constant({3, 10, 1, 1})}));
  const Graph after =
      OptimizedWith({.on = {kPass}, .only_named = true, .channel_block = 8}, make.graph());
  EXPECT_EQ(ConvShapes(after), (std::vector<Shape>{{16, 3, 3, 3}, {9, 16, 1, 1}, {3, 9, 1, 1}}));
}

// Chains with weights that are zero wherever chance puts them: Optimized compares the outputs.
TEST(RemoveChannels, RandomNetworksComputeTheSame) {
  int64_t removed = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    GraphMaker make(seed);
    ValueId v = make.Input({1, 4, 6, 6});
    std::vector<ValueId> same;
    for (int i = 0; i < 8; ++i) {
      const int64_t channels = make.ShapeOf(v)[1];
      const int64_t next = make.Below(6) + 4;
      const int64_t pad = make.Below(2);
      switch (make.Below(6)) {
        case 0:
          v = make.Op("Relu", {v});
          break;
        case 1: {
          Attributes attributes = Padded(1);
          attributes["group"] = channels;
          v = make.Op("Conv",
                      {v, Weights(make, {channels, 1, 3, 3}, make.Below(channels - 1) + 1),
                       make.Constant({channels}, -1, 1)},
                      attributes);
          break;
        }
        case 2:
          v = make.Op("Concat", {v, v}, {{"axis", int64_t{1}}});
          break;
        case 3:
          v = make.Op("Add", {v, make.Op("Sigmoid", {v})});
          break;
        default:
          v = make.Op(
              "Conv",
              {v,
               Weights(make, {next, channels, 3 - 2 * pad, 3 - 2 * pad}, make.Below(next - 1) + 1),
               make.Constant({next}, -1, 1)},
              Padded(make.Below(2)));
      }
      if (make.Below(8) == 0) make.Output(v);
    }
    make.Output(make.Op("GlobalMaxPool",
                        {make.Op("Conv", {v, make.Constant({3, make.ShapeOf(v)[1], 1, 1})})}));
    const Graph before = Optimized(make.graph(), {"infer-and-fold"});
    const Graph after = Removed(make);
    for (size_t i = 0; i < before.values.size(); ++i)
      removed += before.values[i].constant ? before.values[i].type->Bytes() : 0;
    for (size_t i = 0; i < after.values.size(); ++i)
      removed -= after.values[i].constant ? after.values[i].type->Bytes() : 0;
  }
  EXPECT_GT(removed, 0);
}

}  // namespace
}  // namespace onnx_memplan::testing
