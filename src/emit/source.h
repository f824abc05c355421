// STEM.cpp.
#ifndef ONNX_MEMPLAN_EMIT_SOURCE_H_
#define ONNX_MEMPLAN_EMIT_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "emit/api.h"
#include "emit/weights.h"
#include "onnx_memplan/emit.h"
#include "onnx_memplan/plan.h"
#include "plan_build/program.h"

namespace onnx_memplan {

// Where each constant that a step reads lies in the weights.
struct ConstantOffsets {
  WeightsLayout layout;
  std::vector<int64_t> by_value;  // offset of Graph::values[i].constant; -1: no step reads it
  // [step of Program::steps][call][KernelCall::constants]
  std::vector<std::vector<std::vector<int64_t>>> by_call;
};

// In the order of execution, so that a run reads the weights from front to back.
ConstantOffsets LayOutConstants(const Program& program, const Plan& plan);

// `blob`: constants.layout.Blob().
std::string RenderSource(const Api& api, const Program& program, const Plan& plan,
                         const EmitOptions& options, const ConstantOffsets& constants,
                         const std::string& blob);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_SOURCE_H_
