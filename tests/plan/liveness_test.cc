#include "plan/liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace onnx_memplan {
namespace {

using ::testing::ElementsAre;

PlanProblem Diamond() {
  // in -> a -> {b, c} -> out; b may be written over a only when c has run before.
  PlanProblem problem;
  problem.storages = {{.name = "in", .bytes = 4, .live_in = true},
                      {.name = "a", .bytes = 10},
                      {.name = "b", .bytes = 6},
                      {.name = "c", .bytes = 3},
                      {.name = "out", .bytes = 5, .live_out = true},
                      {.name = "unused", .bytes = 100}};
  problem.tasks = {{.name = "A", .reads = {0}, .writes = {1}, .after = {}},
                   {.name = "B", .reads = {1}, .writes = {2}, .after = {}},
                   {.name = "C", .reads = {1}, .writes = {3}, .after = {}},
                   {.name = "D", .reads = {2, 3}, .writes = {4}, .after = {}, .scratch_bytes = 2}};
  problem.in_place = {{.task = 1, .from = 1, .to = 2}, {.task = 3, .from = 2, .to = 4}};
  return problem;
}

TEST(StorageSpans, RunFromFirstToLastToucher) {
  const std::vector<int32_t> order = {0, 2, 1, 3};
  EXPECT_THAT(StorageSpans(Diamond(), order),
              ElementsAre(StepSpan{0, 1}, StepSpan{0, 3}, StepSpan{2, 4}, StepSpan{1, 4},
                          StepSpan{3, 4}, StepSpan{4, 0}));
}

TEST(StorageSpans, LiveInBeginsAndLiveOutEndsTheProgram) {
  PlanProblem problem = Diamond();
  problem.storages[3].live_in = true;
  problem.storages[1].live_out = true;
  problem.storages[5].live_in = true;
  const std::vector<int32_t> order = {0, 2, 1, 3};
  const std::vector<StepSpan> spans = StorageSpans(problem, order);
  EXPECT_EQ(spans[3], (StepSpan{0, 4}));
  EXPECT_EQ(spans[1], (StepSpan{0, 4}));
  EXPECT_EQ(spans[5], (StepSpan{0, 1}));
}

TEST(MakeBlocks, JoinsAnInPlaceChainToOneStaircase) {
  const std::vector<int32_t> order = {0, 2, 1, 3};
  const Blocks blocks = MakeBlocks(Diamond(), order, InPlacePolicy::kAll);
  EXPECT_THAT(blocks.taken, ElementsAre(0, 1));
  EXPECT_EQ(blocks.storage_block[1], blocks.storage_block[2]);
  EXPECT_EQ(blocks.storage_block[2], blocks.storage_block[4]);
  EXPECT_EQ(blocks.storage_block[5], -1);
  const Block& chain = blocks.blocks[static_cast<size_t>(blocks.storage_block[1])];
  // a: steps 0-1 with 10, the step of B max(10, 6), the step of D max(6, 5).
  const auto windows = blocks.windows_of(chain);
  EXPECT_THAT(std::vector<Window>(windows.begin(), windows.end()),
              ElementsAre(Window{0, 3, 0, 10}, Window{3, 4, 0, 6}));
  EXPECT_EQ(chain.bytes, 10);
  EXPECT_EQ(blocks.max_live_bytes, 14);  // in + a at the first step
  EXPECT_EQ(blocks.peak_step, 0);
  EXPECT_TRUE(blocks.has_offers);
  EXPECT_EQ(blocks.order_bound, 14);
}

TEST(MakeBlocks, TakesNoOfferThatTheOrderForbids) {
  const std::vector<int32_t> order = {0, 1, 2, 3};  // C still reads a after B
  const Blocks blocks = MakeBlocks(Diamond(), order, InPlacePolicy::kAll);
  EXPECT_THAT(blocks.taken, ElementsAre(1));
}

TEST(MakeBlocks, AtNeedTakesOnlyWhatThePeakRequires) {
  const std::vector<int32_t> order = {0, 2, 1, 3};
  const Blocks blocks = MakeBlocks(Diamond(), order, InPlacePolicy::kAtNeed);
  // Without the first offer the step of B has 10 + 3 + 6 = 19 > 14; the step of D has 16 > 14 too.
  EXPECT_THAT(blocks.taken, ElementsAre(0, 1));
  PlanProblem roomy = Diamond();
  roomy.storages[0].bytes = 100;
  EXPECT_TRUE(MakeBlocks(roomy, order, InPlacePolicy::kAtNeed).taken.empty());
}

TEST(MakeBlocks, ChainsKeepOneFixedOffsetAndAlignment) {
  PlanProblem problem = Diamond();
  problem.storages[1].fixed_offset = 0;
  problem.storages[4].fixed_offset = 64;
  const std::vector<int32_t> order = {0, 2, 1, 3};
  const Blocks blocks = MakeBlocks(problem, order, InPlacePolicy::kAll);
  EXPECT_THAT(blocks.taken, ElementsAre(0));
  EXPECT_EQ(blocks.blocks[static_cast<size_t>(blocks.storage_block[2])].fixed_offset, 0);
  EXPECT_EQ(blocks.lower_bound, 69);
}

TEST(MakeBlocks, ScratchIsABlockOfItsStep) {
  const std::vector<int32_t> order = {0, 2, 1, 3};
  const Blocks blocks = MakeBlocks(Diamond(), order, InPlacePolicy::kNone);
  const Block& scratch = blocks.blocks[static_cast<size_t>(blocks.scratch_block[3])];
  EXPECT_EQ(scratch.bytes, 2);
  EXPECT_EQ(scratch.first_step, 3);
  EXPECT_EQ(scratch.end_step, 4);
  EXPECT_EQ(blocks.scratch_block[0], -1);
}

TEST(PeakLiveBytes, CountsInPlacePairsOnceAndGivesEveryStep) {
  std::vector<int64_t> by_step;
  const std::vector<int32_t> order = {0, 2, 1, 3};
  EXPECT_EQ(PeakLiveBytes(Diamond(), order, &by_step), 14);
  EXPECT_THAT(by_step, ElementsAre(14, 13, 13, 11));
}

TEST(LowerBound, CountsTheLossBetweenAlignedBlocks) {
  // Three blocks of 5 bytes at multiples of 8: two of them take 8 each.
  std::vector<Block> list(3, Block{.first_step = 0, .end_step = 1, .bytes = 5, .alignment = 8});
  EXPECT_EQ(BlocksFromList(1, list, {}).lower_bound, 21);
  // One that may stand anywhere breaks the grid.
  list[1].alignment = 1;
  EXPECT_EQ(BlocksFromList(1, list, {}).lower_bound, 15);
}

TEST(CheckFixedBlocks, NamesTheConflict) {
  PlanProblem problem = Diamond();
  problem.storages[0].fixed_offset = 0;
  problem.storages[1].fixed_offset = 3;
  const std::vector<int32_t> order = {0, 2, 1, 3};
  EXPECT_FALSE(CheckFixedBlocks(MakeBlocks(problem, order, InPlacePolicy::kAll)).ok());
  problem.storages[1].fixed_offset = 4;
  EXPECT_TRUE(CheckFixedBlocks(MakeBlocks(problem, order, InPlacePolicy::kAll)).ok());
}

}  // namespace
}  // namespace onnx_memplan
