// Types of all values, and constants as far as they can be known while planning.
#ifndef ONNX_MEMPLAN_PASSES_INFER_H_
#define ONNX_MEMPLAN_PASSES_INFER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "onnx_memplan/graph.h"
#include "ops/target.h"

namespace onnx_memplan {

struct FoldOptions {
  // A node on constants stays a node when its result has more bytes than both this and
  // max_growth times its inputs: a small table is better kept small in flash. ConstantOfShape,
  // which stands for weights, always folds.
  int64_t small_bytes = int64_t{1} << 20;
  int64_t max_growth = 4;
  // No result larger than this is computed while planning.
  int64_t max_result_bytes = int64_t{1} << 30;
};

// Gives every value its type, in topological order; replaces values that are known (all inputs
// constant, or the shape of a typed value) by constants and their nodes by nothing; puts the branch
// of an If whose condition is known in its place. The graph's inputs and outputs stay; an output
// may become a constant. May be run again after the graph was changed.
//
// An operator without a definition is no error when its outputs have types already
// (LoadOptions::keep_declared_types): they stay.
//
// Errors of the operators' rules are collected over the whole graph: when there are several, one
// status lists each operator with its nodes and reasons. Unimplemented when an operator, an element
// type or an attribute is not supported, else the code of the first error.
absl::Status InferAndFold(Graph& graph, const FoldOptions& options = {});

// OK, or all nodes of a typed graph that cannot be lowered to `target`, in one status.
absl::Status CheckSupported(const Graph& graph, const Target& target);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_INFER_H_
