#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "plan/liveness.h"
#include "plan/offset_search.h"
#include "plan/pack_fit.h"
#include "plan/packer.h"
#include "random_blocks.h"

namespace onnx_memplan {
namespace {

std::vector<RandomBlocksOptions> Variants() {
  return {{},
          {.alignments = true},
          {.staircases = true},
          {.fixed = true},
          {.alignments = true, .staircases = true, .fixed = true}};
}

class EveryPacker : public testing::TestWithParam<std::string> {};

TEST_P(EveryPacker, GivesLegalOffsetsNotBelowItsBound) {
  const std::unique_ptr<Packer> packer = MakePacker(GetParam());
  ASSERT_NE(packer, nullptr);
  std::mt19937 random(1);
  for (RandomBlocksOptions options : Variants()) {
    for (int i = 0; i < 60; ++i) {
      options.count = static_cast<int32_t>(Uniform(random, 0, 40));
      options.steps = static_cast<int32_t>(Uniform(random, 1, 30));
      options.max_bytes = Uniform(random, 1, 1000);
      const Blocks blocks = RandomBlocks(random, options);
      const Packing packing = packer->Pack(blocks, {.time_limit_seconds = 10, .node_limit = 2000});
      ASSERT_EQ(OffsetsProblem(blocks, packing.offsets), "") << i;
      EXPECT_EQ(packing.bytes, PackedBytes(blocks, packing.offsets));
      EXPECT_GE(packing.bytes, packing.lower_bound);
      EXPECT_GE(packing.lower_bound, blocks.lower_bound);
      EXPECT_FALSE(packing.method.empty());
    }
  }
}

TEST_P(EveryPacker, IsDeterministic) {
  std::mt19937 random(2);
  const Blocks blocks =
      RandomBlocks(random, {.count = 60, .steps = 40, .max_bytes = 1000, .alignments = true});
  const PackOptions options{.time_limit_seconds = 100, .node_limit = 20000};
  const Packing first = MakePacker(GetParam())->Pack(blocks, options);
  const Packing second = MakePacker(GetParam())->Pack(blocks, options);
  EXPECT_EQ(first.offsets, second.offsets);
  EXPECT_EQ(first.method, second.method);
}

TEST_P(EveryPacker, TakesNothingForNothing) {
  const Packing packing = MakePacker(GetParam())->Pack(BlocksFromList(1, {}, {}), {});
  EXPECT_EQ(packing.bytes, 0);
  EXPECT_TRUE(packing.offsets.empty());
}

std::vector<std::string> PackerNames() {
  std::vector<std::string> names;
  for (const PackerInfo& info : AvailablePackers()) names.emplace_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, EveryPacker, testing::ValuesIn(PackerNames()),
                         [](const auto& param_info) { return param_info.param; });

TEST(AutoPacker, EqualsBruteForceOnSmallProblems) {
  const std::unique_ptr<Packer> packer = MakePacker("auto");
  std::mt19937 random(3);
  int64_t above_bound = 0;
  for (RandomBlocksOptions options : Variants()) {
    for (int i = 0; i < 700; ++i) {
      options.count = static_cast<int32_t>(Uniform(random, 1, 6));
      options.steps = static_cast<int32_t>(Uniform(random, 1, 6));
      options.max_bytes = Uniform(random, 1, 6);
      const Blocks blocks = RandomBlocks(random, options);
      const Packing packing = packer->Pack(blocks, {.time_limit_seconds = 10});
      ASSERT_EQ(OffsetsProblem(blocks, packing.offsets), "");
      ASSERT_EQ(packing.bytes, BruteForcePacking(blocks).best_bytes())
          << "instance " << i << " of " << options.alignments << options.staircases
          << options.fixed;
      ASSERT_EQ(packing.bytes, packing.lower_bound);
      if (packing.bytes > blocks.lower_bound) ++above_bound;
    }
  }
  EXPECT_GT(above_bound, 10);  // the search's proofs of infeasibility were needed
}

TEST(AutoPacker, StopsAtTheTarget) {
  std::mt19937 random(4);
  const Blocks blocks = RandomBlocks(random, {.count = 40, .steps = 20, .max_bytes = 100});
  const Packing best = MakePacker("auto")->Pack(blocks, {});
  const Packing enough = MakePacker("auto")->Pack(blocks, {.target_bytes = best.bytes * 2});
  EXPECT_LE(enough.bytes, best.bytes * 2);
}

TEST(AutoPacker, GivesLegalOffsetsWithSeveralThreadsAndWhenCancelled) {
  std::mt19937 random(9);
  std::atomic<bool> cancel = false;
  for (int i = 0; i < 20; ++i) {
    const Blocks blocks =
        RandomBlocks(random, {.count = 120, .steps = 40, .max_bytes = 1000, .alignments = true});
    const Packing packing = MakePacker("auto")->Pack(
        blocks, {.time_limit_seconds = 0.1, .threads = 3, .cancel = &cancel});
    EXPECT_EQ(OffsetsProblem(blocks, packing.offsets), "");
    EXPECT_GE(packing.bytes, packing.lower_bound);
    if (i == 10) cancel = true;
  }
}

TEST(OffsetSearch, AgreesWithBruteForceAtEveryCapacity) {
  std::mt19937 random(5);
  const Ranking rankings[] = {
      {.keys = {RankKey::kSectionTotal, RankKey::kDuration, RankKey::kArea}},
      {.keys = {RankKey::kSize, RankKey::kSections}, .weights = {1.5, 0.5}, .noise = 2, .seed = 7}};
  for (RandomBlocksOptions options : Variants()) {
    for (int i = 0; i < 200; ++i) {
      options.count = static_cast<int32_t>(Uniform(random, 1, 6));
      options.steps = static_cast<int32_t>(Uniform(random, 1, 6));
      options.max_bytes = Uniform(random, 1, 6);
      const Blocks blocks = RandomBlocks(random, options);
      const int64_t best = BruteForcePacking(blocks).best_bytes();
      const Deadline deadline(10);
      for (const Ranking& ranking : rankings) {
        const std::unique_ptr<OffsetSearch> search = MakeOffsetSearch(blocks, ranking);
        for (const int64_t capacity : {best - 1, best, best + 3}) {
          const SearchResult result = search->Run(capacity, 1'000'000, deadline);
          EXPECT_EQ(result.status,
                    capacity < best ? SearchStatus::kInfeasible : SearchStatus::kFound);
          if (result.status != SearchStatus::kFound) continue;
          EXPECT_EQ(OffsetsProblem(blocks, result.offsets), "");
          EXPECT_LE(PackedBytes(blocks, result.offsets), capacity);
        }
      }
    }
  }
}

TEST(OffsetSearch, ALimitIsNoProof) {
  std::mt19937 random(6);
  const Blocks blocks = RandomBlocks(random, {.count = 30, .steps = 10, .max_bytes = 50});
  const std::unique_ptr<OffsetSearch> search = MakeOffsetSearch(blocks, {.keys = {RankKey::kSize}});
  EXPECT_EQ(search->Run(blocks.lower_bound, 3, Deadline(10)).status, SearchStatus::kStopped);
}

TEST(FitPlacer, ConflictCountsAreTheLengthsOfTheNeighbourLists) {
  std::mt19937 random(7);
  const Blocks blocks = RandomBlocks(random, {.count = 50, .steps = 20});
  const FitPlacer placer(blocks);
  ASSERT_TRUE(placer.has_neighbour_lists());
  const std::vector<int32_t> counts = ConflictCounts(blocks);
  for (int32_t b = 0; b < 50; ++b) {
    EXPECT_EQ(placer.Neighbours(b).size(), static_cast<size_t>(counts[static_cast<size_t>(b)]));
  }
}

TEST(PeakAlongBlocks, IsTheLargestLiveSumOfItsSteps) {
  std::mt19937 random(8);
  const Blocks blocks = RandomBlocks(random, {.count = 50, .steps = 33, .max_bytes = 9});
  std::vector<int64_t> live(33, 0);
  for (const Window& window : blocks.windows) {
    for (int32_t t = window.first_step; t < window.end_step; ++t) {
      live[static_cast<size_t>(t)] += window.high - window.low;
    }
  }
  const std::vector<int64_t> peaks = PeakAlongBlocks(blocks);
  for (size_t b = 0; b < blocks.blocks.size(); ++b) {
    const Block& block = blocks.blocks[b];
    EXPECT_EQ(peaks[b],
              *std::max_element(live.begin() + block.first_step, live.begin() + block.end_step));
  }
}

}  // namespace
}  // namespace onnx_memplan
