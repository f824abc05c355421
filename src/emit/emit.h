// A planned program as C++: a pure function from values to the bytes of files.
#ifndef ONNX_MEMPLAN_EMIT_EMIT_H_
#define ONNX_MEMPLAN_EMIT_EMIT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/emit.h"
#include "onnx_memplan/plan.h"
#include "plan_build/program.h"

namespace onnx_memplan {

// The files of `program`, executed and placed as `plan` says: STEM.h, STEM.cpp and, by option,
// STEM_weights.bin and STEM_selftest.cpp. docs/generated-code.md describes what they promise.
// `plan` is legal for program.problem (VerifyPlan).
// InvalidArgument for a stem, name or section that cannot be one, and for a self-test whose tensors
// are not of the types of the graph's inputs and outputs.
absl::StatusOr<std::vector<EmittedFile>> EmitCode(const Program& program, const Plan& plan,
                                                  const EmitOptions& options);

// Bytes of constants that EmitCode puts into the weights, padding included.
int64_t EmittedWeightsBytes(const Program& program, const Plan& plan);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_EMIT_H_
