#include "backend/backend_case.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "onnx/onnx_pb.h"
#include "onnx_memplan/load.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

namespace fs = std::filesystem;

bool IsTensor(const onnx::ValueInfoProto& info) {
  return info.type().has_tensor_type() &&
         info.type().tensor_type().elem_type() != onnx::TensorProto::STRING;
}

std::vector<std::string> SortedFolders(const fs::path& path) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.is_directory()) folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

void ReadModel(BackendCase& backend_case) {
  onnx::ModelProto model;
  std::ifstream file(backend_case.model_path, std::ios::binary);
  model.ParseFromIstream(&file);
  std::set<std::string> initializers;
  for (const auto& tensor : model.graph().initializer()) initializers.insert(tensor.name());
  for (const auto& input : model.graph().input()) {
    if (initializers.contains(input.name())) continue;
    backend_case.input_names.push_back(input.name());
    backend_case.has_non_tensors |= !IsTensor(input);
  }
  for (const auto& output : model.graph().output()) {
    backend_case.has_non_tensors |= !IsTensor(output);
  }
  for (const auto& node : model.graph().node()) {
    if (node.op_type() == "Constant" && model.graph().node_size() > 1) continue;
    backend_case.op_type = node.op_type();
    break;
  }
}

// Half-precision elements as float.
float HalfToFloat(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const float sign = (half >> 15) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return mantissa != 0 ? std::nanf("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

template <class T>
T ElementAt(const Tensor& tensor, int64_t i) {
  T value;
  std::memcpy(&value, tensor.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

double FloatAt(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return static_cast<double>(ElementAt<float>(tensor, i));
    case DType::kDouble:
      return ElementAt<double>(tensor, i);
    case DType::kFloat16:
      return static_cast<double>(HalfToFloat(ElementAt<uint16_t>(tensor, i)));
    default:
      return static_cast<double>(
          std::bit_cast<float>(static_cast<uint32_t>(ElementAt<uint16_t>(tensor, i)) << 16));
  }
}

bool Close(double got, double want) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= 1e-5 + 1e-3 * std::abs(want);
}

}  // namespace

std::vector<BackendCase> FindBackendCases(const std::string& root) {
  std::vector<BackendCase> cases;
  for (const std::string& kind : SortedFolders(root)) {
    for (const std::string& folder : SortedFolders(kind)) {
      BackendCase backend_case;
      backend_case.name = absl::StrCat(fs::path(kind).filename().string(), "/",
                                       fs::path(folder).filename().string());
      backend_case.model_path = absl::StrCat(folder, "/model.onnx");
      if (!fs::exists(backend_case.model_path)) continue;
      for (const std::string& dir : SortedFolders(folder)) {
        if (fs::path(dir).filename().string().starts_with("test_data_set_")) {
          backend_case.data_set_dirs.push_back(dir);
        }
      }
      ReadModel(backend_case);
      cases.push_back(std::move(backend_case));
    }
  }
  return cases;
}

absl::StatusOr<BackendDataSet> ReadBackendDataSet(const BackendCase& backend_case,
                                                  const std::string& dir) {
  BackendDataSet data;
  for (size_t i = 0; i < backend_case.input_names.size(); ++i) {
    const std::string path = absl::StrCat(dir, "/input_", i, ".pb");
    if (!fs::exists(path)) continue;
    ASSIGN_OR_RETURN(data.inputs[backend_case.input_names[i]], ReadTensorFile(path));
  }
  for (int i = 0;; ++i) {
    const std::string path = absl::StrCat(dir, "/output_", i, ".pb");
    if (!fs::exists(path)) break;
    ASSIGN_OR_RETURN(Tensor output, ReadTensorFile(path));
    data.outputs.push_back(std::move(output));
  }
  return data;
}

absl::Status CompareTensors(const Tensor& got, const Tensor& want) {
  if (got.type() != want.type()) {
    return absl::InternalError(
        absl::StrCat("is ", got.type().ToString(), "; expected ", want.type().ToString()));
  }
  if (!IsFloatingPoint(got.dtype())) {
    const auto bytes = static_cast<size_t>(DTypeBytes(got.dtype()));
    for (int64_t i = 0; i < got.NumElements(); ++i) {
      const auto offset = static_cast<size_t>(i) * bytes;
      if (std::memcmp(got.data() + offset, want.data() + offset, bytes) == 0) continue;
      return absl::InternalError(absl::StrCat("element ", i, " of ", got.NumElements(), " is ",
                                              got.ToInt64s()->at(static_cast<size_t>(i)),
                                              "; expected ",
                                              want.ToInt64s()->at(static_cast<size_t>(i))));
    }
    return absl::OkStatus();
  }
  int64_t wrong = 0;
  std::string first;
  for (int64_t i = 0; i < got.NumElements(); ++i) {
    const double g = FloatAt(got, i);
    const double w = FloatAt(want, i);
    if (Close(g, w)) continue;
    if (wrong++ == 0) first = absl::StrCat("element ", i, " is ", g, "; expected ", w);
  }
  if (wrong == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(wrong, " of ", got.NumElements(), " elements differ: ", first));
}

}  // namespace onnx_memplan
