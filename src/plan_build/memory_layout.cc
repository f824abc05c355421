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
    owned_by_caller_.resize(graph.values.size(), false);
    for (ValueId input : graph.inputs) owned_by_caller_[Index(input)] = true;
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].constant.has_value()) owned_by_caller_[v] = true;
    }
    layout_.runs.assign(graph.nodes.size(), true);
    layout_.parts.assign(graph.nodes.size(), 0);
    layout_.output_of_root.assign(graph.values.size(), -1);
  }

  MemoryLayout Make(const std::vector<bool>& parts_allowed) {
    PlaceViews();
    ClaimOutputs();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (parts_allowed[n]) PlaceParts(n);
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      layout_.places.push_back(Find(static_cast<ValueId>(v)));
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
        if (IsOutput(output) && owned_by_caller_[Index(Find(input).root)]) continue;
        parent_[Index(output)] = {input, alias.byte_offset};
        ++viewed;
      }
      if (present == viewed) layout_.runs[n] = false;
    }
  }

  // A graph output lives in the caller's buffer: its root may be that buffer when it is exactly the
  // output. Otherwise the output owns its memory and its node copies.
  void ClaimOutputs() {
    for (size_t k = 0; k < graph_.outputs.size(); ++k) {
      const ValueId output = graph_.outputs[k];
      const Place place = Find(output);
      const bool whole = place.offset == 0 && Bytes(place.root) == Bytes(output);
      if (whole && layout_.output_of_root[Index(place.root)] < 0 &&
          !owned_by_caller_[Index(place.root)]) {
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
      const bool whole = place.offset == 0 && Bytes(place.root) == Bytes(input);
      if (!whole || owned_by_caller_[Index(place.root)] ||
          layout_.output_of_root[Index(place.root)] >= 0 || Find(output).root == place.root) {
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
  std::vector<bool> owned_by_caller_;  // by value: a graph input or a constant
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
