// Rewrites operators of older opsets to the form of kCanonicalOpset.
#ifndef ONNX_MEMPLAN_LOAD_ADAPTER_H_
#define ONNX_MEMPLAN_LOAD_ADAPTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "load/value_names.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// One node while it is rewritten. The node stays the one that makes the outputs; nodes that must
// run before it are emitted.
class Adaptation {
 public:
  Adaptation(Graph& graph, ValueNames& names, Node& subject, int64_t opset)
      : node(subject), graph_(graph), names_(names), opset_(opset) {}

  Node& node;

  bool HasInput(size_t i) const { return i < node.inputs.size() && node.inputs[i] != kNoValue; }
  bool HasOutput(size_t i) const { return i < node.outputs.size() && node.outputs[i] != kNoValue; }
  // Input `i` is known now and has no elements.
  bool IsEmptyConstant(size_t i) const;
  // Puts `id` at input `i`; inputs between are omitted ones.
  void SetInput(size_t i, ValueId id);

  // Removes the attribute; nullopt when it is absent, or of another kind, which AdaptNode then
  // refuses. One integer passes for a list of one.
  std::optional<int64_t> TakeInt(std::string_view name);
  std::optional<float> TakeFloat(std::string_view name);
  std::optional<std::vector<int64_t>> TakeInts(std::string_view name);
  std::optional<std::vector<float>> TakeFloats(std::string_view name);
  std::optional<std::string> TakeString(std::string_view name);
  void Drop(std::string_view name) { node.attributes.erase(std::string(name)); }

  // A new constant, named after the node's first output and `role`.
  ValueId Constant(std::string_view role, Tensor tensor);
  ValueId Ints(std::string_view role, const std::vector<int64_t>& values) {
    return Constant(role, Tensor::VectorInt64(values));
  }
  // A new node with one output, to run before this one.
  ValueId Emit(std::string_view op_type, std::vector<ValueId> inputs,
               std::map<std::string, Attribute, std::less<>> attributes = {});

  // "operator Softmax of opset 9 (node 'x'): " + what, Unimplemented or InvalidArgument.
  absl::Status Unsupported(std::string_view what) const;
  absl::Status Invalid(std::string_view what) const;

 private:
  friend absl::Status AdaptNode(Graph& graph, ValueNames& names, Node& node, int64_t opset);

  template <class T>
  std::optional<T> Take(std::string_view name);
  std::string NewName(std::string_view role);
  std::string Describe(std::string_view what) const;

  Graph& graph_;
  ValueNames& names_;
  int64_t opset_;
  // Of an attribute that was taken and is of another kind.
  absl::Status wrong_kind_;
};

using Adapter = absl::Status (*)(Adaptation& adaptation);

// The rewriting of ai.onnx operator `op_type` of `opset`; nullptr: it already has the canonical
// form. Unimplemented, naming operator and version, when the opset is newer than kCanonicalOpset or
// the form of the operator is not known.
absl::StatusOr<Adapter> FindAdapter(const std::string& op_type, int64_t opset);

// Rewrites `node`, an operator of its domain's version `opset`; may add values and nodes to
// `graph`.
absl::Status AdaptNode(Graph& graph, ValueNames& names, Node& node, int64_t opset);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_ADAPTER_H_
