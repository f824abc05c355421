#include "ops/scratch_room.h"

#include <gtest/gtest.h>

#include <limits>

#include "onnx_memplan/graph.h"

namespace onnx_memplan {
namespace {

constexpr int64_t kFloat = 4;

// Three convolutions in a row, between values of 0 (the input), `first`, `second` floats and 0 (the
// output).
Graph Chain(int64_t first, int64_t second) {
  Graph graph;
  const auto value = [&](const char* name, int64_t floats) {
    return graph.AddValue(name, TensorType{DType::kFloat, {floats}});
  };
  const ValueId values[] = {value("x", 100), value("first", first), value("second", second),
                            value("y", 100)};
  graph.inputs = {values[0]};
  graph.outputs = {values[3]};
  for (int i = 0; i < 3; ++i) {
    Node node;
    node.op_type = "Conv";
    node.inputs = {values[i]};
    node.outputs = {values[i + 1]};
    graph.nodes.push_back(node);
  }
  return graph;
}

int64_t RoomAt(const Graph& graph, size_t step, OptimizeFor optimize) {
  Target target;
  target.optimize = optimize;
  return ScratchRoomBytes(NodeContext(graph, graph.nodes[step]), target);
}

TEST(ScratchRoomTest, IsWhatLargerStepsHoldMore) {
  const Graph graph = Chain(1000, 500);
  // The steps hold 1000, 1500 and 500 floats.
  EXPECT_EQ(RoomAt(graph, 0, OptimizeFor::kMemory), 500 * kFloat);
  EXPECT_EQ(RoomAt(graph, 1, OptimizeFor::kMemory), 0);
  EXPECT_EQ(RoomAt(graph, 2, OptimizeFor::kMemory), 1000 * kFloat);
}

TEST(ScratchRoomTest, GrowsByAFiftiethWhereSpeedCountsToo) {
  const Graph graph = Chain(1000, 500);
  EXPECT_EQ(RoomAt(graph, 1, OptimizeFor::kBalanced), 30 * kFloat);
  EXPECT_EQ(RoomAt(graph, 2, OptimizeFor::kBalanced), 1030 * kFloat);
}

TEST(ScratchRoomTest, HasNoLimitWhereSpeedAloneCounts) {
  EXPECT_EQ(RoomAt(Chain(1000, 500), 1, OptimizeFor::kSpeed), std::numeric_limits<int64_t>::max());
}

TEST(ScratchRoomTest, IsWhatAnEarlierPlanHadRoomFor) {
  Graph graph = Chain(1000, 500);
  graph.nodes[1].attributes[kScratchRoomAttribute] = int64_t{12345};
  EXPECT_EQ(RoomAt(graph, 1, OptimizeFor::kBalanced), 12345);
}

TEST(ScratchRoomTest, CountsWhatLaterStepsStillRead) {
  Graph graph = Chain(1000, 500);
  graph.nodes[2].inputs.push_back(graph.nodes[0].outputs[0]);
  EXPECT_EQ(RoomAt(graph, 2, OptimizeFor::kMemory), 0);
}

TEST(ScratchRoomTest, AResidualIsWrittenOver) {
  Graph graph = Chain(1000, 1000);
  const ValueId residual = graph.AddValue("residual", TensorType{DType::kFloat, {1000}});
  Node before;
  before.op_type = "Conv";
  before.inputs = {graph.inputs[0]};
  before.outputs = {residual};
  graph.nodes.insert(graph.nodes.begin(), before);
  graph.nodes[2].inputs.push_back(residual);
  graph.nodes[2].epilogue.has_residual = true;
  // Both steps hold 2000 floats: residual and first, and these two with `second` over one of them.
  EXPECT_EQ(RoomAt(graph, 2, OptimizeFor::kBalanced), RoomAt(graph, 1, OptimizeFor::kBalanced));
}

}  // namespace
}  // namespace onnx_memplan
