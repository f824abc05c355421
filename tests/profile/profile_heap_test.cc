#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "onnx_memplan/buffers.h"
#include "onnx_memplan/profile_allocator.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;

// The trace as buffers for the planner, and the plan back.
std::vector<PlannedBlock> PlanTrace(const std::vector<RecordedBlock>& trace) {
  std::vector<Buffer> buffers;
  for (const RecordedBlock& block : trace) {
    Buffer& buffer = buffers.emplace_back(Buffer{.id = std::to_string(buffers.size()),
                                                 .lower = block.lower,
                                                 .upper = block.upper,
                                                 .bytes = block.bytes,
                                                 .alignment = block.alignment});
    if (block.gap_lower < block.gap_upper) {
      buffer.gaps.push_back({.lower = block.gap_lower, .upper = block.gap_upper});
    }
  }
  const auto plan = PlanBuffers(buffers, std::nullopt, "heuristic", {});
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::vector<PlannedBlock> result;
  for (size_t i = 0; i < trace.size(); ++i) {
    result.push_back({.bytes = trace[i].bytes,
                      .alignment = trace[i].alignment,
                      .offset = plan->offsets[i],
                      .step = trace[i].step,
                      .loop = trace[i].loop});
  }
  return result;
}

std::unique_ptr<ProfileHeap> MustReplay(const std::vector<PlannedBlock>& plan) {
  std::string error;
  auto heap = ProfileHeap::Replay(plan, &error);
  EXPECT_NE(heap, nullptr) << error;
  return heap;
}

std::unique_ptr<ProfileHeap> ReplayOf(const ProfileHeap& recorded, int loop_steps = 0) {
  return MustReplay(PlanTrace(recorded.Trace(loop_steps)));
}

// An independent check of a heap in use: no two blocks that are alive share a byte, blocks are
// aligned, and nobody but its owner changes what a block holds.
class Checker {
 public:
  explicit Checker(ProfileHeap& heap) : heap_(heap) {}
  ~Checker() {
    while (!blocks_.empty()) Free(blocks_.begin()->second.key);
  }

  void Allocate(int key, size_t bytes, size_t alignment = 1) {
    auto* pointer = static_cast<unsigned char*>(heap_.Allocate(bytes, alignment));
    ASSERT_NE(pointer, nullptr);
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    EXPECT_EQ(address % std::max(alignment, kProfileAlignment), 0u);
    const auto above = blocks_.lower_bound(address);
    if (above != blocks_.end()) {
      EXPECT_LE(address + bytes, above->first) << "overlap";
    }
    if (above != blocks_.begin()) {
      const auto below = std::prev(above);
      EXPECT_LE(below->first + below->second.bytes, address) << "overlap";
    }
    const auto fill = static_cast<unsigned char>(++fills_ % 251);
    std::memset(pointer, fill, bytes);
    blocks_[address] = {.key = key, .bytes = bytes, .fill = fill};
    addresses_[key] = address;
  }

  void Free(int key) {
    const uintptr_t address = addresses_.at(key);
    const Block block = blocks_.at(address);
    auto* pointer = reinterpret_cast<unsigned char*>(address);
    EXPECT_TRUE(std::all_of(pointer, pointer + block.bytes, [&](unsigned char c) {
      return c == block.fill;
    })) << "the content has changed";
    blocks_.erase(address);
    addresses_.erase(key);
    heap_.Deallocate(pointer);
  }

  bool Has(int key) const { return addresses_.count(key) != 0; }

 private:
  struct Block {
    int key;
    size_t bytes;
    unsigned char fill;
  };
  ProfileHeap& heap_;
  std::map<uintptr_t, Block> blocks_;
  std::map<int, uintptr_t> addresses_;
  unsigned fills_ = 0;
};

// One event of a program: a request or, with no bytes, the release of the block of that key.
struct Event {
  int key = 0;
  size_t bytes = 0;
  size_t alignment = 1;
};
using Program = std::vector<Event>;

void Play(const Program& program, Checker& heap) {
  for (const Event& event : program) {
    if (event.bytes > 0) {
      heap.Allocate(event.key, event.bytes, event.alignment);
    } else if (heap.Has(event.key)) {
      heap.Free(event.key);
    }
  }
}

Program RandomProgram(std::mt19937& random, int count, int first_key = 0) {
  constexpr size_t kSizes[] = {1, 64, 100, 100, 4096, 5000, 20000};
  Program program;
  std::vector<int> alive;
  for (int key = first_key; key < first_key + count;) {
    if (!alive.empty() && random() % 9 < 4) {
      std::swap(alive[random() % alive.size()], alive.back());
      program.push_back({.key = alive.back()});
      alive.pop_back();
    } else {
      program.push_back({.key = key,
                         .bytes = kSizes[random() % std::size(kSizes)],
                         .alignment = random() % 16 == 0 ? size_t{4096} : size_t{1}});
      alive.push_back(key++);
    }
  }
  for (int key : alive) {
    if (random() % 8 != 0) program.push_back({.key = key});
  }
  return program;
}

std::unique_ptr<ProfileHeap> RecordAndPlan(const Program& program) {
  const auto recorded = ProfileHeap::Record();
  {
    Checker checker(*recorded);
    Play(program, checker);
    // What is alive at the end stays so in the trace.
    return ReplayOf(*recorded);
  }
}

TEST(ProfileHeap, RecordsLifetimesInTheOrderOfRequests) {
  const auto heap = ProfileHeap::Record();
  void* a = heap->Allocate(100, 1);
  void* b = heap->Allocate(200, 4096);
  heap->Deallocate(a);
  heap->EndStep();
  void* c = heap->Allocate(300, 8);
  EXPECT_THAT(heap->Trace(),
              testing::ElementsAre(
                  RecordedBlock{.lower = 0, .upper = 2, .bytes = 100, .alignment = 64},
                  RecordedBlock{.lower = 1, .upper = 5, .bytes = 200, .alignment = 4096},
                  RecordedBlock{.lower = 4, .upper = 5, .bytes = 300, .alignment = 64, .step = 1}));
  heap->Deallocate(b);
  heap->Deallocate(c);
}

TEST(ProfileHeap, ReplaysTheSameRunWithoutFallbackAtThePackedSize) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const Program program = RandomProgram(random, 200);
    const auto heap = RecordAndPlan(program);
    {
      Checker checker(*heap);
      Play(program, checker);
    }
    const ProfileStatistics statistics = heap->Statistics();
    EXPECT_EQ(statistics.planned, 200);
    EXPECT_EQ(statistics.Fallbacks(), 0);
    EXPECT_LE(statistics.peak_planned_bytes, statistics.arena_bytes);
    EXPECT_LE(statistics.resident_bytes, statistics.arena_bytes);
    EXPECT_EQ(statistics.peak_fallback_bytes, 0);
  }
}

TEST(ProfileHeap, LivingBlocksNeverShareAByteHoweverTheRunDeviates) {
  std::mt19937 random(2);
  int64_t planned = 0, fallbacks = 0;
  for (int round = 0; round < 300; ++round) {
    Program program = RandomProgram(random, 150);
    const auto heap = RecordAndPlan(program);
    const auto deviations = random() % 20;
    for (unsigned i = 0; i < deviations; ++i) {
      const size_t at = random() % program.size();
      switch (random() % 4) {
        case 0:  // in another order: releases that come later, requests that come earlier
          std::rotate(program.begin() + static_cast<std::ptrdiff_t>(at),
                      program.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                      program.begin() + static_cast<std::ptrdiff_t>(
                                            std::min(program.size(), at + 1 + random() % 30)));
          break;
        case 1:
          program.erase(program.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        case 2: {
          const Program more = RandomProgram(random, 10, static_cast<int>(1000 + 100 * i));
          program.insert(program.begin() + static_cast<std::ptrdiff_t>(at), more.begin(),
                         more.end());
          break;
        }
        case 3:
          if (program[at].bytes > 0) program[at].bytes += random() % 2 == 0 ? 1 : 1000000;
          break;
      }
    }
    Checker checker(*heap);
    for (const Event& event : program) {
      if (event.bytes > 0 && !checker.Has(event.key)) {
        checker.Allocate(event.key, event.bytes, event.alignment);
      } else if (event.bytes == 0 && checker.Has(event.key)) {
        checker.Free(event.key);
      }
    }
    const ProfileStatistics statistics = heap->Statistics();
    planned += statistics.planned;
    fallbacks += statistics.Fallbacks();
  }
  EXPECT_GT(planned, fallbacks);
  EXPECT_GT(fallbacks, 0);
}

TEST(ProfileHeap, LivingBlocksNeverShareAByteWhateverThePlanIs) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const Program program = RandomProgram(random, 150);
    std::vector<PlannedBlock> plan;  // legal by itself, and wrong
    for (const Event& event : program) {
      if (event.bytes == 0) continue;
      const auto alignment = std::max(event.alignment, kProfileAlignment);
      plan.push_back({.bytes = static_cast<int64_t>(event.bytes),
                      .alignment = static_cast<int64_t>(alignment),
                      .offset = static_cast<int64_t>(random() % 200 * alignment)});
    }
    const auto heap = MustReplay(plan);
    Checker checker(*heap);
    Play(program, checker);
  }
}

Program ThreeAtATime(int count) {
  Program program;
  for (int key = 0; key < count; ++key) {
    program.push_back({.key = key, .bytes = static_cast<size_t>(1000 + 100 * (key % 20))});
    if (key >= 2) program.push_back({.key = key - 2});
  }
  return program;
}

TEST(ProfileHeap, AnUnknownSizeCostsOneFallback) {
  Program program = ThreeAtATime(100);
  const auto heap = RecordAndPlan(program);
  program.insert(program.begin() + 60, {.key = 1000, .bytes = 77});
  Checker checker(*heap);
  Play(program, checker);
  EXPECT_EQ(heap->Statistics().unknown, 1);
  EXPECT_EQ(heap->Statistics().planned, 100);
}

TEST(ProfileHeap, AnExtraRequestOfAKnownSizeCostsOneFallback) {
  Program program = ThreeAtATime(100);
  const auto heap = RecordAndPlan(program);
  program.insert(program.begin() + 61, {.key = 1000, .bytes = program[60].bytes});
  Checker checker(*heap);
  Play(program, checker);
  EXPECT_EQ(heap->Statistics().missing, 1);
  EXPECT_EQ(heap->Statistics().planned, 100);
}

// The program without the blocks [first, last).
Program Without(const Program& program, int first, int last) {
  Program rest;
  for (const Event& event : program) {
    if (event.key < first || event.key >= last) rest.push_back(event);
  }
  return rest;
}

TEST(ProfileHeap, AMissingRequestCostsNothing) {
  const Program program = ThreeAtATime(100);
  const auto heap = RecordAndPlan(program);
  Checker checker(*heap);
  Play(Without(program, 40, 41), checker);
  EXPECT_EQ(heap->Statistics().planned, 99);
  EXPECT_EQ(heap->Statistics().Fallbacks(), 0);
}

TEST(ProfileHeap, FindsTheRunAgainAfterItSkippedAPart) {
  Program program = ThreeAtATime(400);
  for (Event& event : program) {
    if (event.bytes > 0) event.bytes = static_cast<size_t>(1000 + event.key);
  }
  const auto heap = RecordAndPlan(program);
  Checker checker(*heap);
  Play(Without(program, 50, 150), checker);
  EXPECT_GE(heap->Statistics().planned, 300 - 12);
}

TEST(ProfileHeap, MoreRequestsThanInTheProfileGoToMalloc) {
  const auto heap = RecordAndPlan({{.key = 0, .bytes = 100}, {.key = 0}});
  Checker checker(*heap);
  checker.Allocate(0, 100);
  checker.Allocate(1, 100);
  EXPECT_EQ(heap->Statistics().planned, 1);
  EXPECT_EQ(heap->Statistics().missing, 1);
  EXPECT_EQ(heap->Statistics().fallback_bytes, 100);
}

TEST(ProfileHeap, AReleaseThatComesTooLateCostsOneFallback) {
  const auto heap =
      RecordAndPlan({{.key = 0, .bytes = 1000}, {.key = 0}, {.key = 1, .bytes = 2000}});
  Checker checker(*heap);
  checker.Allocate(0, 1000);
  checker.Allocate(1, 2000);
  EXPECT_EQ(heap->Statistics().conflict, 1);
}

TEST(ProfileHeap, AnotherAlignmentIsAnotherRequest) {
  const auto heap = RecordAndPlan({{.key = 0, .bytes = 1000}});
  Checker checker(*heap);
  checker.Allocate(0, 1000, 8192);
  EXPECT_EQ(heap->Statistics().unknown, 1);
}

TEST(ProfileHeap, EndOfStepEndsADeviation) {
  const Program step = ThreeAtATime(20);
  const auto run = [&](ProfileHeap& heap, int steps, bool deviate) {
    for (int i = 0; i < steps; ++i) {
      Checker checker(heap);
      Play(deviate && i == 1 ? Program(step.begin(), step.begin() + 15) : step, checker);
      heap.EndStep();
    }
  };
  const auto recorded = ProfileHeap::Record();
  run(*recorded, 5, false);
  const auto heap = ReplayOf(*recorded);
  run(*heap, 5, true);
  EXPECT_EQ(heap->Statistics().Fallbacks(), 0);
}

TEST(ProfileHeap, RestartServesEachIteration) {
  const Program program = ThreeAtATime(50);
  const auto heap = RecordAndPlan(program);
  for (int i = 0; i < 10; ++i) {
    {
      Checker checker(*heap);
      Play(program, checker);
    }
    heap->Restart();
  }
  EXPECT_EQ(heap->Statistics().planned, 500);
  EXPECT_EQ(heap->Statistics().Fallbacks(), 0);
}

// Steps like those of training: weights before; in each step activations, and gradients that live
// until the step after; the input of a step is made before that of the last one goes.
void Train(ProfileHeap& heap, int steps) {
  Checker checker(heap);
  checker.Allocate(1, 5000);
  for (int step = 0; step < steps; ++step) {
    checker.Allocate(1000 + step, 3000);
    if (checker.Has(999 + step)) checker.Free(999 + step);
    if (checker.Has(10)) checker.Free(10);
    if (checker.Has(11)) checker.Free(11);
    checker.Allocate(20, 7000);
    checker.Allocate(21, 6000);
    checker.Allocate(10, 800);
    checker.Free(20);
    checker.Allocate(11, 4000);
    checker.Free(21);
    heap.EndStep();
  }
}

TEST(ProfileHeap, ALoopOfTwoStepsServesAnyNumberOfSteps) {
  const auto recorded = ProfileHeap::Record();
  Train(*recorded, 5);
  const auto trace = recorded->Trace(/*loop_steps=*/2);
  EXPECT_EQ(std::count_if(trace.begin(), trace.end(), [](const auto& b) { return b.loop; }), 10);
  const auto heap = ReplayOf(*recorded, 2);
  Train(*heap, 100);
  EXPECT_EQ(heap->Statistics().planned, 501);
  EXPECT_EQ(heap->Statistics().Fallbacks(), 0);
}

TEST(ProfileHeap, ALoopLeavesOutWhatOutlivesAnIteration) {
  const auto recorded = ProfileHeap::Record();
  Train(*recorded, 4);
  const auto heap = ReplayOf(*recorded, 1);
  Train(*heap, 100);
  EXPECT_EQ(heap->Statistics().Fallbacks(), 98);  // the inputs of all steps but the first two
}

TEST(ProfileHeap, ALoopThatIsTooShortIsNone) {
  const auto recorded = ProfileHeap::Record();
  Train(*recorded, 2);
  EXPECT_EQ(recorded->Trace(1), recorded->Trace());
}

TEST(ProfileHeap, SeveralThreadsShareAHeap) {
  constexpr int kThreads = 4;
  const auto run = [](ProfileHeap& heap) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&heap, t] {
        std::mt19937 random(static_cast<unsigned>(t));
        for (int i = 0; i < 20; ++i) {
          Checker checker(heap);
          Play(RandomProgram(random, 100), checker);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  const auto recorded = ProfileHeap::Record();
  run(*recorded);
  const auto trace = recorded->Trace();
  EXPECT_EQ(trace.size(), 8000u);
  const auto heap = MustReplay(PlanTrace(trace));
  run(*heap);
  const ProfileStatistics statistics = heap->Statistics();
  EXPECT_EQ(statistics.requests, 8000);
  EXPECT_EQ(statistics.fallback_bytes, 0);
}

TEST(ProfileAllocator, ServesContainers) {
  const auto run = [](ProfileHeap& heap) {
    std::vector<double, ProfileAllocator<double>> vector{ProfileAllocator<double>(heap)};
    std::list<int, ProfileAllocator<int>> list{ProfileAllocator<int>(heap)};
    for (int i = 0; i < 1000; ++i) {
      vector.push_back(i);
      list.push_back(i);
    }
    auto moved = std::move(vector);
    double sum = 0;
    for (double value : moved) sum += value;
    for (int value : list) sum += value;
    return sum;
  };
  const auto recorded = ProfileHeap::Record();
  const double expected = run(*recorded);
  const auto heap = ReplayOf(*recorded);
  EXPECT_EQ(run(*heap), expected);
  EXPECT_EQ(heap->Statistics().Fallbacks(), 0);
  EXPECT_GT(heap->Statistics().planned, 1000);
}

std::string ErrorOf(const PlannedBlock& block) {
  std::string error;
  EXPECT_EQ(ProfileHeap::Replay({block}, &error), nullptr);
  return error;
}

TEST(ProfileHeap, RejectsMalformedPlans) {
  std::string error;
  EXPECT_EQ(ProfileHeap::Replay({}, &error), nullptr);
  EXPECT_THAT(error, HasSubstr("no blocks"));
  EXPECT_THAT(ErrorOf({.bytes = -1, .alignment = 64}), HasSubstr("negative"));
  EXPECT_THAT(ErrorOf({.bytes = 1, .alignment = 64, .offset = -64}), HasSubstr("negative"));
  EXPECT_THAT(ErrorOf({.bytes = INT64_MAX, .alignment = 64}), HasSubstr("too large"));
  EXPECT_THAT(ErrorOf({.bytes = 1, .alignment = 0}), HasSubstr("alignment"));
  EXPECT_THAT(ErrorOf({.bytes = 1, .alignment = 96}), HasSubstr("alignment"));
  EXPECT_THAT(ErrorOf({.bytes = 1, .alignment = 64, .offset = 32}), HasSubstr("multiple"));
  EXPECT_THAT(ErrorOf({.bytes = 1, .alignment = 64, .step = 1 << 30}), HasSubstr("step"));
}

class ProfileFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(testing::TempDir()) /
        ("profile_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string File(const std::string& name) const { return (folder_ / name).string(); }
  std::string ErrorOfFile(const std::string& content) const {
    std::ofstream(File("plan.csv")) << content;
    std::string error;
    EXPECT_EQ(ProfileHeap::ReplayFile(File("plan.csv"), &error), nullptr);
    return error;
  }

  std::filesystem::path folder_;
};

TEST_F(ProfileFiles, TraceIsReadByThePlannerAndItsPlanIsReplayed) {
  for (const int loop_steps : {0, 2}) {
    const auto recorded = ProfileHeap::Record();
    Train(*recorded, 5);
    ASSERT_TRUE(recorded->WriteTrace(File("trace.csv"), loop_steps));
    const auto list = ReadBuffersCsv(File("trace.csv"));
    ASSERT_TRUE(list.ok()) << list.status();
    const auto plan = PlanBuffers(list->buffers, std::nullopt, "auto", {.time_limit_seconds = 1});
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_TRUE(WriteBuffersCsv(File("plan.csv"), *list, plan->offsets).ok());
    std::string error;
    const auto heap = ProfileHeap::ReplayFile(File("plan.csv"), &error);
    ASSERT_NE(heap, nullptr) << error;
    const int steps = loop_steps == 0 ? 5 : 50;
    Train(*heap, steps);
    EXPECT_EQ(heap->Statistics().planned, 1 + 5 * steps);
    EXPECT_EQ(heap->Statistics().Fallbacks(), 0);
  }
}

TEST_F(ProfileFiles, ErrorsNameTheLine) {
  std::string error;
  EXPECT_EQ(ProfileHeap::ReplayFile(File("absent.csv"), &error), nullptr);
  EXPECT_THAT(error, HasSubstr("absent.csv: the file cannot be read"));
  EXPECT_THAT(ErrorOfFile(""), HasSubstr("empty"));
  EXPECT_THAT(ErrorOfFile("id,lower,upper,size\n"),
              HasSubstr("line 1: there is no column \"offset\""));
  EXPECT_THAT(ErrorOfFile("size,offset\n1,0\n1,x\n"),
              HasSubstr("line 3: the offset is not a number"));
  EXPECT_THAT(ErrorOfFile("size,offset\n1\n"), HasSubstr("line 2: the number of fields"));
  EXPECT_THAT(ErrorOfFile("size,offset\n1,0,0\n"), HasSubstr("line 2: the number of fields"));
  EXPECT_THAT(ErrorOfFile("size,offset\n"), HasSubstr("no blocks"));
  EXPECT_THAT(ErrorOfFile("size,alignment,offset\n1,0,0\n"), HasSubstr("alignment"));
}

TEST_F(ProfileFiles, ATraceThatCannotBeWrittenIsReported) {
  EXPECT_FALSE(ProfileHeap::Record()->WriteTrace(File("absent/trace.csv")));
}

}  // namespace
}  // namespace onnx_memplan
