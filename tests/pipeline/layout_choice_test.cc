// What CompileOptions::optimize does to the arena and to the results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "onnx_memplan/compare.h"
#include "onnx_memplan/compile.h"

namespace onnx_memplan {
namespace {

using ::testing::SizeIs;

constexpr OptimizeFor kAll[] = {OptimizeFor::kBalanced, OptimizeFor::kSpeed, OptimizeFor::kSize,
                                OptimizeFor::kMemory};

class LayoutChoiceTest : public ::testing::TestWithParam<const char*> {
 protected:
  static std::string Folder() { return std::string(ONNX_MEMPLAN_SOURCE_DIR) + "/models/resnet8"; }

  static CompiledModel Compile(OptimizeFor optimize) {
    CompileOptions options;
    options.target = GetParam();
    options.optimize = optimize;
    absl::StatusOr<CompiledModel> model = CompileModel(Folder() + "/model.onnx", options);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
};

INSTANTIATE_TEST_SUITE_P(Targets, LayoutChoiceTest,
                         ::testing::Values("generic", "x86-64-v3", "x86-64-v4"));

TEST_P(LayoutChoiceTest, BalancedGrowsTheArenaByThreePercentAtMost) {
  std::map<OptimizeFor, int64_t> arena_bytes;
  for (const OptimizeFor optimize : kAll) {
    arena_bytes[optimize] = Compile(optimize).plan().arena_bytes;
  }
  EXPECT_LE(arena_bytes[OptimizeFor::kBalanced] * 100, arena_bytes[OptimizeFor::kMemory] * 103);
  EXPECT_LE(arena_bytes[OptimizeFor::kMemory], arena_bytes[OptimizeFor::kSize]);
  EXPECT_LE(arena_bytes[OptimizeFor::kMemory], arena_bytes[OptimizeFor::kSpeed]);
}

TEST_P(LayoutChoiceTest, OutputsMatchTheReferenceWhateverCounts) {
  const auto input = ReadTensorFile(Folder() + "/input_0.npy");
  const auto expected = ReadTensorFile(Folder() + "/output_0.npy");
  ASSERT_TRUE(input.ok() && expected.ok());
  for (const OptimizeFor optimize : kAll) {
    const auto outputs = Compile(optimize).Run({&*input, 1});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_THAT(*outputs, SizeIs(1));
    const auto difference = CompareTensors((*outputs)[0], *expected);
    ASSERT_TRUE(difference.ok()) << difference.status();
    EXPECT_LE(difference->largest, 1e-5 * difference->scale) << static_cast<int>(optimize);
  }
}

TEST_P(LayoutChoiceTest, ExportedModelsHaveOperatorsOfOnnxOnly) {
  for (const std::string name : {"resnet8", "tiny_transformer"}) {
    CompileOptions options;
    options.target = GetParam();
    const auto model = CompileModel(
        std::string(ONNX_MEMPLAN_SOURCE_DIR) + "/models/" + name + "/model.onnx", options);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto bytes = model->ExportOnnx();
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(bytes->find("onnx_memplan.") + bytes->find("Blocked"), 2 * std::string::npos);
    EXPECT_EQ(bytes->find("Attention"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace onnx_memplan
