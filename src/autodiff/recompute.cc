#include "autodiff/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/op_def.h"
#include "ops/recomputed.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

// The nodes that compute a value again, in order.
struct Chain {
  ValueId value = kNoValue;
  std::vector<int32_t> nodes;
  int64_t work = 0;
};

class Chooser {
 public:
  Chooser(size_t forward_nodes, const RecomputeLimits& limits, const Target& target,
          const Graph& graph)
      : forward_nodes_(forward_nodes),
        longest_chain_(limits.longest_chain),
        graph_(graph),
        producers_(graph.Producers()) {
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

  // Gives up kept values, cheapest for each byte first, while all that is given up can be computed
  // again within the budget.
  std::vector<Chain> Choose(int64_t budget) {
    std::vector<ValueId> candidates;
    for (size_t v = 0; v < kept_.size(); ++v) {
      const auto value = static_cast<ValueId>(v);
      if (kept_[v] && IsRepeatable(value)) candidates.push_back(value);
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](ValueId a, ValueId b) { return CostPerByte(a) < CostPerByte(b); });
    std::vector<ValueId> dropped;
    std::vector<Chain> chosen;
    for (ValueId value : candidates) {
      kept_[Index(value)] = false;
      dropped.push_back(value);
      std::optional<std::vector<Chain>> chains = Chains(dropped);
      if (chains && OwnWork(*chains) <= budget) {
        chosen = *std::move(chains);
      } else {
        kept_[Index(value)] = true;
        dropped.pop_back();
      }
    }
    return chosen;
  }

  // The chain of another value that passes `chain`'s value and ends soonest behind it: what it
  // computes on its way serves the readers of that value too, which run soon after. -1: none.
  static int32_t PassedBy(const std::vector<Chain>& chains, size_t index) {
    const int32_t producer = chains[index].nodes.back();
    int32_t best = -1;
    for (size_t c = 0; c < chains.size(); ++c) {
      if (c == index) continue;
      const std::vector<int32_t>& nodes = chains[c].nodes;
      if (std::find(nodes.begin(), nodes.end(), producer) == nodes.end()) continue;
      if (best < 0 || nodes.back() < chains[Index(best)].nodes.back()) {
        best = static_cast<int32_t>(c);
      }
    }
    return best;
  }

  // Of the chains that run.
  static int64_t OwnWork(const std::vector<Chain>& chains) {
    int64_t work = 0;
    for (size_t c = 0; c < chains.size(); ++c) {
      if (PassedBy(chains, c) < 0) work += chains[c].work;
    }
    return work;
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

  // nullopt: one of them cannot be had from what is kept.
  std::optional<std::vector<Chain>> Chains(const std::vector<ValueId>& dropped) const {
    std::vector<Chain> chains;
    for (ValueId value : dropped) {
      Chain chain = {.value = value, .nodes = {}, .work = 0};
      std::set<int32_t> seen;
      if (!Extend(value, chain, seen)) return std::nullopt;
      chains.push_back(std::move(chain));
    }
    return chains;
  }

  // Depth-first from `value` back to values that are there in the backward pass.
  bool Extend(ValueId value, Chain& chain, std::set<int32_t>& seen) const {
    const int32_t producer = producers_[Index(value)];
    // An input, a constant, a state, or kept.
    if (producer < 0 || kept_[Index(value)] || seen.contains(producer)) return true;
    if (!IsRepeatable(value) || seen.size() >= longest_chain_) return false;
    seen.insert(producer);
    for (ValueId input : graph_.nodes[Index(producer)].inputs) {
      if (input != kNoValue && !Extend(input, chain, seen)) return false;
    }
    chain.nodes.push_back(producer);
    chain.work += work_[Index(producer)];
    return true;
  }

  const size_t forward_nodes_;
  const size_t longest_chain_;
  const Graph& graph_;
  const std::vector<int32_t> producers_;
  std::vector<int64_t> work_;  // by node
  std::vector<bool> is_state_out_;
  std::vector<bool> kept_;  // by value: lives from forward to backward
};

using Renaming = std::vector<std::pair<ValueId, ValueId>>;

ValueId Renamed(const Renaming& renaming, ValueId id) {
  for (const auto& [from, to] : renaming) {
    if (from == id) return to;
  }
  return id;
}

// Appends copies of the chain's nodes; returns the new name of each value that they make.
Renaming CopyChain(const Chain& chain, int64_t mark, std::vector<Node>& copies, Graph& graph) {
  Renaming renaming;
  for (int32_t n : chain.nodes) {
    Node copy = graph.nodes[Index(n)];
    for (ValueId& input : copy.inputs) input = Renamed(renaming, input);
    const ValueId output = copy.outputs[0];
    const std::string name = absl::StrCat(graph.values[Index(output)].name, "/recomputed_", mark);
    copy.outputs = {graph.AddValue(name, graph.values[Index(output)].type)};
    renaming.emplace_back(output, copy.outputs[0]);
    copy.name = absl::StrCat(graph.NodeName(graph.nodes[Index(n)]), "/recomputed");
    copy.attributes[kRecomputedAttribute] = mark;
    copies.push_back(std::move(copy));
  }
  return renaming;
}

}  // namespace

RecomputeResult Recompute(size_t forward_nodes, const RecomputeLimits& limits, const Target& target,
                          Graph& graph) {
  MEMPLAN_CHECK(forward_nodes <= graph.nodes.size());
  Chooser chooser(forward_nodes, limits, target, graph);
  RecomputeResult result;
  result.total_work = chooser.TotalWork();
  const auto budget =
      static_cast<int64_t>(limits.extra_work * static_cast<double>(result.total_work));
  const std::vector<Chain> chains = chooser.Choose(budget);
  result.extra_work = Chooser::OwnWork(chains);

  // Copies of chain c; empty where another chain passes its value.
  std::vector<std::vector<Node>> copies(chains.size());
  std::vector<Renaming> renamings(chains.size());
  for (size_t c = 0; c < chains.size(); ++c) {
    if (Chooser::PassedBy(chains, c) >= 0) continue;
    renamings[c] = CopyChain(chains[c], static_cast<int64_t>(c), copies[c], graph);
  }
  // By node of the backward pass: the chains that it is the first to read.
  std::map<size_t, std::vector<size_t>> before;
  std::vector<size_t> first_reader(chains.size(), graph.nodes.size());
  for (size_t c = 0; c < chains.size(); ++c) {
    // The chain that passes a value may itself be passed by another one.
    size_t runs = c;
    for (int32_t next; (next = Chooser::PassedBy(chains, runs)) >= 0;) runs = Index(next);
    const ValueId value = chains[c].value;
    const ValueId again = Renamed(renamings[runs], value);
    MEMPLAN_CHECK_MSG(again != value, graph.values[Index(value)].name);
    for (size_t n = forward_nodes; n < graph.nodes.size(); ++n) {
      std::vector<ValueId>& inputs = graph.nodes[n].inputs;
      if (std::find(inputs.begin(), inputs.end(), value) == inputs.end()) continue;
      std::replace(inputs.begin(), inputs.end(), value, again);
      first_reader[runs] = std::min(first_reader[runs], n);
    }
    ++result.values;
    result.saved_bytes += chooser.Bytes(value);
  }
  for (size_t c = 0; c < chains.size(); ++c) {
    if (!copies[c].empty()) before[first_reader[c]].push_back(c);
  }
  std::vector<Node> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (size_t c : before[n]) nodes.insert(nodes.end(), copies[c].begin(), copies[c].end());
    nodes.push_back(std::move(graph.nodes[n]));
  }
  graph.nodes = std::move(nodes);
  return result;
}

}  // namespace onnx_memplan
