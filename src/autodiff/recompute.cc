#include "autodiff/recompute.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/op_def.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

// Operators of a chain that is computed again, at most. Long chains need as much memory for what
// lies between as they save.
constexpr size_t kLongestChain = 6;

// The nodes that compute a value again, in order, and the kept values that they read.
struct Chain {
  std::vector<int32_t> nodes;
  std::set<ValueId> kept;
  int64_t work = 0;
};

class Chooser {
 public:
  Chooser(size_t forward_nodes, const Target& target, const Graph& graph)
      : forward_nodes_(forward_nodes), graph_(graph), producers_(graph.Producers()) {
    for (const Node& node : graph.nodes) work_.push_back(Work(node, target));
    is_state_out_.assign(graph.values.size(), false);
    for (const State& state : graph.states) {
      if (state.out != kNoValue) is_state_out_[Index(state.out)] = true;
    }
    FindKept();
  }

  int64_t TotalWork() const {
    int64_t total = 0;
    for (int64_t work : work_) total += work;
    return total;
  }

  // Values that the backward pass reads, cheapest for each byte first, and their chains.
  std::vector<std::pair<ValueId, Chain>> Choose(int64_t budget) {
    std::vector<std::pair<ValueId, Chain>> chosen;
    std::vector<ValueId> candidates;
    for (size_t v = 0; v < kept_.size(); ++v) {
      if (kept_[v] && IsRepeatable(static_cast<ValueId>(v))) {
        candidates.push_back(static_cast<ValueId>(v));
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](ValueId a, ValueId b) { return CostPerByte(a) < CostPerByte(b); });
    for (ValueId value : candidates) {
      if (pinned_.contains(value)) continue;
      kept_[Index(value)] = false;
      std::optional<Chain> chain = FindChain(value);
      if (!chain || chain->work > budget) {
        kept_[Index(value)] = true;
        continue;
      }
      budget -= chain->work;
      pinned_.insert(chain->kept.begin(), chain->kept.end());
      chosen.emplace_back(value, *std::move(chain));
    }
    return chosen;
  }

  int64_t Bytes(ValueId value) const { return graph_.values[Index(value)].type->Bytes(); }

 private:
  int64_t Work(const Node& node, const Target& target) const {
    int64_t work = 0;
    if (const absl::StatusOr<Lowering> lowering = LowerNode(graph_, node, target); lowering.ok()) {
      work = lowering->macs;
    }
    for (ValueId output : node.outputs) {
      if (output != kNoValue) work += graph_.values[Index(output)].type->NumElements();
    }
    return work;
  }

  void FindKept() {
    kept_.assign(graph_.values.size(), false);
    for (size_t n = forward_nodes_; n < graph_.nodes.size(); ++n) {
      for (ValueId input : graph_.nodes[n].inputs) {
        if (input == kNoValue) continue;
        const int32_t producer = producers_[Index(input)];
        if (producer >= 0 && Index(producer) < forward_nodes_) kept_[Index(input)] = true;
      }
    }
  }

  // The node can run once more for this value alone: it rewrites no state, and needs no other
  // output.
  bool IsRepeatable(ValueId value) const {
    const int32_t producer = producers_[Index(value)];
    if (producer < 0) return false;
    const Node& node = graph_.nodes[Index(producer)];
    const OpDef* def = FindOp(node.op_type, node.domain);
    if (node.outputs[0] != value || def == nullptr || def->min_outputs > 1 ||
        (node.outputs.size() > 1 && def->max_outputs == kVariadic)) {
      return false;
    }
    return std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      return output != kNoValue && is_state_out_[Index(output)];
    });
  }

  double CostPerByte(ValueId value) const {
    return static_cast<double>(work_[Index(producers_[Index(value)])]) /
           static_cast<double>(std::max<int64_t>(Bytes(value), 1));
  }

  // Depth-first from `value` back to values that are there in the backward pass.
  std::optional<Chain> FindChain(ValueId value) const {
    Chain chain;
    std::set<int32_t> seen;
    if (!Extend(value, chain, seen)) return std::nullopt;
    return chain;
  }

  bool Extend(ValueId value, Chain& chain, std::set<int32_t>& seen) const {
    const int32_t producer = producers_[Index(value)];
    if (producer < 0) return true;  // an input, a constant or a state
    if (kept_[Index(value)]) {
      chain.kept.insert(value);
      return true;
    }
    if (seen.contains(producer)) return true;
    if (!IsRepeatable(value) || seen.size() >= kLongestChain) return false;
    seen.insert(producer);
    for (ValueId input : graph_.nodes[Index(producer)].inputs) {
      if (input != kNoValue && !Extend(input, chain, seen)) return false;
    }
    chain.nodes.push_back(producer);
    chain.work += work_[Index(producer)];
    return true;
  }

  const size_t forward_nodes_;
  const Graph& graph_;
  const std::vector<int32_t> producers_;
  std::vector<int64_t> work_;  // by node
  std::vector<bool> is_state_out_;
  std::vector<bool> kept_;    // by value: lives from forward to backward
  std::set<ValueId> pinned_;  // kept because a chain starts there
};

// Appends copies of the chain's nodes and returns the copy of `value`. The attribute tells a copy
// from its original, which it would otherwise be merged with again.
ValueId CopyChain(const Chain& chain, ValueId value, int64_t mark, std::vector<Node>& copies,
                  Graph& graph) {
  std::vector<std::pair<ValueId, ValueId>> renamed;
  const auto rename = [&](ValueId id) {
    for (const auto& [from, to] : renamed) {
      if (from == id) return to;
    }
    return id;
  };
  for (int32_t n : chain.nodes) {
    Node copy = graph.nodes[Index(n)];
    for (ValueId& input : copy.inputs) input = rename(input);
    copy.outputs.resize(1);
    for (ValueId& output : copy.outputs) {
      const std::string name = absl::StrCat(graph.values[Index(output)].name, "/recomputed_", mark);
      const ValueId again = graph.AddValue(name, graph.values[Index(output)].type);
      renamed.emplace_back(output, again);
      output = again;
    }
    copy.name = absl::StrCat(graph.NodeName(graph.nodes[Index(n)]), "/recomputed");
    copy.attributes["onnx_memplan_recomputed"] = mark;
    copies.push_back(std::move(copy));
  }
  return rename(value);
}

}  // namespace

RecomputeResult Recompute(size_t forward_nodes, double max_extra_work, const Target& target,
                          Graph& graph) {
  MEMPLAN_CHECK(forward_nodes <= graph.nodes.size());
  Chooser chooser(forward_nodes, target, graph);
  RecomputeResult result;
  result.total_work = chooser.TotalWork();
  const auto budget = static_cast<int64_t>(max_extra_work * static_cast<double>(result.total_work));
  const std::vector<std::pair<ValueId, Chain>> chosen = chooser.Choose(budget);

  std::vector<Node> copies;
  for (const auto& [value, chain] : chosen) {
    const ValueId again = CopyChain(chain, value, result.values, copies, graph);
    for (size_t n = forward_nodes; n < graph.nodes.size(); ++n) {
      std::vector<ValueId>& inputs = graph.nodes[n].inputs;
      std::replace(inputs.begin(), inputs.end(), value, again);
    }
    ++result.values;
    result.saved_bytes += chooser.Bytes(value);
    result.extra_work += chain.work;
  }
  // Right behind the forward pass, before all readers; the planner puts them where they belong.
  graph.nodes.insert(graph.nodes.begin() + static_cast<ptrdiff_t>(forward_nodes), copies.begin(),
                     copies.end());
  return result;
}

}  // namespace onnx_memplan
