// Planned programs as C++: a pure function from values to the bytes of files.
#ifndef ONNX_MEMPLAN_EMIT_EMIT_H_
#define ONNX_MEMPLAN_EMIT_EMIT_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "emit/entry_point.h"
#include "onnx_memplan/emit.h"
#include "onnx_memplan/plan.h"
#include "plan_build/program.h"

namespace onnx_memplan {

// The files of programs that share one arena, one block of weights and one of states, executed and
// placed as their plans say: STEM.h, STEM.cpp and, by option, STEM_weights.bin and
// STEM_selftest.cpp. docs/generated-code.md describes what they promise. The plans are legal for
// the programs' problems (VerifyPlan); all programs have one target.
//
// States are laid out as the first program lists them; the other programs' states are found there
// by name. Where there are states, NAME_reset, NAME_get_parameters and NAME_set_parameters are
// added.
//
// InvalidArgument for a stem, name or section that cannot be one, for states of a later program
// that the first one has not, and for a self-test whose tensors are not of the types of the inputs
// and outputs of the tested function (NAME_run or NAME_infer; otherwise the first).
absl::StatusOr<std::vector<EmittedFile>> EmitCode(std::span<const EntryPoint> entries,
                                                  const EmitOptions& options);

// One program as NAME_run.
absl::StatusOr<std::vector<EmittedFile>> EmitCode(const Program& program, const Plan& plan,
                                                  const EmitOptions& options);

// Bytes of constants and of initial values of states that EmitCode puts into the weights, padding
// included.
int64_t EmittedWeightsBytes(std::span<const EntryPoint> entries);
int64_t EmittedWeightsBytes(const Program& program, const Plan& plan);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_EMIT_H_
