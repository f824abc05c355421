// What a planner will about reach, for choices that are made before planning.
#ifndef ONNX_MEMPLAN_PLAN_PEAK_ESTIMATE_H_
#define ONNX_MEMPLAN_PLAN_PEAK_ESTIMATE_H_

#include <cstdint>

#include "onnx_memplan/plan.h"

namespace onnx_memplan {

// The least peak of live bytes over the fast orders: program, depth first, list schedules, and for
// up to a thousand tasks a narrow beam. Deterministic; an upper bound of the minimum.
int64_t EstimatePeakBytes(const PlanProblem& problem);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_PEAK_ESTIMATE_H_
