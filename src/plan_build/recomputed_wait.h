// When values that are computed again may be computed.
#ifndef ONNX_MEMPLAN_PLAN_BUILD_RECOMPUTED_WAIT_H_
#define ONNX_MEMPLAN_PLAN_BUILD_RECOMPUTED_WAIT_H_

#include <vector>

#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// By node: values that must be there before it runs, though it does not read them. A chain that
// computes a value again (kRecomputedAttribute) waits for all else that the first reader of its
// results reads. Copies depend on little, so that they could run nearly anywhere, and an order
// search would have to find out that early is seldom good. Only values made before the node in
// graph order are named.
std::vector<std::vector<ValueId>> RecomputedWaits(const Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_BUILD_RECOMPUTED_WAIT_H_
