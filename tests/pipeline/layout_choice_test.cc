// What CompileOptions::optimize does to the arena and to the results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

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

// An image, then an inverted residual that adds its own input.
Graph InvertedResidual() {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-0.2F, 0.2F);
  Graph graph;
  const auto constant = [&](Shape shape) {
    std::vector<float> values(static_cast<size_t>(CheckedNumElements(shape).value()));
    for (float& value : values) value = uniform(random);
    return graph.AddConstant("w" + std::to_string(graph.values.size()),
                             Tensor::FromVector<float>(std::move(shape), values));
  };
  const auto add = [&](const char* type, std::vector<ValueId> inputs,
                       decltype(Node::attributes) attributes) {
    const ValueId y = graph.AddValue("v" + std::to_string(graph.values.size()));
    Node node;
    node.op_type = type;
    node.inputs = std::move(inputs);
    node.outputs = {y};
    node.attributes = std::move(attributes);
    graph.nodes.push_back(std::move(node));
    return y;
  };
  const ValueId x = graph.AddValue("x", TensorType{DType::kFloat, {1, 16, 24, 20}});
  graph.inputs = {x};
  const ValueId block = add("Conv", {x, constant({16, 16, 1, 1})}, {});
  ValueId v = add("Relu", {add("Conv", {block, constant({96, 16, 1, 1}), constant({96})}, {})}, {});
  v = add("Conv", {v, constant({96, 1, 3, 3})},
          {{"group", int64_t{96}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  v = add("Conv", {add("Relu", {v}, {}), constant({16, 96, 1, 1}), constant({16})}, {});
  graph.outputs = {add("Add", {v, block}, {})};
  return graph;
}

TEST_P(LayoutChoiceTest, AnInvertedResidualMayAddItsOwnInput) {
  std::vector<float> values(16 * 24 * 20);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 31) / 16 - 1;
  const Tensor input = Tensor::FromVector<float>({1, 16, 24, 20}, values);
  const auto expected =
      CompileGraph({.graph = InvertedResidual(), .info = {}}, {}).value().Run({&input, 1});
  ASSERT_TRUE(expected.ok()) << expected.status();
  CompileOptions options;
  options.target = GetParam();
  for (const int32_t threads : {1, 3}) {
    options.threads = threads;
    const auto model = CompileGraph({.graph = InvertedResidual(), .info = {}}, options);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto outputs = model->Run({&input, 1});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const auto difference = CompareTensors((*outputs)[0], (*expected)[0]);
    ASSERT_TRUE(difference.ok()) << difference.status();
    EXPECT_LE(difference->largest, 1e-6 * difference->scale);
    // What is expanded to 96 channels, six times the input, never exists.
    if (options.target != "generic") {
      EXPECT_LT(model->plan().arena_bytes, 6 * input.Bytes());
    }
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
