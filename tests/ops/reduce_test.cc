// Reductions, softmax, TopK and CumSum with random shapes against their definition in double.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

Shape RandomShape(int64_t largest_rank, std::mt19937& random) {
  Shape shape(static_cast<size_t>(RandomInt(1, largest_rank, random)));
  for (int64_t& dim : shape) dim = RandomInt(1, 12, random);
  return shape;
}

// The values of each result of a reduction, in the order of the results.
std::vector<std::vector<double>> Groups(const Tensor& x, const std::vector<bool>& reduced) {
  std::map<int64_t, std::vector<double>> groups;
  const Shape& shape = x.shape();
  for (int64_t i = 0; i < x.NumElements(); ++i) {
    int64_t flat = i;
    int64_t result = 0;
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      const int64_t at = flat % shape[d];
      flat /= shape[d];
      if (reduced[d]) continue;
      result += at * stride;
      stride *= shape[d];
    }
    groups[result].push_back(static_cast<double>(x.As<float>()[static_cast<size_t>(i)]));
  }
  std::vector<std::vector<double>> list;
  for (auto& [result, values] : groups) list.push_back(std::move(values));
  return list;
}

double Reference(const std::string& op, const std::vector<double>& values) {
  double sum = 0, squares = 0, exponentials = 0;
  for (double value : values) {
    sum += value;
    squares += value * value;
    exponentials += std::exp(value);
  }
  if (op == "ReduceSum") return sum;
  if (op == "ReduceMean") return sum / static_cast<double>(values.size());
  if (op == "ReduceL2") return std::sqrt(squares);
  if (op == "ReduceLogSumExp") return std::log(exponentials);
  return *std::max_element(values.begin(), values.end());
}

TEST(ReduceTest, AnyAxesOfAnyShape) {
  std::mt19937 random(1);
  for (const std::string op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp"}) {
    for (int round = 0; round < 60; ++round) {
      const Tensor x = RandomFloats(RandomShape(5, random), random);
      std::vector<bool> reduced(x.shape().size());
      std::vector<int64_t> axes;
      for (size_t d = 0; d < reduced.size(); ++d) {
        reduced[d] = RandomInt(0, 1, random) == 1;
        if (reduced[d]) axes.push_back(static_cast<int64_t>(d));
      }
      if (axes.empty()) std::fill(reduced.begin(), reduced.end(), true);
      SCOPED_TRACE(op + " of " + x.type().ToString());
      const auto y = NodeUnderTest(op)
                         .Input(x, false)
                         .Input(Tensor::VectorInt64(axes), true)
                         .Run(BuiltinTargets().front());
      ASSERT_TRUE(y.ok()) << y.status();
      const std::vector<std::vector<double>> groups = Groups(x, reduced);
      ASSERT_EQ((*y)[0].NumElements(), static_cast<int64_t>(groups.size()));
      for (size_t i = 0; i < groups.size(); ++i) {
        const double expected = Reference(op, groups[i]);
        double magnitudes = 0;
        for (double value : groups[i]) magnitudes += std::abs(value);
        EXPECT_NEAR(static_cast<double>((*y)[0].As<float>()[i]), expected,
                    1e-6 + 5e-8 * magnitudes);
      }
    }
  }
}

TEST(ReduceTest, LongSumsStayAccurate) {
  // In one chain of additions the error is about 1e-2 here.
  const std::vector<float> values(1 << 20, 0.1F);
  for (const Shape& shape : {Shape{1, 1 << 20}, Shape{1 << 20, 1}, Shape{1 << 16, 16}}) {
    const auto y = NodeUnderTest("ReduceMean")
                       .Input(Tensor::FromVector<float>(shape, values), false)
                       .Input(Tensor::VectorInt64({shape[0] > 1 ? 0 : 1}), true)
                       .Run(BuiltinTargets().front());
    ASSERT_TRUE(y.ok());
    EXPECT_NEAR((*y)[0].As<float>()[0], 0.1F, 1e-6F);
  }
}

TEST(ReduceTest, SoftmaxAlongAnyAxisSumsToOne) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const Tensor x = RandomFloats(RandomShape(4, random), random);
    const int64_t axis = RandomInt(0, static_cast<int64_t>(x.shape().size()) - 1, random);
    std::vector<bool> reduced(x.shape().size(), false);
    reduced[static_cast<size_t>(axis)] = true;
    const auto y =
        NodeUnderTest("Softmax").Set("axis", axis).Input(x, false).Run(BuiltinTargets().front());
    const auto log =
        NodeUnderTest("LogSoftmax").Set("axis", axis).Input(x, false).Run(BuiltinTargets().front());
    ASSERT_TRUE(y.ok() && log.ok());
    for (const std::vector<double>& line : Groups((*y)[0], reduced)) {
      EXPECT_NEAR(std::accumulate(line.begin(), line.end(), 0.0), 1, 1e-6);
    }
    for (size_t i = 0; i < static_cast<size_t>(x.NumElements()); ++i) {
      EXPECT_NEAR(std::exp((*log)[0].As<float>()[i]), (*y)[0].As<float>()[i], 1e-6F);
    }
  }
}

TEST(ReduceTest, TopKIsTheStartOfAStableSort) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const int64_t count = RandomInt(1, 40, random);
    const int64_t k = RandomInt(0, count, random);
    const bool largest = RandomInt(0, 1, random) == 1;
    // Few distinct values, so that there are ties.
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(RandomInt(0, 9, random));
    std::vector<int64_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const float va = values[static_cast<size_t>(a)];
      const float vb = values[static_cast<size_t>(b)];
      return largest ? va > vb : va < vb;
    });
    order.resize(static_cast<size_t>(k));
    const auto y = NodeUnderTest("TopK")
                       .Set("largest", int64_t{largest})
                       .Input(Tensor::FromVector<float>({count}, values), false)
                       .Input(Tensor::VectorInt64({k}), true)
                       .Outputs(2)
                       .Run(BuiltinTargets().front());
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ((*y)[1], Tensor::VectorInt64(order));
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ((*y)[0].As<float>()[i], values[static_cast<size_t>(order[i])]);
    }
  }
}

TEST(ReduceTest, UnknownAxesAreRefusedWithTheWayOut) {
  std::mt19937 random(4);
  const absl::Status status = NodeUnderTest("ReduceSum")
                                  .Input(RandomFloats({2, 3}, random), false)
                                  .Input(Tensor::VectorInt64({1}), false)
                                  .Infer()
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("--bind"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace onnx_memplan
