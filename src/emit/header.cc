#include "emit/header.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "emit/manual.h"
#include "emit/names.h"
#include "emit/state_functions.h"

namespace onnx_memplan {
namespace {

std::string HeaderComment(const Api& api, const EmitOptions& options) {
  std::string text =
      absl::StrCat("/* ", api.stem, ".h: ", api.functions.size() == 1 ? "one call" : "calls",
                   " of a neural network.\n *\n");
  for (const std::string& line : ProvenanceLines(options.provenance)) {
    absl::StrAppend(&text, " * ", line, "\n");
  }
  return text + " */\n";
}

void AppendSizes(const Api& api, std::string& out) {
  if (api.caller_arena()) {
    absl::StrAppend(&out, "/* Memory that ", api.FunctionsText(),
                    api.functions.size() == 1 ? " works" : " work",
                    " in: the caller's. Between calls it may hold anything. */\n");
  } else {
    absl::StrAppend(&out, "/* Memory that ", api.FunctionsText(),
                    api.functions.size() == 1 ? " works" : " work", " in: a static array of ",
                    api.stem, ".cpp. */\n");
  }
  absl::StrAppend(&out, "#define ", api.macro, "_ARENA_BYTES ", api.arena_bytes, "\n#define ",
                  api.macro, "_ARENA_ALIGNMENT ", api.arena_alignment, "\n\n");
  absl::StrAppend(&out, "/* Constants of the network",
                  api.has_states() ? " and initial values of its states" : "", ". */\n#define ",
                  api.macro, "_WEIGHTS_BYTES ", api.weights_bytes, "\n");
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
  if (api.has_states()) out += StateErrors(api);
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

// Of the only function of a network without states.
std::string PlainManual(const Api& api) {
  std::string out = "/* Runs the network once. ";
  out += api.caller_arena() ? "Calls with different arenas may run at the same time."
                            : "Not reentrant: the arena is shared by all calls.";
  if (api.caller_weights()) {
    absl::StrAppend(&out, "\n * `weights` is the content of ", api.weights_file_name(),
                    ", which must stay in place during the call.");
  }
  return out + "\n * No input may overlap an output. */\n";
}

void AppendFunctions(const Api& api, std::string& out) {
  AppendAccessors(api, out);
  if (api.weights_in_file()) {
    absl::StrAppend(&out, "/* Reads all weights and compares their hash: ", api.macro, "_OK or ",
                    api.macro, "_ERROR_WEIGHTS.\n * ",
                    api.functions.size() == 1
                        ? api.FunctionsText() + " itself only looks at the header of the file."
                        : "The other functions only look at the header of the file.",
                    " */\n");
    absl::StrAppend(
        &out, "int ", api.name, "_check_weights",
        api.caller_weights() ? "(const void* weights, size_t weights_bytes);\n\n" : "(void);\n\n");
  }
  for (const ApiFunction& function : api.functions) {
    const bool is_plain = api.functions.size() == 1 && !api.has_states();
    if (&function != &api.functions.front()) out += "\n";
    out += is_plain ? PlainManual(api) : FunctionManual(api, function);
    absl::StrAppend(&out, "int ", api.FunctionName(function),
                    RunParameters(api, function, /*definition=*/false), ";\n");
  }
  if (api.has_states()) absl::StrAppend(&out, "\n", DeclareStateFunctions(api));
  if (api.threads > 1) {
    absl::StrAppend(&out, "\n/* ", api.stem, ".cpp calls this for each step that it shares out to ",
                    api.threads, " threads. ", api.threads_file_name(),
                    "\n * has one that keeps threads of the C++ library; leave that file out to "
                    "supply your own. It calls\n * part(context, i) once for each i of [0, parts), "
                    "in any order, on any threads, and returns when all\n * calls have. */\n",
                    "void ", api.parallel_function(),
                    "(int32_t parts, void (*part)(void* context, int32_t index), void* "
                    "context);\n");
  }
}

}  // namespace

std::string RenderHeader(const Api& api, const EmitOptions& options) {
  std::string out = HeaderComment(api, options);
  const std::string guard = api.macro + "_H_";
  absl::StrAppend(&out, "#ifndef ", guard, "\n#define ", guard, "\n\n",
                  "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n");
  AppendSizes(api, out);
  if (api.has_states()) out += StateMacros(api);
  AppendTensors(api, out);
  AppendErrors(api, out);
  out += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
  AppendFunctions(api, out);
  absl::StrAppend(&out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif /* ", guard, " */\n");
  return out;
}

}  // namespace onnx_memplan
