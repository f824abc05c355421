// Large-neighbourhood search: better orders for graphs that are too large to search at once.
#ifndef ONNX_MEMPLAN_PLAN_ORDER_LNS_H_
#define ONNX_MEMPLAN_PLAN_ORDER_LNS_H_

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "plan/exact_order.h"
#include "plan/order_model.h"

namespace onnx_memplan {

struct WindowOptions {
  // Of the exact search of one window.
  int64_t node_limit = 4000;
  // Windows start with `first_tasks` tasks and grow up to `most_tasks` where a window cannot be
  // improved.
  int32_t first_tasks = 40;
  int32_t most_tasks = 2000;
  // Stop at this peak: a bound of all orders.
  int64_t bound_bytes = 0;
};

// Takes the step that needs the most bytes, cuts a window of tasks around it out of the order, and
// orders the window again, with what is live around it fixed (PartExtractor). The order never gets
// worse. Ends at the deadline, at the bound, or when the largest window at the peak is optimal.
std::vector<int32_t> ImproveWindows(const OrderModel& model, std::vector<int32_t> order,
                                    const WindowOptions& options, const Deadline& deadline,
                                    std::mt19937_64& random);

// Orders one window of `options.first_tasks` tasks after the other again, from start to end, each
// for its own least peak. What lies far below the peak of the whole does not raise it, but leaves
// more room to place offsets.
std::vector<int32_t> LowerEverywhere(const OrderModel& model, std::vector<int32_t> order,
                                     const WindowOptions& options, const Deadline& deadline);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_ORDER_LNS_H_
