// Models for tests, written as ONNX text.
#ifndef ONNX_MEMPLAN_TESTS_LOAD_ONNX_TEXT_H_
#define ONNX_MEMPLAN_TESTS_LOAD_ONNX_TEXT_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx/defs/parser.h"
#include "onnx_memplan/load.h"
#include "passes/infer.h"

namespace onnx_memplan::testing {

// A model of this opset around the text of a graph: "g (float[2] x) => (float[2] y) { ... }".
// Functions may follow the graph.
inline onnx::ModelProto ParseOnnx(const std::string& graph, int opset = kCanonicalOpset) {
  onnx::ModelProto model;
  const std::string text = "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) +
                           ", \"local\" : 1]> " + graph;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  if (!status.IsOK()) throw std::runtime_error(status.ErrorMessage() + " in " + text);
  return model;
}

inline absl::StatusOr<LoadedModel> Load(const std::string& bytes, const LoadOptions& options = {},
                                        const std::string& folder = "") {
  return LoadModelFromBytes(std::as_bytes(std::span(bytes.data(), bytes.size())), options, folder);
}

inline absl::StatusOr<LoadedModel> Load(const onnx::ModelProto& model,
                                        const LoadOptions& options = {},
                                        const std::string& folder = "") {
  return Load(model.SerializeAsString(), options, folder);
}

// The outputs with every input bound to `inputs`, which must make them known.
inline absl::StatusOr<std::vector<Tensor>> Evaluate(const onnx::ModelProto& model,
                                                    const std::map<std::string, Tensor>& inputs) {
  LoadOptions options;
  for (const auto& [name, tensor] : inputs) options.bind[name] = tensor;
  absl::StatusOr<LoadedModel> loaded = Load(model, options);
  if (!loaded.ok()) return loaded.status();
  if (absl::Status status = InferAndFold(loaded->graph); !status.ok()) return status;
  std::vector<Tensor> outputs;
  for (ValueId id : loaded->graph.outputs) {
    const Value& value = loaded->graph.values[static_cast<size_t>(id)];
    if (!value.constant) return absl::InternalError(value.name + " does not fold");
    outputs.push_back(*value.constant);
  }
  return outputs;
}

// 0.1, -0.2, 0.3, ...: all different, of both signs.
inline Tensor Ramp(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(*CheckedNumElements(shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.1F * static_cast<float>(i + 1) * (i % 2 == 0 ? 1.0F : -1.0F);
  }
  return Tensor::FromVector<float>(shape, values);
}

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_LOAD_ONNX_TEXT_H_
