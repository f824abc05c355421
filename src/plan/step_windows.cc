#include "plan/step_windows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <tuple>

#include "plan/order_heuristics.h"
#include "support/check.h"

namespace onnx_memplan {

StepWindows WindowsByCount(const OrderModel& model, const TaskReach& reach) {
  StepWindows windows{.step_count = model.task_count};
  const auto count = [](std::span<const uint64_t> bits) {
    int32_t ones = 0;
    for (uint64_t word : bits) ones += std::popcount(word);
    return ones;
  };
  for (int32_t v = 0; v < model.task_count; ++v) {
    windows.earliest.push_back(count(reach.Ancestors(v)));
    windows.latest.push_back(model.task_count - 1 - count(reach.Descendants(v)));
  }
  return windows;
}

StepWindows WindowsByPath(const OrderModel& model, double stretch, int32_t extra) {
  const std::vector<int32_t> order = ProgramOrder(model);
  StepWindows windows;
  windows.earliest.assign(model.task_count, 0);
  std::vector<int32_t> after(model.task_count, 0);  // tasks on the longest path behind
  int32_t longest = 1;
  for (int32_t v : order) {
    for (int32_t pred : model.predecessors[v]) {
      windows.earliest[v] = std::max(windows.earliest[v], windows.earliest[pred] + 1);
    }
    longest = std::max(longest, windows.earliest[v] + 1);
  }
  for (auto v = order.rbegin(); v != order.rend(); ++v) {
    for (int32_t next : model.successors[*v]) after[*v] = std::max(after[*v], after[next] + 1);
  }
  windows.step_count =
      std::min(model.task_count, static_cast<int32_t>(std::ceil(longest * stretch)) + extra);
  for (int32_t v = 0; v < model.task_count; ++v) {
    windows.latest.push_back(windows.step_count - 1 - after[v]);
  }
  return windows;
}

std::vector<int32_t> StepsNear(const OrderModel& model, const StepWindows& windows,
                               std::span<const int32_t> order) {
  std::vector<int32_t> step_of(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t task = order[i];
    const auto near = static_cast<int32_t>(static_cast<int64_t>(i) * windows.step_count /
                                           static_cast<int64_t>(order.size()));
    int32_t first = windows.earliest[task];
    for (int32_t pred : model.predecessors[task]) first = std::max(first, step_of[pred] + 1);
    step_of[task] = std::clamp(near, first, std::max(first, windows.latest[task]));
  }
  return step_of;
}

std::vector<int32_t> SequenceSteps(const OrderModel& model, std::span<const int32_t> step_of) {
  ExecutionState state(model);
  std::vector<int32_t> order;
  order.reserve(step_of.size());
  while (!state.ready().empty()) {
    std::tuple<int32_t, int64_t, int32_t> best;
    bool first = true;
    for (int32_t task : state.ready()) {
      const std::tuple key(step_of[task], state.Try(task).after, task);
      if (first || key < best) best = key;
      first = false;
    }
    state.Run(std::get<2>(best));
    order.push_back(std::get<2>(best));
  }
  return order;
}

}  // namespace onnx_memplan
