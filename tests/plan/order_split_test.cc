#include "plan/order_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "plan/order_heuristics.h"
#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::ForEachOrder;
using testing::RandomProblem;

TEST(OrderSplitTest, EveryOrderRunsTheGroupsOneAfterTheOther) {
  int cuts = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    const PlanProblem problem = RandomProblem(seed, {.max_tasks = 6});
    const OrderModel model = MakeOrderModel(problem);
    const std::vector<std::vector<int32_t>> groups = SplitAtSingleTasks(model);
    std::vector<int32_t> group_of(model.task_count, -1);
    for (size_t g = 0; g < groups.size(); ++g) {
      for (int32_t task : groups[g]) group_of[task] = static_cast<int32_t>(g);
    }
    // A task whose step is the same in every order is a group of its own.
    std::vector<std::set<size_t>> steps(model.task_count);
    ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
      for (size_t i = 0; i < order.size(); ++i) {
        steps[order[i]].insert(i);
        if (i > 0) {
          ASSERT_LE(group_of[order[i - 1]], group_of[order[i]]) << "seed " << seed;
        }
      }
    });
    for (int32_t t = 0; t < model.task_count; ++t) {
      ASSERT_EQ(steps[t].size() == 1, groups[group_of[t]].size() == 1) << "seed " << seed;
    }
    cuts += static_cast<int>(groups.size());
  }
  EXPECT_GT(cuts, 600);
}

}  // namespace
}  // namespace onnx_memplan
