// What generated code looks like: the choices of whoever asks for it, and the files that result.
#ifndef ONNX_MEMPLAN_EMIT_H_
#define ONNX_MEMPLAN_EMIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

enum class ArenaOwner : uint8_t {
  // The generated file defines the arena (and the states); its functions are then not reentrant.
  kStatic,
  // The first argument of NAME_run; calls with different arenas may run at the same time. States
  // are
  // the caller's too, in the argument behind it.
  kCaller,
};

enum class WeightsForm : uint8_t {
  kInline,  // string literals in the .cpp file
  kIncbin,  // a file beside it that the assembler includes (.incbin; ELF targets)
  kBinary,  // a file beside it that the caller maps or reads and passes to NAME_run
};

// Where the generated code comes from, for the comment at its top. Nothing here may hold a path or
// a date: equal input gives equal bytes.
struct Provenance {
  std::string tool_version;
  // The options that shape the output, as the user would type them.
  std::string options;
  // Lower-case hexadecimal; empty: the model was not a file.
  std::string model_sha256;
  // Of the model as it was read; 0: unknown.
  int32_t opset = 0;
};

// A program of its own that calls NAME_run (NAME_infer of a network that is trained) once and
// compares.
struct SelfTest {
  std::vector<Tensor> inputs;   // in the order of the graph's inputs
  std::vector<Tensor> outputs;  // what is expected, in the order of the graph's outputs
  // |actual - expected| <= absolute + relative * |expected|, for each element.
  double absolute_tolerance = 1e-5;
  double relative_tolerance = 1e-3;
};

struct EmitOptions {
  // The files are STEM.cpp, STEM.h and, by other options, STEM_weights.bin, STEM_threads.cpp and
  // STEM_selftest.cpp.
  std::string stem = "arena";
  // Prefix of every name that the header declares: NAME_run, and in capitals NAME_ARENA_BYTES.
  // Empty: the stem, with '_' for what an identifier cannot have.
  std::string name;
  ArenaOwner arena = ArenaOwner::kStatic;
  WeightsForm weights = WeightsForm::kInline;
  // Linker sections (".dtcm", ".extflash"); empty: the compiler's choice. The arena's has no effect
  // for ArenaOwner::kCaller, the weights' none for WeightsForm::kBinary.
  std::string arena_section;
  std::string weights_section;
  // The same for what outlives calls, where there is such; no effect for ArenaOwner::kCaller.
  std::string state_section;
  Provenance provenance;
  std::optional<SelfTest> self_test;
};

// Stack that a call of NAME_run takes at most, what functions of the C library need apart, with GCC
// at -O1 or above on 64-bit and 32-bit ARM and x86. Not computed for a model: the tests compare it
// with the compiler's own figures for whole models. Vectors of 16 floats take more: kernels keep
// dozens of them, and those that find no register lie there.
constexpr int64_t StackBoundBytes(int32_t vector_floats) {
  return vector_floats < 16 ? 4096 : 8192;
}

struct EmittedFile {
  std::string name;  // without a folder
  std::string bytes;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_H_
