#include "plan/ilp_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generated_networks.h"
#include "onnx_memplan/plan.h"
#include "plan/exact_order.h"
#include "plan/order_bounds.h"
#include "plan/order_heuristics.h"
#include "plan/order_reduce.h"
#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::RandomProblem;

TEST(IlpOrderTest, OptimumEqualsTheExactSearch) {
  for (uint32_t seed = 0; seed < 80; ++seed) {
    const PlanProblem problem = RandomProblem(seed);
    OrderModel model = MakeOrderModel(problem);
    model.first_step_bytes = model.last_step_bytes = 0;
    const int64_t best = SearchOrder(model, {}, Deadline(60)).peak_bytes;
    const std::vector<int32_t> start = ProgramOrder(model);
    const IlpOrderResult result = SolveOrderIlp(model, start, {.ilp = {.time_limit_seconds = 60}});
    const int64_t peak = OrderPeak(model, result.order.empty() ? start : result.order);
    ASSERT_EQ(peak, best) << "seed " << seed;
    ASSERT_EQ(result.lower_bound, best) << "seed " << seed;
  }
}

TEST(IlpOrderTest, SharedStepsGiveLegalOrdersAndNoBound) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const PlanProblem problem = RandomProblem(seed);
    OrderModel model = MakeOrderModel(problem);
    model.first_step_bytes = model.last_step_bytes = 0;
    const std::vector<int32_t> start = ProgramOrder(model);
    const IlpOrderResult result = SolveOrderIlp(model, start, {.max_exact_tasks = 0});
    ASSERT_EQ(result.lower_bound, 0);
    if (result.order.empty()) continue;
    ASSERT_TRUE(IsTopologicalOrder(BuildPrecedence(problem), result.order, model.task_count));
    ASSERT_LT(OrderPeak(model, result.order), OrderPeak(model, start)) << "seed " << seed;
  }
}

TEST(IlpOrderTest, AStoppedProgramKeepsTheBoundOfItsRelaxation) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    const OrderModel model = ReduceOrder(MakeOrderModel(testing::RandomDag(16, 3, seed))).model;
    const int64_t best = SearchOrder(model, {}, Deadline(60)).peak_bytes;
    IlpOrderOptions options;
    options.ilp.node_limit = 0;
    const IlpOrderResult result = SolveOrderIlp(model, ProgramOrder(model), options);
    EXPECT_GT(result.lower_bound, best / 2) << "seed " << seed;
    EXPECT_LE(result.lower_bound, best) << "seed " << seed;
  }
}

// CBC 2.10 calls programs infeasible when its time runs out at the wrong moment.
TEST(IlpOrderTest, AProgramThatRunsOutOfTimeProvesNothingFalse) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    const OrderModel model = ReduceOrder(MakeOrderModel(testing::RandomDag(57, 7, seed))).model;
    const OrderSearchResult best = SearchOrder(model, {}, Deadline(60));
    for (const double seconds : {0.01, 0.04, 0.08, 0.12, 0.16, 0.2}) {
      IlpOrderOptions options;
      options.max_exact_tasks = 57;
      options.ilp.time_limit_seconds = seconds;
      const IlpOrderResult result = SolveOrderIlp(model, ProgramOrder(model), options);
      EXPECT_LE(result.lower_bound, best.peak_bytes) << "seed " << seed << ", " << seconds << " s";
    }
  }
}

TEST(IlpOrderTest, AKnownBoundIsKeptAndChangesNoOptimum) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    OrderModel model = MakeOrderModel(RandomProblem(seed));
    model.first_step_bytes = model.last_step_bytes = 0;
    const int64_t best = SearchOrder(model, {}, Deadline(60)).peak_bytes;
    IlpOrderOptions options;
    options.lower_bound = LargestTaskBound(model, ProgramOrder(model));
    const IlpOrderResult result = SolveOrderIlp(model, ProgramOrder(model), options);
    EXPECT_EQ(result.lower_bound, best) << "seed " << seed;
  }
}

// The programs' bounds reach the plan: on these graphs minimum cuts leave a gap.
TEST(IlpOrderTest, PlannersReportTheBoundOfTheProgramWhereItIsBetterThanCuts) {
  for (const uint32_t seed : {1U, 8U}) {
    const PlanProblem problem = testing::RandomDag(8, 3, seed);
    const OrderModel model = MakeOrderModel(problem);
    const int64_t cuts = LargestTaskBound(model, ProgramOrder(model));
    for (const char* name : {"ilp", "olla"}) {
      const absl::StatusOr<Plan> plan =
          (*MakePlanner(name))->Run(problem, {.time_limit_seconds = 60});
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_GT(plan->lower_bound, cuts) << name << ", seed " << seed << ": " << plan->method;
      EXPECT_TRUE(plan->proven_optimal) << name << ", seed " << seed << ": " << plan->method;
    }
  }
}

}  // namespace
}  // namespace onnx_memplan
