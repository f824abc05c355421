#include "plan/planners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>

#include "generated_networks.h"
#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::RandomProblem;

std::vector<std::string> PlannerNames() {
  std::vector<std::string> names;
  for (const PlannerInfo& info : AvailablePlanners()) names.emplace_back(info.name);
  return names;
}

Plan MustPlan(const std::string& name, const PlanProblem& problem, const PlanBudget& budget) {
  absl::StatusOr<std::unique_ptr<Planner>> planner = MakePlanner(name);
  EXPECT_TRUE(planner.ok()) << planner.status();
  absl::StatusOr<Plan> plan = (*planner)->Run(problem, budget);
  EXPECT_TRUE(plan.ok()) << name << ": " << plan.status();
  return plan.ok() ? *std::move(plan) : Plan{};
}

class EveryPlanner : public ::testing::TestWithParam<std::string> {};

// Run() verifies; what is left to see is that plans come, and that bounds are bounds.
TEST_P(EveryPlanner, PlansRandomProblemsAndAgreesWithTheOthersOnBounds) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const PlanProblem problem = RandomProblem(seed, {.max_alignment_log2 = 3});
    const Plan plan = MustPlan(GetParam(), problem, {.time_limit_seconds = 0.4});
    const Plan best = MustPlan("auto", problem, {.time_limit_seconds = 0.4});
    EXPECT_LE(plan.lower_bound, best.arena_bytes) << "seed " << seed;
    EXPECT_LE(best.lower_bound, plan.arena_bytes) << "seed " << seed;
    if (plan.proven_optimal && best.proven_optimal) {
      EXPECT_EQ(plan.arena_bytes, best.arena_bytes) << "seed " << seed;
    }
    EXPECT_FALSE(plan.method.empty());
  }
}

TEST_P(EveryPlanner, KeepsAFixedOrder) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    PlanProblem problem = RandomProblem(seed);
    problem.fixed_order = true;
    const Plan plan = MustPlan(GetParam(), problem, {.time_limit_seconds = 0.4});
    for (size_t i = 0; i < plan.order.size(); ++i) {
      EXPECT_EQ(plan.order[i], static_cast<int32_t>(i));
    }
  }
}

TEST_P(EveryPlanner, SaysWhenNothingFitsTheCapacity) {
  PlanProblem problem = testing::InferenceProblem(testing::WaveNet(3, 4, 4, 4));
  problem.capacity = 100;
  const absl::StatusOr<Plan> plan =
      (*MakePlanner(GetParam()))->Run(problem, {.time_limit_seconds = 0.4});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted) << plan.status();
}

TEST_P(EveryPlanner, StillPlansWhenItIsCancelledAtOnceOrHasNoTime) {
  const PlanProblem problem = testing::TrainingProblem(testing::SearchedCells(3, 8, 8, 1));
  const std::atomic<bool> cancel = true;
  MustPlan(GetParam(), problem, {.cancel = &cancel});
  MustPlan(GetParam(), problem, {.time_limit_seconds = 0});
}

TEST_P(EveryPlanner, HandlesProblemsWithoutTasksOrStorages) {
  PlanProblem problem;
  EXPECT_EQ(MustPlan(GetParam(), problem, {}).arena_bytes, 0);
  problem.storages = {{.name = "a", .bytes = 10, .live_in = true},
                      {.name = "b", .bytes = 20, .live_out = true},
                      {.name = "unused", .bytes = 30}};
  const Plan plan = MustPlan(GetParam(), problem, {});
  EXPECT_EQ(plan.arena_bytes, 30);
  problem.tasks = {{.name = "nothing"}};
  EXPECT_EQ(MustPlan(GetParam(), problem, {}).arena_bytes, 30);
}

INSTANTIATE_TEST_SUITE_P(All, EveryPlanner, ::testing::ValuesIn(PlannerNames()),
                         [](const auto& instance) { return instance.param; });

TEST(PlannersTest, AutoIsReproducible) {
  for (const PlanProblem& problem :
       {testing::TrainingProblem(testing::GoogLeNet()),
        testing::InferenceProblem(testing::SearchedCells(6, 16, 16, 3))}) {
    const Plan a = MustPlan("auto", problem, {.time_limit_seconds = 60});
    const Plan b = MustPlan("auto", problem, {.time_limit_seconds = 60});
    EXPECT_EQ(a, b);
    EXPECT_TRUE(a.proven_optimal) << a.method;
  }
}

TEST(PlannersTest, UnknownNameIsAnErrorThatListsTheKnownOnes) {
  const absl::Status status = MakePlanner("fastest").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  for (const std::string& name : PlannerNames()) {
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(name));
  }
  EXPECT_EQ(PlannerNames().front(), "auto");
}

TEST(PlannersTest, ProgressIsToldAndBoundsNeverPassTheIncumbent) {
  int calls = 0;
  PlanBudget budget{.time_limit_seconds = 5};
  budget.progress = [&](const PlanProgress& progress) {
    ++calls;
    EXPECT_LE(progress.bound_bytes, progress.incumbent_bytes);
  };
  MustPlan("auto", testing::RandomDag(100, 40, 7), budget);
  EXPECT_GT(calls, 0);
}

}  // namespace
}  // namespace onnx_memplan
