#include "ops/host_kernels.h"

#include "ops/reduce_loops.h"

#include "ops/broadcast.h"
#include "ops/dispatch.h"
#include "support/status_macros.h"

namespace onnx_memplan {

absl::StatusOr<std::vector<bool>> MarkAxes(const NodeContext& node,
                                           const std::vector<int64_t>& axes, bool all) {
  const int64_t rank = node.InputType(0).rank();
  std::vector<bool> marked(static_cast<size_t>(rank), all);
  for (int64_t axis : axes) {
    ASSIGN_OR_RETURN(axis, node.NormalizeAxis(axis, rank));
    marked[static_cast<size_t>(axis)] = true;
  }
  return marked;
}

namespace {

struct Run {
  int64_t extent;
  int64_t stride;
  bool reduced;
};

// The dimensions without those of extent 1; neighbours of one kind are merged.
std::vector<Run> MergedRuns(const Shape& shape, const std::vector<bool>& reduced) {
  std::vector<Run> runs;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (!runs.empty() && runs.back().reduced == reduced[d]) {
      runs.back().extent *= shape[d];
    } else {
      runs.push_back({shape[d], 1, reduced[d]});
    }
  }
  if (runs.empty()) runs.push_back({1, 1, true});
  int64_t stride = 1;
  for (size_t i = runs.size(); i-- > 0;) {
    runs[i].stride = stride;
    stride *= runs[i].extent;
  }
  return runs;
}

}  // namespace

absl::StatusOr<ReduceLoops> CollapseReduction(const NodeContext& node, const Shape& shape,
                                              const std::vector<bool>& reduced) {
  const std::vector<Run> runs = MergedRuns(shape, reduced);
  ReduceLoops loops;
  loops.innermost_reduced = runs.back().reduced;
  int64_t reduced_count = 1;
  std::vector<int64_t> kept_dims, kept_strides, reduced_dims, reduced_strides;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].reduced) reduced_count *= runs[i].extent;
    if (i + 1 == runs.size()) break;
    (runs[i].reduced ? reduced_dims : kept_dims).push_back(runs[i].extent);
    (runs[i].reduced ? reduced_strides : kept_strides).push_back(runs[i].stride);
  }
  kernels::ReduceParams& params = loops.params;
  params.kept_rank = static_cast<int32_t>(kept_dims.size());
  params.reduced_rank = static_cast<int32_t>(reduced_dims.size());
  RETURN_IF_ERROR(ToKernelDims(node, kept_dims, params.kept_dims));
  RETURN_IF_ERROR(ToKernelDims(node, kept_strides, params.kept_strides));
  RETURN_IF_ERROR(ToKernelDims(node, reduced_dims, params.reduced_dims));
  RETURN_IF_ERROR(ToKernelDims(node, reduced_strides, params.reduced_strides));
  ASSIGN_OR_RETURN(params.inner, ToInt32(node, runs.back().extent, "a dimension"));
  ASSIGN_OR_RETURN(params.reduced_count, ToInt32(node, reduced_count, "the number of elements"));
  return loops;
}

absl::StatusOr<AxisSplit> SplitAtAxis(const NodeContext& node, const Shape& shape, int64_t axis) {
  ASSIGN_OR_RETURN(axis, node.NormalizeAxis(axis, static_cast<int64_t>(shape.size())));
  const auto product = [&](size_t begin, size_t end) {
    return TensorType{DType::kInt8, Shape(shape.begin() + static_cast<ptrdiff_t>(begin),
                                          shape.begin() + static_cast<ptrdiff_t>(end))}
        .NumElements();
  };
  const auto at = static_cast<size_t>(axis);
  AxisSplit split;
  ASSIGN_OR_RETURN(split.outer, ToInt32(node, product(0, at), "the number of elements"));
  ASSIGN_OR_RETURN(split.count, ToInt32(node, shape[at], "a dimension"));
  ASSIGN_OR_RETURN(split.inner,
                   ToInt32(node, product(at + 1, shape.size()), "the number of elements"));
  return split;
}

}  // namespace onnx_memplan
