#include "plan/order_tighten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/budget_search.h"
#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::ForEachOrder;
using testing::RandomProblem;
using testing::SmallestModelPeak;

constexpr uint32_t kRandomProblems = 2000;

bool IsLegal(const OrderModel& model, const std::vector<int32_t>& order) {
  std::vector<bool> done(order.size(), false);
  for (int32_t task : order) {
    for (int32_t pred : model.predecessors[task]) {
      if (!done[pred]) return false;
    }
    done[task] = true;
  }
  return true;
}

TEST(OrderTightenTest, OrdersBelowTheValidPeakAreTheSameBeforeAndAfter) {
  int64_t added = 0, infeasible = 0;
  for (uint32_t seed = 0; seed < kRandomProblems; ++seed) {
    const PlanProblem problem = RandomProblem(seed, {.max_tasks = 6});
    OrderModel model = MakeOrderModel(problem);
    model.first_step_bytes = model.last_step_bytes = 0;
    const int64_t smallest = SmallestModelPeak(problem, model);
    for (const int64_t budget : {smallest - 4, smallest - 1, smallest, smallest + 3}) {
      const TightOrder tight = TightenOrder(model, budget);
      ASSERT_GT(tight.valid_below, budget) << "seed " << seed;
      if (tight.infeasible) {
        ASSERT_LE(tight.valid_below, smallest) << "seed " << seed << " budget " << budget;
        ++infeasible;
        continue;
      }
      added += tight.added_pairs;
      ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
        if (OrderPeak(model, order) >= tight.valid_below) return;
        ASSERT_TRUE(IsLegal(tight.model, order)) << "seed " << seed << " budget " << budget;
      });
    }
  }
  EXPECT_GT(added, kRandomProblems / 2);
  EXPECT_GT(infeasible, kRandomProblems);
}

TEST(BudgetSearchTest, AnswersAsBruteForceDoes) {
  for (uint32_t seed = 0; seed < kRandomProblems; ++seed) {
    const PlanProblem problem = RandomProblem(seed);
    OrderModel model = MakeOrderModel(problem);
    model.first_step_bytes = model.last_step_bytes = 0;
    const int64_t smallest = SmallestModelPeak(problem, model);
    for (const int64_t budget : {smallest - 3, smallest - 1, smallest, smallest + 2}) {
      const auto never = [] { return false; };
      BudgetSearch search(model, budget, int64_t{1} << 20, never, never);
      const OrderVerdict verdict = search.Continue(100000);
      if (budget < smallest) {
        ASSERT_EQ(verdict, OrderVerdict::kInfeasible) << "seed " << seed;
        ASSERT_GT(search.lowest_rejected(), budget) << "seed " << seed;
        ASSERT_LE(search.lowest_rejected(), smallest) << "seed " << seed;
      } else {
        ASSERT_EQ(verdict, OrderVerdict::kFound) << "seed " << seed;
        ASSERT_TRUE(IsLegal(model, search.order())) << "seed " << seed;
        ASSERT_LE(OrderPeak(model, search.order()), budget) << "seed " << seed;
      }
    }
  }
}

TEST(OrderTightenTest, StoppedTighteningHoldsToo) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const PlanProblem problem = RandomProblem(seed, {.max_tasks = 6});
    OrderModel model = MakeOrderModel(problem);
    model.first_step_bytes = model.last_step_bytes = 0;
    const int64_t smallest = SmallestModelPeak(problem, model);
    int calls = 0;
    const TightOrder tight = TightenOrder(model, smallest, [&] { return ++calls > 2; });
    ASSERT_FALSE(tight.infeasible);
    ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
      if (OrderPeak(model, order) > smallest) return;
      ASSERT_TRUE(IsLegal(tight.model, order)) << "seed " << seed;
    });
  }
}

}  // namespace
}  // namespace onnx_memplan
