#include "ops/resize_table.h"

#include <numeric>

#include "gtest/gtest.h"

namespace onnx_memplan {
namespace {

ResizeAxis Axis(int64_t in, int64_t out) {
  return {.in = in,
          .out = out,
          .scale = static_cast<float>(out) / static_cast<float>(in),
          .length = static_cast<float>(out)};
}

TEST(ResizeTableTest, WeightsOfEveryOutputSumToOneAndIndicesAreInside) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* coordinates : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                    "align_corners", "asymmetric", "tf_half_pixel_for_nn"}) {
      for (bool antialias : {false, true}) {
        for (bool exclude : {false, true}) {
          for (const auto& [in, out] :
               {std::pair<int64_t, int64_t>{1, 5}, {7, 3}, {4, 4}, {3, 11}}) {
            const ResizeRule rule = {.mode = mode,
                                     .coordinates = coordinates,
                                     .nearest_mode = "round_prefer_floor",
                                     .antialias = antialias,
                                     .exclude_outside = exclude};
            const ResizeTable table = MakeResizeTable(rule, Axis(in, out));
            const auto taps = static_cast<size_t>(table.taps);
            ASSERT_EQ(table.indices.size(), static_cast<size_t>(out) * taps);
            for (int32_t index : table.indices) {
              EXPECT_GE(index, 0);
              EXPECT_LT(index, in);
            }
            for (size_t i = 0; i < table.weights.size(); i += taps) {
              const float* row = &table.weights[i];
              const float sum = std::accumulate(row, row + taps, 0.0F);
              // A coordinate may lie so far outside that no tap of an excluding filter is left.
              if (!exclude) {
                EXPECT_NEAR(sum, 1.0F, 1e-5F)
                    << mode << " " << coordinates << " " << in << " " << out;
              }
            }
          }
        }
      }
    }
  }
}

TEST(ResizeTableTest, EqualSizesAreTheIdentity) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const ResizeRule rule = {
        .mode = mode, .coordinates = "half_pixel", .nearest_mode = "round_prefer_floor"};
    EXPECT_TRUE(MakeResizeTable(rule, Axis(6, 6)).IsIdentity(6)) << mode;
    EXPECT_FALSE(MakeResizeTable(rule, Axis(6, 3)).IsIdentity(6)) << mode;
  }
}

TEST(ResizeTableTest, TiesOfNearestFallAsTheModeSays) {
  // Coordinates 0, 0.5, 1, 1.5.
  const auto indices = [](const char* nearest_mode) {
    const ResizeRule rule = {
        .mode = "nearest", .coordinates = "asymmetric", .nearest_mode = nearest_mode};
    return MakeResizeTable(rule, Axis(2, 4)).indices;
  };
  EXPECT_EQ(indices("round_prefer_floor"), (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(indices("round_prefer_ceil"), (std::vector<int32_t>{0, 1, 1, 1}));
  EXPECT_EQ(indices("floor"), (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(indices("ceil"), (std::vector<int32_t>{0, 1, 1, 1}));
}

TEST(ResizeTableTest, AntialiasingWidensTheFilterOfAReduction) {
  ResizeRule rule = {
      .mode = "linear", .coordinates = "half_pixel", .nearest_mode = "floor", .antialias = true};
  EXPECT_EQ(MakeResizeTable(rule, Axis(12, 4)).taps, 6);
  EXPECT_EQ(MakeResizeTable(rule, Axis(4, 12)).taps, 2);
  rule.mode = "cubic";
  EXPECT_EQ(MakeResizeTable(rule, Axis(12, 6)).taps, 8);
}

TEST(ResizeTableTest, CropsExtrapolateOutsideOfTheImage) {
  const ResizeRule rule = {
      .mode = "linear", .coordinates = "tf_crop_and_resize", .nearest_mode = "floor"};
  ResizeAxis axis = Axis(4, 3);
  axis.roi_start = 0.5F;
  axis.roi_end = 1.5F;
  const ResizeTable table = MakeResizeTable(rule, axis);
  EXPECT_TRUE(table.Extrapolates());
  EXPECT_GE(table.indices[0], 0);
  EXPECT_EQ(table.indices[static_cast<size_t>(2 * table.taps)], -1);
}

}  // namespace
}  // namespace onnx_memplan
