// Passes on real models: the folder with them is not part of the project.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "corpus/corpus_case.h"
#include "passes/graph_maker.h"
#include "passes/infer.h"

namespace onnx_memplan::testing {
namespace {

constexpr char kCorpus[] = ONNX_MEMPLAN_SHARED_DIR "/corpus";
// Small models on small inputs: the whole test is to take seconds.
constexpr int64_t kMaxParameterBytes = 700'000;
constexpr int64_t kMaxResultBytes = 16'000'000;

std::vector<CorpusCase> SmallCases() {
  const auto models = ListCorpus(kCorpus);
  std::vector<CorpusCase> cases;
  if (!models.ok()) return cases;
  for (const CorpusModel& model : *models) {
    const bool small = model.cases[0].parameter_bytes <= kMaxParameterBytes;
    const bool stored = std::filesystem::exists(model.cases[0].model_path);
    if (model.float_feed_forward && small && stored) cases.push_back(model.cases[0]);
  }
  return cases;
}

std::vector<Tensor> ReadInputs(const CorpusCase& model) {
  std::vector<Tensor> inputs;
  for (const std::string& file : model.input_files) {
    const auto tensor = ReadTensorFile(file);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    if (tensor.ok()) inputs.push_back(*tensor);
  }
  return inputs;
}

double LargestDifference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.type(), b.type());
  if (a.type() != b.type()) return INFINITY;
  if (a.dtype() != DType::kFloat) return a == b ? 0 : INFINITY;
  double largest = 0;
  for (int64_t i = 0; i < a.NumElements(); ++i) {
    const auto x = static_cast<double>(a.As<float>()[static_cast<size_t>(i)]);
    const auto y = static_cast<double>(b.As<float>()[static_cast<size_t>(i)]);
    if (x != y && !(std::isnan(x) && std::isnan(y))) largest = std::max(largest, std::abs(x - y));
  }
  return largest;
}

int64_t IntermediateBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const Node& node : graph.nodes) {
    for (ValueId v : node.outputs) {
      if (v != kNoValue) bytes += graph.values[static_cast<size_t>(v)].type->Bytes();
    }
  }
  return bytes;
}

TEST(Corpus, PassesKeepTheOutputsOfRealModels) {
  const std::vector<CorpusCase> cases = SmallCases();
  if (cases.empty()) GTEST_SKIP() << "no corpus in " << kCorpus;
  std::printf("%-32s %14s %26s\n", "model", "nodes", "bytes of all results");
  for (const CorpusCase& model : cases) {
    SCOPED_TRACE(model.model);
    auto loaded = LoadModel(model.model_path, model.load);
    if (!loaded.ok()) {  // for the tests of loading to say
      std::printf("%-32s cannot be loaded\n", model.model.c_str());
      continue;
    }
    Graph before = std::move(loaded->graph);
    if (const absl::Status status = InferAndFold(before); !status.ok()) {
      // What is not supported is for other tests to say.
      std::printf("%-32s not supported\n", model.model.c_str());
      continue;
    }
    if (IntermediateBytes(before) > kMaxResultBytes) continue;
    Graph after = before;
    const auto runs = OptimizeGraph({}, after);
    ASSERT_TRUE(runs.ok()) << runs.status();
    std::printf("%-32s %6zu -> %4zu %12lld -> %10lld\n", model.model.c_str(), before.nodes.size(),
                after.nodes.size(), static_cast<long long>(IntermediateBytes(before)),
                static_cast<long long>(IntermediateBytes(after)));
    const std::vector<Tensor> inputs = ReadInputs(model);
    ASSERT_EQ(inputs.size(), after.inputs.size());
    const std::vector<Tensor> got = RunGraph(after, inputs);
    ASSERT_EQ(got.size(), model.output_files.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const auto want = ReadTensorFile(model.output_files[i]);
      ASSERT_TRUE(want.ok()) << want.status();
      EXPECT_LE(LargestDifference(*want, got[i]), model.allowed_difference[i]) << after.ToText();
    }
  }
}

}  // namespace
}  // namespace onnx_memplan::testing
