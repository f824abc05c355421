#include "corpus/corpus_case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "support/status_macros.h"

namespace onnx_memplan::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

absl::StatusOr<Json> ReadJson(const std::string& path) {
  std::ifstream file(path);
  Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return json;
}

bool IsFloatFeedForward(const std::string& name, const Json& meta) {
  static const char* const kOthers[] = {"QuantizeLinear",
                                        "DequantizeLinear",
                                        "DynamicQuantizeLinear",
                                        "ConvInteger",
                                        "MatMulInteger",
                                        "QLinearConv",
                                        "LSTM",
                                        "GRU",
                                        "RNN",
                                        "If",
                                        "Loop",
                                        "Scan"};
  for (const auto& [op, count] : meta["ops"].items()) {
    if (absl::StrContains(op, "QLinear")) return false;
    for (const char* other : kOthers) {
      if (op == other) return false;
    }
  }
  return !absl::EndsWith(name, "_fp16");
}

double Allowed(double runtime_difference, double largest) {
  return 10 * std::max(runtime_difference, 1e-6 * largest);
}

CorpusCase InferenceCase(const std::string& folder, const std::string& name, const Json& set) {
  CorpusCase result;
  result.model = name;
  result.set = set["dir"];
  const std::string set_folder = result.set == "." ? folder : folder + "/" + result.set;
  for (const Json& input : set["inputs"]) {
    result.load.input_shapes[input["name"]] = input["dims"].get<Shape>();
    result.input_files.push_back(set_folder + "/" + input["file"].get<std::string>());
  }
  const double runtime = set.value("max_abs_diff_ort_all_vs_reference", 0.0);
  for (const Json& output : set["outputs"]) {
    result.output_files.push_back(set_folder + "/" + output["file"].get<std::string>());
    result.allowed_difference.push_back(Allowed(runtime, output.value("max_abs", 0.0)));
  }
  return result;
}

// The forward pass of a training case. meta.json does not store the largest value.
absl::StatusOr<CorpusCase> TrainingCase(const std::string& folder, const std::string& name,
                                        const Json& meta) {
  CorpusCase result;
  result.model = name;
  result.set = "train";
  result.input_files = {folder + "/train/x_0.npy"};
  result.output_files = {folder + "/train/logits.npy"};
  ASSIGN_OR_RETURN(const Tensor logits, ReadTensorFile(result.output_files[0]));
  double largest = 0;
  for (float value : logits.As<float>()) {
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  result.allowed_difference = {Allowed(meta.value("ort_forward_max_abs_diff", 0.0), largest)};
  return result;
}

// splitmix64 seeded by FNV-1a of the name, mapped to offset + scale * [-1, 1); see the corpus's
// README.
void WriteWeights(const Json& weight, std::ofstream& file) {
  const std::string name = weight["name"];
  const float scale = weight["scale"];
  const float offset = weight["offset"];
  uint64_t state = 1469598103934665603ULL;
  for (unsigned char c : name) state = (state ^ c) * 1099511628211ULL;
  const int64_t count = *CheckedNumElements(weight["dims"].get<Shape>());
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    const float u = static_cast<float>(z >> 40) * 0x1p-24F;
    // volatile: the product is rounded before the sum.
    volatile float product = scale * (2.0F * u - 1.0F);
    value = offset + product;
  }
  file.seekp(weight["byte_offset"].get<int64_t>());
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
}

}  // namespace

absl::StatusOr<std::vector<CorpusModel>> ListCorpus(const std::string& corpus_folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(corpus_folder + "/models", error)) {
    names.push_back(entry.path().filename().string());
  }
  if (error) return absl::NotFoundError(absl::StrCat("no corpus in ", corpus_folder));
  std::sort(names.begin(), names.end());
  std::vector<CorpusModel> models;
  for (const std::string& name : names) {
    const std::string folder = absl::StrCat(corpus_folder, "/models/", name);
    ASSIGN_OR_RETURN(const Json meta, ReadJson(folder + "/meta.json"));
    CorpusModel model;
    model.name = name;
    model.float_feed_forward = IsFloatFeedForward(name, meta);
    if (meta.contains("sets")) {
      for (const Json& set : meta["sets"]) {
        model.cases.push_back(InferenceCase(folder, name, set));
      }
    } else {
      ASSIGN_OR_RETURN(CorpusCase training, TrainingCase(folder, name, meta));
      model.cases.push_back(std::move(training));
    }
    for (CorpusCase& corpus_case : model.cases) {
      corpus_case.model_path = folder + "/model.onnx";
      corpus_case.parameter_bytes = meta.value("param_bytes", int64_t{0});
    }
    models.push_back(std::move(model));
  }
  return models;
}

absl::Status PrepareCase(const std::string& corpus_folder, const std::string& work_folder,
                         CorpusCase& corpus_case) {
  const std::string source = absl::StrCat(corpus_folder, "/models/", corpus_case.model);
  ASSIGN_OR_RETURN(const Json meta, ReadJson(source + "/meta.json"));
  if (!meta.contains("weights_file")) return absl::OkStatus();
  const std::string folder = absl::StrCat(work_folder, "/", corpus_case.model);
  corpus_case.model_path = folder + "/model.onnx";
  std::error_code error;
  const auto wanted = meta["weights_bytes"].get<uint64_t>();
  if (fs::file_size(folder + "/weights.bin", error) == wanted && !error) return absl::OkStatus();
  fs::create_directories(folder, error);
  fs::copy_file(source + "/model.onnx", corpus_case.model_path,
                fs::copy_options::overwrite_existing, error);
  std::ofstream file(folder + "/weights.bin", std::ios::binary);
  for (const Json& weight : meta["weights"]) WriteWeights(weight, file);
  file.close();
  if (!file || error) return absl::UnavailableError(absl::StrCat("cannot write into ", folder));
  return absl::OkStatus();
}

}  // namespace onnx_memplan::testing
