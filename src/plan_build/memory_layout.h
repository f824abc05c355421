// Which values share memory, before any address is chosen: views, parts of concatenations, and the
// buffers of the caller.
#ifndef ONNX_MEMPLAN_PLAN_BUILD_MEMORY_LAYOUT_H_
#define ONNX_MEMPLAN_PLAN_BUILD_MEMORY_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "onnx_memplan/graph.h"
#include "ops/op_def.h"

namespace onnx_memplan {

// The bytes of a value: `offset` bytes into those of `root`, a value that owns memory.
struct Place {
  ValueId root = kNoValue;
  int64_t offset = 0;
};

struct MemoryLayout {
  std::vector<Place> places;  // by value
  // By node: it has something to do at run time.
  std::vector<bool> runs;
  // By root value: the graph output whose buffer it is, or -1.
  std::vector<int32_t> output_of_root;
  // By node: how many of its inputs are produced inside its output (Alias::kPart).
  std::vector<int32_t> parts;
};

// The aliases of every node, computed once.
std::vector<std::vector<Alias>> CollectAliases(const Graph& graph);

// `parts_allowed`, by node: its inputs may be produced inside its output.
MemoryLayout MakeMemoryLayout(const Graph& graph, const std::vector<std::vector<Alias>>& aliases,
                              const std::vector<bool>& parts_allowed);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_BUILD_MEMORY_LAYOUT_H_
