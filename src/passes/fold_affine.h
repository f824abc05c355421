// Per-channel scale and shift folded into the weights of a linear operator.
#ifndef ONNX_MEMPLAN_PASSES_FOLD_AFFINE_H_
#define ONNX_MEMPLAN_PASSES_FOLD_AFFINE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "passes/editor.h"

namespace onnx_memplan {

// BatchNormalization, and Add, Sub, Mul, Div, Neg with constants that vary along one dimension or
// none, into the weights and bias of the Conv, ConvTranspose, Gemm, MatMul or normalisation that
// makes their operand. Reshape and Transpose in between, and for a mere factor also MatMul, are
// looked through. The new weights are computed in double.
absl::StatusOr<int64_t> FoldAffineIntoProducer(GraphEditor& editor);

// The same into the Conv or Gemm that alone reads the result, a shift only where nothing is padded;
// a factor into a MatMul, as com.microsoft's FusedMatMul.
absl::StatusOr<int64_t> FoldAffineIntoConsumer(GraphEditor& editor);

// (x * a) / b becomes x * (a / b), (x + a) - b becomes x + (a - b), for constants of one value.
absl::StatusOr<int64_t> MergeScalars(GraphEditor& editor);

// Two affine nodes along the channels, one behind the other, become one BatchNormalization: one run
// over the tensor instead of two. For those that could not be folded into weights.
absl::StatusOr<int64_t> MergeAffine(GraphEditor& editor);

// x + x * g becomes x * (g + 1), where the gate g is smaller than x and is broadcast.
absl::StatusOr<int64_t> FactorGates(GraphEditor& editor);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_FOLD_AFFINE_H_
