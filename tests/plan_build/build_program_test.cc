#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "plan/liveness.h"
#include "plan_build/program.h"

namespace onnx_memplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

const TensorType kFloat8 = {DType::kFloat, {1, 8}};  // 32 bytes

// Builds graphs whose values have types from the start.
class GraphMaker {
 public:
  ValueId Input(const std::string& name, TensorType type = kFloat8) {
    graph_.inputs.push_back(graph_.AddValue(name, std::move(type)));
    return graph_.inputs.back();
  }
  ValueId Constant(const std::string& name, Tensor tensor) {
    return graph_.AddConstant(name, std::move(tensor));
  }
  ValueId Add(const std::string& op, std::vector<ValueId> inputs, const std::string& output,
              TensorType type = kFloat8) {
    const ValueId value = graph_.AddValue(output, std::move(type));
    graph_.nodes.push_back({.op_type = op,
                            .domain = "",
                            .name = output + "_node",
                            .inputs = std::move(inputs),
                            .outputs = {value},
                            .attributes = {},
                            .epilogue = {}});
    return value;
  }
  ValueId Concat(std::vector<ValueId> inputs, const std::string& output, TensorType type) {
    const ValueId value = Add("Concat", std::move(inputs), output, std::move(type));
    graph_.nodes.back().attributes["axis"] = int64_t{1};
    return value;
  }
  Graph Finish(std::vector<ValueId> outputs) {
    graph_.outputs = std::move(outputs);
    return graph_;
  }

 private:
  Graph graph_;
};

Program Build(const Graph& graph, BuildOptions options = {}) {
  absl::StatusOr<Program> program = BuildProgram(graph, BuiltinTargets().front(), options);
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

Location LocationOf(const Program& program, const std::string& name) {
  for (size_t v = 0; v < program.graph.values.size(); ++v) {
    if (program.graph.values[v].name == name) return program.locations[v];
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(BuildProgram, CallerHoldsInputsAndOutputs) {
  GraphMaker maker;
  const ValueId x = maker.Input("x");
  const ValueId a = maker.Add("Relu", {x}, "a");
  const ValueId y = maker.Add("Relu", {a}, "y");
  const Program program = Build(maker.Finish({y}));
  EXPECT_EQ(LocationOf(program, "x"), (Location{Location::Kind::kInput, 0, 0}));
  EXPECT_EQ(LocationOf(program, "y"), (Location{Location::Kind::kOutput, 0, 0}));
  EXPECT_EQ(LocationOf(program, "a").kind, Location::Kind::kArena);
  ASSERT_THAT(program.problem.storages, SizeIs(1));
  EXPECT_EQ(program.problem.storages[0].bytes, 32);
  EXPECT_THAT(program.problem.tasks[1].after, ElementsAre(0));
  EXPECT_THAT(program.problem.in_place, IsEmpty());
}

TEST(BuildProgram, InArenaInputsAndOutputsLiveWholeTime) {
  GraphMaker maker;
  const ValueId x = maker.Input("x");
  const ValueId y = maker.Add("Relu", {x}, "y");
  const Program program = Build(maker.Finish({y}), {.io_in_arena = true});
  ASSERT_THAT(program.problem.storages, SizeIs(2));
  EXPECT_TRUE(program.problem.storages[0].live_in);
  EXPECT_TRUE(program.problem.storages[1].live_out);
}

TEST(BuildProgram, ViewSharesStorageAndHasNoStep) {
  GraphMaker maker;
  const ValueId x = maker.Input("x");
  const ValueId a = maker.Add("Relu", {x}, "a");
  const ValueId shape = maker.Constant("shape", Tensor::VectorInt64({2, 4}));
  const ValueId b = maker.Add("Reshape", {a, shape}, "b", {DType::kFloat, {2, 4}});
  const ValueId y = maker.Add("Relu", {b}, "y", {DType::kFloat, {2, 4}});
  const Program program = Build(maker.Finish({y}));
  EXPECT_THAT(program.steps, SizeIs(2));
  EXPECT_EQ(LocationOf(program, "a"), LocationOf(program, "b"));
  EXPECT_THAT(program.problem.tasks[1].after, ElementsAre(0));
}

TEST(BuildProgram, OutputThatIsViewOfArenaTensorMovesToCallersBuffer) {
  GraphMaker maker;
  const ValueId x = maker.Input("x");
  const ValueId a = maker.Add("Relu", {x}, "a");
  const ValueId shape = maker.Constant("shape", Tensor::VectorInt64({2, 4}));
  const ValueId y = maker.Add("Reshape", {a, shape}, "y", {DType::kFloat, {2, 4}});
  const Program program = Build(maker.Finish({y}));
  EXPECT_THAT(program.steps, SizeIs(1));
  EXPECT_EQ(LocationOf(program, "a"), (Location{Location::Kind::kOutput, 0, 0}));
  EXPECT_THAT(program.problem.storages, IsEmpty());
}

TEST(BuildProgram, OutputThatIsViewOfInputIsCopied) {
  GraphMaker maker;
  const ValueId x = maker.Input("x");
  const ValueId shape = maker.Constant("shape", Tensor::VectorInt64({2, 4}));
  const ValueId y = maker.Add("Reshape", {x, shape}, "y", {DType::kFloat, {2, 4}});
  const Program program = Build(maker.Finish({y}));
  EXPECT_THAT(program.steps, SizeIs(1));
  EXPECT_EQ(LocationOf(program, "y").kind, Location::Kind::kOutput);
}

TEST(BuildProgram, TwoOutputsOfOneTensorGetTheirOwnBuffers) {
  GraphMaker maker;
  const ValueId x = maker.Input("x");
  const ValueId a = maker.Add("Relu", {x}, "a");
  const ValueId shape = maker.Constant("shape", Tensor::VectorInt64({2, 4}));
  const ValueId y = maker.Add("Reshape", {a, shape}, "y", {DType::kFloat, {2, 4}});
  const Program program = Build(maker.Finish({a, y}));
  EXPECT_EQ(LocationOf(program, "a"), (Location{Location::Kind::kOutput, 0, 0}));
  EXPECT_EQ(LocationOf(program, "y"), (Location{Location::Kind::kOutput, 1, 0}));
  EXPECT_THAT(program.steps, SizeIs(2));
}

TEST(BuildProgram, InPlaceIsOfferedBetweenArenaTensorsOnly) {
  GraphMaker maker;
  const ValueId x = maker.Input("x");
  const ValueId a = maker.Add("Relu", {x}, "a");
  const ValueId b = maker.Add("Relu", {a}, "b");
  const ValueId y = maker.Add("Relu", {b}, "y");
  const Program program = Build(maker.Finish({y}));
  EXPECT_THAT(program.problem.in_place, ElementsAre(InPlaceOption{1, 0, 1}));
}

TEST(BuildProgram, ConcatOfWholeTensorsIsMadeInPlace) {
  GraphMaker maker;
  const ValueId x = maker.Input("x");
  const ValueId a = maker.Add("Relu", {x}, "a");
  const ValueId b = maker.Add("Neg", {x}, "b");
  const ValueId c = maker.Concat({a, b}, "c", {DType::kFloat, {1, 16}});
  const ValueId y = maker.Add("Relu", {c}, "y", {DType::kFloat, {1, 16}});
  const Program program = Build(maker.Finish({y}));
  EXPECT_THAT(program.steps, SizeIs(3));
  const Location part = LocationOf(program, "b");
  EXPECT_EQ(part.index, LocationOf(program, "c").index);
  EXPECT_EQ(part.byte_offset, 32);
  // The reader of the whole waits for the writers of both parts.
  EXPECT_THAT(program.problem.tasks[2].after, UnorderedElementsAre(0, 1));
}

TEST(BuildProgram, ConcatOfOneTensorTwiceCopiesTheSecond) {
  GraphMaker maker;
  const ValueId x = maker.Input("x");
  const ValueId a = maker.Add("Relu", {x}, "a");
  const ValueId c = maker.Concat({a, a}, "c", {DType::kFloat, {1, 16}});
  const ValueId y = maker.Add("Relu", {c}, "y", {DType::kFloat, {1, 16}});
  const Program program = Build(maker.Finish({y}));
  EXPECT_THAT(program.steps, SizeIs(3));
}

TEST(BuildProgram, ConcatIsCopiedWhereReservingTheWholeWouldCostMore) {
  // a is made first and would reserve all of c while the wide tensors are alive.
  GraphMaker maker;
  const TensorType wide = {DType::kFloat, {1, 1024}};
  const ValueId x = maker.Input("x");
  const ValueId z = maker.Input("z", wide);
  const ValueId a = maker.Add("Relu", {x}, "a");
  const ValueId w1 = maker.Add("Relu", {z}, "w1", wide);
  const ValueId w2 = maker.Add("Softmax", {w1}, "w2", wide);
  const ValueId w3 = maker.Add("Softmax", {w2}, "w3", wide);
  const ValueId c = maker.Concat({a, w3}, "c", {DType::kFloat, {1, 1032}});
  const ValueId y = maker.Add("Relu", {c}, "y", {DType::kFloat, {1, 1032}});
  const Program program = Build(maker.Finish({y}));
  std::vector<int32_t> order(program.problem.tasks.size());
  std::iota(order.begin(), order.end(), 0);
  EXPECT_LE(PeakLiveBytes(program.problem, order), 2 * 4096 + 2 * 32);
}

TEST(BuildProgram, ListsEveryNodeThatCannotBeLowered) {
  GraphMaker maker;
  const TensorType half = {DType::kFloat16, {1, 8}};
  const ValueId x = maker.Input("x", half);
  const ValueId a = maker.Add("Relu", {x}, "a", half);
  const ValueId y = maker.Add("Relu", {a}, "y", half);
  const absl::StatusOr<Program> program =
      BuildProgram(maker.Finish({y}), BuiltinTargets().front(), {});
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("a_node"));
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("y_node"));
}

}  // namespace
}  // namespace onnx_memplan
