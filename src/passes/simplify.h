// Passes that only take away or share: each result is bit for bit what it was.
#ifndef ONNX_MEMPLAN_PASSES_SIMPLIFY_H_
#define ONNX_MEMPLAN_PASSES_SIMPLIFY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "passes/editor.h"

namespace onnx_memplan {

// Each gives the number of places that it changed.

// Nodes that give their input: Identity, inference Dropout, Cast to the same type, Transpose in the
// same order, empty Pad, whole Slice, Expand and Tile to the same shape, Concat of one, x + 0, Relu
// of what is not negative, ...
absl::StatusOr<int64_t> EliminateNoOps(GraphEditor& editor);

// Flatten, Squeeze, Unsqueeze and Transpose that only moves dimensions of one element become
// Reshape, and chains of Reshape become one.
absl::StatusOr<int64_t> MergeViews(GraphEditor& editor);

// Nodes and optional outputs that nothing reads.
absl::StatusOr<int64_t> RemoveDeadCode(GraphEditor& editor);

// Equal constants, and nodes of equal operator, attributes and inputs, are one.
absl::StatusOr<int64_t> ShareCommonSubexpressions(GraphEditor& editor);

// Concat(a, b, c) becomes Concat(ab, c) where ab = Concat(a, b) exists: ab may then be produced
// inside the larger one. DenseNet's blocks are made of it.
absl::StatusOr<int64_t> ShareConcatPrefixes(GraphEditor& editor);

// Identity nodes, so that no graph output is a graph input or a constant, or is listed twice. The
// output that was a graph input x, or listed before, gets the name x_output.
absl::StatusOr<int64_t> SeparateOutputs(Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_SIMPLIFY_H_
