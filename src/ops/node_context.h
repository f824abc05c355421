// What the rules of an operator may see of a node: its attributes, and the types and constant data
// of its inputs.
#ifndef ONNX_MEMPLAN_OPS_NODE_CONTEXT_H_
#define ONNX_MEMPLAN_OPS_NODE_CONTEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

class NodeContext {
 public:
  NodeContext(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Node& node() const { return node_; }
  const Graph& graph() const { return graph_; }

  // Inputs of the operator; the residual of an epilogue is not counted.
  int32_t num_inputs() const;
  int32_t num_outputs() const { return static_cast<int32_t>(node_.outputs.size()); }
  // False for an omitted optional input or one past the end.
  bool HasInput(int32_t i) const;
  bool HasOutput(int32_t i) const;
  const TensorType& InputType(int32_t i) const;
  const Shape& InputShape(int32_t i) const { return InputType(i).shape; }
  DType InputDType(int32_t i) const { return InputType(i).dtype; }
  // Only after inference.
  const TensorType& OutputType(int32_t i) const;
  const Shape& OutputShape(int32_t i) const { return OutputType(i).shape; }
  // nullptr: not known while planning (or omitted).
  const Tensor* InputConstant(int32_t i) const;
  // Index in node().inputs of the residual operand; -1 without.
  int32_t ResidualInput() const;

  // Constant input `i` as integers. FailedPrecondition naming the input (`role`: its ONNX name) and
  // how to make it constant, when its data is not known.
  absl::StatusOr<std::vector<int64_t>> ConstantInts(int32_t i, std::string_view role) const;
  // The same for a float scalar or tensor, widened to double.
  absl::StatusOr<std::vector<double>> ConstantDoubles(int32_t i, std::string_view role) const;

  // Attributes. The overloads without default are for required ones: InvalidArgument when missing.
  // An attribute of the wrong kind counts as missing.
  int64_t Int(std::string_view name, int64_t default_value) const;
  float Float(std::string_view name, float default_value) const;
  std::string String(std::string_view name, std::string_view default_value) const;
  std::vector<int64_t> Ints(std::string_view name, std::vector<int64_t> default_value) const;
  bool HasAttribute(std::string_view name) const;
  absl::StatusOr<int64_t> RequiredInt(std::string_view name) const;
  absl::StatusOr<std::vector<int64_t>> RequiredInts(std::string_view name) const;
  const Tensor* TensorAttribute(std::string_view name) const;  // nullptr: absent

  // `axis` in [-rank, rank) to [0, rank); InvalidArgument otherwise.
  absl::StatusOr<int64_t> NormalizeAxis(int64_t axis, int64_t rank) const;

  // "node 'conv1' (Conv of float 1x3x8x8, float 4x3x3x3): " + what.
  absl::Status Invalid(std::string_view what) const;
  absl::Status Unsupported(std::string_view what) const;
  std::string Describe() const;

 private:
  template <class T>
  const T* Find(std::string_view name) const;

  const Graph& graph_;
  const Node& node_;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_NODE_CONTEXT_H_
