#include "plan/order_beam.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::RandomProblem;
using testing::SmallestModelPeak;

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

}  // namespace
}  // namespace onnx_memplan
