// Operators that move pixels or channels, in regions of images in blocks of channels.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "onnx_memplan/compare.h"
#include "ops/op_def.h"
#include "passes/block_channels.h"
#include "passes/graph_maker.h"

namespace onnx_memplan::testing {
namespace {

using IntList = std::vector<int64_t>;

ValueId Conv(GraphMaker& make, ValueId x, int64_t channels) {
  return make.Op("Conv", {x, make.Constant({channels, make.ShapeOf(x)[1], 3, 3})},
                 {{"pads", IntList(4, 1)}});
}

// The graph in blocks of channels, which computes what it did.
Graph InBlocks(const Graph& graph) {
  Graph after = graph;
  GraphEditor editor(after);
  const absl::StatusOr<int64_t> members = BlockChannels(editor, 0);
  EXPECT_TRUE(members.ok()) << members.status();
  EXPECT_TRUE(editor.Finish().ok());
  const absl::Status valid = after.Verify(/*typed=*/true);
  EXPECT_TRUE(valid.ok()) << valid;
  const std::vector<Tensor> inputs = RandomInputs(graph, 7);
  const std::vector<Tensor> expected = RunGraph(graph, inputs);
  const std::vector<Tensor> actual = RunGraph(after, inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto difference = CompareTensors(actual[i], expected[i]);
    EXPECT_TRUE(difference.ok()) << difference.status();
    EXPECT_LE(difference->largest, 1e-4 * difference->scale) << after.ToText();
  }
  return after;
}

// One conversion at each end, all between in blocks.
void ExpectOneRegion(const Graph& after) {
  EXPECT_EQ(Count(after, "BlockChannels"), 1) << after.ToText();
  EXPECT_EQ(Count(after, "UnblockChannels"), 1) << after.ToText();
}

TEST(BlockedMovement, ResizeByScalesOrSizes) {
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    for (const bool sizes : {false, true}) {
      SCOPED_TRACE(mode);
      GraphMaker make;
      const ValueId x = Conv(make, make.Input({2, 16, 5, 4}), 12);
      std::vector<ValueId> inputs = {x, kNoValue};
      if (sizes) {
        inputs.insert(inputs.end(), {kNoValue, make.Ints({2, 12, 11, 9})});
      } else {
        inputs.push_back(make.Floats({1, 1, 2, 2.5F}));
      }
      make.Output(Conv(make, make.Op("Resize", inputs, {{"mode", mode}}), 8));
      ExpectOneRegion(InBlocks(make.graph()));
    }
  }
}

TEST(BlockedMovement, ShuffleOfChannelsAndTheirHalves) {
  GraphMaker make;
  const ValueId x = Conv(make, make.Input({2, 8, 5, 4}), 48);
  const ValueId parts = make.Op("Reshape", {x, make.Ints({2, 2, 24, 5, 4})});
  const ValueId turned = make.Op("Transpose", {parts}, {{"perm", IntList{0, 2, 1, 3, 4}}});
  const ValueId y = make.Op("Reshape", {turned, make.Ints({2, 48, 5, 4})});
  const ValueId low = make.Op("Slice", {y, make.Ints({0}), make.Ints({24}), make.Ints({1})});
  const ValueId high =
      make.Op("Slice", {y, make.Ints({24}), make.Ints({100}), make.Ints({1}), make.Ints({1})});
  make.Output(make.Op("Concat", {low, Conv(make, high, 24)}, {{"axis", int64_t{1}}}));
  const Graph after = InBlocks(make.graph());
  ExpectOneRegion(after);
  EXPECT_EQ(Count(after, "BlockedGatherChannels"), 1);
}

TEST(BlockedMovement, SliceBetweenBlocksStaysPlain) {
  GraphMaker make;
  const ValueId x = Conv(make, make.Input({1, 8, 5, 4}), 24);
  const ValueId y = make.Op("Slice", {x, make.Ints({4}), make.Ints({12}), make.Ints({1})});
  make.Output(Conv(make, y, 8));
  EXPECT_EQ(Count(InBlocks(make.graph()), "UnblockChannels"), 2);
}

TEST(BlockedMovement, TransposedConvolution) {
  for (const int64_t taps : {2, 3}) {
    GraphMaker make;
    const ValueId x = Conv(make, make.Input({1, 8, 5, 4}), 20);
    const ValueId y =
        make.Op("ConvTranspose", {x, make.Constant({20, 16, taps, taps}), make.Constant({16})},
                {{"strides", IntList{2, 2}},
                 {"pads", IntList(4, taps / 3)},
                 {"output_padding", IntList(2, taps / 3)}});
    make.Output(Conv(make, y, 8));
    const Graph after = InBlocks(make.graph());
    ExpectOneRegion(after);
    EXPECT_EQ(Count(after, "BlockedConvTranspose"), 1);
  }
}

TEST(BlockedMovement, TransposedConvolutionToOneChannelStaysPlain) {
  GraphMaker make;
  const ValueId x = Conv(make, make.Input({1, 8, 5, 4}), 16);
  make.Output(
      make.Op("ConvTranspose", {x, make.Constant({16, 1, 2, 2})}, {{"strides", IntList{2, 2}}}));
  EXPECT_EQ(Count(InBlocks(make.graph()), "BlockedConvTranspose"), 0);
}

}  // namespace
}  // namespace onnx_memplan::testing
