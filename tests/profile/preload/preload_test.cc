#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "onnx_memplan/buffers.h"
#include "testing/commands.h"

namespace onnx_memplan {
namespace {

using ::onnx_memplan::testing::CommandResult;
using ::onnx_memplan::testing::RunCommand;
using ::onnx_memplan::testing::TemporaryFolder;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kWell[] = "all is well\n";
// Each step has one request that nobody can serve. It is not in the profile.
constexpr int kSteps = 5;

class Preload : public ::testing::Test {
 protected:
  // Runs the program with `words` under the library; `variables` as in a shell.
  CommandResult Run(const std::string& variables, const std::string& words) const {
    return RunCommand(
        "env LD_PRELOAD=" PROFILE_LIBRARY " " + variables + " " PROFILE_PROGRAM " " + words,
        folder_);
  }
  CommandResult Replay(const std::string& words) const {
    return Run(
        "ONNX_MEMPLAN_PROFILE=replay ONNX_MEMPLAN_PROFILE_FILE=plan.csv "
        "ONNX_MEMPLAN_PROFILE_STATISTICS=replay.json",
        words);
  }
  // Records the program and plans it; the trace is trace.csv.
  void RecordAndPlan(const std::string& words, const std::string& variables = "") const {
    const CommandResult run =
        Run("ONNX_MEMPLAN_PROFILE=record ONNX_MEMPLAN_PROFILE_FILE=trace.csv " + variables, words);
    ASSERT_THAT(run.output, EndsWith(kWell));
    ASSERT_EQ(run.exit_status, 0);
    const auto list = ReadBuffersCsv(folder_.File("trace.csv"));
    ASSERT_TRUE(list.ok()) << list.status();
    const auto plan = PlanBuffers(list->buffers, std::nullopt, "heuristic", {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_TRUE(WriteBuffersCsv(folder_.File("plan.csv"), *list, plan->offsets).ok());
  }
  // A whole number of the statistics, outside of the steps.
  int64_t Statistic(const std::string& name) const {
    const std::string text = folder_.Read("replay.json");
    const size_t at = text.find("\"" + name + "\": ");
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 4));
  }

  TemporaryFolder folder_;
};

TEST_F(Preload, ChangesNothingWhenItIsNotAsked) {
  const CommandResult run = Run("", "threads fork exec");
  EXPECT_EQ(run.output, std::string(kWell) + kWell);
  EXPECT_EQ(run.exit_status, 0);
}

TEST_F(Preload, ReplaysTheSameRunWithoutFallback) {
  RecordAndPlan("");
  EXPECT_EQ(Replay("").output, kWell);
  EXPECT_EQ(Statistic("fallbacks"), kSteps);
  EXPECT_EQ(Statistic("peak_fallback_bytes"), 0);
  EXPECT_GT(Statistic("planned"), kSteps * 12);
  EXPECT_LE(Statistic("resident_bytes"), Statistic("arena_bytes"));
}

TEST_F(Preload, SurvivesDeviations) {
  RecordAndPlan("");
  EXPECT_EQ(Replay("deviate").output, kWell);
  EXPECT_EQ(Statistic("unknown"), kSteps + 1);
  EXPECT_GT(Statistic("planned"), kSteps * 10);
  EXPECT_EQ(Replay("deviate threads fork exec").output, std::string(kWell) + kWell);
  EXPECT_GT(Statistic("missing"), 100);
}

TEST_F(Preload, RecordsThreadsForksAndChildren) {
  RecordAndPlan("threads fork exec", "ONNX_MEMPLAN_PROFILE_MIN_BYTES=1");
}

TEST_F(Preload, ReplaysThreads) {
  RecordAndPlan("threads");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Replay("threads").output, kWell);
  EXPECT_GT(Statistic("planned"), 200);
}

TEST_F(Preload, ReplaysEveryRequestHoweverSmall) {
  RecordAndPlan("", "ONNX_MEMPLAN_PROFILE_MIN_BYTES=1");
  EXPECT_EQ(Replay("fork").output, kWell);
  EXPECT_GT(Statistic("planned"), 1000);
}

TEST_F(Preload, ALoopServesAnyNumberOfSteps) {
  RecordAndPlan("", "ONNX_MEMPLAN_PROFILE_LOOP=1");
  EXPECT_EQ(Replay("steps").output, kWell);
  // And the buffer of standard output, after the last step.
  EXPECT_EQ(Statistic("fallbacks"), 50 + 1);
  EXPECT_GT(Statistic("planned"), 50 * 12);
}

TEST_F(Preload, SaysThatALoopIsTooLong) {
  EXPECT_THAT(Run("ONNX_MEMPLAN_PROFILE=record ONNX_MEMPLAN_PROFILE_FILE=trace.csv "
                  "ONNX_MEMPLAN_PROFILE_LOOP=4",
                  "")
                  .output,
              HasSubstr("too few steps"));
  EXPECT_THAT(folder_.Read("trace.csv"), Not(HasSubstr("loop")));
}

TEST_F(Preload, MeasuresMalloc) {
  EXPECT_EQ(
      Run("ONNX_MEMPLAN_PROFILE=measure ONNX_MEMPLAN_PROFILE_STATISTICS=replay.json", "").output,
      kWell);
  EXPECT_GT(Statistic("calls"), 100);
  EXPECT_GT(Statistic("nanoseconds"), 0);
  EXPECT_EQ(Statistic("planned"), 0);
}

TEST_F(Preload, SaysWhatIsWrongAndLetsMallocServe) {
  EXPECT_THAT(
      Replay("").output,
      ContainsRegex("the file cannot be read: plan.csv\n.*malloc serves this run\nall is well"));
  folder_.Write("plan.csv", "id,lower,upper,size\n1,0,1,5000\n");
  EXPECT_THAT(Replay("").output, HasSubstr("no column \"offset\""));
  EXPECT_THAT(Run("ONNX_MEMPLAN_PROFILE=play", "").output,
              HasSubstr("must be record, replay or measure"));
  EXPECT_THAT(Run("ONNX_MEMPLAN_PROFILE=record", "").output, HasSubstr("_FILE is not set"));
  EXPECT_THAT(Run("ONNX_MEMPLAN_PROFILE=measure ONNX_MEMPLAN_PROFILE_MIN_BYTES=4G", "").output,
              HasSubstr("must be a size"));
  EXPECT_THAT(
      Run("ONNX_MEMPLAN_PROFILE=record ONNX_MEMPLAN_PROFILE_FILE=absent/trace.csv", "").output,
      HasSubstr("the trace cannot be written: absent/trace.csv"));
}

TEST_F(Preload, OnlyTheProgramThatIsMeantIsRecorded) {
  const std::string variables =
      "ONNX_MEMPLAN_PROFILE=record ONNX_MEMPLAN_PROFILE_FILE=trace.csv "
      "ONNX_MEMPLAN_PROFILE_PROGRAM=";
  EXPECT_EQ(Run(variables + "other", "").output, kWell);
  EXPECT_FALSE(std::filesystem::exists(folder_.File("trace.csv")));
  EXPECT_EQ(Run(variables + "onnx_memplan_profile_program", "").output, kWell);
  EXPECT_THAT(folder_.Read("trace.csv"), StartsWith("id,lower,upper,size,alignment\n0.0,0,"));
}

TEST_F(Preload, AbortsWhenAPlannedBlockIsReleasedTwice) {
  RecordAndPlan("");
  const std::string plan = folder_.Read("plan.csv");
  // One place for a request that the recorded run did not have.
  folder_.Write("plan.csv", plan + "9999.5,0,1,10000,64,67108864\n");
  const CommandResult run = Replay("twice");
  EXPECT_THAT(run.output, HasSubstr("released twice"));
  EXPECT_THAT(run.output, Not(HasSubstr(kWell)));
}

}  // namespace
}  // namespace onnx_memplan
