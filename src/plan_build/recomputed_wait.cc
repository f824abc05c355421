#include "plan_build/recomputed_wait.h"

#include <cstdint>
#include <map>
#include <variant>

#include "ops/recomputed.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

// The chain of a node; -1: none.
int64_t ChainOf(const Node& node) {
  const auto it = node.attributes.find(kRecomputedAttribute);
  const auto* chain = it == node.attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
  return chain == nullptr ? -1 : *chain;
}

}  // namespace

std::vector<std::vector<ValueId>> RecomputedWaits(const Graph& graph) {
  std::vector<std::vector<ValueId>> waits(graph.nodes.size());
  const std::vector<int32_t> producers = graph.Producers();
  const auto chain_of_value = [&](ValueId value) {
    const int32_t producer = value == kNoValue ? -1 : producers[Index(value)];
    return producer < 0 ? -1 : ChainOf(graph.nodes[Index(producer)]);
  };
  // Nodes come in a legal order, so that the first reader in it depends on no other one.
  std::map<int64_t, size_t> first_reader;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId input : graph.nodes[n].inputs) {
      const int64_t chain = chain_of_value(input);
      if (chain >= 0 && chain != ChainOf(graph.nodes[n])) first_reader.emplace(chain, n);
    }
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto reader = first_reader.find(ChainOf(graph.nodes[n]));
    if (reader == first_reader.end()) continue;
    for (ValueId input : graph.nodes[reader->second].inputs) {
      if (input == kNoValue || chain_of_value(input) == reader->first) continue;
      if (producers[Index(input)] >= 0 && Index(producers[Index(input)]) < n) {
        waits[n].push_back(input);
      }
    }
  }
  return waits;
}

}  // namespace onnx_memplan
