#include "emit/source.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "emit/kernel_text.h"
#include "emit/memory_map.h"
#include "emit/names.h"
#include "emit/preconditions.h"
#include "emit/state_functions.h"
#include "emit/step_renderer.h"
#include "emit/weights.h"

namespace onnx_memplan {
namespace {

std::string SectionAttribute(const std::string& section, bool alone) {
  if (section.empty()) return "";
  return absl::StrCat(alone ? "" : " ", "__attribute__((section(\"", section, "\")))");
}

void AppendArena(const Api& api, const EmitOptions& options, std::string& out) {
  absl::StrAppend(&out, "alignas(", api.macro, "_ARENA_ALIGNMENT) unsigned char arena_memory[",
                  api.arena_bytes > 0 ? api.macro + "_ARENA_BYTES" : "1", "]",
                  SectionAttribute(options.arena_section, false), ";\n\n");
}

void AppendStates(const Api& api, const EmitOptions& options, std::string& out) {
  absl::StrAppend(&out, "alignas(", api.macro, "_STATE_ALIGNMENT) unsigned char state_memory[",
                  api.macro, "_STATE_BYTES]", SectionAttribute(options.state_section, false),
                  ";\n\n");
}

void AppendInlineWeights(const Api& api, const EmitOptions& options, const std::string& blob,
                         std::string& out) {
  // Every string literal has a terminating zero, for which the array needs room unless the last
  // weight byte is that zero.
  const bool shares_terminator = !blob.empty() && blob.back() == '\0';
  const std::string_view bytes(blob.data(), blob.size() - (shares_terminator ? 1 : 0));
  out +=
      "#pragma GCC diagnostic push\n"
      "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n";
  absl::StrAppend(&out, "alignas(", api.weights_alignment, ") const unsigned char weights_memory[",
                  api.macro, "_WEIGHTS_BYTES", shares_terminator ? "" : " + 1", "]",
                  SectionAttribute(options.weights_section, false), " =\n");
  AppendStringLiterals(bytes, out);
  out.insert(out.size() - 1, ";");
  out += "#pragma GCC diagnostic pop\n\n";
}

// The symbol is global, so that it is found under link-time optimisation, but hidden.
void AppendIncbinWeights(const Api& api, const EmitOptions& options, std::string& out) {
  const std::string symbol = api.name + "_weights_file";
  const std::string macro = api.macro + "_WEIGHTS_FILE";
  const std::string section = options.weights_section.empty() ? ".rodata" : options.weights_section;
  absl::StrAppend(&out,
                  "// The assembler looks for the file in the working directory and in -I folders. "
                  "Where it is\n"
                  "// elsewhere, say so: -D",
                  macro, "='\"path/of/", api.weights_file_name(), "\"'.\n#ifndef ", macro,
                  "\n#define ", macro, " \"", api.weights_file_name(), "\"\n#endif\n");
  absl::StrAppend(&out, "__asm__(\".pushsection ", section, ",\\\"a\\\",%progbits\\n\"\n",
                  "        \".balign 64\\n\"\n", "        \".globl ", symbol, "\\n\"\n",
                  "        \".hidden ", symbol, "\\n\"\n", "        \"", symbol, ":\\n\"\n",
                  "        \".incbin \\\"\" ", macro, " \"\\\"\\n\"\n", "        \".byte 0\\n\"\n",
                  "        \".popsection\\n\");\n",
                  "extern \"C\" __attribute__((visibility(\"hidden\"))) const unsigned char ",
                  symbol, "[];\n\n");
}

std::string HashLiteral(const std::string& blob) { return absl::StrCat(Fnv1a64(blob), "ULL"); }

// What a function does before its steps: sets `arena`, `state` and `weights`, or returns an error.
std::string Prologue(const Api& api, const ApiFunction& function, const StepRenderer& steps) {
  std::string out = CheckArena(api);
  if (steps.Uses("arena")) {
    out += api.caller_arena()
               ? absl::StrCat("  void* const arena = __builtin_assume_aligned(arena_memory, ",
                              api.macro, "_ARENA_ALIGNMENT);\n")
               : "  void* const arena = skeleton::Opaque(arena_memory);\n";
  }
  out += CheckWeightsHeader(api);
  if (function.has_states()) out += CheckStateBlock(api) + CheckReset(api);
  if (steps.Uses("state")) {
    absl::StrAppend(&out, function.writes_states ? "  void*" : "  const void*", " const state = ",
                    api.caller_arena() ? absl::StrCat("__builtin_assume_aligned(state_memory, ",
                                                      api.macro, "_STATE_ALIGNMENT)")
                                       : "skeleton::Opaque(state_memory)",
                    ";\n");
  }
  if (steps.Uses("weights")) {
    absl::StrAppend(&out, "  const void* const weights = ", WeightsPointer(api), ";\n");
  }
  return out;
}

// Inputs that no step reads.
void AppendUnused(const ApiFunction& function, const StepRenderer& steps, std::string& out) {
  const auto append = [&](const std::vector<ApiTensor>& tensors, const char* prefix) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string name = absl::StrCat(prefix, i);
      if (!tensors[i].is_parameter() || steps.Uses(name)) continue;
      absl::StrAppend(&out, "  static_cast<void>(", name, ");\n");
    }
  };
  append(function.inputs, "in");
  append(function.outputs, "out");
}

void AppendFunction(const Api& api, const ApiFunction& function, const StepRenderer& steps,
                    std::string& out) {
  absl::StrAppend(&out, "int ", api.FunctionName(function),
                  RunParameters(api, function, /*definition=*/true), " {\n  using namespace ",
                  api.name, "_code;\n", Prologue(api, function, steps));
  AppendUnused(function, steps, out);
  absl::StrAppend(&out, steps.body(), "  return ", api.macro, "_OK;\n}\n\n");
}

void AppendAccessors(const Api& api, std::string& out) {
  for (const ApiTensor* tensor : api.tensors()) {
    if (!tensor->arena_offset) continue;
    const std::string element(DTypeCppName(tensor->type.dtype));
    absl::StrAppend(&out, element, "* ", api.TensorAccessor(*tensor),
                    api.caller_arena() ? "(void* arena_memory)" : "()", " {\n  using namespace ",
                    api.name, "_code;\n  return skeleton::At<", element, ">(arena_memory, ",
                    *tensor->arena_offset, ");\n}\n\n");
  }
}

void AppendCheckWeights(const Api& api, std::string& out) {
  if (!api.weights_in_file()) return;
  const std::string file = api.caller_weights() ? "weights" : api.name + "_weights_file";
  absl::StrAppend(&out, "int ", api.name, "_check_weights",
                  api.caller_weights() ? "(const void* weights, size_t weights_bytes)" : "()",
                  " {\n  using namespace ", api.name, "_code;\n  const bool intact =\n      ");
  if (api.caller_weights()) {
    absl::StrAppend(&out, "weights != nullptr && weights_bytes >= ", api.macro,
                    "_WEIGHTS_FILE_BYTES &&\n      skeleton::IsAligned(weights, ", api.macro,
                    "_WEIGHTS_ALIGNMENT) &&\n      ");
  }
  absl::StrAppend(&out, "skeleton::HasWeightsHeader(", file, ", ", api.macro,
                  "_WEIGHTS_BYTES, kWeightsHash) &&\n      skeleton::WeightsAreIntact(", file, ", ",
                  api.macro, "_WEIGHTS_BYTES, kWeightsHash);\n  return intact ? ", api.macro,
                  "_OK : ", api.macro, "_ERROR_WEIGHTS;\n}\n\n");
}

constexpr const char* kPlatformAsserts =
    "static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, \"weights are little endian\");\n"
    "static_assert(sizeof(float) == 4 && sizeof(double) == 8 && sizeof(bool) == 1, \"ABI\");\n\n";

// Calls part(i) for each i of [0, parts) by the threads of the caller's choice.
void AppendParallel(const Api& api, const std::vector<StepRenderer>& functions, std::string& out) {
  const bool used = std::any_of(functions.begin(), functions.end(),
                                [](const StepRenderer& steps) { return steps.uses_threads(); });
  if (!used) return;
  absl::StrAppend(&out,
                  "template <class Part>\nvoid Parallel(int32_t parts, const Part& part) {\n  ",
                  api.parallel_function(),
                  "(\n      parts,\n      [](void* context, int32_t index) { (*static_cast<const "
                  "Part*>(context))(index); },\n      const_cast<Part*>(&part));\n}\n\n");
}

bool AnyUses(const std::vector<StepRenderer>& functions, const char* base) {
  for (const StepRenderer& steps : functions) {
    if (steps.Uses(base)) return true;
  }
  return false;
}

void AppendMaps(const Api& api, std::span<const EntryPoint> entries, std::string& out) {
  for (const EntryPoint& entry : entries) {
    if (entries.size() > 1) absl::StrAppend(&out, "// ", api.name, "_", entry.suffix, "\n");
    out += RenderMemoryMap(*entry.program, *entry.plan);
    if (entries.size() > 1) out += "//\n";
  }
  if (api.has_states()) absl::StrAppend(&out, RenderStateMap(api.states));
}

void AppendMemory(const Api& api, const EmitOptions& options, const EmittedConstants& constants,
                  const std::string& blob, const std::vector<StepRenderer>& functions,
                  std::string& out) {
  if (!api.caller_arena() && (AnyUses(functions, "arena") || api.tensors_in_arena())) {
    AppendArena(api, options, out);
  }
  if (!api.caller_arena() && api.has_states()) AppendStates(api, options, out);
  if (api.weights_in_file()) {
    absl::StrAppend(&out, "constexpr uint64_t kWeightsHash = ", HashLiteral(blob), ";\n\n");
  } else if (AnyUses(functions, "weights") || !constants.initial.empty()) {
    AppendInlineWeights(api, options, blob, out);
  }
  if (api.has_states()) out += StateConstants(api, constants);
}

}  // namespace

std::string RenderSource(const Api& api, std::span<const EntryPoint> entries,
                         const EmitOptions& options, const EmittedConstants& constants,
                         const std::string& blob) {
  KernelInstances instances;
  std::vector<StepRenderer> functions;
  for (size_t e = 0; e < entries.size(); ++e) {
    functions.emplace_back(entries[e], api.functions[e], constants.by_entry[e], instances);
  }
  std::set<std::string> headers = instances.headers();
  headers.insert("skeleton/access.h");
  if (api.has_states()) headers.insert("skeleton/states.h");
  if (api.weights_in_file()) headers.insert("skeleton/weights_file.h");
  const PastedHeaders pasted = PasteHeaders(headers);

  std::string out;
  for (const std::string& line : ProvenanceLines(options.provenance)) {
    absl::StrAppend(&out, "// ", line, "\n");
  }
  const Target& target = entries.front().program->target;
  if (!target.compiler_flags.empty()) {
    absl::StrAppend(&out, "// Compile with ", target.compiler_flags, " -O2.\n");
  }
  out += "//\n";
  AppendMaps(api, entries, out);
  absl::StrAppend(&out, "\n#include \"", api.stem, ".h\"\n\n");
  for (const std::string& include : pasted.system_includes) {
    absl::StrAppend(&out, "#include <", include, ">\n");
  }
  absl::StrAppend(&out, "\n", kPlatformAsserts, InAnonymousNamespace(pasted));
  if (api.weights == WeightsForm::kIncbin) AppendIncbinWeights(api, options, out);
  const std::string space = api.name + "_code";
  absl::StrAppend(&out, "namespace {\nnamespace ", space, " {\n\nusing skeleton::At;\n\n");
  AppendMemory(api, options, constants, blob, functions, out);
  AppendParallel(api, functions, out);
  absl::StrAppend(&out, instances.functions(), "}  // namespace ", space, "\n}  // namespace\n\n",
                  "extern \"C\" {\n\n");
  AppendAccessors(api, out);
  AppendCheckWeights(api, out);
  for (size_t e = 0; e < entries.size(); ++e) {
    AppendFunction(api, api.functions[e], functions[e], out);
  }
  if (api.has_states()) out += DefineStateFunctions(api, constants);
  return out + "}  // extern \"C\"\n";
}

std::string RenderThreads(const Api& api, const EmitOptions& options) {
  const PastedHeaders pasted = PasteHeaders({"skeleton/thread_pool.h"});
  std::string out;
  for (const std::string& line : ProvenanceLines(options.provenance)) {
    absl::StrAppend(&out, "// ", line, "\n");
  }
  absl::StrAppend(&out, "//\n// ", api.parallel_function(), " for ", api.stem,
                  ".cpp. Link with -pthread.\n\n#include \"", api.stem, ".h\"\n\n");
  for (const std::string& include : pasted.system_includes) {
    absl::StrAppend(&out, "#include <", include, ">\n");
  }
  absl::StrAppend(&out, "\n", InAnonymousNamespace(pasted), "extern \"C\" void ",
                  api.parallel_function(),
                  "(int32_t parts, void (*part)(void* context, int32_t index), void* context) {\n"
                  "  static skeleton::ThreadPool pool(",
                  api.threads, ");\n  pool.Run(parts, part, context);\n}\n");
  return out;
}

}  // namespace onnx_memplan
