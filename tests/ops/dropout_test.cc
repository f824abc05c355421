// DropoutTraining: how much it drops, and that nothing but seed, step and index decides.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/gradient_test_util.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

std::vector<float> Drop(int64_t count, float ratio, int64_t step, int64_t seed) {
  NodeUnderTest node("DropoutTraining", kMemplan);
  node.Input(Tensor::FromVector<float>({count}, std::vector<float>(static_cast<size_t>(count), 1)),
             false);
  node.Input(Tensor::FromVector<float>({}, {ratio}), true);
  node.Input(Tensor::ScalarInt64(step), false).Set("seed", seed);
  const Tensor y = node.Run(BuiltinTargets().front()).value()[0];
  return {y.As<float>().begin(), y.As<float>().end()};
}

TEST(DropoutTraining, DropsAsManyAsItsRatioSays) {
  constexpr int64_t kCount = 100000;
  for (const float ratio : {0.1F, 0.5F, 0.8F}) {
    for (const int64_t step : {0, 1, 1000}) {
      int64_t dropped = 0;
      for (const float y : Drop(kCount, ratio, step, 1)) {
        if (y == 0) ++dropped;
        ASSERT_TRUE(y == 0 || std::abs(y - 1 / (1 - ratio)) < 1e-5F) << y;
      }
      // Four standard deviations.
      const double expected = kCount * static_cast<double>(ratio);
      EXPECT_NEAR(static_cast<double>(dropped), expected,
                  4 * std::sqrt(expected * (1 - static_cast<double>(ratio))));
    }
  }
}

TEST(DropoutTraining, KeepsOrDropsAllAtTheEndsOfTheRange) {
  EXPECT_EQ(Drop(1000, 0, 3, 4), std::vector<float>(1000, 1));
  EXPECT_EQ(Drop(1000, 1, 3, 4), std::vector<float>(1000, 0));
}

TEST(DropoutTraining, DrawsAnewForEachStepAndSeedAndTheSameForTheSame) {
  const std::vector<float> first = Drop(10000, 0.5F, 1, 1);
  EXPECT_EQ(first, Drop(10000, 0.5F, 1, 1));
  for (const auto& [step, seed] :
       {std::pair<int64_t, int64_t>{2, 1}, {1, 2}, {1 + (1LL << 32), 1}}) {
    const std::vector<float> other = Drop(10000, 0.5F, step, seed);
    int same = 0;
    for (size_t i = 0; i < first.size(); ++i) same += first[i] == other[i] ? 1 : 0;
    EXPECT_NEAR(same, 5000, 200);
  }
}

TEST(DropoutGradient, DropsWhatTheForwardPassDropped) {
  ExpectGradientsAgree({.op = "DropoutTraining",
                        .inputs = {gradient_test::DistinctDoubles({5, 7}, 1),
                                   Tensor::FromVector<double>({}, {0.3}), Tensor::ScalarInt64(5)},
                        .attributes = {{"seed", int64_t{11}}},
                        .domain = kMemplan,
                        .fixed = {1},
                        .runtime = {2}});
}

TEST(DropoutGradient, OfInferenceIsThatOfTheIdentity) {
  ExpectGradientsAgree({.op = "Dropout", .inputs = {gradient_test::DistinctDoubles({5}, 1)}});
}

TEST(DropoutGradient, OfOnnxInTrainingModeIsRefused) {
  Graph graph;
  const TensorType type = {DType::kFloat, {3}};
  const ValueId x = graph.AddValue("x", type);
  const ValueId y = graph.AddValue("y", type);
  const ValueId dy = graph.AddValue("dy", type);
  std::byte* yes = nullptr;
  const Tensor training = Tensor::Zeros({DType::kBool, {}}, &yes);
  *yes = std::byte{1};
  const ValueId ratio = graph.AddConstant("ratio", Tensor::FromVector<float>({}, {0.5F}));
  const ValueId mode = graph.AddConstant("mode", training);
  Node node;
  node.op_type = "Dropout";
  node.inputs = {x, ratio, mode};
  node.outputs = {y};
  graph.nodes.push_back(node);
  GradientContext context(graph, 0, {dy}, {true, false, false});
  EXPECT_EQ(FindOp("Dropout", "")->gradient(context).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace onnx_memplan
