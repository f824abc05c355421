#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "onnx_memplan/plan.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;

// in -> [t0] -> x -> [t1, in place] -> y -> [t2, scratch] -> out; sizes 16, 32, 32, 8, scratch 4.
PlanProblem Chain() {
  PlanProblem problem;
  problem.storages = {{.name = "in", .bytes = 16, .alignment = 4, .live_in = true},
                      {.name = "x", .bytes = 32, .alignment = 4},
                      {.name = "y", .bytes = 32, .alignment = 4},
                      {.name = "out", .bytes = 8, .alignment = 4, .live_out = true}};
  problem.tasks = {{.name = "t0", .reads = {0}, .writes = {1}, .after = {}},
                   {.name = "t1", .reads = {1}, .writes = {2}, .after = {}},
                   {.name = "t2",
                    .reads = {2},
                    .writes = {3},
                    .after = {},
                    .scratch_bytes = 4,
                    .scratch_alignment = 2}};
  problem.in_place = {{.task = 1, .from = 1, .to = 2}};
  return problem;
}

Plan ChainPlan() {
  return {.order = {0, 1, 2},
          .offsets = {32, 0, 0, 32},
          .scratch_offsets = {0, 0, 40},
          .arena_bytes = 48,
          .lower_bound = 44,
          .proven_optimal = false,
          .method = ""};
}

TEST(VerifyPlan, AcceptsALegalPlanWithAnInPlacePair) {
  EXPECT_TRUE(VerifyPlan(Chain(), ChainPlan()).ok()) << VerifyPlan(Chain(), ChainPlan());
}

struct Break {
  std::string name;
  std::function<void(PlanProblem&, Plan&)> apply;
  std::string message;
};

class BrokenPlan : public testing::TestWithParam<Break> {};

TEST_P(BrokenPlan, IsRejectedWithTheViolation) {
  PlanProblem problem = Chain();
  Plan plan = ChainPlan();
  GetParam().apply(problem, plan);
  const absl::Status status = VerifyPlan(problem, plan);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    EveryWay, BrokenPlan,
    testing::Values(
        Break{"OrderTooShort", [](PlanProblem&, Plan& p) { p.order.pop_back(); }, "2 steps for 3"},
        Break{"TaskTwice",
              [](PlanProblem&, Plan& p) {
                p.order = {0, 1, 1};
              },
              "runs at steps"},
        Break{"UnknownTask",
              [](PlanProblem&, Plan& p) {
                p.order = {0, 1, 7};
              },
              "does not exist"},
        Break{"NegativeTask",
              [](PlanProblem&, Plan& p) {
                p.order = {-1, 1, 2};
              },
              "does not exist"},
        Break{"ReaderBeforeWriter",
              [](PlanProblem&, Plan& p) {
                p.order = {1, 0, 2};
              },
              "before task 0"},
        Break{"AfterIsIgnored", [](PlanProblem& q, Plan&) { q.tasks[0].after = {2}; },
              "must run after"},
        Break{"FixedOrderIsLeft",
              [](PlanProblem& q, Plan& p) {
                q.fixed_order = true;
                p.order = {2, 1, 0};
              },
              "order is fixed"},
        Break{"MissingOffset", [](PlanProblem&, Plan& p) { p.offsets.pop_back(); }, "3 offsets"},
        Break{"MissingScratchOffset", [](PlanProblem&, Plan& p) { p.scratch_offsets.clear(); },
              "0 scratch offsets"},
        Break{"NegativeOffset", [](PlanProblem&, Plan& p) { p.offsets[0] = -4; }, "out of range"},
        Break{"Misaligned", [](PlanProblem&, Plan& p) { p.offsets[0] = 34; },
              "not a multiple of its alignment"},
        Break{"MisalignedScratch", [](PlanProblem&, Plan& p) { p.scratch_offsets[2] = 41; },
              "scratch of task 2"},
        Break{"FixedOffsetIsLeft", [](PlanProblem& q, Plan&) { q.storages[0].fixed_offset = 0; },
              "fixed at 0"},
        Break{"ArenaTooSmall",
              [](PlanProblem&, Plan& p) { p.arena_bytes = 40, p.lower_bound = 40; },
              "the storages end at 48"},
        Break{"ArenaTooLarge", [](PlanProblem&, Plan& p) { p.arena_bytes = 64; },
              "the storages end at 48"},
        Break{"BoundAboveTheArena", [](PlanProblem&, Plan& p) { p.lower_bound = 50; },
              "lower bound 50"},
        Break{"ProofWithoutEquality", [](PlanProblem&, Plan& p) { p.proven_optimal = true; },
              "proven optimal"},
        Break{"AboveTheCapacity", [](PlanProblem& q, Plan&) { q.capacity = 47; }, "capacity 47"},
        Break{"StoragesOverlap",
              [](PlanProblem&, Plan& p) {
                p.offsets[0] = 28;
                p.arena_bytes = 44;
              },
              "overlap at step"},
        Break{"ScratchOverlaps",
              [](PlanProblem&, Plan& p) {
                p.scratch_offsets[2] = 38;
                p.arena_bytes = 48;
                p.offsets[0] = 32;
              },
              "scratch of task 2"},
        Break{"InPlaceWithoutOffer", [](PlanProblem& q, Plan&) { q.in_place.clear(); },
              "overlap at step 1"},
        Break{"InPlaceAtTheWrongTask", [](PlanProblem& q, Plan&) { q.in_place[0].task = 2; },
              "overlap at step 1"},
        Break{"InPlaceTheOtherWay",
              [](PlanProblem& q, Plan&) { q.in_place[0] = {.task = 1, .from = 2, .to = 1}; },
              "overlap at step 1"},
        Break{"InPlaceAtAnotherOffset", [](PlanProblem&, Plan& p) { p.offsets[2] = 4; },
              "overlap at step 1"},
        Break{"InPlaceWhileStillRead", [](PlanProblem& q, Plan&) { q.tasks[2].reads.push_back(1); },
              "overlap at step 1"},
        Break{"InPlaceOfWhatMustSurvive",
              [](PlanProblem& q, Plan&) { q.storages[1].live_out = true; }, "overlap"},
        Break{"InPlaceOverWhatHoldsData",
              [](PlanProblem& q, Plan&) { q.storages[2].live_in = true; }, "overlap"},
        Break{"LiveInEndsTooSoon",
              [](PlanProblem& q, Plan&) {
                q.storages.push_back(
                    {.name = "state", .bytes = 8, .live_in = true, .live_out = true});
              },
              "4 offsets for 5"},
        Break{"ReadOutOfRange", [](PlanProblem& q, Plan&) { q.tasks[0].reads = {9}; }, "malformed"},
        Break{"OptionOutOfRange", [](PlanProblem& q, Plan&) { q.in_place[0].from = 9; },
              "malformed"}),
    [](const testing::TestParamInfo<Break>& param_info) { return param_info.param.name; });

TEST(VerifyPlan, StateIsLiveAtEveryStep) {
  PlanProblem problem = Chain();
  problem.storages.push_back({.name = "state", .bytes = 8, .live_in = true, .live_out = true});
  Plan plan = ChainPlan();
  plan.offsets.push_back(40);
  EXPECT_THAT(std::string(VerifyPlan(problem, plan).message()), HasSubstr("state"));
  plan.offsets.back() = 48;
  plan.arena_bytes = 56;
  EXPECT_TRUE(VerifyPlan(problem, plan).ok());
}

TEST(VerifyPlan, OneStorageCannotBeWrittenOverByTwo) {
  PlanProblem problem;
  problem.storages = {{.name = "a", .bytes = 8, .live_in = true},
                      {.name = "b", .bytes = 8},
                      {.name = "c", .bytes = 8}};
  problem.tasks = {{.name = "t", .reads = {0}, .writes = {1, 2}, .after = {}}};
  problem.in_place = {{.task = 0, .from = 0, .to = 1}, {.task = 0, .from = 0, .to = 2}};
  Plan plan{.order = {0},
            .offsets = {0, 0, 0},
            .scratch_offsets = {0},
            .arena_bytes = 8,
            .lower_bound = 0,
            .proven_optimal = false,
            .method = ""};
  EXPECT_THAT(std::string(VerifyPlan(problem, plan).message()), HasSubstr("overlap"));
  plan.offsets[2] = 8;
  plan.arena_bytes = 16;
  EXPECT_TRUE(VerifyPlan(problem, plan).ok());
}

TEST(VerifyPlan, StoragesOfDifferentTimesMayShareBytes) {
  PlanProblem problem;
  problem.storages = {{.name = "a", .bytes = 8}, {.name = "b", .bytes = 8}};
  problem.tasks = {{.name = "t0", .reads = {}, .writes = {0}, .after = {}},
                   {.name = "t1", .reads = {}, .writes = {1}, .after = {}}};
  const Plan plan{.order = {1, 0},
                  .offsets = {0, 0},
                  .scratch_offsets = {0, 0},
                  .arena_bytes = 8,
                  .lower_bound = 8,
                  .proven_optimal = true,
                  .method = ""};
  EXPECT_TRUE(VerifyPlan(problem, plan).ok());
}

TEST(VerifyPlan, StoragesWithoutBytesConflictWithNothing) {
  PlanProblem problem = Chain();
  problem.storages.push_back({.name = "empty", .bytes = 0, .live_in = true, .live_out = true});
  Plan plan = ChainPlan();
  plan.offsets.push_back(0);
  EXPECT_TRUE(VerifyPlan(problem, plan).ok());
}

TEST(VerifyPlan, DataWithoutTasksNeedsAPlace) {
  PlanProblem problem;
  problem.storages = {{.name = "a", .bytes = 8, .live_in = true},
                      {.name = "b", .bytes = 8, .live_out = true}};
  Plan plan{.order = {},
            .offsets = {0, 0},
            .scratch_offsets = {},
            .arena_bytes = 8,
            .lower_bound = 0,
            .proven_optimal = false,
            .method = ""};
  EXPECT_THAT(std::string(VerifyPlan(problem, plan).message()), HasSubstr("overlap at step 0"));
  plan.offsets[1] = 8;
  plan.arena_bytes = 16;
  EXPECT_TRUE(VerifyPlan(problem, plan).ok());
}

}  // namespace
}  // namespace onnx_memplan
