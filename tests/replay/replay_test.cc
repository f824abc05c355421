#include "replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "testing/training_graph.h"

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

std::vector<Tensor> TrainingInputs(float learning_rate) {
  return {Tensor::FromVector<float>(
              {4, 3}, {testing::kTrainingInput.begin(), testing::kTrainingInput.end()}),
          Tensor::FromVector<float>(
              {4, 1}, {testing::kTrainingTarget.begin(), testing::kTrainingTarget.end()}),
          Tensor::FromVector<float>({}, {learning_rate})};
}

// Three steps of TrainStepGraph() as planned, against the closed form.
void ExpectTrains(const Program& program, const Plan& plan, const std::string& planner) {
  testing::TrainingReference reference;
  std::vector<Tensor> states;
  for (int step = 0; step < 3; ++step) {
    const auto outputs = Replay(program, plan, TrainingInputs(0.1F), {.states = &states});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_NEAR((*outputs)[0].As<float>()[0], reference.Loss(), 1e-5) << planner << step;
    EXPECT_NEAR((*outputs)[1].As<float>()[0], reference.WeightNorm(), 1e-5) << planner << step;
    reference.Step(0.1F);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(states[0].As<float>()[i], reference.momentum[i], 1e-5) << planner << step;
      EXPECT_NEAR(states[1].As<float>()[i], reference.weight[i], 1e-5) << planner << step;
    }
    EXPECT_EQ(states[2].As<float>()[0], reference.steps) << planner << step;
  }
}

TEST(Replay, StatesAreUpdatedInPlaceUnderEveryPlanner) {
  const auto program = BuildProgram(testing::TrainStepGraph(), BuiltinTargets().front(), {});
  ASSERT_TRUE(program.ok()) << program.status();
  for (const PlannerInfo& info : AvailablePlanners()) {
    const auto planner = MakePlanner(info.name);
    ASSERT_TRUE(planner.ok()) << planner.status();
    const auto plan = (*planner)->Run(program->problem, {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    ExpectTrains(*program, *plan, std::string(info.name));
  }
}

// Offsets that suit every order: each storage and scratch has a place of its own.
Plan PlanWithoutSharing(const PlanProblem& problem) {
  Plan plan;
  int64_t end = 0;
  const auto place = [&](int64_t bytes, int64_t alignment) {
    const int64_t offset = (end + alignment - 1) / alignment * alignment;
    end = offset + bytes;
    if (bytes > 0) plan.arena_bytes = end;
    return offset;
  };
  for (const Storage& storage : problem.storages) {
    plan.offsets.push_back(place(storage.bytes, storage.alignment));
  }
  for (const Task& task : problem.tasks) {
    plan.scratch_offsets.push_back(
        task.scratch_bytes > 0 ? place(task.scratch_bytes, task.scratch_alignment) : 0);
  }
  return plan;
}

// Tasks drawn one after another from those whose `after` has run; data between tasks is in `after`
// too (ProblemBuilder).
std::vector<int32_t> RandomOrder(const PlanProblem& problem, std::mt19937& random) {
  std::vector<int32_t> order;
  std::vector<bool> done(problem.tasks.size(), false);
  while (order.size() < problem.tasks.size()) {
    std::vector<int32_t> ready;
    for (size_t t = 0; t < problem.tasks.size(); ++t) {
      const std::vector<int32_t>& after = problem.tasks[t].after;
      const bool waits = std::any_of(after.begin(), after.end(),
                                     [&](int32_t a) { return !done[static_cast<size_t>(a)]; });
      if (!done[t] && !waits) ready.push_back(static_cast<int32_t>(t));
    }
    order.push_back(ready[random() % ready.size()]);
    done[static_cast<size_t>(order.back())] = true;
  }
  return order;
}

TEST(Replay, StatesAreUpdatedInPlaceInEveryLegalOrder) {
  const auto program = BuildProgram(testing::TrainStepGraph(), BuiltinTargets().front(), {});
  ASSERT_TRUE(program.ok()) << program.status();
  Plan plan = PlanWithoutSharing(program->problem);
  std::mt19937 random(1);
  std::set<std::vector<int32_t>> orders;
  for (int i = 0; i < 200; ++i) orders.insert(RandomOrder(program->problem, random));
  EXPECT_GT(orders.size(), 50);
  for (const std::vector<int32_t>& order : orders) {
    plan.order = order;
    const absl::Status status = VerifyPlan(program->problem, plan);
    ASSERT_TRUE(status.ok()) << status;
    ExpectTrains(*program, plan, "random order ");
  }
}

TEST(Replay, StartsFromTheInitialStatesAndRefusesOthers) {
  const auto program = BuildProgram(testing::TrainStepGraph(), BuiltinTargets().front(), {});
  ASSERT_TRUE(program.ok()) << program.status();
  const Plan plan = PlanFor(*program);
  const auto first = Replay(*program, plan, TrainingInputs(0.1F), {});
  const auto second = Replay(*program, plan, TrainingInputs(0.1F), {});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)[0], (*second)[0]);
  std::vector<Tensor> states = {Tensor::ScalarInt64(1)};
  EXPECT_EQ(Replay(*program, plan, TrainingInputs(0.1F), {.states = &states}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace onnx_memplan
