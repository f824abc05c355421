#include "solver/ilp_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace onnx_memplan {
namespace {

// 0-1 knapsack: the most value within a weight, as a minimisation.
IlpModel Knapsack(uint32_t seed, int32_t items) {
  std::mt19937 random(seed);
  IlpModel model;
  std::vector<std::pair<int32_t, double>> weights;
  double total = 0;
  for (int32_t i = 0; i < items; ++i) {
    const double weight = 1 + static_cast<double>(random() % 30);
    weights.emplace_back(model.AddBinary(-1.0 - static_cast<double>(random() % 40)), weight);
    total += weight;
  }
  model.AddRow(-kIlpInfinity, weights, std::floor(total / 2));
  return model;
}

double BruteForce(const IlpModel& model) {
  double best = kIlpInfinity;
  const size_t count = model.variables.size();
  for (uint32_t bits = 0; bits < (1u << count); ++bits) {
    std::vector<double> values(count);
    double objective = 0;
    for (size_t v = 0; v < count; ++v) {
      values[v] = (bits >> v & 1) != 0 ? 1 : 0;
      objective += values[v] * model.variables[v].cost;
    }
    if (IsFeasible(model, values)) best = std::min(best, objective);
  }
  return best;
}

TEST(SolveIlpTest, EqualsBruteForceOnKnapsacks) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const IlpModel model = Knapsack(seed, 10);
    const IlpResult result = SolveIlp(model, {});
    ASSERT_EQ(result.status, IlpStatus::kOptimal) << "seed " << seed;
    EXPECT_TRUE(IsFeasible(model, result.values));
    EXPECT_NEAR(result.objective, BruteForce(model), 1e-6) << "seed " << seed;
    EXPECT_NEAR(result.best_bound, result.objective, 1e-6) << "seed " << seed;
    EXPECT_LE(SolveRelaxation(model, 10), result.objective + 1e-6);
  }
}

TEST(SolveIlpTest, CutoffBelowTheOptimumIsInfeasible) {
  IlpModel model = Knapsack(3, 10);
  const double best = BruteForce(model);
  model.cutoff = best;
  EXPECT_EQ(SolveIlp(model, {}).status, IlpStatus::kInfeasible);
  model.cutoff = best + 0.5;
  const IlpResult result = SolveIlp(model, {});
  EXPECT_EQ(result.status, IlpStatus::kOptimal);
  EXPECT_NEAR(result.objective, best, 1e-6);
}

TEST(SolveIlpTest, InfeasibleRowsAreReported) {
  IlpModel model;
  const int32_t x = model.AddBinary(1), y = model.AddBinary(1);
  model.AddRow(3, {{x, 1}, {y, 1}}, kIlpInfinity);
  EXPECT_EQ(SolveIlp(model, {}).status, IlpStatus::kInfeasible);
  EXPECT_EQ(SolveRelaxation(model, 1), kIlpInfinity);
}

TEST(SolveIlpTest, IntegersAndContinuousVariablesMix) {
  // min 3 n + z, n integer: n + z >= 2.5, z <= 0.7.
  IlpModel model;
  const int32_t n = model.AddVariable({.lower = 0, .upper = 10, .cost = 3, .is_integer = true});
  const int32_t z = model.AddVariable({.lower = 0, .upper = 0.7, .cost = 1});
  model.AddRow(2.5, {{n, 1}, {z, 1}}, kIlpInfinity);
  const IlpResult result = SolveIlp(model, {});
  ASSERT_EQ(result.status, IlpStatus::kOptimal);
  EXPECT_EQ(result.values[0], 2);
  EXPECT_NEAR(result.objective, 6.5, 1e-6);
  EXPECT_NEAR(SolveRelaxation(model, 1), 3 * 1.8 + 0.7, 1e-6);
}

TEST(SolveIlpTest, WarmStartIsKeptWhenNoTimeIsLeft) {
  IlpModel model = Knapsack(5, 60);
  model.warm_start.assign(model.variables.size(), 0);
  const IlpResult result = SolveIlp(model, {.time_limit_seconds = 0.01, .node_limit = 0});
  EXPECT_NE(result.status, IlpStatus::kInfeasible);
  EXPECT_NE(result.status, IlpStatus::kLimit);
  EXPECT_LE(result.best_bound, result.objective);
}

TEST(SolveIlpTest, CancelledSearchClaimsNothing) {
  const std::atomic<bool> cancel = true;
  IlpModel model = Knapsack(7, 60);
  model.AddRow(10, {{0, 1}, {1, 1}, {2, 2}}, kIlpInfinity);  // not found at once
  const IlpResult result = SolveIlp(model, {.cancel = &cancel});
  if (!result.values.empty()) {
    EXPECT_TRUE(IsFeasible(model, result.values));
  }
  EXPECT_LE(result.best_bound, result.objective);
}

TEST(SolveIlpTest, PrintsNothing) {
  ::testing::internal::CaptureStdout();
  SolveIlp(Knapsack(1, 30), {});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST(SolveIlpTest, SameSeedAndNodesGiveTheSameResult) {
  const IlpModel model = Knapsack(9, 40);
  const IlpResult a = SolveIlp(model, {.node_limit = 50, .seed = 7});
  const IlpResult b = SolveIlp(model, {.node_limit = 50, .seed = 7});
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.best_bound, b.best_bound);
}

}  // namespace
}  // namespace onnx_memplan
