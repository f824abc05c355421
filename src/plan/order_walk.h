// Random walks among the orders of a problem.
#ifndef ONNX_MEMPLAN_PLAN_ORDER_WALK_H_
#define ONNX_MEMPLAN_PLAN_ORDER_WALK_H_

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "plan/order_model.h"

namespace onnx_memplan {

enum class WalkRule {
  kAny,         // every move within the limit is made
  kShrinkArea,  // only those that do not make the sum of live bytes over all steps larger: storages
                // that live shortly are in fewer places at once
};

// A legal order whose peak is at most `limit_bytes`, `moves` random moves away from `order` (which
// must be within the limit itself): a task goes to another step between its predecessors and its
// successors; moves that pass the limit are not made.
std::vector<int32_t> WalkOrder(const OrderModel& model, std::vector<int32_t> order,
                               int64_t limit_bytes, int32_t moves, WalkRule rule,
                               std::mt19937_64& random);

// Calls `visit` for legal orders whose peak is at most `limit()` (asked again after each order), as
// long as it returns true, and at most `max_orders` times. Returns true when that were all of them.
bool ForEachOrderWithin(const OrderModel& model, const std::function<int64_t()>& limit,
                        int64_t max_orders,
                        const std::function<bool(std::span<const int32_t>)>& visit);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_ORDER_WALK_H_
