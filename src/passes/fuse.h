// Passes that make one kernel do the work of several nodes.
#ifndef ONNX_MEMPLAN_PASSES_FUSE_H_
#define ONNX_MEMPLAN_PASSES_FUSE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "passes/editor.h"

namespace onnx_memplan {

// MatMul with a constant matrix becomes Gemm, which takes a bias; of more than two dimensions,
// between two reshapes, which are views. Add to a product of two matrices becomes Gemm's bias.
absl::StatusOr<int64_t> MatMulToGemm(GraphEditor& editor);

// Add of two tensors of one shape into the epilogue of the operand's producer that runs later.
absl::StatusOr<int64_t> FuseResidualAdd(GraphEditor& editor);

// Activations into the epilogue of the node that makes their operand.
absl::StatusOr<int64_t> FuseActivations(GraphEditor& editor);

// Pad of spatial dimensions into the Conv, MaxPool or AveragePool that alone reads the result,
// where that computes the same.
absl::StatusOr<int64_t> FoldPadding(GraphEditor& editor);

// The gradient of a matrix or of the weights of a convolution, where an update alone reads it, into
// that update: it is never stored as a whole.
absl::StatusOr<int64_t> FuseUpdates(GraphEditor& editor);

// softmax(scale * Q K^T + mask) V, with the Transpose, Reshape, Slice and Split around, as one
// Attention of our own domain.
absl::StatusOr<int64_t> FuseAttention(GraphEditor& editor);

// The maximum pool that alone reads a convolution of a plain image or of one tap, in blocks of
// channels, into it: the convolution's result then never exists as a whole.
absl::StatusOr<int64_t> FusePool(GraphEditor& editor);

// The same for a depthwise convolution, as long as that makes the step of the graph that touches
// most bytes smaller.
absl::StatusOr<int64_t> FuseDepthwise(GraphEditor& editor);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_FUSE_H_
