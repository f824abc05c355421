// Passes that find one operator in what an exporter wrote as several.
#ifndef ONNX_MEMPLAN_PASSES_RECOGNISE_H_
#define ONNX_MEMPLAN_PASSES_RECOGNISE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "passes/editor.h"

namespace onnx_memplan {

// Gelu (with Erf, or with Tanh of a cubic), HardSwish and HardSigmoid, in whatever order their
// factors and terms are written; Mish; and x * Sigmoid(a * x) as com.microsoft's QuickGelu, which
// for a = 1 is SiLU.
absl::StatusOr<int64_t> RecogniseActivations(GraphEditor& editor);

// Mean, deviation, variance, and their quotient over the last dimensions, with or without scale and
// bias: LayerNormalization.
absl::StatusOr<int64_t> RecogniseLayerNormalization(GraphEditor& editor);

// Exp(x) / ReduceSum(Exp(x)), with or without the maximum taken off before; Log(Softmax(x)).
absl::StatusOr<int64_t> RecogniseSoftmax(GraphEditor& editor);

// Means over all spatial dimensions (ReduceMean, AveragePool of the whole) as GlobalAveragePool;
// Sum of two as Add.
absl::StatusOr<int64_t> Canonicalise(GraphEditor& editor);

// Gemm of other ranks than 2, which ONNX does not have, as MatMul or com.microsoft's FusedMatMul,
// and Add.
absl::StatusOr<int64_t> GemmToMatMul(GraphEditor& editor);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_RECOGNISE_H_
