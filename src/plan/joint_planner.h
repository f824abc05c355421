// Planners that look for order and offsets together.
#ifndef ONNX_MEMPLAN_PLAN_JOINT_PLANNER_H_
#define ONNX_MEMPLAN_PLAN_JOINT_PLANNER_H_

#include <memory>

#include "onnx_memplan/plan.h"
#include "plan/exact_order.h"

namespace onnx_memplan {

// Searches for an order of least peak, packs it, and, when it cannot be packed at the bound, looks
// for other orders that can: an arena of N bytes needs an order of peak N or less, and nothing says
// that it is the first one found. lower_bound holds for all orders and offsets:
//   * the least peak of any order, with all in-place options at hand;
//   * the same with sizes rounded up to the alignment g that all storages share, less the largest
//     rounding: in any step all blocks but the topmost take a multiple of g bytes;
//   * fixed offsets;
//   * for a handful of tasks without in-place options: every order of a smaller peak has been
//     packed exactly and is not better.
// With kHeuristic, the first order is packed, and that is all.
std::unique_ptr<Planner> MakeJointPlanner(OrderMethod method);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_JOINT_PLANNER_H_
