// Elementwise operators with random shapes against their definition, index by index.
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

int64_t Elements(const Shape& shape) { return CheckedNumElements(shape).value(); }

// A shape that broadcasts to `output`: some dimensions 1, some leading ones dropped.
Shape RandomOperand(const Shape& output, std::mt19937& random) {
  Shape shape(output.begin() + RandomInt(0, static_cast<int64_t>(output.size()), random),
              output.end());
  for (int64_t& dim : shape) {
    if (RandomInt(0, 2, random) == 0) dim = 1;
  }
  return shape;
}

// The element of an operand of `shape` at index `flat` of `output`.
size_t OperandIndex(int64_t flat, const Shape& output, const Shape& shape) {
  int64_t index = 0;
  int64_t stride = 1;
  for (size_t back = 1; back <= output.size(); ++back) {
    const int64_t at = flat % output[output.size() - back];
    flat /= output[output.size() - back];
    if (back > shape.size()) continue;
    const int64_t dim = shape[shape.size() - back];
    index += (dim == 1 ? 0 : at) * stride;
    stride *= dim;
  }
  return static_cast<size_t>(index);
}

Shape RandomShape(std::mt19937& random) {
  Shape shape(static_cast<size_t>(RandomInt(0, 5, random)));
  for (int64_t& dim : shape) dim = RandomInt(1, 6, random);
  return shape;
}

TEST(ElementwiseTest, BinaryOperatorsBroadcastAsNumpy) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Shape full = RandomShape(random);
    const Tensor a = RandomFloats(RandomOperand(full, random), random);
    const Tensor b = RandomFloats(RandomOperand(full, random), random);
    SCOPED_TRACE(a.type().ToString() + " and " + b.type().ToString());
    const absl::StatusOr<std::vector<Tensor>> y =
        NodeUnderTest("Sub").Input(a, false).Input(b, false).Run(BuiltinTargets().front());
    ASSERT_TRUE(y.ok()) << y.status();
    const Shape& shape = (*y)[0].shape();
    for (int64_t i = 0; i < Elements(shape); ++i) {
      ASSERT_EQ((*y)[0].As<float>()[static_cast<size_t>(i)],
                a.As<float>()[OperandIndex(i, shape, a.shape())] -
                    b.As<float>()[OperandIndex(i, shape, b.shape())]);
    }
    // In place, over either operand that is as large as the result.
    for (int32_t input = 0; input < 2; ++input) {
      if ((input == 0 ? a : b).NumElements() != Elements(shape)) continue;
      const absl::StatusOr<std::vector<Tensor>> in_place =
          NodeUnderTest("Sub").Input(a, false).Input(b, false).Run(BuiltinTargets().front(), input);
      ASSERT_TRUE(in_place.ok());
      EXPECT_EQ((*in_place)[0], (*y)[0]);
    }
  }
}

TEST(ElementwiseTest, WhereBroadcastsAllThreeOperands) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const Shape full = RandomShape(random);
    const Tensor a = RandomFloats(RandomOperand(full, random), random);
    const Tensor b = RandomFloats(RandomOperand(full, random), random);
    std::byte* truth = nullptr;
    const Tensor condition = Tensor::Zeros({DType::kBool, RandomOperand(full, random)}, &truth);
    for (int64_t i = 0; i < condition.NumElements(); ++i) {
      truth[i] = static_cast<std::byte>(RandomInt(0, 1, random));
    }
    const absl::StatusOr<std::vector<Tensor>> y = NodeUnderTest("Where")
                                                      .Input(condition, false)
                                                      .Input(a, false)
                                                      .Input(b, false)
                                                      .Run(BuiltinTargets().front());
    ASSERT_TRUE(y.ok()) << y.status();
    const Shape& shape = (*y)[0].shape();
    for (int64_t i = 0; i < Elements(shape); ++i) {
      const bool first = condition.As<bool>()[OperandIndex(i, shape, condition.shape())];
      const Tensor& chosen = first ? a : b;
      ASSERT_EQ((*y)[0].As<float>()[static_cast<size_t>(i)],
                chosen.As<float>()[OperandIndex(i, shape, chosen.shape())]);
    }
  }
}

TEST(ElementwiseTest, AnElementsResultDoesNotDependOnItsPlace) {
  std::mt19937 random(3);
  for (const char* op : {"Tanh", "Sigmoid", "Erf", "Exp", "Gelu", "Mish", "Elu", "Softplus"}) {
    SCOPED_TRACE(op);
    const Tensor x = RandomFloats({37}, random);
    const auto y = NodeUnderTest(op).Input(x, false).Run(BuiltinTargets().front());
    ASSERT_TRUE(y.ok()) << y.status();
    for (size_t i = 0; i < 37; ++i) {
      const Tensor one = Tensor::FromVector<float>({1}, {x.As<float>()[i]});
      const auto alone = NodeUnderTest(op).Input(one, false).Run(BuiltinTargets().front());
      ASSERT_TRUE(alone.ok());
      EXPECT_EQ((*alone)[0].As<float>()[0], (*y)[0].As<float>()[i]);
    }
  }
}

TEST(ElementwiseTest, ShapesThatDoNotBroadcastAreRefusedWithBothShapes) {
  std::mt19937 random(4);
  const absl::Status status = NodeUnderTest("Add")
                                  .Input(RandomFloats({2, 3}, random), false)
                                  .Input(RandomFloats({4}, random), false)
                                  .Infer()
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("2x3"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("4"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace onnx_memplan
