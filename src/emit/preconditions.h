// What generated functions check before they write anything.
#ifndef ONNX_MEMPLAN_EMIT_PRECONDITIONS_H_
#define ONNX_MEMPLAN_EMIT_PRECONDITIONS_H_

#include <string>

#include "emit/api.h"

namespace onnx_memplan {

// Statements that return an error; empty where there is nothing to check. They read the parameters
// arena_memory, state_memory and weights_file.
std::string CheckArena(const Api& api);
// That the caller's block of states can be one.
std::string CheckStateBlock(const Api& api);
// That it was reset.
std::string CheckReset(const Api& api);
std::string CheckWeightsHeader(const Api& api);

// An expression: where the weights begin, as `const void*`.
std::string WeightsPointer(const Api& api);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_PRECONDITIONS_H_
