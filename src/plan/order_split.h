// Cuts an order problem where its tasks leave no choice.
#ifndef ONNX_MEMPLAN_PLAN_ORDER_SPLIT_H_
#define ONNX_MEMPLAN_PLAN_ORDER_SPLIT_H_

#include <cstdint>
#include <vector>

#include "plan/order_model.h"

namespace onnx_memplan {

// Groups of tasks such that in every order all tasks of a group run before all tasks of the next
// one. A task that is before or after each other task is a group of its own; between two of those,
// the others are one group. The peak of an order is the largest peak of its groups, each with what
// is live around it (PartExtractor), so the groups can be ordered one at a time.
std::vector<std::vector<int32_t>> SplitAtSingleTasks(const OrderModel& model);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_ORDER_SPLIT_H_
