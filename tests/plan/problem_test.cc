#include "plan/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace onnx_memplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// in -> A -> x -> {B, C} -> y, z -> D -> out
PlanProblem Diamond() {
  PlanProblem problem;
  problem.storages = {{.name = "in", .bytes = 4, .live_in = true},
                      {.name = "x", .bytes = 4},
                      {.name = "y", .bytes = 4},
                      {.name = "z", .bytes = 4},
                      {.name = "out", .bytes = 4, .live_out = true}};
  problem.tasks = {{.name = "A", .reads = {0}, .writes = {1}},
                   {.name = "B", .reads = {1}, .writes = {2}},
                   {.name = "C", .reads = {1}, .writes = {3}},
                   {.name = "D", .reads = {2, 3}, .writes = {4}}};
  problem.in_place = {{.task = 1, .from = 1, .to = 2}};
  return problem;
}

std::vector<int32_t> List(std::span<const int32_t> tasks) { return {tasks.begin(), tasks.end()}; }

TEST(BuildPrecedence, RunsWritersBeforeReadersAndKeepsAfter) {
  PlanProblem problem = Diamond();
  problem.tasks[1].after = {2, 2};
  const Precedence precedence = BuildPrecedence(problem);
  EXPECT_THAT(List(precedence.predecessors[3]), ElementsAre(1, 2));
  EXPECT_THAT(List(precedence.predecessors[1]), ElementsAre(0, 2));
  EXPECT_THAT(List(precedence.successors[0]), ElementsAre(1, 2));
  EXPECT_EQ(precedence.predecessors.total(), 5);
  EXPECT_THAT(ProgramOrder(precedence, 4), ElementsAre(0, 2, 1, 3));
}

TEST(BuildPrecedence, SaysNothingOfStoragesWithSeveralWritersOrDataBefore) {
  PlanProblem problem = Diamond();
  problem.tasks[2].writes = {2};
  EXPECT_TRUE(BuildPrecedence(problem).predecessors[3].empty());
  problem = Diamond();
  problem.storages[1].live_in = true;
  EXPECT_TRUE(BuildPrecedence(problem).predecessors[1].empty());
}

TEST(IsTopologicalOrder, RejectsWhatIsNoPermutationOrRunsTooSoon) {
  const Precedence precedence = BuildPrecedence(Diamond());
  const auto legal = [&](std::vector<int32_t> order) {
    return IsTopologicalOrder(precedence, order, 4);
  };
  EXPECT_TRUE(legal({0, 2, 1, 3}));
  EXPECT_FALSE(legal({0, 1, 3, 2}));
  EXPECT_FALSE(legal({0, 1, 2}));
  EXPECT_FALSE(legal({0, 1, 1, 3}));
  EXPECT_FALSE(legal({0, 1, 2, 4}));
}

struct Fault {
  std::string name;
  std::function<void(PlanProblem&)> apply;
  std::string message;
};

class MalformedProblem : public testing::TestWithParam<Fault> {};

TEST_P(MalformedProblem, IsRefusedByTheCheckAndByEveryPlanner) {
  PlanProblem problem = Diamond();
  GetParam().apply(problem);
  const absl::Status status = CheckProblem(problem);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
  for (const PlannerInfo& info : AvailablePlanners()) {
    const auto planner = MakePlanner(info.name);
    ASSERT_TRUE(planner.ok());
    EXPECT_EQ((*planner)->Run(problem, {}).status(), status);
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryFault, MalformedProblem,
    testing::Values(
        Fault{"NegativeSize", [](PlanProblem& p) { p.storages[1].bytes = -1; },
              "storage 1 \"x\" has a negative size: -1"},
        Fault{"OddAlignment", [](PlanProblem& p) { p.storages[1].alignment = 12; },
              "not a power of two: 12"},
        Fault{"NoAlignment", [](PlanProblem& p) { p.storages[1].alignment = 0; }, "power of two"},
        Fault{"SizesOverflow",
              [](PlanProblem& p) { p.storages[1].bytes = std::numeric_limits<int64_t>::max(); },
              "more than 2^61"},
        Fault{"SizesAddUpTooFar",
              [](PlanProblem& p) {
                for (Storage& storage : p.storages) storage.bytes = int64_t{1} << 60;
              },
              "more than 2^61"},
        Fault{"NegativeFixedOffset", [](PlanProblem& p) { p.storages[1].fixed_offset = -4; },
              "fixed offset out of range"},
        Fault{"MisalignedFixedOffset",
              [](PlanProblem& p) {
                p.storages[1].alignment = 8;
                p.storages[1].fixed_offset = 4;
              },
              "not a multiple of its alignment 8"},
        Fault{"ReadsNothing", [](PlanProblem& p) { p.tasks[1].reads = {5}; },
              "task 1 \"B\": `reads` names storage 5, but there are 5"},
        Fault{"WritesNothing", [](PlanProblem& p) { p.tasks[1].writes = {-1}; }, "`writes`"},
        Fault{"AfterNobody", [](PlanProblem& p) { p.tasks[1].after = {4}; }, "`after`"},
        Fault{"NegativeScratch", [](PlanProblem& p) { p.tasks[0].scratch_bytes = -1; },
              "negative scratch"},
        Fault{"OddScratchAlignment", [](PlanProblem& p) { p.tasks[0].scratch_alignment = 3; },
              "scratch alignment"},
        Fault{"InPlaceOutOfRange", [](PlanProblem& p) { p.in_place[0].to = 9; }, "out of range"},
        Fault{"InPlaceOverItself", [](PlanProblem& p) { p.in_place[0].from = 2; }, "over itself"},
        Fault{"InPlaceIsNotWritten", [](PlanProblem& p) { p.in_place[0].task = 2; },
              "does not write"},
        Fault{"NegativeCapacity", [](PlanProblem& p) { p.capacity = -1; }, "negative capacity"},
        Fault{"Cycle", [](PlanProblem& p) { p.tasks[0].after = {3}; }, "cycle: 4 tasks"},
        Fault{"WrongFixedOrder",
              [](PlanProblem& p) {
                p.fixed_order = true;
                std::swap(p.tasks[0], p.tasks[2]);
                p.in_place.clear();
              },
              "the order of the tasks is fixed"}),
    [](const testing::TestParamInfo<Fault>& param_info) { return param_info.param.name; });

TEST(PlannerRun, SaysWhatIsMissingAndWhatIsLargestAtThePeak) {
  PlanProblem problem = Diamond();
  problem.in_place.clear();
  problem.storages[2].bytes = 100;
  problem.capacity = 50;
  const auto planner = MakePlanner("program");
  ASSERT_TRUE(planner.ok());
  const absl::Status status = (*planner)->Run(problem, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no plan can fit"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("58 more than the capacity of 50"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("y 100 B"));
}

TEST(PlannerRun, RefusesFixedOffsetsThatConflict) {
  PlanProblem problem = Diamond();
  problem.storages[0].fixed_offset = 0;
  problem.storages[1].fixed_offset = 0;
  for (const PlannerInfo& info : AvailablePlanners()) {
    const auto planner = MakePlanner(info.name);
    ASSERT_TRUE(planner.ok());
    EXPECT_EQ((*planner)->Run(problem, {}).status().code(), absl::StatusCode::kInvalidArgument)
        << info.name;
  }
}

TEST(MakePlanner, NamesThePlannersThatExist) {
  const absl::Status status = MakePlanner("magic").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("auto"));
  EXPECT_EQ(AvailablePlanners().front().name, "auto");
}

}  // namespace
}  // namespace onnx_memplan
