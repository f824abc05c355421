#include "replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace onnx_memplan {
namespace {

using ::testing::ElementsAre;

const TensorType kFloat4 = {DType::kFloat, {1, 4}};

// x -> Relu -> a -> Neg -> b -> Relu -> y
Graph Chain() {
  Graph graph;
  const ValueId x = graph.AddValue("x", kFloat4);
  ValueId last = x;
  for (const auto& [op, name] :
       {std::pair("Relu", "a"), std::pair("Neg", "b"), std::pair("Relu", "y")}) {
    const ValueId next = graph.AddValue(name, kFloat4);
    graph.nodes.push_back({.op_type = op,
                           .domain = "",
                           .name = name,
                           .inputs = {last},
                           .outputs = {next},
                           .attributes = {},
                           .epilogue = {}});
    last = next;
  }
  graph.inputs = {x};
  graph.outputs = {last};
  return graph;
}

Plan PlanFor(const Program& program) {
  const auto planner = MakePlanner("auto");
  EXPECT_TRUE(planner.ok());
  const absl::StatusOr<Plan> plan = (*planner)->Run(program.problem, {});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(Replay, GivesTheOutputsOfTheGraph) {
  const absl::StatusOr<Program> program = BuildProgram(Chain(), BuiltinTargets().front(), {});
  ASSERT_TRUE(program.ok()) << program.status();
  const Tensor x = Tensor::FromVector<float>({1, 4}, {-1, 2, -3, 4});
  const auto outputs = Replay(*program, PlanFor(*program), {&x, 1}, {});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].As<float>(), ElementsAre(0, 0, 0, 0));
}

TEST(Replay, InArenaInputsAndOutputsAreCopiedInAndOut) {
  const absl::StatusOr<Program> program =
      BuildProgram(Chain(), BuiltinTargets().front(), {.io_in_arena = true});
  ASSERT_TRUE(program.ok()) << program.status();
  const Tensor x = Tensor::FromVector<float>({1, 4}, {-1, 2, -3, 4});
  const auto outputs = Replay(*program, PlanFor(*program), {&x, 1}, {});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].As<float>(), ElementsAre(0, 0, 0, 0));
}

// x -> Exp -> a -> Neg -> y: what Neg reads is visible in y.
TEST(Replay, PoisonExposesAnOrderThatReadsTooEarly) {
  Graph graph = Chain();
  graph.nodes[0].op_type = "Exp";
  graph.nodes.pop_back();
  graph.outputs = {graph.nodes.back().outputs[0]};
  const absl::StatusOr<Program> program = BuildProgram(graph, BuiltinTargets().front(), {});
  ASSERT_TRUE(program.ok()) << program.status();
  Plan plan = PlanFor(*program);
  const Tensor x = Tensor::FromVector<float>({1, 4}, {1, 2, 3, 4});
  const auto right = Replay(*program, plan, {&x, 1}, {});
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_FALSE(std::isnan((*right)[0].As<float>()[0]));
  std::swap(plan.order[0], plan.order[1]);
  const auto wrong = Replay(*program, plan, {&x, 1}, {});
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_TRUE(std::isnan((*wrong)[0].As<float>()[0]));
}

TEST(Replay, RefusesInputsOfAnotherType) {
  const absl::StatusOr<Program> program = BuildProgram(Chain(), BuiltinTargets().front(), {});
  ASSERT_TRUE(program.ok()) << program.status();
  const Tensor wrong = Tensor::FromVector<float>({4}, {1, 2, 3, 4});
  EXPECT_EQ(Replay(*program, PlanFor(*program), {&wrong, 1}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Replay(*program, PlanFor(*program), {}, {}).ok());
}

}  // namespace
}  // namespace onnx_memplan
