// Is there an order whose live bytes never pass a budget? With all that the budget itself says.
#ifndef ONNX_MEMPLAN_PLAN_BUDGET_SEARCH_H_
#define ONNX_MEMPLAN_PLAN_BUDGET_SEARCH_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "plan/exact_order_search.h"
#include "plan/order_model.h"
#include "plan/order_reduce.h"

namespace onnx_memplan {

// Adds the precedence that all orders within the budget obey (order_tighten.h), which mostly lets
// the model be reduced once more, and looks for one of them: by beams, and by the exact search
// forwards and with time reversed.
class BudgetSearch {
 public:
  // `stop_tightening` ends the first part alone.
  BudgetSearch(const OrderModel& model, int64_t budget_bytes, int64_t table_bytes,
               const std::function<bool()>& stop_tightening, std::function<bool()> stop);
  BudgetSearch(const BudgetSearch&) = delete;
  BudgetSearch& operator=(const BudgetSearch&) = delete;

  int64_t budget_bytes() const { return budget_bytes_; }
  // Goes on where the last call stopped, with wider beams; each exact search looks at no more than
  // `node_limit` further states.
  OrderVerdict Continue(int64_t node_limit);
  // After kFound.
  const std::vector<int32_t>& order() const { return order_; }
  // After kInfeasible: the fewest bytes that any order needs at some step, or fewer; above the
  // budget.
  int64_t lowest_rejected() const { return lowest_rejected_; }
  // States that were looked at, by cuts or by search.
  int64_t nodes() const;

 private:
  OrderVerdict Found(std::vector<int32_t> order, bool reversed);
  OrderVerdict Infeasible(int64_t lowest_rejected);
  OrderVerdict Lists();
  OrderVerdict Beams();
  OrderVerdict Exact(bool reversed, int64_t node_limit);

  int64_t budget_bytes_;
  int64_t table_bytes_;
  std::function<bool()> stop_;
  int64_t valid_below_ = 0;  // see TightOrder
  int64_t cuts_ = 0;
  bool tightening_failed_ = false;
  ReducedOrder reduced_;
  std::array<OrderModel, 2> models_;  // forwards, backwards
  std::array<std::unique_ptr<OrderSearch>, 2> searches_;
  std::vector<int32_t> order_;
  int64_t lowest_rejected_ = 0;
  int calls_ = 0;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_BUDGET_SEARCH_H_
