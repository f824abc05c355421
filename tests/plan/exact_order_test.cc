#include "plan/exact_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "generated_networks.h"
#include "plan/exact_order_search.h"
#include "plan/liveness.h"
#include "plan/order_beam.h"
#include "plan/order_bounds.h"
#include "plan/order_heuristics.h"
#include "plan/order_reduce.h"
#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::ForEachOrder;
using testing::RandomProblem;

constexpr uint32_t kRandomProblems = 4000;

int64_t SmallestPeak(const PlanProblem& problem) {
  int64_t best = INT64_MAX;
  ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
    best = std::min(best, PeakLiveBytes(problem, order));
  });
  return best;
}

// Of the model alone, without what takes space at the ends only.
int64_t SmallestModelPeak(const PlanProblem& problem, const OrderModel& model) {
  OrderModel inner = model;
  inner.first_step_bytes = inner.last_step_bytes = 0;
  int64_t best = INT64_MAX;
  ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
    best = std::min(best, OrderPeak(inner, order));
  });
  return best;
}

TEST(OrderModelTest, LiveBytesAgreeWithLivenessForEveryOrder) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    const PlanProblem problem = RandomProblem(seed, {.max_tasks = 5});
    const OrderModel model = MakeOrderModel(problem);
    ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
      std::vector<int64_t> expected;
      const int64_t peak = PeakLiveBytes(problem, order, &expected);
      ASSERT_EQ(LiveBytesByStep(model, order), expected) << "seed " << seed;
      ASSERT_EQ(OrderPeak(model, order), peak) << "seed " << seed;
    });
  }
}

TEST(OrderModelTest, ReversedModelHasTheSameLiveBytes) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const PlanProblem problem = RandomProblem(seed, {.max_tasks = 5});
    const OrderModel model = MakeOrderModel(problem);
    const OrderModel reversed = ReverseOrderModel(model);
    ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
      std::vector<int64_t> live =
          LiveBytesByStep(reversed, std::vector<int32_t>(order.rbegin(), order.rend()));
      std::reverse(live.begin(), live.end());
      ASSERT_EQ(live, LiveBytesByStep(model, order)) << "seed " << seed;
    });
  }
}

TEST(OrderModelTest, UndoRestoresTheState) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const OrderModel model = MakeOrderModel(RandomProblem(seed));
    const std::vector<int32_t> order = ProgramOrder(model);
    ExecutionState state(model);
    std::vector<int64_t> live;
    for (int32_t task : order) {
      live.push_back(state.live());
      state.Run(task);
    }
    for (size_t i = order.size(); i-- > 0;) {
      state.Undo(order[i]);
      ASSERT_EQ(state.live(), live[i]);
      ASSERT_FALSE(state.done(order[i]));
    }
    ASSERT_EQ(LiveBytesByStep(model, order).size(), order.size());
  }
}

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

TEST(OrderBoundsTest, TaskBoundIsTheSmallestLiveBytesOfAnyStateOrBelow) {
  int64_t tight = 0, total = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const PlanProblem problem = RandomProblem(seed, {.max_tasks = 6});
    OrderModel model = MakeOrderModel(problem);
    model.first_step_bytes = model.last_step_bytes = 0;
    std::vector<int64_t> smallest(problem.tasks.size(), INT64_MAX);
    ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
      const std::vector<int64_t> live = LiveBytesByStep(model, order);
      for (size_t step = 0; step < order.size(); ++step) {
        smallest[order[step]] = std::min(smallest[order[step]], live[step]);
      }
    });
    TaskBounds bounds(model);
    for (int32_t t = 0; t < model.task_count; ++t) {
      const int64_t bound = bounds.Bound(t);
      ASSERT_LE(bound, smallest[t]) << "seed " << seed << " task " << t;
      if (model.offers.empty()) {
        ASSERT_EQ(bound, smallest[t]) << "seed " << seed << " task " << t;
      }
      tight += bound == smallest[t] ? 1 : 0;
      ++total;
    }
  }
  EXPECT_GT(tight, total * 4 / 5);
}

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

TEST(SearchOrderTest, FindsAndProvesTheSmallestPeak) {
  for (uint32_t seed = 0; seed < kRandomProblems; ++seed) {
    const PlanProblem problem = RandomProblem(seed);
    const OrderModel model = MakeOrderModel(problem);
    const OrderSearchResult result = SearchOrder(model, {}, Deadline(60));
    ASSERT_TRUE(IsTopologicalOrder(BuildPrecedence(problem), result.order, model.task_count));
    ASSERT_EQ(result.peak_bytes, PeakLiveBytes(problem, result.order)) << "seed " << seed;
    ASSERT_LE(result.lower_bound, SmallestPeak(problem)) << "seed " << seed;
    if (model.first_step_bytes == 0 && model.last_step_bytes == 0) {
      ASSERT_EQ(result.peak_bytes, SmallestPeak(problem)) << "seed " << seed;
      ASSERT_EQ(result.lower_bound, result.peak_bytes) << "seed " << seed;
    }
  }
}

TEST(BeamOrderTest, KeepsWithinItsLimitAndIsExactWhenWide) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const PlanProblem problem = RandomProblem(seed);
    OrderModel model = MakeOrderModel(problem);
    model.first_step_bytes = model.last_step_bytes = 0;
    const int64_t best = SmallestModelPeak(problem, model);
    const std::vector<int32_t> order = BeamOrder(model, {.width = 10000, .limit_bytes = best});
    ASSERT_EQ(order.size(), problem.tasks.size()) << "seed " << seed;
    ASSERT_EQ(OrderPeak(model, order), best) << "seed " << seed;
    ASSERT_TRUE(BeamOrder(model, {.width = 10000, .limit_bytes = best - 1}).empty());
  }
}

TEST(OrderHeuristicsTest, OrdersAreLegal) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const PlanProblem problem = RandomProblem(seed);
    const OrderModel model = MakeOrderModel(problem);
    const Precedence precedence = BuildPrecedence(problem);
    for (const std::vector<int32_t>& order :
         {ProgramOrder(model), DepthFirstOrder(model), ListOrder(model, ListRule::kPeakThenLive),
          ListOrder(model, ListRule::kLive), ReversedListOrder(model, ListRule::kPeakThenLive)}) {
      ASSERT_TRUE(IsTopologicalOrder(precedence, order, model.task_count)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace onnx_memplan
