#include "emit/api.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "emit/names.h"
#include "emit/weights.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t i) { return static_cast<size_t>(i); }

// Names the inputs and outputs of all functions: alike ones get one name.
class TensorNamer {
 public:
  std::string Name(const ApiTensor& tensor, const std::string& suffix) {
    const auto key = std::tuple(tensor.is_input, tensor.value_name, tensor.type.ToString(),
                                tensor.arena_offset.value_or(-1));
    if (const auto found = ids_.find(key); found != ids_.end()) return found->second;
    const bool is_new = seen_.insert({tensor.is_input, tensor.value_name}).second;
    return ids_[key] = unique_.Add(is_new ? tensor.value_name : suffix + "_" + tensor.value_name);
  }
  void Reserve(const char* id) { unique_.Add(id); }

 private:
  UniqueIdentifiers unique_;
  std::set<std::pair<bool, std::string>> seen_;
  std::map<std::tuple<bool, std::string, std::string, int64_t>, std::string> ids_;
};

ApiTensor MakeTensor(const Program& program, const Plan& plan, ValueId value, bool is_input) {
  const Value& v = program.graph.values[Index(value)];
  const Location& location = program.locations[Index(value)];
  ApiTensor tensor;
  tensor.value_name = v.name;
  tensor.type = *v.type;
  tensor.is_input = is_input;
  if (location.kind == Location::Kind::kArena) {
    tensor.arena_offset = plan.offsets[Index(location.index)] + location.byte_offset;
  }
  return tensor;
}

ApiTensor MakeInput(const EntryPoint& entry, ValueId value, TensorNamer& namer) {
  ApiTensor tensor = MakeTensor(*entry.program, *entry.plan, value, /*is_input=*/true);
  tensor.id = namer.Name(tensor, entry.suffix);
  tensor.by_value = !tensor.arena_offset && std::find(entry.by_value.begin(), entry.by_value.end(),
                                                      tensor.value_name) != entry.by_value.end();
  MEMPLAN_CHECK_MSG(!tensor.by_value || tensor.type.NumElements() == 1, tensor.value_name);
  return tensor;
}

ApiTensor MakeOutput(const EntryPoint& entry, size_t k, const StateLayout& states,
                     TensorNamer& namer) {
  ApiTensor tensor = MakeTensor(*entry.program, *entry.plan, entry.program->graph.outputs[k],
                                /*is_input=*/false);
  if (tensor.arena_offset || k >= entry.gradient_of.size() || entry.gradient_of[k].empty()) {
    tensor.id = namer.Name(tensor, entry.suffix);
    return tensor;
  }
  const PlacedState* parameter = states.Find(entry.gradient_of[k]);
  MEMPLAN_CHECK_MSG(parameter != nullptr && parameter->kind == StateKind::kParameter &&
                        parameter->type.Bytes() == tensor.type.Bytes(),
                    tensor.value_name);
  tensor.gradient_offset = parameter->byte_offset;
  return tensor;
}

// Whether any step has an output in the memory of a state.
bool WritesStates(const Program& program) {
  for (const ProgramStep& step : program.steps) {
    for (ValueId output : program.graph.nodes[Index(step.node)].outputs) {
      if (output == kNoValue) continue;
      if (program.locations[Index(output)].kind == Location::Kind::kState) return true;
    }
  }
  return false;
}

absl::StatusOr<ApiFunction> MakeFunction(const EntryPoint& entry, const StateLayout& states,
                                         TensorNamer& namer) {
  ApiFunction function;
  function.suffix = entry.suffix;
  function.summary = entry.summary;
  for (ValueId value : entry.program->graph.inputs) {
    function.inputs.push_back(MakeInput(entry, value, namer));
  }
  for (size_t k = 0; k < entry.program->graph.outputs.size(); ++k) {
    function.outputs.push_back(MakeOutput(entry, k, states, namer));
  }
  ASSIGN_OR_RETURN(function.state_offsets, StateOffsets(states, entry.program->graph));
  function.writes_states = WritesStates(*entry.program);
  return function;
}

// A file name that needs no quoting in a #include, an .incbin or a shell.
bool IsStem(const std::string& stem) {
  return !stem.empty() && stem.front() != '-' && stem.front() != '.' &&
         std::all_of(stem.begin(), stem.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ||
                  c == '.' || c == '+';
         });
}

absl::Status CheckNames(const EmitOptions& options) {
  if (!IsStem(options.stem)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", options.stem,
                     "' cannot be the name of a generated file: use letters, digits, '_', '-', '.' "
                     "and '+'"));
  }
  if (!options.name.empty() && !IsIdentifier(options.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", options.name,
                     "' cannot be the prefix of names in C: it is no identifier, or reserved"));
  }
  return absl::OkStatus();
}

void SetMemory(std::span<const EntryPoint> entries, Api& api) {
  const int64_t target_alignment = entries.front().program->target.arena_alignment;
  api.arena_alignment = target_alignment;
  for (const EntryPoint& entry : entries) {
    api.threads = std::max(api.threads, entry.program->threads);
  }
  for (const EntryPoint& entry : entries) {
    api.arena_bytes = std::max(api.arena_bytes, entry.plan->arena_bytes);
    for (const Storage& storage : entry.program->problem.storages) {
      api.arena_alignment = std::max(api.arena_alignment, storage.alignment);
    }
  }
  api.weights_alignment = std::max<int64_t>(target_alignment, 8);
}

}  // namespace

bool ApiFunction::has_gradients() const {
  return std::any_of(outputs.begin(), outputs.end(),
                     [](const ApiTensor& t) { return t.gradient_offset.has_value(); });
}

std::vector<const ApiTensor*> ApiFunction::tensors() const {
  std::vector<const ApiTensor*> all;
  for (const ApiTensor& tensor : inputs) all.push_back(&tensor);
  for (const ApiTensor& tensor : outputs) all.push_back(&tensor);
  return all;
}

bool Api::has_gradients() const {
  return std::any_of(functions.begin(), functions.end(),
                     [](const ApiFunction& f) { return f.has_gradients(); });
}

std::vector<const ApiTensor*> Api::tensors() const {
  std::vector<const ApiTensor*> all;
  std::set<std::string> seen;
  for (const ApiFunction& function : functions) {
    for (const ApiTensor* tensor : function.tensors()) {
      if (!tensor->gradient_offset && seen.insert(TensorMacro(*tensor)).second) {
        all.push_back(tensor);
      }
    }
  }
  return all;
}

bool Api::tensors_in_arena() const {
  const auto all = tensors();
  return std::any_of(all.begin(), all.end(),
                     [](const ApiTensor* t) { return t->arena_offset.has_value(); });
}

std::string Api::TensorMacro(const ApiTensor& tensor) const {
  return absl::StrCat(macro, tensor.is_input ? "_INPUT_" : "_OUTPUT_", ToUpper(tensor.id));
}

std::string Api::TensorAccessor(const ApiTensor& tensor) const {
  return absl::StrCat(name, tensor.is_input ? "_input_" : "_output_", tensor.id);
}

std::string Api::FunctionsText() const {
  return functions.size() == 1 ? FunctionName(functions.front()) : "the functions";
}

const ApiFunction& Api::tested_function() const {
  for (const char* suffix : {"run", "infer"}) {
    for (const ApiFunction& function : functions) {
      if (function.suffix == suffix) return function;
    }
  }
  return functions.front();
}

uint32_t Api::mark() const {
  std::string table;
  for (const PlacedState& state : states.states) {
    absl::StrAppend(&table, state.name, "\n", state.type.ToString(), "\n", state.byte_offset, "\n");
  }
  const auto mark = static_cast<uint32_t>(Fnv1a64(table));
  return mark == 0 ? 1 : mark;  // memory that was never written is often zero
}

absl::StatusOr<Api> MakeApi(std::span<const EntryPoint> entries, const EmitOptions& options,
                            const StateLayout& states, int64_t weights_bytes) {
  RETURN_IF_ERROR(CheckNames(options));
  Api api;
  api.stem = options.stem;
  api.name = options.name;
  if (api.name.empty()) {
    // "arena" is a reserved parameter name, but a fine prefix.
    api.name = options.stem == "arena" ? "arena" : ToIdentifier(options.stem);
  }
  api.macro = ToUpper(api.name);
  api.arena = options.arena;
  api.weights = options.weights;
  SetMemory(entries, api);
  api.weights_bytes = weights_bytes;
  api.states = states;
  TensorNamer namer;
  if (api.has_states()) {
    namer.Reserve("state");
    namer.Reserve("gradients");
  }
  for (const EntryPoint& entry : entries) {
    ASSIGN_OR_RETURN(ApiFunction function, MakeFunction(entry, api.states, namer));
    api.functions.push_back(std::move(function));
  }
  UniqueIdentifiers ids;
  for (const PlacedState& state : api.states.states) {
    if (state.kind == StateKind::kOptimizer) break;
    api.parameter_ids.push_back(ids.Add(state.name));
  }
  return api;
}

std::string ParameterType(const ApiTensor& tensor) {
  std::string element(DTypeCppName(tensor.type.dtype));
  if (tensor.by_value) return element;
  return absl::StrCat(tensor.is_input ? "const " : "", element, "*");
}

std::string RunParameters(const Api& api, const ApiFunction& function, bool definition) {
  std::vector<std::string> parameters;
  if (api.caller_arena()) parameters.push_back(definition ? "void* arena_memory" : "void* arena");
  if (api.caller_arena() && function.has_states()) {
    parameters.push_back(absl::StrCat(function.writes_states ? "void*" : "const void*",
                                      definition ? " state_memory" : " state"));
  }
  if (api.caller_weights()) {
    parameters.push_back(definition ? "const void* weights_file" : "const void* weights");
  }
  const auto add = [&](const std::vector<ApiTensor>& tensors, const char* local) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].is_parameter()) continue;
      parameters.push_back(absl::StrCat(ParameterType(tensors[i]), " ",
                                        definition ? absl::StrCat(local, i) : tensors[i].id));
    }
  };
  add(function.inputs, "in");
  add(function.outputs, "out");
  if (function.has_gradients()) parameters.push_back("void* gradients");
  if (parameters.empty()) return definition ? "()" : "(void)";
  return absl::StrCat("(", absl::StrJoin(parameters, ", "), ")");
}

std::vector<std::string> ProvenanceLines(const Provenance& provenance) {
  std::vector<std::string> lines;
  lines.push_back(absl::StrCat("Generated by onnx-memplan ", provenance.tool_version,
                               "; edits are lost when it is generated again."));
  lines.push_back(absl::StrCat(
      "Model: ",
      provenance.model_sha256.empty() ? "not a file" : "SHA-256 " + provenance.model_sha256,
      provenance.opset > 0 ? absl::StrCat(", opset ", provenance.opset) : ""));
  if (!provenance.options.empty()) {
    lines.push_back("Options: " + ForComment(provenance.options, 1000));
  }
  return lines;
}

}  // namespace onnx_memplan
