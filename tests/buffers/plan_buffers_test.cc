#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "onnx_memplan/buffers.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;

// The example of the MiniMalloc paper: five buffers whose live bytes reach 12.
std::vector<Buffer> Example() {
  return {{.id = "b1", .lower = 0, .upper = 3, .bytes = 4},
          {.id = "b2", .lower = 3, .upper = 9, .bytes = 4},
          {.id = "b3", .lower = 0, .upper = 9, .bytes = 4},
          {.id = "b4", .lower = 9, .upper = 21, .bytes = 4},
          {.id = "b5", .lower = 0, .upper = 21, .bytes = 4}};
}

TEST(PlanBuffers, PacksTheExampleAtItsBound) {
  const auto plan = PlanBuffers(Example(), std::nullopt, "auto", {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->arena_bytes, 12);
  EXPECT_TRUE(plan->proven_optimal);
}

TEST(PlanBuffers, SaysHowMuchIsMissing) {
  const auto plan = PlanBuffers(Example(), 11, "auto", {});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("no placement can fit"));
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("1 more than the capacity of 11"));
}

TEST(PlanBuffers, NamesThePlannersThatExist) {
  const auto plan = PlanBuffers(Example(), std::nullopt, "magic", {});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("skyline_area"));
}

TEST(PlanBuffers, RejectsWhatIsMalformed) {
  const auto code = [](Buffer buffer) {
    return PlanBuffers({buffer}, std::nullopt, "auto", {}).status().code();
  };
  const Buffer good{.id = "x", .lower = 0, .upper = 9, .bytes = 4};
  EXPECT_EQ(code(good), absl::StatusCode::kOk);
  Buffer bad = good;
  bad.upper = 0;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.bytes = -1;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.alignment = 3;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.bytes = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.gaps = {{.lower = 2, .upper = 10}};
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad.gaps = {{.lower = 2, .upper = 4}, {.lower = 3, .upper = 5}};
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad.gaps = {{.lower = 2, .upper = 4, .window_low = 2, .window_high = 5}};
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
}

TEST(PlanBuffers, UsesGaps) {
  // y fits into x's gap, and beside what stays of x in the second gap.
  const std::vector<Buffer> buffers = {
      {.id = "x",
       .lower = 0,
       .upper = 20,
       .bytes = 8,
       .gaps = {{.lower = 5, .upper = 10},
                {.lower = 12, .upper = 15, .window_low = 0, .window_high = 2}}},
      {.id = "y", .lower = 6, .upper = 9, .bytes = 8},
      {.id = "z", .lower = 12, .upper = 15, .bytes = 6}};
  const auto plan = PlanBuffers(buffers, std::nullopt, "auto", {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->arena_bytes, 8);
  EXPECT_TRUE(plan->proven_optimal);
}

TEST(VerifyBufferOffsets, FindsEveryKindOfFault) {
  const std::vector<Buffer> buffers = Example();
  const std::vector<int64_t> good = {8, 8, 4, 4, 0};
  EXPECT_TRUE(VerifyBufferOffsets(buffers, good, 12).ok());
  EXPECT_THAT(std::string(VerifyBufferOffsets(buffers, good, 11).message()), HasSubstr("above"));
  EXPECT_FALSE(VerifyBufferOffsets(buffers, {8, 8, 4, 4}, 12).ok());
  EXPECT_FALSE(VerifyBufferOffsets(buffers, {8, 8, 4, 4, -4}, 12).ok());
  EXPECT_THAT(std::string(VerifyBufferOffsets(buffers, {8, 7, 4, 4, 0}, 12).message()),
              HasSubstr("\"b2\""));
}

TEST(ProblemFromBuffers, GivesTheSameLifetimesToEveryPlanner) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    std::vector<Buffer> buffers;
    const int count = 1 + static_cast<int>(random() % 30);
    for (int b = 0; b < count; ++b) {
      const auto lower = static_cast<int64_t>(random() % 1000);
      buffers.push_back({.id = std::to_string(b),
                         .lower = lower,
                         .upper = lower + 1 + static_cast<int64_t>(random() % 300),
                         .bytes = static_cast<int64_t>(random() % 100),
                         .gaps = {}});
    }
    const auto problem = ProblemFromBuffers(buffers);
    ASSERT_TRUE(problem.ok()) << problem.status();
    const auto planner = MakePlanner("heuristic");
    ASSERT_TRUE(planner.ok());
    const auto plan = (*planner)->Run(*problem, {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(VerifyBufferOffsets(buffers, plan->offsets, plan->arena_bytes).ok());
    const auto direct = PlanBuffers(buffers, std::nullopt, "heuristic", {});
    ASSERT_TRUE(direct.ok());
    EXPECT_EQ(plan->lower_bound, direct->lower_bound);
  }
}

TEST(PlanBuffers, PlansAHundredThousandBuffers) {
  std::mt19937 random(2);
  std::vector<Buffer> buffers;
  for (int b = 0; b < 100'000; ++b) {
    const auto lower = static_cast<int64_t>(random() % 1'000'000);
    const int64_t length = random() % 20 == 0 ? 20'000 : 500;
    buffers.push_back({.id = "b",
                       .lower = lower,
                       .upper = lower + 1 + static_cast<int64_t>(random()) % length,
                       .bytes = 1 + static_cast<int64_t>(random() % 4096),
                       .gaps = {}});
  }
  const auto plan = PlanBuffers(buffers, std::nullopt, "skyline_area", {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GE(plan->arena_bytes, plan->lower_bound);
}

// Public instances; see PLANNING for where the heights come from.
struct Known {
  std::string file;
  int64_t capacity;
};

TEST(PlanBuffers, SolvesThePublicInstances) {
  const std::filesystem::path folder = std::filesystem::path(ONNX_MEMPLAN_SHARED_DIR) / "placement";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  for (const Known& known :
       {Known{"input.12.csv", 12}, Known{"C.1048576.csv", 1'039'360},
        Known{"G.1048576.csv", 1'048'576}, Known{"J.1048576.csv", 1'048'576},
        Known{"K.1048576.csv", 1'048'576}, Known{"somas_resnet50.csv", 1'515'472'556},
        Known{"iopddl_G_1.csv", 3'030'937'746}}) {
    const auto list = ReadBuffersCsv((folder / known.file).string());
    ASSERT_TRUE(list.ok()) << list.status();
    const auto plan = PlanBuffers(list->buffers, known.capacity, "auto",
                                  {.time_limit_seconds = 60, .node_limit = 5'000'000});
    ASSERT_TRUE(plan.ok()) << known.file << ": " << plan.status();
    EXPECT_LE(plan->arena_bytes, known.capacity);
  }
}

}  // namespace
}  // namespace onnx_memplan
