// What the header says of a function: what it does, its parameters, ownership, and return codes.
#ifndef ONNX_MEMPLAN_EMIT_MANUAL_H_
#define ONNX_MEMPLAN_EMIT_MANUAL_H_

#include <string>
#include <utility>
#include <vector>

#include "emit/api.h"

namespace onnx_memplan {

// One comment. `summary` may have several lines; `parameters`: names and what they are; `notes`:
// lines on ownership; `errors`: names of macros without the prefix ("ERROR_STATE").
std::string Manual(const Api& api, const std::string& function_name, const std::string& summary,
                   const std::vector<std::pair<std::string, std::string>>& parameters,
                   const std::vector<std::string>& notes, const std::vector<std::string>& errors);

// Of a function that runs a program.
std::string FunctionManual(const Api& api, const ApiFunction& function);

// "arena", "state" and "weights", where the caller passes them.
std::pair<std::string, std::string> ArenaParameter(const Api& api);
std::pair<std::string, std::string> StateParameter(const Api& api, const char* use);
std::pair<std::string, std::string> WeightsParameter(const Api& api);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_MANUAL_H_
