// Real models: those of the corpus beside the project and of ONNX's backend tests. They load, or
// are refused for an operator that is not supported; types agree with ONNX's own inference; a file
// that is cut off is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "load/tensor_proto.h"
#include "onnx/onnx_pb.h"
#include "onnx/shape_inference/implementation.h"
#include "onnx_memplan/load.h"
#include "passes/infer.h"

namespace onnx_memplan {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNewestOpsetOfOnnx = 17;  // of the library, ONNX 1.12

struct RealModel {
  std::string path;
  std::vector<std::string> input_files;  // in the order of the graph's inputs
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> NumberedFiles(const std::string& stem, const std::string& ending) {
  std::vector<std::string> files;
  for (int i = 0; fs::exists(absl::StrCat(stem, i, ending)); ++i) {
    files.push_back(absl::StrCat(stem, i, ending));
  }
  return files;
}

// Models whose weights are not stored are there once more with the weights as inputs.
std::vector<RealModel> CorpusModels() {
  std::vector<RealModel> models;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(std::string(ONNX_MEMPLAN_SHARED_DIR) + "/corpus/models", error)) {
    const std::string folder = entry.path().string();
    RealModel model{folder + "/model_noweights.onnx", NumberedFiles(folder + "/input_", ".npy")};
    if (!fs::exists(model.path)) model.path = folder + "/model.onnx";
    if (fs::exists(model.path)) models.push_back(std::move(model));
  }
  std::sort(models.begin(), models.end(),
            [](const RealModel& a, const RealModel& b) { return a.path < b.path; });
  return models;
}

std::vector<RealModel> BackendModels() {
  std::vector<RealModel> models;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(ONNX_MEMPLAN_BACKEND_DATA_DIR, error)) {
    if (entry.path().filename() != "model.onnx") continue;
    const std::string folder = entry.path().parent_path().string();
    models.push_back(
        {entry.path().string(), NumberedFiles(folder + "/test_data_set_0/input_", ".pb")});
  }
  std::sort(models.begin(), models.end(),
            [](const RealModel& a, const RealModel& b) { return a.path < b.path; });
  return models;
}

std::vector<std::string> TrueInputNames(const onnx::ModelProto& model) {
  std::set<std::string> initializers;
  for (const auto& tensor : model.graph().initializer()) initializers.insert(tensor.name());
  std::vector<std::string> names;
  for (const auto& input : model.graph().input()) {
    if (!initializers.contains(input.name())) names.push_back(input.name());
  }
  return names;
}

LoadOptions ShapesOf(const RealModel& model, const onnx::ModelProto& proto) {
  LoadOptions options;
  const std::vector<std::string> names = TrueInputNames(proto);
  for (size_t i = 0; i < model.input_files.size() && i < names.size(); ++i) {
    const auto tensor = ReadTensorFile(model.input_files[i]);
    if (tensor.ok()) options.input_shapes[names[i]] = tensor->shape();
  }
  return options;
}

TEST(RealModelsTest, EveryCorpusModelLoadsOrIsRefusedForAnOperator) {
  const std::vector<RealModel> models = CorpusModels();
  if (models.empty()) GTEST_SKIP() << "no corpus in " << ONNX_MEMPLAN_SHARED_DIR;
  int64_t inferred = 0;
  for (const RealModel& model : models) {
    SCOPED_TRACE(model.path);
    onnx::ModelProto proto;
    ASSERT_TRUE(proto.ParseFromString(ReadFile(model.path)));
    auto loaded = LoadModel(model.path, ShapesOf(model, proto));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const absl::Status status = InferAndFold(loaded->graph);
    inferred += status.ok() ? 1 : 0;
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
      std::cout << "refused: " << model.path << ": " << std::string(status.message()).substr(0, 300)
                << "\n";
    }
  }
  std::cout << inferred << " of " << models.size() << " corpus models have all types\n";
}

TEST(RealModelsTest, CorpusModelsCutOffAnywhereAreRefused) {
  const std::vector<RealModel> models = CorpusModels();
  if (models.empty()) GTEST_SKIP() << "no corpus in " << ONNX_MEMPLAN_SHARED_DIR;
  constexpr size_t kPlaces = 50;
  for (const RealModel& model : models) {
    const std::string bytes = ReadFile(model.path);
    onnx::ModelProto proto;
    ASSERT_TRUE(proto.ParseFromString(bytes));
    const LoadOptions options = ShapesOf(model, proto);
    for (size_t i = 0; i < kPlaces; ++i) {
      const std::span<const char> part(bytes.data(), bytes.size() * i / kPlaces);
      EXPECT_FALSE(LoadModelFromBytes(std::as_bytes(part), options).ok())
          << model.path << " cut off after " << part.size() << " bytes";
    }
  }
}

// What ONNX infers: name -> type, where the whole shape is known.
std::unordered_map<std::string, TensorType> TypesByOnnx(onnx::ModelProto& proto,
                                                        const LoadOptions& options) {
  for (auto& input : *proto.mutable_graph()->mutable_input()) {
    const auto it = options.input_shapes.find(input.name());
    if (it == options.input_shapes.end()) continue;
    auto* shape = input.mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->clear_dim();
    for (int64_t dim : it->second) shape->add_dim()->set_dim_value(dim);
  }
  // What the file says of its values must not be taken for inferred.
  proto.mutable_graph()->clear_value_info();
  for (auto& output : *proto.mutable_graph()->mutable_output()) {
    output.mutable_type()->mutable_tensor_type()->clear_shape();
  }
  std::unordered_map<std::string, TensorType> types;
  try {
    onnx::ShapeInferenceOptions inference(false, 0, /*data_prop=*/true);
    onnx::shape_inference::InferShapes(proto, onnx::OpSchemaRegistry::Instance(), inference);
  } catch (const std::exception&) {
    return types;
  }
  const auto add = [&](const onnx::ValueInfoProto& info) {
    const auto& tensor = info.type().tensor_type();
    const auto dtype = DTypeFromOnnx(tensor.elem_type());
    if (!info.type().has_tensor_type() || !tensor.has_shape() || !dtype.ok()) return;
    TensorType type{*dtype, {}};
    for (const auto& dim : tensor.shape().dim()) {
      if (!dim.has_dim_value()) return;
      type.shape.push_back(dim.dim_value());
    }
    types[info.name()] = type;
  };
  for (const auto& info : proto.graph().value_info()) add(info);
  for (const auto& info : proto.graph().output()) add(info);
  return types;
}

// Compares the types of all values that both know; returns how many.
int64_t CompareWithOnnx(const RealModel& model) {
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(ReadFile(model.path)));
  for (const auto& opset : proto.opset_import()) {
    if (opset.domain().empty() && opset.version() > kNewestOpsetOfOnnx) return 0;
  }
  const LoadOptions options = ShapesOf(model, proto);
  auto loaded = LoadModel(model.path, options);
  if (!loaded.ok() || !InferAndFold(loaded->graph).ok()) return 0;
  int64_t compared = 0;
  const auto types = TypesByOnnx(proto, options);
  for (const Value& value : loaded->graph.values) {
    const auto it = types.find(value.name);
    if (it == types.end() || !value.type) continue;
    EXPECT_EQ(value.type->ToString(), it->second.ToString()) << value.name << " of " << model.path;
    ++compared;
  }
  return compared;
}

TEST(RealModelsTest, TypesOfTheCorpusAreThoseOfOnnx) {
  const std::vector<RealModel> models = CorpusModels();
  if (models.empty()) GTEST_SKIP() << "no corpus in " << ONNX_MEMPLAN_SHARED_DIR;
  int64_t compared = 0;
  for (const RealModel& model : models) compared += CompareWithOnnx(model);
  std::cout << compared << " values compared\n";
  EXPECT_GT(compared, 5000);
}

TEST(RealModelsTest, TypesOfTheBackendTestsAreThoseOfOnnx) {
  const std::vector<RealModel> models = BackendModels();
  if (models.empty()) GTEST_SKIP() << "no tests in " << ONNX_MEMPLAN_BACKEND_DATA_DIR;
  int64_t compared = 0;
  for (const RealModel& model : models) compared += CompareWithOnnx(model);
  std::cout << compared << " values compared\n";
  EXPECT_GT(compared, 500);
}

}  // namespace
}  // namespace onnx_memplan
