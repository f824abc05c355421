#include "plan/order_lns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "generated_networks.h"
#include "plan/order_heuristics.h"
#include "random_problems.h"

namespace onnx_memplan {
namespace {

TEST(OrderLnsTest, ImprovesLargeOrdersAndKeepsThemLegal) {
  std::mt19937_64 random(4);
  int improved = 0;
  for (uint32_t seed = 0; seed < 6; ++seed) {
    const PlanProblem problem = testing::RandomDag(400, 20, seed);
    const OrderModel model = MakeOrderModel(problem);
    const std::vector<int32_t> start = ProgramOrder(model);
    const std::vector<int32_t> order =
        ImproveWindows(model, start, {.node_limit = 500, .most_tasks = 160}, Deadline(20), random);
    ASSERT_TRUE(IsTopologicalOrder(BuildPrecedence(problem), order, model.task_count));
    ASSERT_LE(OrderPeak(model, order), OrderPeak(model, start)) << "seed " << seed;
    improved += OrderPeak(model, order) < OrderPeak(model, start) ? 1 : 0;
  }
  EXPECT_GE(improved, 5);
}

TEST(OrderLnsTest, LoweringKeepsOrdersLegalAndTheirPeaks) {
  int64_t lower = 0;
  for (uint32_t seed = 0; seed < 6; ++seed) {
    const PlanProblem problem = testing::RandomDag(200, 20, seed);
    const OrderModel model = MakeOrderModel(problem);
    const std::vector<int32_t> start = ProgramOrder(model);
    const std::vector<int32_t> order =
        LowerEverywhere(model, start, {.node_limit = 200, .first_tasks = 40}, Deadline(20));
    ASSERT_TRUE(IsTopologicalOrder(BuildPrecedence(problem), order, model.task_count));
    ASSERT_LE(OrderPeak(model, order), OrderPeak(model, start)) << "seed " << seed;
    const std::vector<int64_t> before = LiveBytesByStep(model, start);
    const std::vector<int64_t> after = LiveBytesByStep(model, order);
    for (size_t step = 0; step < before.size(); ++step) lower += before[step] - after[step];
  }
  EXPECT_GT(lower, 0);
}

}  // namespace
}  // namespace onnx_memplan
