#include "plan_build/memory_layout.h"

#include <algorithm>

#include "support/check.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

// Works through the nodes in order; a view takes the place of its input, a part moves into the
// output of its concatenation. A root that moves takes along all that was placed in it: Find()
// follows the chain of roots and adds up the offsets.
class LayoutMaker {
 public:
  LayoutMaker(const Graph& graph, const std::vector<std::vector<Alias>>& aliases)
      : graph_(graph), aliases_(aliases), producers_(graph.Producers()) {
    for (size_t v = 0; v < graph.values.size(); ++v) {
      parent_.push_back({static_cast<ValueId>(v), 0});
    }
    owned_elsewhere_.resize(graph.values.size(), false);
    for (ValueId input : graph.inputs) owned_elsewhere_[Index(input)] = true;
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].constant.has_value()) owned_elsewhere_[v] = true;
    }
    layout_.state_of_root.assign(graph.values.size(), -1);
    layout_.written.assign(graph.states.size(), kNoValue);
    layout_.blocked_input.assign(graph.states.size(), -1);
    for (size_t s = 0; s < graph.states.size(); ++s) {
      owned_elsewhere_[Index(graph.states[s].in)] = true;
      layout_.state_of_root[Index(graph.states[s].in)] = static_cast<int32_t>(s);
    }
    layout_.runs.assign(graph.nodes.size(), true);
    layout_.parts.assign(graph.nodes.size(), 0);
    layout_.output_of_root.assign(graph.values.size(), -1);
  }

  MemoryLayout Make(const std::vector<bool>& parts_allowed) {
    PlaceViews();
    ClaimStates();
    ClaimOutputs();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (parts_allowed[n]) PlaceParts(n);
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      layout_.places.push_back(Find(static_cast<ValueId>(v)));
      layout_.rewritten.push_back(IsRewritten(static_cast<ValueId>(v)));
    }
    return std::move(layout_);
  }

 private:
  Place Find(ValueId value) const {
    Place place{value, 0};
    while (parent_[Index(place.root)].root != place.root) {
      const Place& up = parent_[Index(place.root)];
      place = {up.root, place.offset + up.offset};
    }
    return place;
  }

  bool IsRewritten(ValueId value) const {
    const int32_t state = layout_.state_of_root[Index(Find(value).root)];
    if (state < 0) return false;
    while (value != layout_.written[Index(state)] && value != graph_.states[Index(state)].in) {
      value = parent_[Index(value)].root;
    }
    return value == layout_.written[Index(state)];
  }

  // `place` is all of its root, whose memory the program may still choose.
  bool IsFree(const Place& place, int64_t bytes) const {
    return place.offset == 0 && Bytes(place.root) == bytes && !owned_elsewhere_[Index(place.root)];
  }

  int64_t Bytes(ValueId value) const { return graph_.values[Index(value)].type->Bytes(); }
  bool IsOutput(ValueId value) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), value) != graph_.outputs.end();
  }

  void PlaceViews() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      size_t viewed = 0;
      size_t present = 0;
      for (ValueId output : node.outputs) present += output != kNoValue ? 1 : 0;
      for (const Alias& alias : aliases_[n]) {
        if (alias.kind != Alias::Kind::kView) continue;
        const ValueId output = node.outputs[Index(alias.output)];
        const ValueId input = node.inputs[Index(alias.input)];
        if (output == kNoValue) continue;
        // What the caller owns cannot be one buffer as an input and another as an output.
        if (IsOutput(output) && owned_elsewhere_[Index(Find(input).root)]) continue;
        parent_[Index(output)] = {input, alias.byte_offset};
        ++viewed;
      }
      if (present == viewed) layout_.runs[n] = false;
    }
  }

  // The input through which the node of `written` reads the memory of `in` in another way than in
  // place; -1: none.
  int32_t BlockedInput(ValueId written, ValueId in) const {
    const auto n = Index(producers_[Index(written)]);
    const Node& node = graph_.nodes[n];
    const auto output = static_cast<int32_t>(
        std::find(node.outputs.begin(), node.outputs.end(), written) - node.outputs.begin());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      const Place place = Find(node.inputs[i]);
      if (place.root != in) continue;
      const Alias wanted{Alias::Kind::kInPlace, output, static_cast<int32_t>(i), 0};
      const bool promised =
          std::find(aliases_[n].begin(), aliases_[n].end(), wanted) != aliases_[n].end();
      if (!promised || place.offset != 0 || Bytes(node.inputs[i]) != Bytes(written)) {
        return static_cast<int32_t>(i);
      }
    }
    return -1;
  }

  // The `out` of a state lives where its `in` is: what it is a view of moves there when it is
  // exactly `out`, not bound elsewhere, and made by a node that can write over `in`. Otherwise the
  // node of `out` copies.
  void ClaimStates() {
    for (size_t s = 0; s < graph_.states.size(); ++s) {
      const State& state = graph_.states[s];
      if (state.out == kNoValue) continue;
      const Place place = Find(state.out);
      if (place.root == state.in) continue;  // a view of all of `in`: nothing changes
      const bool moves = IsFree(place, Bytes(state.out)) && !IsOutput(place.root) &&
                         BlockedInput(place.root, state.in) < 0;
      const ValueId written = moves ? place.root : state.out;
      if (!moves) layout_.runs[Index(producers_[Index(state.out)])] = true;
      layout_.blocked_input[s] = BlockedInput(written, state.in);
      parent_[Index(written)] = {state.in, 0};
      layout_.written[s] = written;
    }
  }

  // A graph output lives in the caller's buffer: its root may be that buffer when it is exactly the
  // output. Otherwise the output owns its memory and its node copies.
  void ClaimOutputs() {
    for (size_t k = 0; k < graph_.outputs.size(); ++k) {
      const ValueId output = graph_.outputs[k];
      const Place place = Find(output);
      if (IsFree(place, Bytes(output)) && layout_.output_of_root[Index(place.root)] < 0) {
        layout_.output_of_root[Index(place.root)] = static_cast<int32_t>(k);
        continue;
      }
      MEMPLAN_CHECK_MSG(producers_[Index(output)] >= 0, graph_.values[Index(output)].name);
      parent_[Index(output)] = {output, 0};
      layout_.runs[Index(producers_[Index(output)])] = true;
      layout_.output_of_root[Index(output)] = static_cast<int32_t>(k);
    }
  }

  void PlaceParts(size_t n) {
    const Node& node = graph_.nodes[n];
    size_t offers = 0;
    for (const Alias& alias : aliases_[n]) {
      if (alias.kind != Alias::Kind::kPart) continue;
      ++offers;
      const ValueId input = node.inputs[Index(alias.input)];
      const ValueId output = node.outputs[Index(alias.output)];
      const Place place = Find(input);
      const ValueId whole = Find(output).root;
      // A part made inside the new value of a state would be written while the old one is read.
      if (!IsFree(place, Bytes(input)) || layout_.output_of_root[Index(place.root)] >= 0 ||
          layout_.state_of_root[Index(whole)] >= 0 || whole == place.root) {
        continue;
      }
      parent_[Index(place.root)] = {output, alias.byte_offset};
      ++layout_.parts[n];
    }
    if (offers > 0 && offers == static_cast<size_t>(layout_.parts[n]) &&
        offers == node.inputs.size()) {
      layout_.runs[n] = false;
    }
  }

  const Graph& graph_;
  const std::vector<std::vector<Alias>>& aliases_;
  const std::vector<int32_t> producers_;
  std::vector<Place> parent_;          // by value; a root is its own parent
  std::vector<bool> owned_elsewhere_;  // by value: a graph input, a constant or the `in` of a state
  MemoryLayout layout_;
};

}  // namespace

std::vector<std::vector<Alias>> CollectAliases(const Graph& graph) {
  std::vector<std::vector<Alias>> aliases(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const OpDef* def = FindOp(node.op_type, node.domain);
    if (def != nullptr && def->aliases != nullptr) {
      aliases[n] = def->aliases(NodeContext(graph, node));
    }
  }
  return aliases;
}

MemoryLayout MakeMemoryLayout(const Graph& graph, const std::vector<std::vector<Alias>>& aliases,
                              const std::vector<bool>& parts_allowed) {
  return LayoutMaker(graph, aliases).Make(parts_allowed);
}

}  // namespace onnx_memplan
