#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common.h"
#include "support/status_macros.h"

namespace onnx_memplan::cli {
namespace {

absl::StatusOr<Tensor> ReadNumbered(const std::string& folder, const char* stem, size_t index,
                                    const NamedType& expected) {
  for (const char* extension : {".npy", ".pb"}) {
    const std::string path = absl::StrCat(folder, "/", stem, "_", index, extension);
    if (!std::filesystem::exists(path)) continue;
    ASSIGN_OR_RETURN(Tensor tensor, ReadTensorFile(path));
    if (tensor.type() != expected.type) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is ", tensor.type().ToString(),
                                                     " and '", expected.name, "' is ",
                                                     expected.type.ToString()));
    }
    return tensor;
  }
  return absl::NotFoundError(absl::StrCat(folder, " has no ", stem, "_", index,
                                          ".npy or .pb (for '", expected.name, "')"));
}

}  // namespace

absl::StatusOr<DataSet> ReadDataSet(const std::string& folder, const CompiledModel& model) {
  DataSet data;
  const std::vector<NamedType> inputs = model.inputs();
  const std::vector<NamedType> outputs = model.outputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSIGN_OR_RETURN(Tensor tensor, ReadNumbered(folder, "input", i, inputs[i]));
    data.inputs.push_back(std::move(tensor));
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    ASSIGN_OR_RETURN(Tensor tensor, ReadNumbered(folder, "output", k, outputs[k]));
    data.outputs.push_back(std::move(tensor));
  }
  return data;
}

}  // namespace onnx_memplan::cli
