#include "plan/order_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "plan/problem.h"
#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::ForEachOrder;
using testing::RandomProblem;
using testing::SmallestModelPeak;

constexpr uint32_t kRandomProblems = 4000;

TEST(OrderReduceTest, ReducedProblemHasTheSameSmallestPeak) {
  int64_t fused = 0;
  for (uint32_t seed = 0; seed < kRandomProblems; ++seed) {
    const PlanProblem problem = RandomProblem(seed);
    OrderModel model = MakeOrderModel(problem);
    model.first_step_bytes = model.last_step_bytes = 0;
    const ReducedOrder reduced = ReduceOrder(model);
    fused += model.task_count - reduced.model.task_count;
    const Precedence precedence = BuildPrecedence(problem);
    PlanProblem order_only;  // the reduced precedence, to enumerate orders
    order_only.tasks.resize(reduced.model.task_count);
    for (int32_t t = 0; t < reduced.model.task_count; ++t) {
      const auto preds = reduced.model.predecessors[t];
      order_only.tasks[t].after.assign(preds.begin(), preds.end());
    }
    int64_t best = INT64_MAX;
    ForEachOrder(order_only, [&](const std::vector<int32_t>& order) {
      const std::vector<int32_t> expanded = reduced.Expand(order);
      ASSERT_TRUE(IsTopologicalOrder(precedence, expanded, model.task_count)) << "seed " << seed;
      const int64_t peak = OrderPeak(reduced.model, order);
      ASSERT_EQ(peak, OrderPeak(model, expanded)) << "seed " << seed;
      best = std::min(best, peak);
    });
    ASSERT_EQ(best, SmallestModelPeak(problem, model)) << "seed " << seed;
  }
  EXPECT_GT(fused, kRandomProblems);  // the rule is used
}

}  // namespace
}  // namespace onnx_memplan
