#include "plan/exact_order_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::RandomProblem;
using testing::SmallestModelPeak;

constexpr uint32_t kRandomProblems = 4000;

TEST(OrderSearchTest, DecidesEveryBudgetAsBruteForceDoes) {
  for (uint32_t seed = 0; seed < kRandomProblems; ++seed) {
    const PlanProblem problem = RandomProblem(seed);
    OrderModel model = MakeOrderModel(problem);
    model.first_step_bytes = model.last_step_bytes = 0;
    const int64_t best = SmallestModelPeak(problem, model);
    std::vector<int32_t> critical(model.task_count);
    std::iota(critical.begin(), critical.end(), 0);
    for (const bool reversed : {false, true}) {
      const OrderModel direction = reversed ? ReverseOrderModel(model) : model;
      OrderSearch search(direction, 1 << 20, nullptr);
      search.SetCriticalTasks(critical);
      for (int64_t budget : {best + 3, best, best + 1, best - 1, best - 4, best - 2, best - 1}) {
        const OrderVerdict verdict = search.Decide(budget, 100000);
        if (budget >= best) {
          ASSERT_EQ(verdict, OrderVerdict::kFound) << "seed " << seed << " budget " << budget;
          ASSERT_LE(OrderPeak(direction, search.order()), budget) << "seed " << seed;
        } else {
          ASSERT_EQ(verdict, OrderVerdict::kInfeasible) << "seed " << seed;
          ASSERT_GT(search.lowest_rejected(), budget) << "seed " << seed;
          ASSERT_LE(search.lowest_rejected(), best) << "seed " << seed;
        }
      }
    }
  }
}

}  // namespace
}  // namespace onnx_memplan
