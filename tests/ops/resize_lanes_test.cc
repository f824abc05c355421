// Resampling where vectors fit between the axes, against that of the same images in NCHW.
#include "ops/host_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/blocked_image.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using ::testing::Contains;

NodeUnderTest MakeNode(const Tensor& x, const std::string& mode, const std::string& coordinates,
                       std::vector<int64_t> sizes) {
  NodeUnderTest node("Resize");
  node.Input(x, false).NoInput().NoInput();
  node.Input(Tensor::VectorInt64(std::move(sizes)), true);
  node.Set("mode", mode).Set("coordinate_transformation_mode", coordinates);
  node.Set("axes", std::vector<int64_t>{2, 3});
  return node;
}

TEST(ResizeLanes, EqualsTheResizeOfPlainImages) {
  static constexpr const char* kCoordinates[] = {"half_pixel", "asymmetric", "align_corners",
                                                 "pytorch_half_pixel"};
  std::mt19937 random(1);
  std::set<std::string> names;
  for (int i = 0; i < 200; ++i) {
    const Tensor x = RandomFloats({RandomInt(1, 2, random), RandomInt(1, 20, random),
                                   RandomInt(1, 12, random), RandomInt(1, 12, random)},
                                  random);
    const std::vector<int64_t> sizes = {RandomInt(1, 25, random), RandomInt(1, 25, random)};
    const std::string coordinates = kCoordinates[RandomInt(0, 3, random)];
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      const Tensor expected =
          MakeNode(x, mode, coordinates, sizes).Run(BuiltinTargets().front()).value()[0];
      for (const Target& target : BuiltinTargets()) {
        NodeUnderTest node = MakeNode(Blocked(x, 3.5F), mode, coordinates, sizes);
        const Lowering lowering = node.Lower(target).value();
        if (!lowering.calls.empty()) names.insert(lowering.calls[0].name);
        const Tensor y = Unblocked(node.Run(target).value()[0], x.shape()[1]);
        ASSERT_EQ(y.shape(), expected.shape());
        for (size_t at = 0; at < y.As<float>().size(); ++at) {
          ASSERT_NEAR(y.As<float>()[at], expected.As<float>()[at], 2e-6)
              << mode << " " << coordinates << " " << ShapeToString(x.shape()) << " to "
              << ShapeToString(y.shape());
        }
      }
    }
  }
  for (const char* name : {"kernels::ResizeNearestLanes<4>", "kernels::ResizeNearestLanes<8>",
                           "kernels::ResizeLinearLanes<4>", "kernels::ResizeLinearLanes<8>"}) {
    EXPECT_THAT(names, Contains(name));
  }
}

}  // namespace
}  // namespace onnx_memplan
