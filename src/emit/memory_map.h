// The plan as a table in a comment.
#ifndef ONNX_MEMPLAN_EMIT_MEMORY_MAP_H_
#define ONNX_MEMPLAN_EMIT_MEMORY_MAP_H_

#include <cstdint>
#include <string>

#include "onnx_memplan/plan.h"
#include "plan_build/program.h"
#include "plan_build/state_layout.h"

namespace onnx_memplan {

// Lines of // comment: one for each storage and scratch, by offset, with the steps (both ends
// included) that it must keep its bytes for.
std::string RenderMemoryMap(const Program& program, const Plan& plan);

// The same for states, which have no steps: one line for each, by offset.
std::string RenderStateMap(const StateLayout& states);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_MEMORY_MAP_H_
