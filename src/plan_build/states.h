// What keeps the states of a graph in place: a node that makes a state's new value writes over the
// old one, so it must be able to, and run last of all that read the old one.
#ifndef ONNX_MEMPLAN_PLAN_BUILD_STATES_H_
#define ONNX_MEMPLAN_PLAN_BUILD_STATES_H_

#include "absl/status/status.h"
#include "onnx_memplan/graph.h"
#include "plan_build/memory_layout.h"

namespace onnx_memplan {

// Gives each graph output that is the `in` or `out` of a state a value of its own, copied by an
// Identity. The output keeps its name; where it is an `in`, the state keeps it.
void SeparateStatesFromOutputs(Graph& graph);

// InvalidArgument, naming the node, when a node that writes over a state reads the old value in
// another way than by an in-place input.
absl::Status CheckUpdatesInPlace(const Graph& graph, const MemoryLayout& layout);

// Moves nodes that write over a state behind all other readers of the old value, and what depends
// on them further; keeps the present order where it is legal. InvalidArgument, naming the state and
// a reader, when there is no such order.
absl::Status OrderUpdates(const MemoryLayout& layout, Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_BUILD_STATES_H_
