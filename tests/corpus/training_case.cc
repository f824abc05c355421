#include "corpus/training_case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "onnx_memplan/load.h"
#include "support/status_macros.h"

namespace onnx_memplan::testing {
namespace {

using Json = nlohmann::json;

constexpr double kFloorFactor = 10;
constexpr double kRelative = 1e-5;

absl::StatusOr<LossKind> LossOf(const std::string& loss) {
  if (loss == "softmax_cross_entropy_mean") return LossKind::kCrossEntropy;
  if (loss == "pixel_cross_entropy_mean") return LossKind::kCrossEntropy;
  if (loss == "mse_mean") return LossKind::kMse;
  if (loss == "bce_with_logits_mean") return LossKind::kBceWithLogits;
  return absl::InvalidArgumentError("unknown loss " + loss);
}

OptimizerOptions OptimizerOf(const Json& json) {
  OptimizerOptions options;
  options.kind = json["kind"] == "adam" ? OptimizerKind::kAdam : OptimizerKind::kSgd;
  options.momentum = json.value("momentum", 0.0);
  options.nesterov = json.value("nesterov", false);
  options.weight_decay = json.value("weight_decay", 0.0);
  options.epsilon = json.value("eps", 1e-8);
  if (json.contains("betas")) {
    options.beta1 = json["betas"][0];
    options.beta2 = json["betas"][1];
  }
  return options;
}

// The tensor `folder`/`parameter`.npy, where there is one, as a reference.
absl::Status AddReference(const std::string& folder, const Json& parameter, const char* floor,
                          const char* magnitude, std::vector<Reference>& references) {
  const std::string path = absl::StrCat(folder, "/", parameter["name"].get<std::string>(), ".npy");
  if (!std::filesystem::exists(path)) return absl::OkStatus();
  Reference reference;
  // Null: a statistic that the exported file does not hold under a name of its own.
  if (!parameter["onnx_initializer"].is_string()) return absl::OkStatus();
  reference.name = parameter["onnx_initializer"];
  ASSIGN_OR_RETURN(reference.tensor, ReadTensorFile(path));
  if (reference.tensor.dtype() != DType::kFloat) return absl::OkStatus();
  double largest = parameter.value(magnitude, 0.0);
  for (float x : reference.tensor.As<float>()) largest = std::max(largest, std::abs(double{x}));
  reference.allowed = std::max(kFloorFactor * parameter.value(floor, 0.0), kRelative * largest);
  references.push_back(std::move(reference));
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> ListTrainingCases(const std::string& corpus_folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(corpus_folder + "/models")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("train_")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<TrainingCase> ReadTrainingCase(const std::string& corpus_folder,
                                              const std::string& name) {
  const std::string folder = corpus_folder + "/models/" + name;
  const std::string train = folder + "/train";
  std::ifstream file(folder + "/meta.json");
  const Json meta = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!meta.is_object()) return absl::NotFoundError(folder + "/meta.json cannot be read");
  TrainingCase result;
  result.name = name;
  result.model_path = folder + "/model.onnx";
  ASSIGN_OR_RETURN(result.options.loss.kind, LossOf(meta["loss"]));
  result.options.optimizer = OptimizerOf(meta["optimizer"]);
  result.options.gradients = true;
  result.learning_rate = meta["optimizer"]["lr"].get<float>();
  if (meta["trainable_prefixes"].is_array()) {
    for (const Json& prefix : meta["trainable_prefixes"]) {
      result.options.trainable.push_back(prefix.get<std::string>() + "*");
    }
  }
  ASSIGN_OR_RETURN(result.input, ReadTensorFile(train + "/x_0.npy"));
  ASSIGN_OR_RETURN(result.target, ReadTensorFile(train + "/label.npy"));
  for (size_t i = 0; i < meta["losses"].size(); ++i) {
    const double loss = meta["losses"][i];
    const double exact = meta["losses_f64"][i];
    result.losses.push_back(loss);
    result.allowed_loss_difference.push_back(
        std::max(kFloorFactor * std::abs(loss - exact), kRelative * std::abs(loss)));
  }
  for (const Json& parameter : meta["params"]) {
    RETURN_IF_ERROR(AddReference(train + "/grad", parameter, "f32_vs_f64_grad", "max_abs_grad",
                                 result.gradients));
    RETURN_IF_ERROR(AddReference(train + "/after1", parameter, "f32_vs_f64_after1",
                                 "max_abs_after1", result.after1));
    RETURN_IF_ERROR(AddReference(train + "/after10", parameter, "f32_vs_f64_after10",
                                 "max_abs_after10", result.after10));
  }
  return result;
}

}  // namespace onnx_memplan::testing
