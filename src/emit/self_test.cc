#include "emit/self_test.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "emit/kernel_text.h"
#include "emit/names.h"
#include "emit/weights.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::Status CheckTensors(const std::vector<ApiTensor>& wanted, const std::vector<Tensor>& given,
                          const char* role) {
  if (wanted.size() != given.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the self-test has ", given.size(), " ", role,
                                                   "s; the model has ", wanted.size()));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].type == given[i].type()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the self-test's ", role, " '", wanted[i].value_name, "' is ",
                     given[i].type().ToString(), "; the model's is ", wanted[i].type.ToString()));
  }
  return absl::OkStatus();
}

std::string Element(const ApiTensor& tensor) {
  return std::string(DTypeCppName(tensor.type.dtype));
}

void AppendData(const std::string& name, const Tensor& tensor, std::string& out) {
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.data()),
                               static_cast<size_t>(tensor.Bytes()));
  absl::StrAppend(&out, "alignas(64) const unsigned char ", name, "[", bytes.size() + 1, "] =\n");
  AppendStringLiterals(bytes, out);
  out.insert(out.size() - 1, ";");
  out += "\n";
}

// "&Decode<T>": how an element becomes a double.
std::string Decoder(const ApiTensor& tensor) {
  if (tensor.type.dtype == DType::kFloat16) return "skeleton::HalfToDouble";
  return absl::StrCat("skeleton::ToDouble<", Element(tensor), ">");
}

std::string CompareOutput(const Api& api, const SelfTest& test, size_t i) {
  const ApiTensor& tensor = api.tested_function().outputs[i];
  const std::string actual =
      tensor.arena_offset
          ? absl::StrCat(api.TensorAccessor(tensor), api.caller_arena() ? "(arena_memory)" : "()")
          : absl::StrCat("skeleton::At<", Element(tensor), ">(output_", i, ", 0)");
  return absl::StrCat("  ok &= skeleton::Compare<", Element(tensor), ">(\"", tensor.id, "\", ",
                      actual, ",\n      skeleton::At<", Element(tensor),
                      ">(static_cast<const void*>(expected_", i, "), 0), ", api.TensorMacro(tensor),
                      "_COUNT, ", absl::StrFormat("%.17g", test.absolute_tolerance), ", ",
                      absl::StrFormat("%.17g", test.relative_tolerance), ", ", Decoder(tensor),
                      ");\n");
}

// Definitions of the buffers, outside main.
std::string Buffers(const Api& api, const SelfTest& test) {
  std::string out;
  if (api.caller_arena()) {
    absl::StrAppend(&out, "alignas(", api.macro, "_ARENA_ALIGNMENT) unsigned char arena_memory[",
                    api.macro, "_ARENA_BYTES + 1];\n\n");
  }
  if (api.caller_arena() && api.has_states()) {
    absl::StrAppend(&out, "alignas(", api.macro, "_STATE_ALIGNMENT) unsigned char state_memory[",
                    api.macro, "_STATE_BYTES];\n\n");
  }
  if (api.caller_weights()) {
    absl::StrAppend(&out, "alignas(", api.macro,
                    "_WEIGHTS_ALIGNMENT) unsigned char weights_memory[", api.macro,
                    "_WEIGHTS_FILE_BYTES];\n\n");
  }
  for (size_t i = 0; i < api.tested_function().outputs.size(); ++i) {
    if (!api.tested_function().outputs[i].arena_offset) {
      absl::StrAppend(&out, "alignas(64) unsigned char output_", i, "[",
                      api.TensorMacro(api.tested_function().outputs[i]), "_BYTES + 1];\n\n");
    }
  }
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    AppendData(absl::StrCat("input_", i), test.inputs[i], out);
  }
  for (size_t i = 0; i < test.outputs.size(); ++i) {
    AppendData(absl::StrCat("expected_", i), test.outputs[i], out);
  }
  return out;
}

std::string RunCall(const Api& api) {
  std::vector<std::string> args;
  if (api.caller_arena()) args.push_back("arena_memory");
  if (api.caller_arena() && api.tested_function().has_states()) args.push_back("state_memory");
  if (api.caller_weights()) args.push_back("weights_memory");
  for (size_t i = 0; i < api.tested_function().inputs.size(); ++i) {
    if (api.tested_function().inputs[i].arena_offset) continue;
    args.push_back(absl::StrCat(api.tested_function().inputs[i].by_value ? "*" : "",
                                "skeleton::At<", Element(api.tested_function().inputs[i]),
                                ">(static_cast<const void*>(input_", i, "), 0)"));
  }
  for (size_t i = 0; i < api.tested_function().outputs.size(); ++i) {
    if (api.tested_function().outputs[i].arena_offset) continue;
    args.push_back(absl::StrCat("skeleton::At<", Element(api.tested_function().outputs[i]),
                                ">(output_", i, ", 0)"));
  }
  return absl::StrCat(api.FunctionName(api.tested_function()), "(",
                      absl::StrJoin(args, ",\n      "), ")");
}

std::string ResetCall(const Api& api) {
  std::vector<std::string> args;
  if (api.caller_arena()) args.push_back("state_memory");
  if (api.caller_weights()) args.push_back("weights_memory");
  return absl::StrCat(api.name, "_reset(", absl::StrJoin(args, ", "), ")");
}

std::string Main(const Api& api, const SelfTest& test) {
  std::string out;
  if (api.caller_weights()) {
    absl::StrAppend(
        &out, "// The argument is the path of ", api.weights_file_name(),
        " where it is not in the working directory.\n", "int main(int argc, char** argv) {\n",
        "  const char* const path = argc > 1 ? argv[1] : \"", api.weights_file_name(),
        "\";\n  if (!skeleton::ReadFile(path, weights_memory, sizeof weights_memory)) "
        "return 1;\n  if (",
        api.name, "_check_weights(weights_memory, sizeof weights_memory) != ", api.macro,
        "_OK) {\n    std::printf(\"%s is not of this network\\n\", path);\n    return "
        "1;\n  }\n");
  } else {
    out += "int main() {\n";
  }
  for (size_t i = 0; i < api.tested_function().inputs.size(); ++i) {
    const ApiTensor& tensor = api.tested_function().inputs[i];
    if (!tensor.arena_offset) continue;
    absl::StrAppend(&out, "  std::memcpy(", api.TensorAccessor(tensor),
                    api.caller_arena() ? "(arena_memory)" : "()", ", input_", i, ", ",
                    api.TensorMacro(tensor), "_BYTES);\n");
  }
  if (api.has_states()) {
    absl::StrAppend(&out, "  if (", ResetCall(api), " != ", api.macro, "_OK) {\n    std::printf(\"",
                    api.name, "_reset failed\\n\");\n    return 1;\n  }\n");
  }
  absl::StrAppend(&out, "  const int status = ", RunCall(api), ";\n  if (status != ", api.macro,
                  "_OK) {\n    std::printf(\"", api.FunctionName(api.tested_function()),
                  " returned %d\\n\", status);\n    return 1;\n  }\n  bool ok = true;\n");
  for (size_t i = 0; i < api.tested_function().outputs.size(); ++i)
    out += CompareOutput(api, test, i);
  out += "  std::printf(ok ? \"passed\\n\" : \"FAILED\\n\");\n  return ok ? 0 : 1;\n}\n";
  return out;
}

}  // namespace

absl::Status CheckSelfTest(const Api& api, const SelfTest& test) {
  RETURN_IF_ERROR(CheckTensors(api.tested_function().inputs, test.inputs, "input"));
  return CheckTensors(api.tested_function().outputs, test.outputs, "output");
}

std::string RenderSelfTest(const Api& api, const SelfTest& test, const Provenance& provenance) {
  PastedHeaders pasted = PasteHeaders({"skeleton/access.h", "skeleton/compare.h"});
  pasted.system_includes.insert("cstring");
  std::string out = absl::StrCat("// Runs ", api.stem,
                                 ".cpp once and compares; exit status 0 if it is right.\n//\n");
  for (const std::string& line : ProvenanceLines(provenance)) {
    absl::StrAppend(&out, "// ", line, "\n");
  }
  absl::StrAppend(&out, "#include \"", api.stem, ".h\"\n\n");
  for (const std::string& include : pasted.system_includes) {
    absl::StrAppend(&out, "#include <", include, ">\n");
  }
  absl::StrAppend(&out, "\n", InAnonymousNamespace(pasted), "namespace {\n\n",
                  "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n", Buffers(api, test),
                  "}  // namespace\n\n", Main(api, test));
  return out;
}

}  // namespace onnx_memplan
