#include "plan/sections.h"

#include <gtest/gtest.h>

#include <random>

#include "random_blocks.h"

namespace onnx_memplan {
namespace {

TEST(Sections, TwoWindowsShareAStepExactlyWhenTheyShareASection) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const Blocks blocks = RandomBlocks(
        random,
        {.count = static_cast<int32_t>(Uniform(random, 1, 12)), .steps = 12, .staircases = true});
    const Sections sections(blocks);
    for (const Window& a : blocks.windows) {
      for (const Window& b : blocks.windows) {
        const bool steps = a.first_step < b.end_step && b.first_step < a.end_step;
        const int32_t first =
            std::max(sections.AtOrAfter(a.first_step), sections.AtOrAfter(b.first_step));
        const int32_t end =
            std::min(sections.AtOrAfter(a.end_step), sections.AtOrAfter(b.end_step));
        EXPECT_EQ(steps, first < end);
      }
    }
  }
}

TEST(Sections, AreNoMoreThanTheWindows) {
  std::mt19937 random(2);
  const Blocks blocks = RandomBlocks(random, {.count = 20, .steps = 1000});
  EXPECT_LE(Sections(blocks).count(), 20);
  EXPECT_EQ(Sections(BlocksFromList(5, {}, {})).count(), 0);
}

}  // namespace
}  // namespace onnx_memplan
