// What the generated code will run on.
#ifndef ONNX_MEMPLAN_OPS_TARGET_H_
#define ONNX_MEMPLAN_OPS_TARGET_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/optimize.h"

namespace onnx_memplan {

struct Target {
  std::string name;
  std::string summary;  // one line, for --help
  // Floats in one vector register: the lane count that vectorised kernels are instantiated with.
  int32_t vector_floats = 4;
  // Vector registers; bounds the accumulators of a register-blocked kernel.
  int32_t vector_registers = 16;
  // Alignment in bytes of the arena and of each tensor in it.
  int64_t arena_alignment = 16;
  // What the user should pass to g++ or clang++ for this target; may be empty.
  std::string compiler_flags;
  // What kernels are chosen by; no property of the target itself, but every choice asks for both.
  OptimizeFor optimize = OptimizeFor::kBalanced;

  friend bool operator==(const Target&, const Target&) = default;
};

// "generic" first.
const std::vector<Target>& BuiltinTargets();
// NotFound, with the names that exist.
absl::StatusOr<Target> FindTarget(std::string_view name);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_TARGET_H_
