#include "plan/exact_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "generated_networks.h"
#include "plan/liveness.h"
#include "plan/order_heuristics.h"
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

// The example of Liberis and Lane (arXiv 1910.05110): 5,216 bytes in the order 1 to 7, 4,960 in the
// order 1, 4, 6, 2, 3, 5, 7. The tensor sizes are rebuilt from these published numbers.
TEST(SearchOrderTest, FindsThePublishedReordering) {
  PlanProblem problem;
  for (int64_t bytes : {1568, 3136, 1568, 512, 512, 256, 256, 512}) {
    problem.storages.push_back({.name = "tensor", .bytes = bytes});
  }
  problem.storages.front().live_in = true;
  problem.storages.back().live_out = true;
  const std::vector<std::pair<std::vector<int32_t>, int32_t>> tasks = {
      {{0}, 1}, {{1}, 2}, {{2}, 3}, {{1}, 4}, {{3}, 5}, {{4}, 6}, {{5, 6}, 7}};
  for (const auto& [reads, writes] : tasks) {
    problem.tasks.push_back({.name = "operator", .reads = reads, .writes = {writes}});
  }
  const OrderModel model = MakeOrderModel(problem);
  EXPECT_EQ(OrderPeak(model, std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6}), 5216);
  EXPECT_EQ(OrderPeak(model, std::vector<int32_t>{0, 3, 5, 1, 2, 4, 6}), 4960);
  const OrderSearchResult result = SearchOrder(model, {}, Deadline(60));
  EXPECT_EQ(result.peak_bytes, 4960);
  EXPECT_EQ(result.lower_bound, 4960);
}

// The searches must close these; how fast is for the benchmark to say.
TEST(SearchOrderTest, ProvesTheSmallestPeakOfNetworksAndTheirTraining) {
  const std::pair<const char*, testing::Network> networks[] = {
      {"ResNet-18", testing::ResNet18()},
      {"GoogLeNet", testing::GoogLeNet()},
      {"MobileNetV2", testing::MobileNetV2()},
      {"DenseNet-121", testing::DenseNet121()},
      {"EfficientNet-B0", testing::EfficientNetB0()},
      {"random wiring", testing::RandWire(32, 16, 32, 3, 2)},
      {"searched cells", testing::SearchedCells(10, 16, 32, 22)},
      {"WaveNet", testing::WaveNet(40, 32, 32, 32)},
      {"Transformer", testing::Transformer(6, 64, 8)},
  };
  for (const auto& [name, network] : networks) {
    for (const PlanProblem& problem :
         {testing::InferenceProblem(network, true), testing::InferenceProblem(network, false),
          testing::TrainingProblem(network, true), testing::TrainingProblem(network, false)}) {
      const OrderModel model = MakeOrderModel(problem);
      const OrderSearchResult result = SearchOrder(model, {.node_limit = 20000}, Deadline(120));
      EXPECT_EQ(result.lower_bound, result.peak_bytes) << name;
      EXPECT_LE(result.peak_bytes, OrderPeak(model, ProgramOrder(model))) << name;
      EXPECT_EQ(result.peak_bytes, PeakLiveBytes(problem, result.order)) << name;
    }
  }
}

TEST(SearchOrderTest, ALimitIsNoProof) {
  const OrderModel model = MakeOrderModel(testing::RandomDag(120, 40, 3));
  const OrderSearchResult proven = SearchOrder(model, {}, Deadline(120));
  ASSERT_EQ(proven.lower_bound, proven.peak_bytes);
  for (int64_t nodes : {0, 1, 10, 100, 1000}) {
    const OrderSearchResult result = SearchOrder(model, {.node_limit = nodes}, Deadline(120));
    EXPECT_LE(result.lower_bound, proven.peak_bytes) << nodes;
    EXPECT_GE(result.peak_bytes, proven.peak_bytes) << nodes;
  }
  const OrderSearchResult at_once = SearchOrder(model, {}, Deadline(0));
  EXPECT_EQ(at_once.order.size(), 120u);
  EXPECT_LE(at_once.lower_bound, proven.peak_bytes);
}

TEST(SearchOrderTest, NodeLimitMakesItReproducible) {
  const OrderModel model = MakeOrderModel(testing::RandomDag(300, 40, 4));
  const OrderSearchResult a = SearchOrder(model, {.node_limit = 3000}, Deadline(120));
  const OrderSearchResult b = SearchOrder(model, {.node_limit = 3000}, Deadline(120));
  EXPECT_EQ(a.order, b.order);
  EXPECT_EQ(a.lower_bound, b.lower_bound);
}

TEST(SearchOrderTest, MethodsAgreeWhereTheyClaimAProof) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    const OrderModel model = MakeOrderModel(testing::RandomDag(16, 6, seed));
    const OrderSearchResult exact = SearchOrder(model, {}, Deadline(60));
    ASSERT_EQ(exact.lower_bound, exact.peak_bytes);
    for (const OrderMethod method : {OrderMethod::kHeuristic, OrderMethod::kIlp}) {
      const OrderSearchResult other = SearchOrder(model, {.method = method}, Deadline(60));
      EXPECT_GE(other.peak_bytes, exact.peak_bytes) << "seed " << seed;
      EXPECT_LE(other.lower_bound, exact.peak_bytes) << "seed " << seed;
      if (method == OrderMethod::kIlp) {
        EXPECT_EQ(other.lower_bound, exact.peak_bytes) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace onnx_memplan
