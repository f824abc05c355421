// Passes that move Transpose nodes until they meet, vanish, or become part of something else.
#ifndef ONNX_MEMPLAN_PASSES_TRANSPOSES_H_
#define ONNX_MEMPLAN_PASSES_TRANSPOSES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "passes/editor.h"

namespace onnx_memplan {

// Transpose of Transpose is one; of a matrix it becomes Gemm's transA or transB, or those of
// com.microsoft's FusedMatMul; between a reshape
// to a matrix and a Gemm with constant weights it becomes another order of the weights.
absl::StatusOr<int64_t> AbsorbTransposes(GraphEditor& editor);

// Moves Transpose behind elementwise nodes, reductions, Softmax and Concat, so that it meets its
// inverse; never so that there are more of them.
absl::StatusOr<int64_t> SinkTransposes(GraphEditor& editor);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_TRANSPOSES_H_
