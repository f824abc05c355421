#include "ops/target.h"

#include "absl/strings/str_cat.h"

namespace onnx_memplan {

const std::vector<Target>& BuiltinTargets() {
  static const auto* targets = new std::vector<Target>{
      {.name = "generic",
       .summary = "any C++17 compiler and CPU; no vector unit assumed, smallest scratch",
       .vector_floats = 4,
       .vector_registers = 16,
       .arena_alignment = 16,
       .compiler_flags = ""},
      {.name = "x86-64-v3",
       .summary = "x86-64 with AVX2 and FMA",
       .vector_floats = 8,
       .vector_registers = 16,
       .arena_alignment = 32,
       .compiler_flags = "-march=x86-64-v3"},
      {.name = "x86-64-v4",
       .summary = "x86-64 with AVX-512",
       .vector_floats = 16,
       .vector_registers = 32,
       .arena_alignment = 64,
       .compiler_flags = "-march=x86-64-v4 -mprefer-vector-width=512"},
  };
  return *targets;
}

absl::StatusOr<Target> FindTarget(std::string_view name) {
  std::string names;
  for (const Target& target : BuiltinTargets()) {
    if (target.name == name) return target;
    absl::StrAppend(&names, names.empty() ? "" : ", ", target.name);
  }
  return absl::NotFoundError(
      absl::StrCat("no target '", std::string(name), "'; there are ", names));
}

}  // namespace onnx_memplan
