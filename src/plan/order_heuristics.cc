#include "plan/order_heuristics.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace onnx_memplan {

std::vector<int32_t> ProgramOrder(const OrderModel& model) {
  return ProgramOrder(
      Precedence{.predecessors = model.predecessors, .successors = model.successors},
      model.task_count);
}

std::vector<int32_t> DepthFirstOrder(const OrderModel& model) {
  // The bytes that a task leaves behind, by which its consumer ranks it.
  std::vector<int64_t> weight(model.task_count, 0);
  for (int32_t t = 0; t < model.task_count; ++t) {
    for (int32_t s : model.touched[t]) weight[t] += model.bytes[s];
  }
  std::vector<int32_t> order;
  order.reserve(model.task_count);
  std::vector<uint8_t> seen(model.task_count, 0);
  struct Visit {
    int32_t task;
    std::vector<int32_t> inputs;  // still to run, the first one last
  };
  std::vector<Visit> stack;
  const auto open = [&](int32_t task) {
    seen[task] = 1;
    const auto preds = model.predecessors[task];
    std::vector<int32_t> inputs(preds.begin(), preds.end());
    std::stable_sort(inputs.begin(), inputs.end(),
                     [&](int32_t a, int32_t b) { return weight[a] < weight[b]; });
    stack.push_back({task, std::move(inputs)});
  };
  for (int32_t root = 0; root < model.task_count; ++root) {
    if (seen[root] || !model.successors[root].empty()) continue;
    open(root);
    while (!stack.empty()) {
      std::vector<int32_t>& inputs = stack.back().inputs;
      if (inputs.empty()) {
        order.push_back(stack.back().task);
        stack.pop_back();
        continue;
      }
      const int32_t next = inputs.back();
      inputs.pop_back();
      if (!seen[next]) open(next);
    }
  }
  return order;
}

std::vector<int32_t> ListOrder(const OrderModel& model, ListRule rule) {
  ExecutionState state(model);
  std::vector<int32_t> order;
  order.reserve(model.task_count);
  int64_t peak = 0;
  while (!state.ready().empty()) {
    std::tuple<int64_t, int64_t, int32_t> best;
    bool first = true;
    for (int32_t task : state.ready()) {
      const ExecutionState::Effect effect = state.Try(task);
      const int64_t step = rule == ListRule::kPeakThenLive ? std::max(effect.during, peak) : 0;
      const std::tuple key(step, effect.after, task);
      if (first || key < best) best = key;
      first = false;
    }
    const int32_t task = std::get<2>(best);
    peak = std::max(peak, state.Run(task).during);
    order.push_back(task);
  }
  return order;
}

std::vector<int32_t> ReversedListOrder(const OrderModel& model, ListRule rule) {
  std::vector<int32_t> order = ListOrder(ReverseOrderModel(model), rule);
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace onnx_memplan
