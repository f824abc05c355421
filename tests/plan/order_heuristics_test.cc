#include "plan/order_heuristics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "plan/problem.h"
#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::RandomProblem;

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
