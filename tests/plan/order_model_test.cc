#include "plan/order_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "plan/liveness.h"
#include "plan/order_heuristics.h"
#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::ForEachOrder;
using testing::RandomProblem;

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

}  // namespace
}  // namespace onnx_memplan
