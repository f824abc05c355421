#include "plan/ilp_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generated_networks.h"
#include "plan/exact_order.h"
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

}  // namespace
}  // namespace onnx_memplan
