// Fast orders, none of them proven: what the searches start from.
#ifndef ONNX_MEMPLAN_PLAN_ORDER_HEURISTICS_H_
#define ONNX_MEMPLAN_PLAN_ORDER_HEURISTICS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "plan/order_model.h"

namespace onnx_memplan {

// The order of the tasks' indices, as far as precedence allows.
std::vector<int32_t> ProgramOrder(const OrderModel& model);

// Depth first from the last tasks: what a task needs runs right before it, the input that holds
// the most bytes first. A post-order, as compilers emit expressions (Sethi and Ullman).
std::vector<int32_t> DepthFirstOrder(const OrderModel& model);

// What a list scheduler looks at first.
enum class ListRule {
  // The task whose step needs the fewest bytes, or not more than the peak so far; among those the
  // one that leaves the fewest: "least peak memory first", as PyTorch Inductor's LPMF.
  kPeakThenLive,
  // The task that leaves the fewest bytes.
  kLive,
};

// Runs one ready task after another, chosen by `rule`; ties by index.
std::vector<int32_t> ListOrder(const OrderModel& model, ListRule rule);

// The same for the problem with time reversed, turned round: chooses the last task first.
std::vector<int32_t> ReversedListOrder(const OrderModel& model, ListRule rule);

// The tasks of the steps of `order` that need the most bytes, for OrderSearch::SetCriticalTasks.
std::vector<int32_t> CriticalTasks(const OrderModel& model, std::span<const int32_t> order);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_ORDER_HEURISTICS_H_
