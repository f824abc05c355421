#include "plan/budget_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/order_beam.h"
#include "plan/order_heuristics.h"
#include "plan/order_tighten.h"

namespace onnx_memplan {
namespace {

// Of states in memory, at a time.
constexpr double kMaxBeamBytes = 4e8;
constexpr int32_t kFirstBeam = 16;
constexpr int32_t kWidestBeam = 4096;
constexpr int kBeams = 4;  // wider ones, after the first

}  // namespace

BudgetSearch::BudgetSearch(const OrderModel& model, int64_t budget_bytes, int64_t table_bytes,
                           const std::function<bool()>& stop_tightening, std::function<bool()> stop)
    : budget_bytes_(budget_bytes), table_bytes_(table_bytes), stop_(std::move(stop)) {
  TightOrder tight = TightenOrder(model, budget_bytes, stop_tightening);
  valid_below_ = tight.valid_below;
  cuts_ = tight.cuts;
  tightening_failed_ = tight.infeasible;
  if (tightening_failed_) return;
  reduced_ = ReduceOrder(tight.model, kMaxReducedTasks);
  models_ = {reduced_.model, ReverseOrderModel(reduced_.model)};
}

int64_t BudgetSearch::nodes() const {
  int64_t nodes = cuts_;
  for (const auto& search : searches_) nodes += search == nullptr ? 0 : search->total_nodes();
  return nodes;
}

OrderVerdict BudgetSearch::Found(std::vector<int32_t> order, bool reversed) {
  if (reversed) std::reverse(order.begin(), order.end());
  order_ = reduced_.Expand(order);
  return OrderVerdict::kFound;
}

OrderVerdict BudgetSearch::Infeasible(int64_t lowest_rejected) {
  lowest_rejected_ = lowest_rejected;
  return OrderVerdict::kInfeasible;
}

OrderVerdict BudgetSearch::Lists() {
  for (const bool reversed : {false, true}) {
    const OrderModel& model = models_[reversed];
    for (const ListRule rule : {ListRule::kPeakThenLive, ListRule::kLive}) {
      std::vector<int32_t> order = ListOrder(model, rule);
      if (OrderPeak(model, order) <= budget_bytes_) return Found(std::move(order), reversed);
    }
  }
  return OrderVerdict::kStopped;
}

OrderVerdict BudgetSearch::Beams() {
  const OrderModel& model = models_[0];
  const double states =
      kMaxBeamBytes / (1.0 + model.task_count) / (1.0 + model.task_count + model.storage_count);
  const int32_t widest =
      static_cast<int32_t>(std::clamp(states, 1.0, static_cast<double>(kWidestBeam)));
  // What one width does not find, it does not find the next time either.
  if (calls_ > kBeams || (kFirstBeam << (2 * calls_)) > widest) return OrderVerdict::kStopped;
  const int32_t width = kFirstBeam << (2 * calls_);
  for (const bool reversed : {false, true}) {
    std::vector<int32_t> order = BeamOrder(models_[reversed], {.width = width,
                                                               .bound_bytes = budget_bytes_,
                                                               .limit_bytes = budget_bytes_,
                                                               .stop = stop_});
    if (!order.empty()) return Found(std::move(order), reversed);
    if (stop_()) break;
  }
  return OrderVerdict::kStopped;
}

OrderVerdict BudgetSearch::Exact(bool reversed, int64_t node_limit) {
  std::unique_ptr<OrderSearch>& search = searches_[reversed];
  if (search == nullptr) {
    search = std::make_unique<OrderSearch>(models_[reversed], table_bytes_ / 2, stop_);
    // Of an order that is not the best but legal.
    const OrderModel& model = models_[reversed];
    search->SetCriticalTasks(CriticalTasks(model, ListOrder(model, ListRule::kPeakThenLive)));
  }
  const OrderVerdict verdict = search->Decide(budget_bytes_, node_limit);
  if (verdict == OrderVerdict::kFound) return Found(search->order(), reversed);
  if (verdict == OrderVerdict::kInfeasible) {
    return Infeasible(std::min(valid_below_, search->lowest_rejected()));
  }
  return verdict;
}

OrderVerdict BudgetSearch::Continue(int64_t node_limit) {
  if (tightening_failed_) return Infeasible(valid_below_);
  OrderVerdict verdict = OrderVerdict::kStopped;
  if (calls_ == 0) verdict = Lists();
  for (const bool reversed : {false, true}) {
    // Backwards it is seldom easier, but then by much.
    const int64_t nodes = reversed ? (node_limit + 3) / 4 : node_limit;
    if (verdict == OrderVerdict::kStopped && !stop_()) verdict = Exact(reversed, nodes);
  }
  if (verdict == OrderVerdict::kStopped && !stop_()) verdict = Beams();
  ++calls_;
  return verdict;
}

}  // namespace onnx_memplan
