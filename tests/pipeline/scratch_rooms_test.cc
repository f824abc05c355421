#include "pipeline/scratch_rooms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace onnx_memplan {
namespace {

using ::testing::ElementsAre;

// Task 0 makes storage 0, task 1 makes storage 1 from it, task 2 reads storage 1.
PlanProblem Chain() {
  PlanProblem problem;
  problem.storages = {{.name = "a", .bytes = 100}, {.name = "b", .bytes = 50}};
  problem.tasks = {{.name = "0", .writes = {0}},
                   {.name = "1", .reads = {0}, .writes = {1}},
                   {.name = "2", .reads = {1}}};
  return problem;
}

TEST(ScratchRoomsTest, AreTheLargestRangesThatNothingTakes) {
  Plan plan;
  plan.order = {0, 1, 2};
  plan.offsets = {0, 120};
  EXPECT_THAT(ScratchRooms(Chain(), plan, 200, 1), ElementsAre(100, 30, 120));
}

TEST(ScratchRoomsTest, StartAtTheAlignment) {
  Plan plan;
  plan.order = {0, 1, 2};
  plan.offsets = {0, 120};
  EXPECT_THAT(ScratchRooms(Chain(), plan, 200, 64), ElementsAre(72, 8, 120));
}

TEST(ScratchRoomsTest, AreByTaskInWhateverOrderTheyRun) {
  PlanProblem problem = Chain();
  std::swap(problem.tasks[0], problem.tasks[2]);
  Plan plan;
  plan.order = {2, 1, 0};
  plan.offsets = {0, 120};
  EXPECT_THAT(ScratchRooms(problem, plan, 200, 1), ElementsAre(120, 30, 100));
}

}  // namespace
}  // namespace onnx_memplan
