#include "emit/api.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "emit/names.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

ApiTensor MakeTensor(const Program& program, const Plan& plan, ValueId value, bool is_input,
                     UniqueIdentifiers& ids) {
  const Value& v = program.graph.values[static_cast<size_t>(value)];
  const Location& location = program.locations[static_cast<size_t>(value)];
  ApiTensor tensor = {.value_name = v.name,
                      .id = ids.Add(v.name),
                      .type = *v.type,
                      .is_input = is_input,
                      .arena_offset = std::nullopt};
  if (location.kind == Location::Kind::kArena) {
    tensor.arena_offset = plan.offsets[static_cast<size_t>(location.index)] + location.byte_offset;
  }
  return tensor;
}

// A file name that needs no quoting in a #include, an .incbin or a shell.
bool IsStem(const std::string& stem) {
  return !stem.empty() && stem.front() != '-' && stem.front() != '.' &&
         std::all_of(stem.begin(), stem.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ||
                  c == '.' || c == '+';
         });
}

std::string HeaderComment(const Api& api, const EmitOptions& options) {
  std::string text = absl::StrCat("/* ", api.stem, ".h: one call of a neural network.\n *\n");
  for (const std::string& line : ProvenanceLines(options.provenance)) {
    absl::StrAppend(&text, " * ", line, "\n");
  }
  return text + " */\n";
}

void AppendSizes(const Api& api, std::string& out) {
  if (api.caller_arena()) {
    absl::StrAppend(&out, "/* Memory that ", api.name,
                    "_run works in: the caller's. Between calls it may hold anything. */\n");
  } else {
    absl::StrAppend(&out, "/* Memory that ", api.name, "_run works in: a static array of ",
                    api.stem, ".cpp. */\n");
  }
  absl::StrAppend(&out, "#define ", api.macro, "_ARENA_BYTES ", api.arena_bytes, "\n#define ",
                  api.macro, "_ARENA_ALIGNMENT ", api.arena_alignment, "\n\n");
  absl::StrAppend(&out, "/* Constants of the network. */\n#define ", api.macro, "_WEIGHTS_BYTES ",
                  api.weights_bytes, "\n");
  if (api.caller_weights()) {
    absl::StrAppend(&out, "/* Bytes of ", api.weights_file_name(),
                    ", and how its first byte must be aligned in memory. */\n#define ", api.macro,
                    "_WEIGHTS_FILE_BYTES (", api.macro, "_WEIGHTS_BYTES + 64)\n#define ", api.macro,
                    "_WEIGHTS_ALIGNMENT ", api.weights_alignment, "\n");
  }
  out += "\n";
}

void AppendTensors(const Api& api, std::string& out) {
  out += "/* Inputs and outputs: elements in C order, and their bytes. */\n";
  for (const ApiTensor* tensor : api.tensors()) {
    const std::string macro = api.TensorMacro(*tensor);
    absl::StrAppend(&out, "/* ", tensor->is_input ? "Input" : "Output", " '",
                    ForComment(tensor->value_name), "': ", tensor->type.ToString(), ". */\n");
    absl::StrAppend(&out, "#define ", macro, "_COUNT ", tensor->type.NumElements(), "\n");
    absl::StrAppend(&out, "#define ", macro, "_BYTES ", tensor->type.Bytes(), "\n");
    if (!tensor->type.shape.empty()) {
      absl::StrAppend(&out, "#define ", macro, "_RANK ", tensor->type.rank(), "\n");
      absl::StrAppend(&out, "#define ", macro, "_SHAPE {", absl::StrJoin(tensor->type.shape, ", "),
                      "}\n");
    }
  }
  out += "\n";
}

void AppendErrors(const Api& api, std::string& out) {
  absl::StrAppend(&out, "/* What the functions return. */\n#define ", api.macro, "_OK 0\n");
  if (api.caller_arena()) {
    absl::StrAppend(&out, "/* `arena` is null or not aligned to ", api.macro,
                    "_ARENA_ALIGNMENT. */\n#define ", api.macro, "_ERROR_ARENA 1\n");
  }
  if (api.weights_in_file()) {
    absl::StrAppend(
        &out, "/* The weights are missing, ", api.caller_weights() ? "not aligned, " : "",
        "damaged or those of another network. */\n#define ", api.macro, "_ERROR_WEIGHTS 2\n");
  }
  out += "\n";
}

void AppendAccessors(const Api& api, std::string& out) {
  if (!api.tensors_in_arena()) return;
  out +=
      "/* Where inputs and outputs lie in the arena. Set the inputs before each call: the call "
      "may\n"
      " * overwrite them. Outputs are valid until the next call. */\n";
  for (const ApiTensor* tensor : api.tensors()) {
    if (!tensor->arena_offset) continue;
    absl::StrAppend(&out, std::string(DTypeCppName(tensor->type.dtype)), "* ",
                    api.TensorAccessor(*tensor),
                    api.caller_arena() ? "(void* arena);\n" : "(void);\n");
  }
  out += "\n";
}

void AppendFunctions(const Api& api, std::string& out) {
  AppendAccessors(api, out);
  if (api.weights_in_file()) {
    absl::StrAppend(&out, "/* Reads all weights and compares their hash: ", api.macro, "_OK or ",
                    api.macro, "_ERROR_WEIGHTS.\n * ", api.name,
                    "_run itself only looks at the header of the file. */\n");
    absl::StrAppend(
        &out, "int ", api.name, "_check_weights",
        api.caller_weights() ? "(const void* weights, size_t weights_bytes);\n\n" : "(void);\n\n");
  }
  absl::StrAppend(&out, "/* Runs the network once. ",
                  api.caller_arena() ? "Calls with different arenas may run at the same time."
                                     : "Not reentrant: the arena is shared by all calls.");
  if (api.caller_weights()) {
    absl::StrAppend(&out, "\n * `weights` is the content of ", api.weights_file_name(),
                    ", which must stay in place during the call.");
  }
  out += "\n * No input may overlap an output. */\n";
  absl::StrAppend(&out, "int ", api.name, "_run", RunParameters(api, /*definition=*/false), ";\n");
}

}  // namespace

std::vector<const ApiTensor*> Api::tensors() const {
  std::vector<const ApiTensor*> all;
  for (const ApiTensor& tensor : inputs) all.push_back(&tensor);
  for (const ApiTensor& tensor : outputs) all.push_back(&tensor);
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

absl::StatusOr<Api> MakeApi(const Program& program, const Plan& plan, const EmitOptions& options,
                            int64_t weights_bytes) {
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
  api.arena_bytes = plan.arena_bytes;
  api.arena_alignment = program.target.arena_alignment;
  for (const Storage& storage : program.problem.storages) {
    api.arena_alignment = std::max(api.arena_alignment, storage.alignment);
  }
  api.weights_bytes = weights_bytes;
  api.weights_alignment = std::max<int64_t>(program.target.arena_alignment, 8);
  UniqueIdentifiers ids;
  for (ValueId value : program.graph.inputs) {
    api.inputs.push_back(MakeTensor(program, plan, value, /*is_input=*/true, ids));
  }
  for (ValueId value : program.graph.outputs) {
    api.outputs.push_back(MakeTensor(program, plan, value, /*is_input=*/false, ids));
  }
  return api;
}

std::string PointerType(const ApiTensor& tensor) {
  return absl::StrCat(tensor.is_input ? "const " : "", std::string(DTypeCppName(tensor.type.dtype)),
                      "*");
}

std::string RunParameters(const Api& api, bool definition) {
  std::vector<std::string> parameters;
  if (api.caller_arena()) parameters.push_back(definition ? "void* arena_memory" : "void* arena");
  if (api.caller_weights()) {
    parameters.push_back(definition ? "const void* weights_file" : "const void* weights");
  }
  const auto add = [&](const std::vector<ApiTensor>& tensors, const char* local) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].arena_offset) continue;
      parameters.push_back(absl::StrCat(PointerType(tensors[i]), " ",
                                        definition ? absl::StrCat(local, i) : tensors[i].id));
    }
  };
  add(api.inputs, "in");
  add(api.outputs, "out");
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

std::string RenderHeader(const Api& api, const EmitOptions& options) {
  std::string out = HeaderComment(api, options);
  const std::string guard = api.macro + "_H_";
  absl::StrAppend(&out, "#ifndef ", guard, "\n#define ", guard, "\n\n",
                  "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n");
  AppendSizes(api, out);
  AppendTensors(api, out);
  AppendErrors(api, out);
  out += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
  AppendFunctions(api, out);
  absl::StrAppend(&out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif /* ", guard, " */\n");
  return out;
}

}  // namespace onnx_memplan
