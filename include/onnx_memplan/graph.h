// The graph of operators: a copyable value.
//
// Operators are in one canonical form, that of ONNX opset kCanonicalOpset: load/ rewrites every
// older form, so nothing behind it asks for a version.
#ifndef ONNX_MEMPLAN_GRAPH_H_
#define ONNX_MEMPLAN_GRAPH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

inline constexpr int kCanonicalOpset = 22;
inline constexpr int kOldestOpset = 7;

// An index into Graph::values. kNoValue: an optional input or output that is omitted.
using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

struct Graph;

using Attribute =
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                 std::vector<std::string>, Tensor, std::shared_ptr<const Graph>>;

// What a kernel does to each element before it stores it: y = activation(y + residual).
struct Epilogue {
  // The node's last input has the shape and type of its output 0 and is added first.
  bool has_residual = false;
  // An elementwise operator type ("Relu", "Clip", "LeakyRelu", ...; "Silu" is x * sigmoid(x)).
  // Empty: none.
  std::string activation;
  // Parameters of the activation: Clip (min, max), LeakyRelu and Elu (alpha), HardSigmoid
  // (alpha, beta), Gelu (alpha = 1: the tanh approximation). See codegen/kernels/activation.h.
  float alpha = 0;
  float beta = 0;

  bool empty() const { return !has_residual && activation.empty(); }
  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};

struct Node {
  std::string op_type;
  std::string domain;  // empty: ai.onnx
  std::string name;    // may be empty; see Graph::NodeName
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<std::string, Attribute, std::less<>> attributes;
  Epilogue epilogue;

  bool Is(std::string_view type) const { return op_type == type && domain.empty(); }
};

struct Value {
  std::string name;
  // Known for graph inputs and constants from the start, for every value after type inference.
  std::optional<TensorType> type;
  // The data, where it is known while planning.
  std::optional<Tensor> constant;
};

// What a State is for. Parameters come first in the memory of a program's states.
enum class StateKind : uint8_t { kParameter, kStatistic, kOptimizer };

// Data that outlives a run: trained parameters, running statistics, an optimizer's moments. A run
// finds it as value `in`, which no node makes, and leaves value `out`, of the same type, in its
// place: the node that makes `out` writes over `in`, after every other reader of `in`.
struct State {
  ValueId in = kNoValue;
  ValueId out = kNoValue;  // kNoValue: the run only reads it
  StateKind kind = StateKind::kParameter;
  Tensor initial;  // before the first run
};

// Single assignment: a value is a graph input, a constant, the `in` of a state, or one node's
// output. `nodes` is in topological order. A node with a subgraph (If) lists the values that the
// subgraph takes from outside after its own inputs; they are the subgraph's inputs, in that order.
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<State> states = {};

  ValueId AddValue(std::string value_name, std::optional<TensorType> type = std::nullopt);
  ValueId AddConstant(std::string value_name, Tensor tensor);
  // `base` itself or the first of base_1, base_2, ... that no value has.
  std::string UniqueValueName(std::string_view base) const;
  // The node's name, or "Conv producing 'x'" for a nameless one: for messages.
  std::string NodeName(const Node& node) const;

  // By value: the index of the node that makes it, -1 for graph inputs, constants and states.
  std::vector<int32_t> Producers() const;
  // By value: the nodes that read it, ascending, a node once for each input; graph outputs are not
  // counted.
  std::vector<std::vector<int32_t>> Consumers() const;
  // Replaces `from` by `to` in every node input, graph output and `out` of a state.
  void ReplaceUses(ValueId from, ValueId to);
  // Drops nodes marked in `dead` (by node), then values that nothing mentions; renumbers values.
  void Compact(const std::vector<bool>& dead);
  // Restores topological order of `nodes`, keeping the present order where it is legal.
  // InvalidArgument naming a node on the cycle, if there is one.
  absl::Status SortTopologically();

  // OK if and only if the graph is well formed: ids in range, single assignment, topological
  // order, every read value defined, shapes without overflow, value names unique and not empty.
  // `typed`: every value that a node reads or writes has a type.
  absl::Status Verify(bool typed) const;
  // One line for each node, for people and for golden tests.
  std::string ToText() const;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_GRAPH_H_
