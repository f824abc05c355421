// Loop nests of reductions. Include host_kernels.h before this.
#ifndef ONNX_MEMPLAN_OPS_REDUCE_LOOPS_H_
#define ONNX_MEMPLAN_OPS_REDUCE_LOOPS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/reduce.h"
#include "ops/node_context.h"

namespace onnx_memplan {

// By dimension of input 0, whether `axes` (negative from the end) or `all` names it.
// InvalidArgument for an axis out of range.
absl::StatusOr<std::vector<bool>> MarkAxes(const NodeContext& node,
                                           const std::vector<int64_t>& axes, bool all);

struct ReduceLoops {
  // ReduceRows runs over `params`, otherwise ReduceColumns.
  bool innermost_reduced = true;
  kernels::ReduceParams params = {};
};

// The reduction of the marked dimensions of a contiguous tensor as a loop nest with neighbours
// merged. Unimplemented when it does not fit in 32 bits or in kernels::kMaxRank dimensions.
absl::StatusOr<ReduceLoops> CollapseReduction(const NodeContext& node, const Shape& shape,
                                              const std::vector<bool>& reduced);

// A tensor as outer x count x inner elements around one axis.
struct AxisSplit {
  int32_t outer = 1;
  int32_t count = 1;
  int32_t inner = 1;
};

// InvalidArgument for an axis out of range, Unimplemented for a tensor beyond 32 bits.
absl::StatusOr<AxisSplit> SplitAtAxis(const NodeContext& node, const Shape& shape, int64_t axis);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_REDUCE_LOOPS_H_
