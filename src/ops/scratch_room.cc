#include "ops/scratch_room.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace onnx_memplan {
namespace {

// By value: the bytes that it takes of the arena, if it has memory of its own. Graph inputs and
// outputs, constants and states lie elsewhere.
std::vector<int64_t> ArenaBytes(const Graph& graph) {
  std::vector<int64_t> bytes(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      const Value& value = graph.values[static_cast<size_t>(id)];
      if (value.type) bytes[static_cast<size_t>(id)] = value.type->Bytes();
    }
  }
  for (const ValueId id : graph.outputs) bytes[static_cast<size_t>(id)] = 0;
  return bytes;
}

// Whether the operator's output has memory apart from all inputs but a residual.
bool WritesApart(const Node& node) {
  return node.op_type == "Conv" || node.op_type == "BlockedConv" || node.op_type == "MaxPool";
}

}  // namespace

int64_t ScratchRoomBytes(const NodeContext& context, const Target& target) {
  if (target.optimize == OptimizeFor::kSpeed) return std::numeric_limits<int64_t>::max();
  if (context.HasAttribute(kScratchRoomAttribute)) return context.Int(kScratchRoomAttribute, 0);
  const Graph& graph = context.graph();
  const std::vector<int64_t> bytes = ArenaBytes(graph);
  const size_t steps = graph.nodes.size();
  // By step: how many bytes become live there more than there die after it.
  std::vector<int64_t> born(steps + 1, 0);
  std::vector<int64_t> dead(steps + 1, 0);
  std::vector<size_t> last_step(graph.values.size(), 0);
  int64_t least_peak = 0;
  for (size_t step = 0; step < steps; ++step) {
    const Node& node = graph.nodes[step];
    int64_t own = 0;
    for (const ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      born[step] += bytes[static_cast<size_t>(id)];
      last_step[static_cast<size_t>(id)] = step;
      own += bytes[static_cast<size_t>(id)];
    }
    for (const ValueId id : node.inputs) {
      if (id != kNoValue) last_step[static_cast<size_t>(id)] = step;
    }
    if (WritesApart(node)) {
      least_peak = std::max(least_peak, own + bytes[static_cast<size_t>(node.inputs[0])]);
    }
  }
  for (size_t id = 0; id < bytes.size(); ++id) dead[last_step[id]] += bytes[id];
  int64_t live = 0;
  int64_t peak = 0;
  int64_t live_here = 0;
  for (size_t step = 0; step < steps; ++step) {
    live += born[step];
    // A residual is written over.
    const Node& node = graph.nodes[step];
    const int64_t over = node.epilogue.has_residual ? born[step] : 0;
    if (WritesApart(node)) peak = std::max(peak, live - over);
    if (!node.outputs.empty() && node.outputs[0] == context.node().outputs[0]) {
      live_here = live - over;
    }
    live -= dead[step];
  }
  const int64_t growth = target.optimize == OptimizeFor::kMemory ? 0 : peak / 50;
  return std::max<int64_t>(0, least_peak - live_here) + growth;
}

}  // namespace onnx_memplan
