#include "passes/block_channels.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "onnx_memplan/compare.h"
#include "ops/op_def.h"
#include "passes/fuse.h"
#include "passes/graph_maker.h"

namespace onnx_memplan::testing {
namespace {

Node Blocked(const Graph& graph, std::string_view type) {
  Node found;
  int count = 0;
  for (const Node& node : graph.nodes) {
    if (node.domain != kMemplan || node.op_type != type) continue;
    found = node;
    ++count;
  }
  EXPECT_EQ(count, 1) << type << " in\n" << graph.ToText();
  return found;
}

int64_t CountBlocked(const Graph& graph, std::string_view type) {
  int64_t count = 0;
  for (const Node& node : graph.nodes) count += node.domain == kMemplan && node.op_type == type;
  return count;
}

// The graph in blocks of channels, whatever that costs; with the outputs that it had.
Graph InBlocks(const Graph& graph, int64_t macs_per_converted_element = 0) {
  Graph after = graph;
  GraphEditor editor(after);
  const absl::StatusOr<int64_t> members = BlockChannels(editor, macs_per_converted_element);
  EXPECT_TRUE(members.ok()) << members.status();
  EXPECT_TRUE(editor.Finish().ok());
  const absl::Status valid = after.Verify(/*typed=*/true);
  EXPECT_TRUE(valid.ok()) << valid;
  const std::vector<Tensor> inputs = RandomInputs(graph, 7);
  const std::vector<Tensor> expected = RunGraph(graph, inputs);
  const std::vector<Tensor> actual = RunGraph(after, inputs);
  EXPECT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const auto difference = CompareTensors(actual[i], expected[i]);
    EXPECT_TRUE(difference.ok());
    // Convolutions by Winograd's method round differently, and Tanh is given sums of hundreds of
    // terms here, whose rounding it compares with 1.
    EXPECT_LE(difference->largest, 1e-4 * difference->scale) << after.ToText();
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    EXPECT_EQ(after.values[static_cast<size_t>(after.outputs[i])].name,
              graph.values[static_cast<size_t>(graph.outputs[i])].name);
  }
  return after;
}

ValueId Conv(GraphMaker& make, ValueId x, int64_t channels, int64_t taps = 3, int64_t stride = 1,
             bool has_bias = true) {
  const int64_t pad = taps / 2;
  std::vector<ValueId> operands = {x, make.Constant({channels, make.ShapeOf(x)[1], taps, taps})};
  if (has_bias) operands.push_back(make.Constant({channels}));
  return make.Op(
      "Conv", operands,
      {{"pads", std::vector<int64_t>(4, pad)}, {"strides", std::vector<int64_t>(2, stride)}});
}

TEST(BlockChannels, ChainConvertsOnlyAtItsEnds) {
  GraphMaker make;
  ValueId v = make.Input({1, 16, 6, 5});
  for (int i = 0; i < 3; ++i) v = make.Op("Relu", {Conv(make, v, 16)});
  make.Output(v);
  const Graph after = InBlocks(make.graph());
  EXPECT_EQ(CountBlocked(after, "BlockedConv"), 3);
  EXPECT_EQ(CountBlocked(after, "BlockChannels"), 1);
  EXPECT_EQ(CountBlocked(after, "UnblockChannels"), 1);
}

TEST(BlockChannels, FirstLayerReadsThePlainImage) {
  GraphMaker make;
  make.Output(Conv(make, make.Input({1, 3, 8, 8}), 8));
  const Graph after = InBlocks(make.graph());
  EXPECT_EQ(CountBlocked(after, "BlockChannels"), 0);
  EXPECT_EQ(CountBlocked(after, "BlockedConv"), 1);
}

TEST(BlockChannels, NotWhereConversionsCostMore) {
  GraphMaker make;
  make.Output(Conv(make, make.Input({1, 8, 8, 8}), 8, /*taps=*/1));
  const Graph after = InBlocks(make.graph(), kMacsPerConvertedElement);
  EXPECT_EQ(CountBlocked(after, "BlockedConv"), 0);
}

TEST(BlockChannels, WeightsThatAreNotKnownAndGroupsStayPlain) {
  GraphMaker make;
  const ValueId x = make.Input({1, 16, 5, 5});
  const ValueId y = make.Op("Conv", {x, make.Input({8, 16, 1, 1})});
  const ValueId z = make.Op("Conv", {x, make.Constant({16, 8, 1, 1})}, {{"group", int64_t{2}}});
  make.Output(y);
  make.Output(z);
  EXPECT_EQ(CountBlocked(InBlocks(make.graph()), "BlockedConv"), 0);
}

TEST(BlockChannels, BatchNormalizationIsADepthwiseConvolution) {
  GraphMaker make;
  const ValueId x = Conv(make, make.Input({1, 16, 5, 5}), 16);
  const ValueId y = make.Op("BatchNormalization",
                            {make.Op("Tanh", {x}), make.Constant({16}, 0.5, 2), make.Constant({16}),
                             make.Constant({16}), make.Constant({16}, 0.5, 2)});
  make.Output(Conv(make, y, 8));
  EXPECT_EQ(CountBlocked(InBlocks(make.graph()), "BlockedConv"), 3);
}

TEST(BlockChannels, BatchNormalizationByTheBatchStaysPlain) {
  GraphMaker make;
  const ValueId x = Conv(make, make.Input({2, 16, 5, 5}), 16);
  const ValueId y = make.Op("BatchNormalization",
                            {x, make.Constant({16}, 0.5, 2), make.Constant({16}),
                             make.Constant({16}), make.Constant({16}, 0.5, 2)},
                            {{"training_mode", int64_t{1}}});
  make.Output(Conv(make, y, 8));
  EXPECT_EQ(CountBlocked(InBlocks(make.graph()), "BlockedConv"), 2);
}

TEST(BlockChannels, GateOfTheWholeImageIsAView) {
  GraphMaker make;
  const ValueId x = Conv(make, make.Input({2, 16, 5, 4}), 24);
  ValueId gate = make.Op("GlobalAveragePool", {x});
  gate = make.Op("Sigmoid", {Conv(make, gate, 24, 1)});
  make.Output(Conv(make, make.Op("Mul", {x, gate}), 8));
  const Graph after = InBlocks(make.graph());
  EXPECT_EQ(CountBlocked(after, "BlockedConv"), 2);
  EXPECT_EQ(Count(after, "Conv"), 1);  // of one pixel
}

TEST(BlockChannels, ConstantsOfEachBroadcastingForm) {
  for (const Shape& shape :
       std::vector<Shape>{{}, {1, 1, 1, 1}, {12, 1, 1}, {1, 12, 1, 1}, {5, 4}, {1, 1, 5, 4}, {4}}) {
    for (const std::string type : {"Add", "Mul", "Sub", "PRelu"}) {
      SCOPED_TRACE(type + " " + ShapeToString(shape));
      GraphMaker make;
      const ValueId x = Conv(make, make.Input({1, 16, 5, 4}), 12);
      make.Output(Conv(make, make.Op(type, {x, make.Constant(shape, 0.5, 2)}), 8));
      InBlocks(make.graph());
    }
  }
}

TEST(BlockChannels, LanesBehindTheLastChannelNeverBecomeNan) {
  // Log of a padding lane, which holds 0, would poison the next convolution.
  GraphMaker make;
  const ValueId x = make.Op("Sigmoid", {Conv(make, make.Input({1, 16, 5, 4}), 12)});
  make.Output(Conv(make, make.Op("Log", {x}), 8));
  InBlocks(make.graph());
}

TEST(BlockChannels, ValuesThatAreReadOutsideKeepTheirNames) {
  GraphMaker make;
  const ValueId x = Conv(make, make.Input({1, 16, 4, 4}), 16);
  make.Output(make.Op("Softmax", {x}));
  make.Output(Conv(make, x, 16));
  const Graph after = InBlocks(make.graph());
  EXPECT_EQ(CountBlocked(after, "UnblockChannels"), 2);
  EXPECT_EQ(Blocked(after, "BlockChannels").inputs[0], after.inputs[0]);
}

// The graph after `fuse`, which keeps what it computes. `tolerance` is relative to the largest
// value.
Graph Fused(Graph graph, absl::StatusOr<int64_t> (*fuse)(GraphEditor&), double tolerance,
            int64_t* rewrites) {
  const std::vector<Tensor> inputs = RandomInputs(graph, 7);
  const std::vector<Tensor> expected = RunGraph(graph, inputs);
  GraphEditor editor(graph);
  *rewrites = fuse(editor).value();
  EXPECT_TRUE(editor.Finish().ok());
  EXPECT_TRUE(graph.Verify(/*typed=*/true).ok());
  const std::vector<Tensor> actual = RunGraph(graph, inputs);
  for (size_t i = 0; i < actual.size(); ++i) {
    const auto difference = CompareTensors(actual[i], expected[i]);
    EXPECT_TRUE(difference.ok());
    EXPECT_LE(difference->largest, tolerance * difference->scale) << graph.ToText();
  }
  return graph;
}

// Whether `fuse` makes one node, of that type.
bool IsFused(const Graph& graph, std::string_view type,
             absl::StatusOr<int64_t> (*fuse)(GraphEditor&)) {
  int64_t rewrites = 0;
  const Graph fused = Fused(graph, fuse, 2e-6, &rewrites);
  EXPECT_EQ(CountBlocked(fused, type), rewrites);
  return rewrites == 1;
}

bool PoolIsFused(GraphMaker& make) {
  return IsFused(InBlocks(make.graph()), "BlockedConvPool", FusePool);
}

TEST(FusePool, OfTheFirstLayerOfAnyShape) {
  for (uint32_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    GraphMaker make(seed);
    const int64_t batch = make.Below(2) + 1;
    const ValueId x =
        make.Input({batch, make.Below(4) + 1, make.Below(16) + 8, make.Below(40) + 8});
    ValueId v = Conv(make, x, make.Below(5) == 0 ? 20 : 8 * (make.Below(5) + 1),
                     1 + 2 * make.Below(3), make.Below(3) + 1, /*has_bias=*/make.Below(2) == 0);
    const int64_t taps = make.Below(3) + 1;
    const int64_t pad = taps > 1 ? make.Below(2) : 0;
    v = make.Op("MaxPool", {v},
                {{"kernel_shape", std::vector<int64_t>{taps, 3}},
                 {"strides", std::vector<int64_t>{make.Below(3) + 1, make.Below(3) + 1}},
                 {"pads", std::vector<int64_t>{pad, 1, pad, 1}},
                 {"ceil_mode", make.Below(2)}});
    make.Output(v);
    EXPECT_TRUE(PoolIsFused(make));
  }
}

TEST(FuseDepthwise, OfAnyShape) {
  int64_t fused = 0;
  for (uint32_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    GraphMaker make(seed);
    const bool first_layer = make.Below(2) == 0;
    const ValueId x = make.Input({make.Below(2) + 1, first_layer ? make.Below(4) + 1 : 16,
                                  make.Below(16) + 8, make.Below(40) + 8});
    const int64_t channels = 8 * (make.Below(5) + 6);
    ValueId v = Conv(make, x, channels, first_layer ? 3 : 1, first_layer ? make.Below(2) + 1 : 1,
                     /*has_bias=*/make.Below(2) == 0);
    if (make.Below(2) == 0) v = make.Op(make.Below(2) == 0 ? "Relu" : "HardSwish", {v});
    const int64_t taps = 1 + 2 * make.Below(3);
    std::vector<ValueId> operands = {v, make.Constant({channels, 1, taps, 3})};
    if (make.Below(2) == 0) operands.push_back(make.Constant({channels}));
    v = make.Op("Conv", operands,
                {{"group", channels},
                 {"strides", std::vector<int64_t>{make.Below(2) + 1, make.Below(3) + 1}},
                 {"pads", std::vector<int64_t>{taps / 2, 1, make.Below(2) * (taps / 2), 1}}});
    if (make.Below(2) == 0) v = make.Op(make.Below(2) == 0 ? "Relu" : "HardSwish", {v});
    make.Output(v);
    Graph graph = make.graph();
    ASSERT_TRUE(OptimizeGraph({}, graph).ok());
    fused += IsFused(InBlocks(graph), "BlockedConvDepthwise", FuseDepthwise) ? 1 : 0;
  }
  EXPECT_GT(fused, 100);  // not where the largest step stays as it is
}

TEST(FuseDepthwise, AlsoWithTheProjectionBehindIt) {
  std::map<std::string, int> made;
  for (uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    GraphMaker make(seed);
    const auto activate = [&](ValueId v) {
      const char* const types[] = {"Relu", "HardSwish", "Sigmoid"};
      return make.Below(3) > 0 ? make.Op(types[make.Below(3)], {v}) : v;
    };
    const int64_t channels = 8 * (make.Below(3) + 1);
    ValueId v = make.Input({make.Below(2) + 1, channels, make.Below(16) + 6, make.Below(30) + 6});
    const bool has_bias = make.Below(2) == 0;
    if (make.Below(2) == 0) v = Conv(make, v, channels, 1);
    const ValueId block_input = v;
    const int64_t hidden = make.Below(4) == 0 ? channels : 8 * (make.Below(5) + 2);
    if (hidden != channels) v = activate(Conv(make, v, hidden, 1, 1, has_bias));
    const int64_t stride = make.Below(2) + 1;
    v = activate(make.Op("Conv", {v, make.Constant({hidden, 1, 3, 3}), make.Constant({hidden})},
                         {{"group", hidden},
                          {"strides", std::vector<int64_t>{stride, stride}},
                          {"pads", std::vector<int64_t>(4, 1)}}));
    v = Conv(make, v, make.Below(2) == 0 ? channels : make.Below(channels) + 1, 1, 1, has_bias);
    if (make.ShapeOf(v) == make.ShapeOf(block_input)) v = make.Op("Add", {v, block_input});
    make.Output(activate(v));
    Graph graph = make.graph();
    ASSERT_TRUE(OptimizeGraph({}, graph).ok());
    // Activations are given sums of tens of terms, each rounded in another order.
    int64_t rewrites = 0;
    for (const Node& node : Fused(InBlocks(graph), FuseDepthwise, 1e-5, &rewrites).nodes) {
      ++made[node.op_type];
    }
  }
  EXPECT_GT(made["BlockedConvDepthwiseConv"], 30);
  EXPECT_GT(made["BlockedDepthwiseConv"], 10);
}

TEST(FuseDepthwise, OnlyWhereTheLargestStepBecomesSmaller) {
  for (const bool expands : {true, false}) {
    GraphMaker make;
    const int64_t channels = expands ? 64 : 16;
    const ValueId x = Conv(make, make.Input({1, 16, 12, 12}), 16);
    const ValueId v =
        make.Op("Conv", {Conv(make, x, channels, 1), make.Constant({channels, 1, 3, 3})},
                {{"group", channels}, {"strides", std::vector<int64_t>{2, 2}}});
    make.Output(Conv(make, v, 16, 1));
    EXPECT_EQ(IsFused(InBlocks(make.graph()), "BlockedConvDepthwise", FuseDepthwise), expands);
  }
}

TEST(FusePool, NotWhereTheLayerIsReadBesides) {
  GraphMaker make;
  const ValueId v = Conv(make, make.Input({1, 3, 12, 12}), 16);
  make.Output(make.Op("MaxPool", {v}, {{"kernel_shape", std::vector<int64_t>{2, 2}}}));
  make.Output(Conv(make, v, 8));
  EXPECT_FALSE(PoolIsFused(make));
}

TEST(FusePool, NotWhereThePoolHasDilation) {
  GraphMaker make;
  const ValueId v = Conv(make, make.Input({1, 3, 12, 12}), 16);
  make.Output(make.Op(
      "MaxPool", {v},
      {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"dilations", std::vector<int64_t>{2, 1}}}));
  EXPECT_FALSE(PoolIsFused(make));
}

// Networks of images at random.
class RandomImages {
 public:
  explicit RandomImages(uint32_t seed) : make_(seed), channel_unit_(make_.Below(3) == 0 ? 3 : 8) {
    values_.push_back(make_.Input({make_.Below(2) + 1, 2 * channel_unit_, 6, 5}));
    for (int i = 0; i < 14; ++i) Step();
    make_.Output(make_.Op("Tanh", {values_.back()}));
    for (const ValueId v : values_) {
      if (v != values_[0] && make_.Below(6) == 0) make_.Output(v);
    }
  }
  const Graph& graph() const { return make_.graph(); }

 private:
  ValueId Any() {
    const auto size = static_cast<int64_t>(values_.size());
    return values_[static_cast<size_t>(size - 1 - std::min(make_.Below(size), make_.Below(size)))];
  }
  int64_t Channels() { return channel_unit_ * (make_.Below(3) + 1); }

  ValueId Same(ValueId x) {
    std::vector<ValueId> same;
    for (const ValueId v : values_) {
      if (make_.ShapeOf(v) == make_.ShapeOf(x)) same.push_back(v);
    }
    return same[static_cast<size_t>(make_.Below(static_cast<int64_t>(same.size())))];
  }

  void Step() {
    const ValueId x = Any();
    const Shape shape = make_.ShapeOf(x);
    const int64_t channels = shape[1];
    const bool large = shape[2] > 3 && shape[3] > 3;
    switch (make_.Below(12)) {
      case 0:
        values_.push_back(Conv(make_, x, Channels(), 1 + 2 * make_.Below(2)));
        break;
      case 1:
        if (large) values_.push_back(Conv(make_, x, Channels(), 3, 1 + make_.Below(2)));
        break;
      case 2:
        values_.push_back(make_.Op("Conv", {x, make_.Constant({channels, 1, 3, 3})},
                                   {{"group", channels}, {"pads", std::vector<int64_t>(4, 1)}}));
        break;
      case 3:
        values_.push_back(make_.Op("Relu", {x}));
        break;
      case 4:
        values_.push_back(make_.Op("HardSwish", {x}));
        break;
      case 5:
        values_.push_back(make_.Op("Add", {x, Same(x)}));
        break;
      case 6:
        values_.push_back(make_.Op("Mul", {x, make_.Constant({channels, 1, 1}, 0.5, 2)}));
        break;
      case 7:
        if (channels < 48) {
          values_.push_back(make_.Op("Concat", {x, Same(x)}, {{"axis", int64_t{1}}}));
        }
        break;
      case 8:
        if (large) {
          values_.push_back(make_.Op(make_.Below(2) == 0 ? "MaxPool" : "AveragePool", {x},
                                     {{"kernel_shape", std::vector<int64_t>{2, 3}},
                                      {"strides", std::vector<int64_t>{2, 1}},
                                      {"pads", std::vector<int64_t>{0, 1, 1, 1}}}));
        }
        break;
      case 9:
        values_.push_back(
            make_.Op("Mul", {x, make_.Op("Sigmoid", {make_.Op("GlobalAveragePool", {x})})}));
        break;
      case 10:
        if (channels % (2 * channel_unit_) == 0) {
          for (const ValueId half : make_.OpWithOutputs("Split", {x}, 2, {{"axis", int64_t{1}}})) {
            values_.push_back(half);
          }
        }
        break;
      default:
        values_.push_back(
            make_.Op("BatchNormalization",
                     {x, make_.Constant({channels}, 0.5, 2), make_.Constant({channels}),
                      make_.Constant({channels}), make_.Constant({channels}, 0.5, 2)}));
    }
  }

  GraphMaker make_;
  int64_t channel_unit_;
  std::vector<ValueId> values_;
};

TEST(BlockChannels, RandomImageNetworksKeepTheirOutputs) {
  int64_t blocked = 0;
  for (uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    // As the pass meets them: fused, with residuals.
    Graph graph = RandomImages(seed).graph();
    ASSERT_TRUE(OptimizeGraph({}, graph).ok());
    blocked += CountBlocked(InBlocks(graph), "BlockedConv");
  }
  EXPECT_GT(blocked, 200);
}

}  // namespace
}  // namespace onnx_memplan::testing
