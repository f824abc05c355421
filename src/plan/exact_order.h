// An order of least peak, with a bound for all orders: exact when the budget allows, and always as
// good as what was found until then.
#ifndef ONNX_MEMPLAN_PLAN_EXACT_ORDER_H_
#define ONNX_MEMPLAN_PLAN_EXACT_ORDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/order_model.h"
#include "plan/packer.h"

namespace onnx_memplan {

enum class OrderMethod {
  kHeuristic,  // fast orders and beam search; the bound is still a proof where it is met
  kExact,      // and the exact search; the integer program where that does not close
  kIlp,        // fast orders, beam search and the integer program
};

struct OrderSearchOptions {
  OrderMethod method = OrderMethod::kExact;
  // Of all searches together; nullopt: only the time limits them.
  std::optional<int64_t> node_limit = std::nullopt;
  // A legal order to start from, and a bound that is known to hold. May be empty and 0.
  std::vector<int32_t> start = {};
  int64_t lower_bound = 0;
  // For the table of failed states.
  int64_t table_bytes = int64_t{512} << 20;
  uint64_t seed = 1;
  // Order large graphs window by window, too (order_lns.h).
  bool windows = true;
  // For the integer program.
  const std::atomic<bool>* cancel = nullptr;
  // Gets (incumbent, bound, states) now and then. May be empty.
  std::function<void(int64_t, int64_t, int64_t)> progress = {};
};

struct OrderSearchResult {
  std::vector<int32_t> order;
  int64_t peak_bytes = 0;
  // Every order has a step that needs at least this. peak_bytes == lower_bound is a proof.
  int64_t lower_bound = 0;
  int64_t nodes = 0;
  std::string found_by, bound_by;
};

OrderSearchResult SearchOrder(const OrderModel& model, const OrderSearchOptions& options,
                              const Deadline& deadline);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_EXACT_ORDER_H_
