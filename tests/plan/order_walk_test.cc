#include "plan/order_walk.h"

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

TEST(OrderWalkTest, StaysLegalAndWithinTheLimit) {
  std::mt19937_64 random(3);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const PlanProblem problem = RandomProblem(seed);
    const OrderModel model = MakeOrderModel(problem);
    const std::vector<int32_t> start = ProgramOrder(model);
    const int64_t limit = OrderPeak(model, start);
    for (const WalkRule rule : {WalkRule::kAny, WalkRule::kShrinkArea}) {
      const std::vector<int32_t> order = WalkOrder(model, start, limit, 50, rule, random);
      ASSERT_TRUE(IsTopologicalOrder(BuildPrecedence(problem), order, model.task_count));
      ASSERT_LE(OrderPeak(model, order), limit) << "seed " << seed;
    }
  }
}

TEST(OrderWalkTest, EnumeratesTheOrdersWithinTheLimit) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const PlanProblem problem = RandomProblem(seed, {.max_tasks = 5});
    const OrderModel model = MakeOrderModel(problem);
    const int64_t limit = OrderPeak(model, ProgramOrder(model)) - 1;
    std::set<std::vector<int32_t>> expected, found;
    ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
      if (OrderPeak(model, order) <= limit) expected.insert(order);
    });
    ASSERT_TRUE(ForEachOrderWithin(
        model, [&] { return limit; }, 1000,
        [&](std::span<const int32_t> order) {
          found.insert(std::vector<int32_t>(order.begin(), order.end()));
          return true;
        }));
    ASSERT_EQ(found, expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace onnx_memplan
