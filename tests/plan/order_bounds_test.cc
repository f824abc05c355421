#include "plan/order_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::ForEachOrder;
using testing::RandomProblem;

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

}  // namespace
}  // namespace onnx_memplan
