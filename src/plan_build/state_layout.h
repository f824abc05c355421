// Where the states of programs lie in the one block of memory that keeps them between runs.
#ifndef ONNX_MEMPLAN_PLAN_BUILD_STATE_LAYOUT_H_
#define ONNX_MEMPLAN_PLAN_BUILD_STATE_LAYOUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"
#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

struct PlacedState {
  std::string name;  // of the value State::in
  TensorType type;
  StateKind kind = StateKind::kParameter;
  int64_t byte_offset = 0;
  Tensor initial;
};

// Parameters first, then statistics, then what optimizers keep, each in the order of the graph. All
// that inference depends on is thus one range from 0 on, and so are the parameters alone, of which
// gradients are laid out alike.
struct StateLayout {
  std::vector<PlacedState> states;  // by byte_offset
  int64_t parameters_bytes = 0;     // one past the last parameter
  int64_t inference_bytes = 0;      // one past the last parameter or statistic
  int64_t bytes = 0;                // one past the last state; a multiple of 4 when there is one
  int64_t alignment = 1;            // of the block

  // With the mark that generated code keeps behind the states, see emit/; 0: there are none.
  int64_t block_bytes() const { return states.empty() ? 0 : bytes + 4; }
  const PlacedState* Find(std::string_view name) const;  // nullptr: no such state
};

// `alignment` (a power of two) for states that are large against it; small ones are aligned for any
// element type.
StateLayout LayOutStates(const Graph& graph, int64_t alignment);

// By state of a graph: its byte offset, found by name. InvalidArgument when the layout has no such
// state, or one of another type.
absl::StatusOr<std::vector<int64_t>> StateOffsets(const StateLayout& layout, const Graph& graph);

// "parameter", "statistic", "optimizer".
std::string_view StateKindName(StateKind kind);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_BUILD_STATE_LAYOUT_H_
