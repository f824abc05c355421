// Which constants generated code carries, and where they lie in its weights.
#ifndef ONNX_MEMPLAN_EMIT_CONSTANTS_H_
#define ONNX_MEMPLAN_EMIT_CONSTANTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "emit/entry_point.h"
#include "emit/weights.h"
#include "plan_build/state_layout.h"

namespace onnx_memplan {

// Where each constant that a step of a program reads lies in the weights.
struct ConstantOffsets {
  std::vector<int64_t> by_value;  // offset of Graph::values[i].constant; -1: no step reads it
  // [step of Program::steps][call][KernelCall::constants]
  std::vector<std::vector<std::vector<int64_t>>> by_call;
};

// Bytes of the weights that are the initial value of a range of the states.
struct InitialRange {
  int64_t state_offset = 0;
  int64_t weights_offset = 0;
  int64_t bytes = 0;
};

struct EmittedConstants {
  WeightsLayout layout;
  std::vector<ConstantOffsets> by_entry;
  // By state_offset. What is in no range is zero at first.
  std::vector<InitialRange> initial;
};

// In the order of execution, so that a run reads the weights from front to back; equal constants of
// all programs once. `entries` is not empty.
EmittedConstants LayOutConstants(std::span<const EntryPoint> entries, const StateLayout& states);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_CONSTANTS_H_
