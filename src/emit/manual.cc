#include "emit/manual.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "emit/names.h"

namespace onnx_memplan {
namespace {

std::string DescribeTensor(const Api& api, const ApiTensor& tensor) {
  std::string text = tensor.by_value ? "by value" : tensor.is_input ? "read" : "written";
  absl::StrAppend(&text, ": ", tensor.type.ToString());
  if (tensor.type.rank() > 0)
    absl::StrAppend(&text, ", ", api.TensorMacro(tensor), "_COUNT elements");
  return text;
}

}  // namespace

std::string Manual(const Api& api, const std::string& function_name, const std::string& summary,
                   const std::vector<std::pair<std::string, std::string>>& parameters,
                   const std::vector<std::string>& notes, const std::vector<std::string>& errors) {
  std::string text = absl::StrCat("/* ", function_name, "\n *\n");
  const std::vector<std::string> lines = absl::StrSplit(summary, '\n');
  for (const std::string& line : lines) absl::StrAppend(&text, " * ", ForComment(line, 200), "\n");
  if (!parameters.empty()) text += " *\n";
  size_t width = 0;
  for (const auto& [name, what] : parameters) width = std::max(width, name.size());
  for (const auto& [name, what] : parameters) {
    absl::StrAppend(&text, " *   ", name, std::string(width - name.size() + 2, ' '), what, "\n");
  }
  text += " *\n";
  for (const std::string& line : notes) absl::StrAppend(&text, " * ", line, "\n");
  absl::StrAppend(&text, " * Returns ", api.macro, "_OK");
  for (const std::string& error : errors) {
    absl::StrAppend(&text, &error == &errors.back() ? " or " : ", ", api.macro, "_", error);
  }
  if (!errors.empty()) text += "; after an error nothing was written";
  return text + ". */\n";
}

std::pair<std::string, std::string> ArenaParameter(const Api& api) {
  return {"arena", absl::StrCat("working memory: ", api.macro, "_ARENA_BYTES, aligned to ",
                                api.macro, "_ARENA_ALIGNMENT")};
}

std::pair<std::string, std::string> StateParameter(const Api& api, const char* use) {
  return {"state", absl::StrCat(use, ": ", api.macro, "_STATE_BYTES, aligned to ", api.macro,
                                "_STATE_ALIGNMENT")};
}

std::pair<std::string, std::string> WeightsParameter(const Api& api) {
  return {"weights", absl::StrCat("read: the content of ", api.weights_file_name(), ", aligned to ",
                                  api.macro, "_WEIGHTS_ALIGNMENT")};
}

std::string FunctionManual(const Api& api, const ApiFunction& function) {
  std::vector<std::pair<std::string, std::string>> parameters;
  std::vector<std::string> errors;
  if (api.caller_arena()) {
    parameters.push_back(ArenaParameter(api));
    errors.push_back("ERROR_ARENA");
  }
  if (api.caller_arena() && function.has_states()) {
    parameters.push_back(StateParameter(api, function.writes_states ? "read and updated" : "read"));
    errors.push_back("ERROR_STATE");
  }
  if (api.caller_weights()) parameters.push_back(WeightsParameter(api));
  for (const ApiTensor* tensor : function.tensors()) {
    if (tensor->is_parameter()) parameters.push_back({tensor->id, DescribeTensor(api, *tensor)});
  }
  if (function.has_gradients()) {
    parameters.push_back(
        {"gradients", absl::StrCat("written: the gradient of each parameter at its ", api.macro,
                                   "_PARAMETER_..._OFFSET;")});
    parameters.push_back({"", absl::StrCat(api.macro, "_GRADIENTS_BYTES, aligned to 8")});
  }
  if (api.weights_in_file()) errors.push_back("ERROR_WEIGHTS");
  if (function.has_states()) errors.push_back("ERROR_NOT_RESET");
  std::vector<std::string> notes = {
      "All memory is the caller's and is used during the call only; what is read may not overlap",
      "what is written."};
  notes.push_back(api.caller_arena()
                      ? "Calls with different arenas may run at the same time where none updates "
                        "the states of another."
                      : "Not reentrant: the arena and the states are shared by all functions.");
  return Manual(api, api.FunctionName(function), function.summary, parameters, notes, errors);
}

}  // namespace onnx_memplan
