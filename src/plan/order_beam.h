// Beam search for an order.
#ifndef ONNX_MEMPLAN_PLAN_ORDER_BEAM_H_
#define ONNX_MEMPLAN_PLAN_ORDER_BEAM_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/order_model.h"

namespace onnx_memplan {

struct BeamOptions {
  // States kept at each step.
  int32_t width = 64;
  // A valid lower bound on the peak: peaks below it count as equal.
  int64_t bound_bytes = 0;
  // Steps that need more bytes are not taken. An order is returned only when its peak is within.
  int64_t limit_bytes = INT64_MAX;
  std::function<bool()> stop = {};
};

// Extends the `width` best sets of tasks by one task at a time. Sets are ranked by (peak so far,
// live bytes); of the ways to the same set only the one of least peak is kept; a set with a safe
// move (exact_order_search.h) has that one child. The order of least peak found, or an empty one
// when nothing within the limit was found or `stop` said so. (Time: tasks x width x ready tasks.)
std::vector<int32_t> BeamOrder(const OrderModel& model, const BeamOptions& options);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_ORDER_BEAM_H_
