// A graph under change: producers and readers stay known after every edit, so that a pass may scan
// and rewrite at once.
#ifndef ONNX_MEMPLAN_PASSES_EDITOR_H_
#define ONNX_MEMPLAN_PASSES_EDITOR_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// Takes the nodes out of the graph; Finish puts back those that are left, in topological order. A
// node's index never changes in between, and nodes that are added come after all others in index.
// A node that nothing reads any more is removed at once (no operator here has side effects).
class GraphEditor {
 public:
  explicit GraphEditor(Graph& graph);
  GraphEditor(const GraphEditor&) = delete;
  GraphEditor& operator=(const GraphEditor&) = delete;
  ~GraphEditor();

  // Values, inputs and outputs; its nodes are here instead.
  const Graph& graph() const { return graph_; }

  int32_t num_nodes() const { return static_cast<int32_t>(nodes_.size()); }
  bool alive(int32_t n) const { return !dead_[static_cast<size_t>(n)]; }
  const Node& node(int32_t n) const { return nodes_[static_cast<size_t>(n)]; }

  const Value& value(ValueId v) const { return graph_.values[static_cast<size_t>(v)]; }
  const TensorType& type(ValueId v) const;
  const Shape& shape(ValueId v) const { return type(v).shape; }
  // nullptr: not constant, or kNoValue. Valid until a value is added.
  const Tensor* constant(ValueId v) const;
  // Graph inputs and outputs; the `in` and `out` of states count as such.
  bool is_graph_input(ValueId v) const { return is_input_[static_cast<size_t>(v)]; }
  bool is_graph_output(ValueId v) const { return is_output_[static_cast<size_t>(v)]; }

  // The node that makes `v`; -1 for graph inputs, constants and kNoValue.
  int32_t producer(ValueId v) const;
  // The node whose output 0 is `v`, if it has this type, the standard domain and no epilogue; -1
  // otherwise.
  int32_t ProducerIf(ValueId v, std::string_view op_type) const;
  // The readers, a node once for each of its inputs. Graph outputs are not counted.
  const std::vector<int32_t>& consumers(ValueId v) const {
    return consumers_[static_cast<size_t>(v)];
  }
  // The node that alone reads `v`, through one input, when `v` is no graph output; -1 otherwise.
  int32_t OnlyConsumer(ValueId v) const;

  // Node `a` comes before node `b` in the present order.
  bool Before(int32_t a, int32_t b) const;

  // A constant under `name` or the next free name_1, name_2, ...
  ValueId AddConstant(std::string_view name, Tensor tensor);
  // Adds `node` right before node `anchor`, with one output of the inferred type under `name` or
  // the next free one.
  absl::StatusOr<ValueId> Emit(int32_t anchor, Node node, std::string_view name);

  void SetInputs(int32_t n, std::vector<ValueId> inputs);
  void SetInput(int32_t n, size_t index, ValueId v);
  // Everything but outputs.
  void Replace(int32_t n, Node node);
  std::map<std::string, Attribute, std::less<>>& attributes(int32_t n) {
    return nodes_[static_cast<size_t>(n)].attributes;
  }
  Epilogue& epilogue(int32_t n) { return nodes_[static_cast<size_t>(n)].epilogue; }
  // Drops trailing outputs that nobody reads, down to `keep` of them. How many went.
  int64_t DropUnreadOutputs(int32_t n, size_t keep);

  // Every reader of `from` reads `to` instead. A graph output keeps its name: `to` takes it over.
  // False, and nothing is changed, when it cannot (`to` is a graph input, a constant, or a graph
  // output already).
  bool ReplaceUses(ValueId from, ValueId to);
  // The names of two values, swapped.
  void SwapNames(ValueId a, ValueId b);
  // Node `n` makes output 0 of `last` instead of its own output 0, which nothing but nodes that go
  // away with `last` reads. `last` is removed.
  void TakeOutput(int32_t n, int32_t last);
  // Nothing reads any of the node's outputs.
  bool IsUnread(int32_t n) const;
  // Removes such a node, and those before it that thereby become so.
  void Remove(int32_t n);

  // Puts the nodes back. InternalError on a cycle.
  absl::Status Finish();

 private:
  std::string FreeName(std::string_view base);
  ValueId AddValue(std::string_view name, std::optional<TensorType> type);
  void AddUses(int32_t n);
  void DropUse(int32_t n, ValueId v);
  void RemoveIfUnread(ValueId v);

  Graph& graph_;
  std::deque<Node> nodes_;
  std::vector<bool> dead_;
  // Where an added node goes: before the node of this index. By node; its own index for old nodes.
  std::vector<int32_t> anchor_;
  std::vector<int32_t> producer_;
  std::vector<std::vector<int32_t>> consumers_;
  std::vector<bool> is_input_;
  std::vector<bool> is_output_;
  std::unordered_set<std::string> names_;
  bool finished_ = false;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_EDITOR_H_
