#include "plan_build/states.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

const std::string& NameOf(const Graph& graph, ValueId value) {
  return graph.values[Index(value)].name;
}

// The node before which each node must run, or after which: edges of data and of states.
class UpdateOrder {
 public:
  UpdateOrder(const MemoryLayout& layout, const Graph& graph)
      : layout_(layout), graph_(graph), producers_(graph.Producers()) {
    successors_.resize(graph.nodes.size());
    waits_for_.assign(graph.nodes.size(), 0);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (ValueId input : graph.nodes[n].inputs) {
        if (input == kNoValue) continue;
        AddEdge(producers_[Index(input)], static_cast<int32_t>(n));
        if (const int32_t writer = WriterOver(input); writer != static_cast<int32_t>(n)) {
          AddEdge(static_cast<int32_t>(n), writer);
        }
      }
    }
  }

  // Indices of nodes; shorter than the graph when there is a cycle. Of the nodes that are ready,
  // the first of the present order runs first.
  std::vector<int32_t> Sort() {
    std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
    for (size_t n = 0; n < waits_for_.size(); ++n) {
      if (waits_for_[n] == 0) ready.push(static_cast<int32_t>(n));
    }
    std::vector<int32_t> order;
    while (!ready.empty()) {
      const int32_t n = ready.top();
      ready.pop();
      order.push_back(n);
      for (int32_t successor : successors_[Index(n)]) {
        if (--waits_for_[Index(successor)] == 0) ready.push(successor);
      }
    }
    return order;
  }

  // After Sort() found a cycle: an update that is on one or behind one.
  absl::Status Cycle() const {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (waits_for_[n] == 0) continue;
      for (ValueId input : graph_.nodes[n].inputs) {
        if (input == kNoValue) continue;
        const int32_t writer = WriterOver(input);
        if (writer < 0 || writer == static_cast<int32_t>(n) || waits_for_[Index(writer)] == 0) {
          continue;
        }
        return absl::InvalidArgumentError(absl::StrCat(
            "node '", graph_.NodeName(graph_.nodes[Index(writer)]), "' rewrites state '",
            NameOf(graph_, graph_.states[Index(StateOf(input))].in), "', but node '",
            graph_.NodeName(graph_.nodes[n]),
            "' needs the old value and what comes after the update; copy the old value before"));
      }
    }
    return absl::InvalidArgumentError("the graph has a cycle");
  }

 private:
  int32_t StateOf(ValueId value) const {
    return layout_.state_of_root[Index(layout_.places[Index(value)].root)];
  }

  // The node that writes over what `value` reads of a state; -1: none.
  int32_t WriterOver(ValueId value) const {
    const int32_t state = StateOf(value);
    if (state < 0 || layout_.rewritten[Index(value)]) return -1;
    const ValueId written = layout_.written[Index(state)];
    return written == kNoValue ? -1 : producers_[Index(written)];
  }

  void AddEdge(int32_t from, int32_t to) {
    if (from < 0 || to < 0) return;
    successors_[Index(from)].push_back(to);
    ++waits_for_[Index(to)];
  }

  const MemoryLayout& layout_;
  const Graph& graph_;
  const std::vector<int32_t> producers_;
  std::vector<std::vector<int32_t>> successors_;
  std::vector<int32_t> waits_for_;  // by node: edges from nodes that have not run
};

}  // namespace

void SeparateStatesFromOutputs(Graph& graph) {
  for (ValueId& output : graph.outputs) {
    const auto is_in = [&](const State& state) { return state.in == output; };
    const auto is_out = [&](const State& state) { return state.out == output; };
    const bool keeps_name = std::any_of(graph.states.begin(), graph.states.end(), is_in);
    if (!keeps_name && std::none_of(graph.states.begin(), graph.states.end(), is_out)) continue;
    const std::string name = NameOf(graph, output);
    const ValueId copy =
        graph.AddValue(graph.UniqueValueName(name + (keeps_name ? "_output" : "_state")),
                       graph.values[Index(output)].type);
    if (!keeps_name) std::swap(graph.values[Index(copy)].name, graph.values[Index(output)].name);
    Node identity;
    identity.op_type = "Identity";
    identity.inputs = {output};
    identity.outputs = {copy};
    graph.nodes.push_back(std::move(identity));
    output = copy;
  }
}

absl::Status CheckUpdatesInPlace(const Graph& graph, const MemoryLayout& layout) {
  for (size_t s = 0; s < graph.states.size(); ++s) {
    const int32_t input = layout.blocked_input[s];
    if (input < 0) continue;
    const int32_t producer = graph.Producers()[Index(layout.written[s])];
    const Node& node = graph.nodes[Index(producer)];
    return absl::InvalidArgumentError(absl::StrCat(
        "node '", graph.NodeName(node), "' (", node.op_type, ") rewrites state '",
        NameOf(graph, graph.states[s].in), "' and its kernel cannot write over input ", input,
        ", '", NameOf(graph, node.inputs[Index(input)]),
        "', which is in the same memory; let the new value be an Identity of its output"));
  }
  return absl::OkStatus();
}

absl::Status OrderUpdates(const MemoryLayout& layout, Graph& graph) {
  UpdateOrder update_order(layout, graph);
  const std::vector<int32_t> order = update_order.Sort();
  if (order.size() != graph.nodes.size()) return update_order.Cycle();
  std::vector<Node> sorted;
  sorted.reserve(order.size());
  for (int32_t n : order) sorted.push_back(std::move(graph.nodes[Index(n)]));
  graph.nodes = std::move(sorted);
  return absl::OkStatus();
}

}  // namespace onnx_memplan
