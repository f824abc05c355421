// Makes an order problem smaller without changing its best peak.
#ifndef ONNX_MEMPLAN_PLAN_ORDER_REDUCE_H_
#define ONNX_MEMPLAN_PLAN_ORDER_REDUCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "plan/order_model.h"

namespace onnx_memplan {

// A model whose tasks stand for sequences of tasks of another one.
struct ReducedOrder {
  OrderModel model;
  std::vector<std::vector<int32_t>> tasks_of;  // by task of `model`, in order of execution

  std::vector<int32_t> Expand(std::span<const int32_t> order) const;
};

// The reduction keeps bits for each pair of tasks, and other orders for the ends are tried one by
// one.
inline constexpr int32_t kMaxReducedTasks = 4096;

// Fuses pairs of tasks that some best order runs one right after the other, again and again, and
// drops precedence that other precedence implies. Expand()ing an order of the result gives a legal
// order with the same peak, and the smallest peak is the same. Models of more than
// `max_task_count` tasks are returned as they are.
ReducedOrder ReduceOrder(const OrderModel& model, int32_t max_task_count = kMaxReducedTasks);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_ORDER_REDUCE_H_
