// Scratch for what a plan leaves free.
#ifndef ONNX_MEMPLAN_PIPELINE_SCRATCH_ROOMS_H_
#define ONNX_MEMPLAN_PIPELINE_SCRATCH_ROOMS_H_

#include <cstdint>
#include <vector>

#include "onnx_memplan/plan.h"

namespace onnx_memplan {

// By task: the bytes of the largest range of addresses in [0, arena_bytes) that `plan` leaves free
// while the task runs, apart from its scratch; it starts at a multiple of `alignment`. With
// that much scratch, the plan's order and offsets still fit into arena_bytes.
std::vector<int64_t> ScratchRooms(const PlanProblem& problem, const Plan& plan, int64_t arena_bytes,
                                  int64_t alignment);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PIPELINE_SCRATCH_ROOMS_H_
