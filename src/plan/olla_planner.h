// OLLA (arXiv 2210.12924) as a planner.
#ifndef ONNX_MEMPLAN_PLAN_OLLA_PLANNER_H_
#define ONNX_MEMPLAN_PLAN_OLLA_PLANNER_H_

#include <memory>

#include "onnx_memplan/plan.h"

namespace onnx_memplan {

// Small problems: lifetimes and locations in one integer program. Larger ones: the order by the
// lifetime program on its compressed time axis with forced early updates, then the pyramid
// placement, then, in place of the location program (which CBC does not get through), the exact
// search for offsets. When CBC finds no order in its time, the plan is that of the program order,
// and `method` says so. Bounds of the program count only where they hold for every order
// (ilp_olla.h); the others come from minimum cuts.
std::unique_ptr<Planner> MakeOllaPlanner();

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_OLLA_PLANNER_H_
