// From an ONNX file to a Graph in canonical form.
#ifndef ONNX_MEMPLAN_LOAD_H_
#define ONNX_MEMPLAN_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"
#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

// The data of an input that becomes a constant: a tensor, or what a user wrote: numbers separated
// by commas, with or without brackets ("5", "1,3,224", "[0.5]"), read in the element type of the
// input. One number fills the whole input.
using Binding = std::variant<Tensor, std::string>;

struct LoadOptions {
  // Symbolic dimension -> size.
  std::map<std::string, int64_t> dims = {};
  // Graph input -> all its dimensions.
  std::map<std::string, Shape> input_shapes = {};
  // Graph input -> its data; it is no longer an input of the loaded graph.
  std::map<std::string, Binding> bind = {};
  // What nodes make has the type that the file declares for it (value_info), where that has no open
  // dimensions: numbers, or arithmetic of symbols that are set ("16*batch"). InferAndFold then
  // takes these types for operators that it does not know.
  bool keep_declared_types = false;
};

struct ModelInfo {
  int64_t ir_version = 0;
  // Domain ("" is ai.onnx) -> version.
  std::map<std::string, int64_t> opset_imports;
  std::string producer;  // name and version, as the file says
  // Of the bytes of the model file (external data not included), in lower case hexadecimal.
  std::string sha256;
  // Operators of the file as it is, subgraphs and the bodies of model-local functions included
  // (each once): "Conv" or "com.microsoft:Gelu" -> nodes.
  std::map<std::string, int64_t> operators;
  // Names of the floating-point initializers: what can be trained, as constants of Constant nodes
  // cannot. In the file's order.
  std::vector<std::string> initializers;
  // What is odd about the model and was settled nevertheless: a line each, for the user.
  std::vector<std::string> warnings;
};

struct LoadedModel {
  Graph graph;
  ModelInfo info;
};

// Reads a model, its external data from the model's folder included. In the graph every node has
// the form of opset kCanonicalOpset, model-local functions are inlined, initializers and Constant
// nodes are constants, all inputs have static shapes, nodes are in topological order. Nothing else
// is inferred: see InferAndFold in src/passes/infer.h.
//
// NotFound: no such file. InvalidArgument: not a (whole) model, a graph that is not well formed, or
// a request that does not fit the model; dimensions that are left over are all listed with the
// option that sets them. Unimplemented: element types, operator versions or constructs that this
// version does not know, named.
absl::StatusOr<LoadedModel> LoadModel(const std::string& path, const LoadOptions& options);

// The same for bytes in memory. External data is looked up in `folder`; empty: refused.
absl::StatusOr<LoadedModel> LoadModelFromBytes(std::span<const std::byte> bytes,
                                               const LoadOptions& options,
                                               const std::string& folder = "");

// A tensor from a file: a serialised TensorProto (.pb) or NumPy's format (.npy, C order, little
// endian).
absl::StatusOr<Tensor> ReadTensorFile(const std::string& path);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_H_
