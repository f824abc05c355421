// The functions and macros that generated code offers, and the header that declares them.
#ifndef ONNX_MEMPLAN_EMIT_API_H_
#define ONNX_MEMPLAN_EMIT_API_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/emit.h"
#include "onnx_memplan/plan.h"
#include "plan_build/program.h"

namespace onnx_memplan {

// A graph input or output.
struct ApiTensor {
  std::string value_name;  // in the model
  std::string id;          // in the header
  TensorType type;
  bool is_input = false;
  // Where it lies in the arena; nullopt: in a buffer of the caller.
  std::optional<int64_t> arena_offset;
};

struct Api {
  std::string name;   // prefix of functions
  std::string macro;  // prefix of macros: the name in capitals
  std::string stem;
  std::vector<ApiTensor> inputs;   // by graph input
  std::vector<ApiTensor> outputs;  // by graph output
  ArenaOwner arena = ArenaOwner::kStatic;
  WeightsForm weights = WeightsForm::kInline;
  int64_t arena_bytes = 0;
  int64_t arena_alignment = 1;
  int64_t weights_bytes = 0;
  int64_t weights_alignment = 1;

  bool caller_arena() const { return arena == ArenaOwner::kCaller; }
  bool weights_in_file() const { return weights != WeightsForm::kInline; }
  bool caller_weights() const { return weights == WeightsForm::kBinary; }
  std::string weights_file_name() const { return stem + "_weights.bin"; }
  // All inputs, then all outputs.
  std::vector<const ApiTensor*> tensors() const;
  // Whether any input or output lies in the arena.
  bool tensors_in_arena() const;
  // Prefix of the macros of a tensor: "NET_INPUT_X".
  std::string TensorMacro(const ApiTensor& tensor) const;
  // "net_input_x": the accessor of a tensor in the arena.
  std::string TensorAccessor(const ApiTensor& tensor) const;
};

// InvalidArgument for a stem or name that cannot be one.
absl::StatusOr<Api> MakeApi(const Program& program, const Plan& plan, const EmitOptions& options,
                            int64_t weights_bytes);

// "const float*" of an input, "float*" of an output.
std::string PointerType(const ApiTensor& tensor);

// The parameter list of NAME_run with the brackets. The definition names tensors in0, in1, ...,
// out0, ...: nothing of the model can clash with the code. A declaration names them after the
// model.
std::string RunParameters(const Api& api, bool definition);

// Lines of comment text, without comment marks: tool, options, model.
std::vector<std::string> ProvenanceLines(const Provenance& provenance);

// STEM.h.
std::string RenderHeader(const Api& api, const EmitOptions& options);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_API_H_
