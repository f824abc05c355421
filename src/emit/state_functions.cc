#include "emit/state_functions.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "emit/manual.h"
#include "emit/names.h"
#include "emit/preconditions.h"

namespace onnx_memplan {
namespace {

std::string ParameterMacro(const Api& api, size_t i) {
  return absl::StrCat(api.macro, "_PARAMETER_", ToUpper(api.parameter_ids[i]));
}

std::string ParameterTable(const Api& api) {
  std::string out = " *     offset      bytes  type and name\n";
  for (size_t i = 0; i < api.parameter_ids.size(); ++i) {
    const PlacedState& state = api.states.states[i];
    absl::StrAppendFormat(&out, " * %10d %10d  %s  %s%s\n", state.byte_offset, state.type.Bytes(),
                          state.type.ToString(), ForComment(state.name, 120),
                          state.kind == StateKind::kStatistic ? " (a statistic)" : "");
  }
  return out;
}

// "(void* state, const void* weights)", with the names that a definition uses.
std::string ResetParameters(const Api& api, bool definition) {
  std::vector<std::string> parameters;
  if (api.caller_arena()) parameters.push_back(definition ? "void* state_memory" : "void* state");
  if (api.caller_weights()) {
    parameters.push_back(definition ? "const void* weights_file" : "const void* weights");
  }
  if (parameters.empty()) return definition ? "()" : "(void)";
  return absl::StrCat("(", absl::StrJoin(parameters, ", "), ")");
}

std::string CopyParameters(const Api& api, bool get, bool definition) {
  const std::string state =
      absl::StrCat(get ? "const " : "", "void* state", definition ? "_memory, " : ", ");
  return absl::StrCat("(", api.caller_arena() ? state : "", get ? "void*" : "const void*",
                      " parameters)");
}

std::vector<std::string> StateErrorNames(const Api& api) {
  if (api.caller_arena()) return {"ERROR_STATE"};
  return {};
}

std::string ResetManual(const Api& api) {
  std::vector<std::pair<std::string, std::string>> parameters;
  std::vector<std::string> errors = StateErrorNames(api);
  if (api.caller_arena()) parameters.push_back(StateParameter(api, "written"));
  if (api.caller_weights()) parameters.push_back(WeightsParameter(api));
  if (api.weights_in_file()) errors.push_back("ERROR_WEIGHTS");
  return Manual(
      api, api.name + "_reset",
      "Sets all states to their initial values: parameters and statistics as in the model,\n"
      "what an optimizer keeps as before the first step. Call it before all else.",
      parameters, {}, errors);
}

std::string CopyManual(const Api& api, bool get) {
  std::vector<std::pair<std::string, std::string>> parameters;
  std::vector<std::string> errors = StateErrorNames(api);
  if (api.caller_arena()) parameters.push_back(StateParameter(api, get ? "read" : "updated"));
  parameters.push_back({"parameters", absl::StrCat(get ? "written" : "read", ": ", api.macro,
                                                   "_PARAMETERS_BYTES, of any alignment")});
  errors.push_back("ERROR_NOT_RESET");
  return Manual(
      api, api.name + (get ? "_get_parameters" : "_set_parameters"),
      get ? "Copies out all that inference depends on, in the layout of the table above: for "
            "storing\n"
            "it where it survives a loss of power, and for sending it."
          : "Copies parameters and statistics in, as the other function copied them out. What an\n"
            "optimizer keeps stays as it is.",
      parameters, {}, errors);
}

void AppendCopy(const Api& api, bool get, std::string& out) {
  absl::StrAppend(&out, "int ", api.name, get ? "_get_parameters" : "_set_parameters",
                  CopyParameters(api, get, /*definition=*/true), " {\n  using namespace ", api.name,
                  "_code;\n", CheckStateBlock(api), CheckReset(api), "  skeleton::CopyBytes(",
                  get ? "parameters, state_memory, " : "state_memory, parameters, ", api.macro,
                  "_PARAMETERS_BYTES);\n  return ", api.macro, "_OK;\n}\n\n");
}

}  // namespace

std::string StateMacros(const Api& api) {
  std::string out = absl::StrCat(
      "/* Memory that outlives calls: parameters, statistics and what an optimizer keeps, ",
      api.caller_arena() ? "the caller's"
                         : absl::StrCat("a static\n * array of ", api.stem, ".cpp"),
      ". */\n#define ", api.macro, "_STATE_BYTES ", api.state_bytes(), "\n#define ", api.macro,
      "_STATE_ALIGNMENT ", api.states.alignment, "\n\n");
  absl::StrAppend(
      &out, "/* The layout of parameters as ", api.name, "_get_parameters and ", api.name,
      "_set_parameters copy them", api.has_gradients() ? ", and of gradients" : "",
      ":\n * elements in C order, little endian; gaps have no meaning.\n *\n", ParameterTable(api),
      " */\n#define ", api.macro, "_PARAMETERS_BYTES ", api.states.inference_bytes, "\n");
  if (api.has_gradients()) {
    absl::StrAppend(&out, "#define ", api.macro, "_GRADIENTS_BYTES ", api.states.parameters_bytes,
                    "\n");
  }
  for (size_t i = 0; i < api.parameter_ids.size(); ++i) {
    const PlacedState& state = api.states.states[i];
    absl::StrAppend(&out, "#define ", ParameterMacro(api, i), "_OFFSET ", state.byte_offset,
                    "\n#define ", ParameterMacro(api, i), "_COUNT ", state.type.NumElements(),
                    "\n");
  }
  return out + "\n";
}

std::string StateErrors(const Api& api) {
  std::string out;
  if (api.caller_arena()) {
    absl::StrAppend(&out, "/* `state` is null or not aligned to ", api.macro,
                    "_STATE_ALIGNMENT. */\n#define ", api.macro, "_ERROR_STATE 3\n");
  }
  absl::StrAppend(&out, "/* The states were not set by ", api.name, "_reset. */\n#define ",
                  api.macro, "_ERROR_NOT_RESET 4\n");
  return out;
}

std::string DeclareStateFunctions(const Api& api) {
  std::string out = absl::StrCat(ResetManual(api), "int ", api.name, "_reset",
                                 ResetParameters(api, /*definition=*/false), ";\n");
  for (const bool get : {true, false}) {
    absl::StrAppend(&out, "\n", CopyManual(api, get), "int ", api.name,
                    get ? "_get_parameters" : "_set_parameters",
                    CopyParameters(api, get, /*definition=*/false), ";\n");
  }
  return out;
}

std::string StateConstants(const Api& api, const EmittedConstants& constants) {
  std::string out = absl::StrCat("constexpr size_t kMarkOffset = ", api.mark_offset(),
                                 ";\nconstexpr uint32_t kMark = ", api.mark(), "U;\n\n");
  if (constants.initial.empty()) return out;
  out += "constexpr skeleton::InitialRange kInitialRanges[] = {\n";
  for (const InitialRange& range : constants.initial) {
    absl::StrAppend(&out, "    {/*state_offset=*/", range.state_offset, ", /*weights_offset=*/",
                    range.weights_offset, ", /*bytes=*/", range.bytes, "},\n");
  }
  return out + "};\n\n";
}

std::string DefineStateFunctions(const Api& api, const EmittedConstants& constants) {
  std::string out = absl::StrCat(
      "int ", api.name, "_reset", ResetParameters(api, /*definition=*/true),
      " {\n  using namespace ", api.name, "_code;\n", CheckStateBlock(api), CheckWeightsHeader(api),
      "  skeleton::ZeroBytes(state_memory, ", api.macro, "_STATE_BYTES);\n");
  if (!constants.initial.empty()) {
    absl::StrAppend(&out, "  const void* const weights = ", WeightsPointer(api),
                    ";\n  for (const skeleton::InitialRange& range : kInitialRanges) {\n"
                    "    skeleton::CopyBytes(At<unsigned char>(static_cast<void*>(state_memory), "
                    "range.state_offset),\n"
                    "                        At<unsigned char>(weights, range.weights_offset), "
                    "range.bytes);\n  }\n");
  }
  absl::StrAppend(&out, "  skeleton::SetMark(state_memory, kMarkOffset, kMark);\n  return ",
                  api.macro, "_OK;\n}\n\n");
  AppendCopy(api, /*get=*/true, out);
  AppendCopy(api, /*get=*/false, out);
  return out;
}

}  // namespace onnx_memplan
