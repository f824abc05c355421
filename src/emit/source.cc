#include "emit/source.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "emit/kernel_text.h"
#include "emit/memory_map.h"
#include "emit/names.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

bool IsNull(const Node& node, const KernelArg& arg) {
  if (arg.kind == KernelArg::Kind::kNull) return true;
  if (arg.kind == KernelArg::Kind::kInput) return node.inputs[Index(arg.index)] == kNoValue;
  return arg.kind == KernelArg::Kind::kOutput && node.outputs[Index(arg.index)] == kNoValue;
}

// "float" of "const float*".
std::string ElementOf(std::string_view arg_type) {
  constexpr std::string_view kConst = "const ";
  if (arg_type.starts_with(kConst)) arg_type.remove_prefix(kConst.size());
  return std::string(arg_type.substr(0, arg_type.find('*')));
}

// "Unary" of "kernels::Unary<float, kernels::Relu>".
std::string BaseName(const std::string& kernel) {
  const std::string plain = kernel.substr(0, kernel.find('<'));
  const size_t colon = plain.rfind(':');
  return ToIdentifier(colon == std::string::npos ? plain : plain.substr(colon + 1));
}

std::string DescribeStep(const Program& program, const Node& node) {
  const auto types = [&](const std::vector<ValueId>& values) {
    std::vector<std::string> texts;
    for (ValueId value : values) {
      texts.push_back(value == kNoValue ? "none"
                                        : program.graph.values[Index(value)].type->ToString());
    }
    return absl::StrJoin(texts, ", ");
  };
  std::string op = node.op_type;
  if (node.epilogue.has_residual) op += " + residual";
  if (!node.epilogue.activation.empty()) op += " + " + node.epilogue.activation;
  return ForComment(absl::StrCat(node.name.empty() ? "" : node.name + ": ", op, " (",
                                 types(node.inputs), ") -> ", types(node.outputs)),
                    400);
}

// The functions that call a kernel with fixed parameters, each once, and the calls of them.
class StepRenderer {
 public:
  StepRenderer(const Program& program, const Plan& plan, const ConstantOffsets& constants)
      : program_(program), plan_(plan), constants_(constants) {}

  void Render() {
    for (size_t step = 0; step < plan_.order.size(); ++step) {
      const auto task = static_cast<size_t>(plan_.order[step]);
      const ProgramStep& program_step = program_.steps[task];
      const Node& node = program_.graph.nodes[Index(program_step.node)];
      absl::StrAppend(&body_, "  // [", step, "] ", DescribeStep(program_, node), "\n");
      for (size_t c = 0; c < program_step.lowering.calls.size(); ++c) RenderCall(task, c, node);
    }
  }

  const std::string& functions() const { return functions_; }
  const std::string& body() const { return body_; }
  const std::set<std::string>& headers() const { return headers_; }
  // Whether the body mentions `base`: "arena", "weights", "in0", "out0", ...
  bool Uses(const std::string& base) const { return bases_.contains(base); }

 private:
  void RenderCall(size_t task, size_t c, const Node& node) {
    const KernelCall& call = program_.steps[task].lowering.calls[c];
    headers_.insert(call.header);
    std::vector<std::string> args;
    for (size_t i = 0; i < call.args.size(); ++i) {
      if (IsNull(node, call.args[i])) continue;
      args.push_back(Address(task, c, node, i));
    }
    absl::StrAppend(&body_, "  ", Instance(call, node), "(", absl::StrJoin(args, ", "), ");\n");
  }

  // The function for this kernel, these parameters and these omitted operands.
  std::string Instance(const KernelCall& call, const Node& node) {
    std::vector<std::string> parameters;
    std::vector<std::string> forwarded;
    for (size_t i = 0; i < call.args.size(); ++i) {
      if (IsNull(node, call.args[i])) {
        forwarded.push_back("nullptr");
        continue;
      }
      forwarded.push_back(absl::StrCat("a", i));
      parameters.push_back(absl::StrCat(std::string(call.function.arg_types[i]), " a", i));
    }
    std::string key = absl::StrCat(call.name, call.params.type_name, call.params.initializer, ":",
                                   absl::StrJoin(forwarded, ","));
    const auto [entry, is_new] = instances_.emplace(std::move(key), "");
    if (!is_new) return entry->second;
    entry->second = absl::StrCat(BaseName(call.name), "_", instances_.size() - 1);
    const std::string params = absl::StrCat("kParams_", instances_.size() - 1);
    absl::StrAppend(&functions_, "constexpr ", call.params.type_name, " ", params,
                    call.params.initializer, ";\n", "[[gnu::noinline]] void ", entry->second, "(",
                    absl::StrJoin(parameters, ", "), ") {\n  ", call.name, "(", params,
                    forwarded.empty() ? "" : ", ", absl::StrJoin(forwarded, ", "), ");\n}\n\n");
    return entry->second;
  }

  std::string Address(size_t task, size_t c, const Node& node, size_t arg_index) {
    const KernelCall& call = program_.steps[task].lowering.calls[c];
    const KernelArg arg = call.args[arg_index];
    const std::string element = ElementOf(call.function.arg_types[arg_index]);
    switch (arg.kind) {
      case KernelArg::Kind::kInput:
        return ValueAddress(node.inputs[Index(arg.index)], element);
      case KernelArg::Kind::kOutput:
        return ValueAddress(node.outputs[Index(arg.index)], element);
      case KernelArg::Kind::kConstant:
        return At(element, "weights", constants_.by_call[task][c][Index(arg.index)]);
      case KernelArg::Kind::kScratch:
        return At(element, "arena", plan_.scratch_offsets[task] + arg.index);
      case KernelArg::Kind::kNull:
        break;
    }
    MEMPLAN_CHECK(false);
    return {};
  }

  std::string ValueAddress(ValueId value, const std::string& element) {
    const Location location = program_.locations[Index(value)];
    switch (location.kind) {
      case Location::Kind::kArena:
        return At(element, "arena", plan_.offsets[Index(location.index)] + location.byte_offset);
      case Location::Kind::kInput:
        return BufferAddress("in", program_.graph.inputs, location, element);
      case Location::Kind::kOutput:
        return BufferAddress("out", program_.graph.outputs, location, element);
      case Location::Kind::kConstant:
        return At(element, "weights",
                  constants_.by_value[Index(location.index)] + location.byte_offset);
      case Location::Kind::kState:
      case Location::Kind::kNone:
        break;
    }
    MEMPLAN_CHECK_MSG(false, program_.graph.values[Index(value)].name);
    return {};
  }

  std::string BufferAddress(const char* prefix, const std::vector<ValueId>& values,
                            const Location& location, const std::string& element) {
    const std::string buffer = absl::StrCat(prefix, location.index);
    bases_.insert(buffer);
    const TensorType& type = *program_.graph.values[Index(values[Index(location.index)])].type;
    if (location.byte_offset == 0 && element == DTypeCppName(type.dtype)) return buffer;
    return At(element, buffer, location.byte_offset);
  }

  std::string At(const std::string& element, const std::string& base, int64_t offset) {
    bases_.insert(base);
    return absl::StrCat("At<", element, ">(", base, ", ", offset, ")");
  }

  const Program& program_;
  const Plan& plan_;
  const ConstantOffsets& constants_;
  std::map<std::string, std::string> instances_;  // key -> function; named in order of first use
  std::set<std::string> headers_;
  std::set<std::string> bases_;
  std::string functions_;
  std::string body_;
};

std::string SectionAttribute(const std::string& section, bool alone) {
  if (section.empty()) return "";
  return absl::StrCat(alone ? "" : " ", "__attribute__((section(\"", section, "\")))");
}

void AppendArena(const Api& api, const EmitOptions& options, std::string& out) {
  absl::StrAppend(&out, "alignas(", api.macro, "_ARENA_ALIGNMENT) unsigned char arena_memory[",
                  api.arena_bytes > 0 ? api.macro + "_ARENA_BYTES" : "1", "]",
                  SectionAttribute(options.arena_section, false), ";\n\n");
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

// What NAME_run does before its steps: sets `arena` and `weights`, or returns an error.
std::string Prologue(const Api& api, const StepRenderer& steps) {
  std::string out;
  if (api.caller_arena()) {
    absl::StrAppend(&out, "  if (", api.arena_bytes > 0 ? "arena_memory == nullptr || " : "",
                    "!skeleton::IsAligned(arena_memory, ", api.macro, "_ARENA_ALIGNMENT)) {\n",
                    "    return ", api.macro, "_ERROR_ARENA;\n  }\n");
  }
  if (steps.Uses("arena")) {
    out += api.caller_arena()
               ? absl::StrCat("  void* const arena = __builtin_assume_aligned(arena_memory, ",
                              api.macro, "_ARENA_ALIGNMENT);\n")
               : "  void* const arena = skeleton::Opaque(arena_memory);\n";
  }
  const std::string file = api.caller_weights() ? "weights_file" : api.name + "_weights_file";
  if (api.weights_in_file()) {
    out += "  if (";
    if (api.caller_weights()) {
      absl::StrAppend(&out, "weights_file == nullptr || !skeleton::IsAligned(weights_file, ",
                      api.macro, "_WEIGHTS_ALIGNMENT) ||\n      ");
    }
    absl::StrAppend(&out, "!skeleton::HasWeightsHeader(", file, ", ", api.macro,
                    "_WEIGHTS_BYTES, kWeightsHash)) {\n    return ", api.macro,
                    "_ERROR_WEIGHTS;\n  }\n");
  }
  if (steps.Uses("weights")) {
    absl::StrAppend(&out, "  const void* const weights = ",
                    api.weights_in_file()
                        ? absl::StrCat("At<unsigned char>(static_cast<const void*>(", file,
                                       "), skeleton::kWeightsHeaderBytes)")
                        : "skeleton::Opaque(weights_memory)",
                    ";\n");
  }
  return out;
}

// Inputs that no step reads.
void AppendUnused(const Api& api, const StepRenderer& steps, std::string& out) {
  const auto append = [&](const std::vector<ApiTensor>& tensors, const char* prefix) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string name = absl::StrCat(prefix, i);
      if (tensors[i].arena_offset || steps.Uses(name)) continue;
      absl::StrAppend(&out, "  static_cast<void>(", name, ");\n");
    }
  };
  append(api.inputs, "in");
  append(api.outputs, "out");
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

}  // namespace

ConstantOffsets LayOutConstants(const Program& program, const Plan& plan) {
  ConstantOffsets result = {.layout = WeightsLayout(program.target.arena_alignment),
                            .by_value = std::vector<int64_t>(program.graph.values.size(), -1),
                            .by_call = {}};
  result.by_call.resize(program.steps.size());
  for (int32_t task : plan.order) {
    const ProgramStep& step = program.steps[Index(task)];
    const Node& node = program.graph.nodes[Index(step.node)];
    for (const KernelCall& call : step.lowering.calls) {
      std::vector<int64_t>& offsets =
          result.by_call[Index(task)].emplace_back(call.constants.size(), -1);
      for (const KernelArg& arg : call.args) {
        if (arg.kind == KernelArg::Kind::kConstant) {
          offsets[Index(arg.index)] = result.layout.Add(call.constants[Index(arg.index)]);
        }
        if (arg.kind != KernelArg::Kind::kInput || IsNull(node, arg)) continue;
        const Location& location = program.locations[Index(node.inputs[Index(arg.index)])];
        if (location.kind != Location::Kind::kConstant) continue;
        result.by_value[Index(location.index)] =
            result.layout.Add(*program.graph.values[Index(location.index)].constant);
      }
    }
  }
  return result;
}

std::string RenderSource(const Api& api, const Program& program, const Plan& plan,
                         const EmitOptions& options, const ConstantOffsets& constants,
                         const std::string& blob) {
  StepRenderer steps(program, plan, constants);
  steps.Render();
  std::set<std::string> headers = steps.headers();
  headers.insert("skeleton/access.h");
  if (api.weights_in_file()) headers.insert("skeleton/weights_file.h");
  const PastedHeaders pasted = PasteHeaders(headers);

  std::string out;
  for (const std::string& line : ProvenanceLines(options.provenance)) {
    absl::StrAppend(&out, "// ", line, "\n");
  }
  if (!program.target.compiler_flags.empty()) {
    absl::StrAppend(&out, "// Compile with ", program.target.compiler_flags, " -O2.\n");
  }
  absl::StrAppend(&out, "//\n", RenderMemoryMap(program, plan), "\n#include \"", api.stem,
                  ".h\"\n\n");
  for (const std::string& include : pasted.system_includes) {
    absl::StrAppend(&out, "#include <", include, ">\n");
  }
  absl::StrAppend(&out, "\n", kPlatformAsserts, InAnonymousNamespace(pasted));
  if (api.weights == WeightsForm::kIncbin) AppendIncbinWeights(api, options, out);
  const std::string space = api.name + "_code";
  absl::StrAppend(&out, "namespace {\nnamespace ", space, " {\n\nusing skeleton::At;\n\n");
  if (!api.caller_arena() && (steps.Uses("arena") || api.tensors_in_arena())) {
    AppendArena(api, options, out);
  }
  if (api.weights_in_file()) {
    absl::StrAppend(&out, "constexpr uint64_t kWeightsHash = ", HashLiteral(blob), ";\n\n");
  } else if (steps.Uses("weights")) {
    AppendInlineWeights(api, options, blob, out);
  }
  absl::StrAppend(&out, steps.functions(), "}  // namespace ", space, "\n}  // namespace\n\n",
                  "extern \"C\" {\n\n");
  AppendAccessors(api, out);
  AppendCheckWeights(api, out);
  absl::StrAppend(&out, "int ", api.name, "_run", RunParameters(api, /*definition=*/true),
                  " {\n  using namespace ", space, ";\n", Prologue(api, steps));
  AppendUnused(api, steps, out);
  absl::StrAppend(&out, steps.body(), "  return ", api.macro, "_OK;\n}\n\n}  // extern \"C\"\n");
  return out;
}

}  // namespace onnx_memplan
