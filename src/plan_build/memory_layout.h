// Which values share memory, before any address is chosen: views, parts of concatenations, the
// buffers of the caller, and the states.
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
  // By root value: the state whose `in` it is, or -1.
  std::vector<int32_t> state_of_root;
  // By state: the value whose node writes over the state's memory: State::out, or what that is a
  // view of. kNoValue: no node does.
  std::vector<ValueId> written;
  // By state: the input through which the node of `written` reads the old value in another way than
  // in place (Alias::kInPlace, all of it), so that it must not run. -1: none.
  std::vector<int32_t> blocked_input;
  // By value: it lies in the memory of a state and has what is there after the run.
  std::vector<bool> rewritten;
};

// The aliases of every node, computed once.
std::vector<std::vector<Alias>> CollectAliases(const Graph& graph);

// `parts_allowed`, by node: its inputs may be produced inside its output.
MemoryLayout MakeMemoryLayout(const Graph& graph, const std::vector<std::vector<Alias>>& aliases,
                              const std::vector<bool>& parts_allowed);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_BUILD_MEMORY_LAYOUT_H_
