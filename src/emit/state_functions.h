// The functions of generated code that set, save and restore states, and what the header says of
// them. Only for networks that have states.
#ifndef ONNX_MEMPLAN_EMIT_STATE_FUNCTIONS_H_
#define ONNX_MEMPLAN_EMIT_STATE_FUNCTIONS_H_

#include <string>

#include "emit/api.h"
#include "emit/constants.h"

namespace onnx_memplan {

// For the header: sizes, the table of parameters and their offsets.
std::string StateMacros(const Api& api);
std::string StateErrors(const Api& api);
std::string DeclareStateFunctions(const Api& api);

// For the source: the constants that entry points and these functions need, inside the namespace of
// the file, and the functions, outside.
std::string StateConstants(const Api& api, const EmittedConstants& constants);
std::string DefineStateFunctions(const Api& api, const EmittedConstants& constants);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_STATE_FUNCTIONS_H_
