#include "plan/order_walk.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace onnx_memplan {
namespace {

// [first, last]: the steps that the task at `step` may move to, the others staying in order.
std::pair<int32_t, int32_t> FreeSteps(const OrderModel& model, std::span<const int32_t> step_of,
                                      int32_t task) {
  int32_t first = 0, last = static_cast<int32_t>(step_of.size()) - 1;
  for (int32_t pred : model.predecessors[task]) first = std::max(first, step_of[pred] + 1);
  for (int32_t next : model.successors[task]) last = std::min(last, step_of[next] - 1);
  return {first, last};
}

// The most live bytes, and their sum over all steps.
std::pair<int64_t, int64_t> PeakAndArea(const OrderModel& model, std::span<const int32_t> order) {
  const std::vector<int64_t> live = LiveBytesByStep(model, order);
  return {*std::max_element(live.begin(), live.end()),
          std::accumulate(live.begin(), live.end(), int64_t{0})};
}

// The element at `from` goes to `to`, those between move by one.
void MoveStep(std::vector<int32_t>& order, int32_t from, int32_t to) {
  const auto at = [&](int32_t step) { return order.begin() + step; };
  if (from < to) {
    std::rotate(at(from), at(from + 1), at(to + 1));
  } else {
    std::rotate(at(to), at(from), at(from + 1));
  }
}

}  // namespace

std::vector<int32_t> WalkOrder(const OrderModel& model, std::vector<int32_t> order,
                               int64_t limit_bytes, int32_t moves, WalkRule rule,
                               std::mt19937_64& random) {
  if (order.size() < 2) return order;
  int64_t area = std::numeric_limits<int64_t>::max();
  std::vector<int32_t> step_of(order.size());
  const auto number = [&](int32_t first, int32_t last) {
    for (int32_t step = first; step <= last; ++step) step_of[order[step]] = step;
  };
  number(0, static_cast<int32_t>(order.size()) - 1);
  for (int32_t i = 0; i < moves; ++i) {
    const auto from = static_cast<int32_t>(random() % order.size());
    const auto [first, last] = FreeSteps(model, step_of, order[from]);
    if (first == last) continue;
    const auto to =
        first + static_cast<int32_t>(random() % static_cast<uint64_t>(last - first + 1));
    if (to == from) continue;
    MoveStep(order, from, to);
    const auto [peak, new_area] = PeakAndArea(model, order);
    if (peak > limit_bytes || (rule == WalkRule::kShrinkArea && new_area > area)) {
      MoveStep(order, to, from);
    } else {
      area = new_area;
      number(std::min(from, to), std::max(from, to));
    }
  }
  return order;
}

bool ForEachOrderWithin(const OrderModel& model, const std::function<int64_t()>& limit,
                        int64_t max_orders,
                        const std::function<bool(std::span<const int32_t>)>& visit) {
  ExecutionState state(model);
  std::vector<int32_t> order;
  int64_t bytes = limit();
  bool go_on = true;
  // The ready tasks of each step that have not been tried.
  std::vector<std::vector<int32_t>> open;
  const auto extend = [&] {
    std::vector<int32_t> tasks(state.ready().begin(), state.ready().end());
    std::sort(tasks.begin(), tasks.end(), std::greater<>());
    open.push_back(std::move(tasks));
  };
  extend();
  while (go_on) {
    if (open.back().empty()) {
      if (order.empty()) return true;
      open.pop_back();
      state.Undo(order.back());
      order.pop_back();
      continue;
    }
    const int32_t task = open.back().back();
    open.back().pop_back();
    int64_t during = state.Try(task).during;
    if (order.empty()) during += model.first_step_bytes;
    if (state.done_count() + 1 == model.task_count) during += model.last_step_bytes;
    if (during > bytes) continue;
    state.Run(task);
    order.push_back(task);
    extend();
    if (state.done_count() < model.task_count) continue;
    if (max_orders-- <= 0) return false;
    go_on = visit(order);
    bytes = limit();
  }
  return false;
}

}  // namespace onnx_memplan
