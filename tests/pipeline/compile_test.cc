#include "onnx_memplan/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "onnx_memplan/compare.h"

namespace onnx_memplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::string Folder(const std::string& model) {
  return std::string(ONNX_MEMPLAN_SOURCE_DIR) + "/models/" + model;
}

CompiledModel Compile(const std::string& model, const CompileOptions& options = {}) {
  absl::StatusOr<CompiledModel> compiled = CompileModel(Folder(model) + "/model.onnx", options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

class ShippedModelTest : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Models, ShippedModelTest,
                         ::testing::Values("lenet", "ds_cnn", "resnet8", "tiny_transformer", "mlp"),
                         [](const auto& model) { return model.param; });

TEST_P(ShippedModelTest, ReplayMatchesPyTorchOnEveryTarget) {
  for (const TargetInfo& target : AvailableTargets()) {
    CompileOptions options;
    options.target = target.name;
    const CompiledModel model = Compile(GetParam(), options);
    const auto input = ReadTensorFile(Folder(GetParam()) + "/input_0.npy");
    const auto expected = ReadTensorFile(Folder(GetParam()) + "/output_0.npy");
    ASSERT_TRUE(input.ok() && expected.ok());
    const auto outputs = model.Run({&*input, 1});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_THAT(*outputs, SizeIs(1));
    const auto difference = CompareTensors((*outputs)[0], *expected);
    ASSERT_TRUE(difference.ok()) << difference.status();
    EXPECT_LE(difference->largest, 1e-5 * difference->scale) << target.name;
  }
}

TEST_P(ShippedModelTest, ThreadsShareTheWorkAndGiveTheSameBits) {
  for (const TargetInfo& target : AvailableTargets()) {
    CompileOptions options;
    options.target = target.name;
    const auto input = ReadTensorFile(Folder(GetParam()) + "/input_0.npy");
    const auto expected = Compile(GetParam(), options).Run({&*input, 1});
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const int32_t threads : {2, 3, 7}) {
      options.threads = threads;
      const CompiledModel model = Compile(GetParam(), options);
      const auto outputs = model.Run({&*input, 1});
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      EXPECT_EQ(*outputs, *expected) << threads << " threads for " << target.name;
    }
  }
}

TEST_P(ShippedModelTest, ArenaIsProvenMinimal) {
  const CompiledModel model = Compile(GetParam());
  EXPECT_TRUE(model.plan().proven_optimal);
  EXPECT_EQ(model.plan().arena_bytes, model.plan().lower_bound);
}

TEST_P(ShippedModelTest, OptimisationOffGivesTheSameOutputs) {
  CompileOptions plain;
  plain.passes.only_named = true;
  const auto input = ReadTensorFile(Folder(GetParam()) + "/input_0.npy");
  ASSERT_TRUE(input.ok());
  const auto optimised = Compile(GetParam()).Run({&*input, 1});
  const auto unoptimised = Compile(GetParam(), plain).Run({&*input, 1});
  ASSERT_TRUE(optimised.ok() && unoptimised.ok());
  const auto difference = CompareTensors((*optimised)[0], (*unoptimised)[0]);
  ASSERT_TRUE(difference.ok());
  EXPECT_LE(difference->largest, 1e-5 * difference->scale);
}

TEST(Compile, EveryPlannerGivesAPlanWithinItsBound) {
  for (const PlannerInfo& planner : AvailablePlanners()) {
    CompileOptions options;
    options.planner = std::string(planner.name);
    options.budget.time_limit_seconds = 5;
    const CompiledModel model = Compile("resnet8", options);
    EXPECT_GE(model.plan().arena_bytes, model.plan().lower_bound) << planner.name;
  }
}

TEST(Compile, ArenaLimitNamesTheMissingBytesAndTheTensorsInTheWay) {
  CompileOptions options;
  options.arena_limit_bytes = 1000;
  const auto model = CompileModel(Folder("lenet") + "/model.onnx", options);
  ASSERT_EQ(model.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(model.status().message()),
              AllOf(HasSubstr("more than the limit of 1000"), HasSubstr("MaxPool")));
}

TEST(Compile, UnknownNamesListWhatThereIs) {
  CompileOptions options;
  options.target = "z80";
  EXPECT_THAT(std::string(CompileModel(Folder("mlp") + "/model.onnx", options).status().message()),
              HasSubstr("x86-64-v3"));
  options.target = "generic";
  options.planner = "magic";
  EXPECT_THAT(std::string(CompileModel(Folder("mlp") + "/model.onnx", options).status().message()),
              HasSubstr("auto"));
}

TEST(Compile, InArenaInputsAndOutputsGiveTheSameResult) {
  CompileOptions options;
  options.io_in_arena = true;
  const auto input = ReadTensorFile(Folder("lenet") + "/input_0.npy");
  ASSERT_TRUE(input.ok());
  const auto inside = Compile("lenet", options).Run({&*input, 1});
  const auto outside = Compile("lenet").Run({&*input, 1});
  ASSERT_TRUE(inside.ok() && outside.ok());
  EXPECT_EQ((*inside)[0], (*outside)[0]);
}

TEST(Compile, ReproducibleReportsHaveNoTimes) {
  const CompiledModel model = Compile("mlp");
  EXPECT_THAT(model.Report(ReportFormat::kJson, {.all_steps = true, .reproducible = true}),
              Not(HasSubstr("planning_seconds")));
  EXPECT_THAT(model.Report(ReportFormat::kJson, {}), HasSubstr("planning_seconds"));
}

TEST(Compile, ExportedGraphCompilesToTheSameOutputs) {
  const CompiledModel model = Compile("resnet8");
  const auto bytes = model.ExportOnnx();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  auto loaded =
      LoadModelFromBytes({reinterpret_cast<const std::byte*>(bytes->data()), bytes->size()}, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto again = CompileGraph(*std::move(loaded), {});
  ASSERT_TRUE(again.ok()) << again.status();
  const auto input = ReadTensorFile(Folder("resnet8") + "/input_0.npy");
  const auto first = model.Run({&*input, 1});
  const auto second = again->Run({&*input, 1});
  ASSERT_TRUE(first.ok() && second.ok());
  const auto difference = CompareTensors((*first)[0], (*second)[0]);
  ASSERT_TRUE(difference.ok());
  EXPECT_LE(difference->largest, 1e-6);
}

}  // namespace
}  // namespace onnx_memplan
