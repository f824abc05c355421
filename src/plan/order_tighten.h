// Precedence that every order within a budget obeys.
#ifndef ONNX_MEMPLAN_PLAN_ORDER_TIGHTEN_H_
#define ONNX_MEMPLAN_PLAN_ORDER_TIGHTEN_H_

#include <cstdint>
#include <functional>

#include "plan/order_model.h"

namespace onnx_memplan {

struct TightOrder {
  // No order has a peak within the budget; `model` is then of no use.
  bool infeasible = false;
  // Orders of a peak below this obey the added precedence too (infeasible: there are none). Above
  // the budget.
  int64_t valid_below = 0;
  // With the added precedence: what its orders are is legal in the first model, and the first model
  // has no other ones within the budget.
  OrderModel model;
  // Pairs of tasks, implied ones counted, that have an order now and had none.
  int64_t added_pairs = 0;
  int64_t cuts = 0;  // that were computed
};

// Stops when `stop` says so, with what was found until then, which holds in any case.
TightOrder TightenOrder(const OrderModel& model, int64_t budget_bytes,
                        const std::function<bool()>& stop = nullptr);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_ORDER_TIGHTEN_H_
