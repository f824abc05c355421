#include "plan/ilp_olla.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generated_networks.h"
#include "plan/exact_order.h"
#include "plan/liveness.h"
#include "plan/olla_planner.h"
#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::RandomProblem;

PlanProblem WithoutOffers(uint32_t seed) {
  PlanProblem problem = RandomProblem(seed, {.max_tasks = 6});
  problem.in_place.clear();
  return problem;
}

TEST(IlpOllaTest, OptimumEqualsTheExactSearchWithAStepForEachTask) {
  int compared = 0;
  for (uint32_t seed = 0; seed < 80; ++seed) {
    const PlanProblem problem = WithoutOffers(seed);
    OrderModel model = MakeOrderModel(problem);
    model.first_step_bytes = model.last_step_bytes = 0;
    const OllaResult result = SolveOlla(model, {.early_updates = false});
    ASSERT_FALSE(result.order.empty()) << "seed " << seed;
    ASSERT_TRUE(IsTopologicalOrder(BuildPrecedence(problem), result.order, model.task_count));
    if (result.lower_bound == 0) continue;  // a storage without a unique first toucher
    const int64_t best = SearchOrder(model, {}, Deadline(60)).peak_bytes;
    ASSERT_EQ(OrderPeak(model, result.order), best) << "seed " << seed;
    ASSERT_EQ(result.lower_bound, best) << "seed " << seed;
    ++compared;
  }
  EXPECT_GT(compared, 40);
}

TEST(IlpOllaTest, CompressedStepsGiveLegalOrdersAndNoBound) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const PlanProblem problem = WithoutOffers(seed);
    const OrderModel model = MakeOrderModel(problem);
    const OllaResult result = SolveOlla(model, {.max_full_steps = 0});
    ASSERT_EQ(result.lower_bound, 0);
    ASSERT_TRUE(IsTopologicalOrder(BuildPrecedence(problem), result.order, model.task_count));
  }
}

TEST(IlpOllaTest, UpdatesAreForcedBeforeTheNextGradient) {
  const PlanProblem problem = TrainingProblem(testing::Transformer(1, 4, 2));
  const OrderModel model = MakeOrderModel(problem);
  const auto edges = EarlyUpdateEdges(model);
  EXPECT_FALSE(edges.empty());
  for (const auto& [before, after] : edges) {
    EXPECT_TRUE(model.successors[before].empty());
    EXPECT_FALSE(model.successors[after].empty());
  }
}

TEST(OllaPlannerTest, JointProgramPlansTheDiamondInItsOptimum) {
  // The diamond of two unequal branches: the large intermediate of one branch must be gone before
  // the other begins. a -> (b -> d, c -> e) -> f.
  PlanProblem problem;
  const auto storage = [&](const char* name, int64_t bytes) {
    problem.storages.push_back({.name = name, .bytes = bytes});
    return static_cast<int32_t>(problem.storages.size()) - 1;
  };
  const int32_t a = storage("a", 10), b = storage("b", 50), c = storage("c", 20);
  const int32_t d = storage("d", 10), e = storage("e", 30), f = storage("f", 10);
  const auto task = [&](const char* name, std::vector<int32_t> reads, std::vector<int32_t> writes) {
    problem.tasks.push_back({.name = name, .reads = std::move(reads), .writes = std::move(writes)});
  };
  task("a", {}, {a});
  task("c", {a}, {c});
  task("b", {a}, {b});
  task("e", {c}, {e});
  task("d", {b}, {d});
  task("f", {d, e}, {f});
  problem.storages[f].live_out = true;
  // Program order: c is live while b is, 80 bytes. d first: 10 + 50 + 10 = 70.
  for (const char* name : {"olla", "ilp", "auto"}) {
    absl::StatusOr<std::unique_ptr<Planner>> planner = MakePlanner(name);
    ASSERT_TRUE(planner.ok());
    const absl::StatusOr<Plan> plan = (*planner)->Run(problem, {.time_limit_seconds = 20});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->arena_bytes, 70) << name;
    EXPECT_TRUE(plan->proven_optimal) << name << ": " << plan->method;
  }
}

TEST(OllaPlannerTest, PlansEveryRandomProblemLegally) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const PlanProblem problem = RandomProblem(seed, {.max_alignment_log2 = 2});
    const absl::StatusOr<Plan> plan = MakeOllaPlanner()->Run(problem, {.time_limit_seconds = 1});
    ASSERT_TRUE(plan.ok()) << "seed " << seed << ": " << plan.status();
    const absl::StatusOr<Plan> best =
        (*MakePlanner("auto"))->Run(problem, {.time_limit_seconds = 1});
    ASSERT_TRUE(best.ok());
    EXPECT_LE(plan->lower_bound, best->arena_bytes) << "seed " << seed;
    if (best->proven_optimal) {
      EXPECT_GE(plan->arena_bytes, best->arena_bytes) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace onnx_memplan
