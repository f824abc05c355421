#include "plan/step_windows.h"

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

TEST(StepWindowsTest, WindowsByCountHoldEveryPositionOfEveryOrder) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const PlanProblem problem = RandomProblem(seed, {.max_tasks = 5});
    const OrderModel model = MakeOrderModel(problem);
    const TaskReach reach(model.task_count, model.predecessors, model.successors);
    const StepWindows windows = WindowsByCount(model, reach);
    ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
      const std::vector<int32_t> step_of = StepsNear(model, windows, order);
      for (int32_t i = 0; i < model.task_count; ++i) {
        ASSERT_EQ(step_of[order[i]], i);
        ASSERT_LE(windows.earliest[order[i]], i);
        ASSERT_GE(windows.latest[order[i]], i);
      }
      ASSERT_EQ(SequenceSteps(model, step_of), order);
    });
  }
}

TEST(StepWindowsTest, SharedStepsKeepPrecedence) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const OrderModel model = MakeOrderModel(RandomProblem(seed));
    const StepWindows windows = WindowsByPath(model, 1.01, 0);
    const std::vector<int32_t> step_of = StepsNear(model, windows, ProgramOrder(model));
    for (int32_t v = 0; v < model.task_count; ++v) {
      ASSERT_GE(step_of[v], windows.earliest[v]);
      ASSERT_LE(step_of[v], windows.latest[v]) << "seed " << seed;
      ASSERT_LT(step_of[v], windows.step_count);
      for (int32_t pred : model.predecessors[v]) ASSERT_LT(step_of[pred], step_of[v]);
    }
  }
}

}  // namespace
}  // namespace onnx_memplan
