// The functions and macros that generated code offers, and the header that declares them.
#ifndef ONNX_MEMPLAN_EMIT_API_H_
#define ONNX_MEMPLAN_EMIT_API_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "emit/entry_point.h"
#include "onnx_memplan/emit.h"
#include "plan_build/state_layout.h"

namespace onnx_memplan {

// A graph input or output.
struct ApiTensor {
  std::string value_name;  // in the model
  std::string id;          // in the header
  TensorType type;
  bool is_input = false;
  // Where it lies in the arena; nullopt: in a buffer of the caller.
  std::optional<int64_t> arena_offset;
  // An input of one element that is the parameter itself and not what it points to.
  bool by_value = false;
  // Where it lies in the block of gradients; nullopt: it is none.
  std::optional<int64_t> gradient_offset;

  // It is a parameter of the function.
  bool is_parameter() const { return !arena_offset && !gradient_offset; }
};

// NAME_SUFFIX, which runs a program.
struct ApiFunction {
  std::string suffix;
  std::string summary;
  std::vector<ApiTensor> inputs;   // by graph input
  std::vector<ApiTensor> outputs;  // by graph output
  // By state of the graph: the byte of the block of states where it lies.
  std::vector<int64_t> state_offsets;
  bool writes_states = false;

  bool has_states() const { return !state_offsets.empty(); }
  bool has_gradients() const;
  // All inputs, then all outputs.
  std::vector<const ApiTensor*> tensors() const;
};

struct Api {
  std::string name;   // prefix of functions
  std::string macro;  // prefix of macros: the name in capitals
  std::string stem;
  std::vector<ApiFunction> functions;
  StateLayout states;
  // In the header, of the first states: parameters and statistics.
  std::vector<std::string> parameter_ids;
  ArenaOwner arena = ArenaOwner::kStatic;
  WeightsForm weights = WeightsForm::kInline;
  int64_t arena_bytes = 0;
  int64_t arena_alignment = 1;
  int64_t weights_bytes = 0;
  int64_t weights_alignment = 1;
  int32_t threads = 1;

  bool caller_arena() const { return arena == ArenaOwner::kCaller; }
  bool weights_in_file() const { return weights != WeightsForm::kInline; }
  bool caller_weights() const { return weights == WeightsForm::kBinary; }
  bool has_states() const { return !states.states.empty(); }
  bool has_gradients() const;
  std::string weights_file_name() const { return stem + "_weights.bin"; }
  std::string threads_file_name() const { return stem + "_threads.cpp"; }
  // "net_parallel": what shares out the parts of a step.
  std::string parallel_function() const { return name + "_parallel"; }
  // The inputs and outputs of all functions, those that are alike once.
  std::vector<const ApiTensor*> tensors() const;
  // Whether any input or output lies in the arena.
  bool tensors_in_arena() const;
  // Prefix of the macros of a tensor: "NET_INPUT_X".
  std::string TensorMacro(const ApiTensor& tensor) const;
  // "net_input_x": the accessor of a tensor in the arena.
  std::string TensorAccessor(const ApiTensor& tensor) const;
  // "net_run".
  std::string FunctionName(const ApiFunction& function) const {
    return name + "_" + function.suffix;
  }
  // "net_run" where there is one function; "the functions".
  std::string FunctionsText() const;
  // The function that a self-test calls: an inference where there is one.
  const ApiFunction& tested_function() const;
  // Behind the states: this number, once they are set; it differs from network to network.
  int64_t mark_offset() const { return states.bytes; }
  uint32_t mark() const;
  int64_t state_bytes() const { return states.block_bytes(); }
};

// InvalidArgument for a stem or name that cannot be one, and for states that the first entry point
// has not.
absl::StatusOr<Api> MakeApi(std::span<const EntryPoint> entries, const EmitOptions& options,
                            const StateLayout& states, int64_t weights_bytes);

// "const float*" of an input, "float*" of an output, "float" of an input by value.
std::string ParameterType(const ApiTensor& tensor);

// The parameter list of a function with the brackets. The definition names tensors in0, in1, ...,
// out0, ...: nothing of the model can clash with the code. A declaration names them after the
// model.
std::string RunParameters(const Api& api, const ApiFunction& function, bool definition);

// Lines of comment text, without comment marks: tool, options, model.
std::vector<std::string> ProvenanceLines(const Provenance& provenance);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_API_H_
