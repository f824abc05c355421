// ONNX's own backend tests, as Debian's libonnx-testdata has them: a model and, for each data set,
// the inputs and the outputs that are expected.
#ifndef ONNX_MEMPLAN_TESTS_BACKEND_BACKEND_CASE_H_
#define ONNX_MEMPLAN_TESTS_BACKEND_BACKEND_CASE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

struct BackendDataSet {
  // By name of the graph's input; inputs without a file are not here.
  std::map<std::string, Tensor> inputs;
  // In the order of the graph's outputs.
  std::vector<Tensor> outputs;
};

struct BackendCase {
  std::string name;        // "node/test_relu"
  std::string model_path;  // .../model.onnx
  // The operator that the case is about: the first of the model's nodes that is not a Constant.
  std::string op_type;
  // Some input or output is a sequence, an optional or a string tensor.
  bool has_non_tensors = false;
  std::vector<std::string> input_names;  // of the graph, initializers left out
  std::vector<std::string> data_set_dirs;
};

// All cases below `root`, sorted by name; empty when the folder is not there.
std::vector<BackendCase> FindBackendCases(const std::string& root);

absl::StatusOr<BackendDataSet> ReadBackendDataSet(const BackendCase& backend_case,
                                                  const std::string& dir);

// OK when `got` has the expected type and values: |got - want| <= 1e-5 + 1e-3 |want| for floating
// point (ONNX's own runner allows as much), equal otherwise. The message names the worst element.
absl::Status CompareTensors(const Tensor& got, const Tensor& want);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_TESTS_BACKEND_BACKEND_CASE_H_
