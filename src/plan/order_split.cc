#include "plan/order_split.h"

#include <algorithm>
#include <utility>

#include "plan/order_heuristics.h"

namespace onnx_memplan {

// In a topological order, the task at step p is comparable to all others if and only if no edge
// leads from a step before p to one after it, where a task without successors counts as having an
// edge to the end, and one without predecessors as having one from the beginning: then every chain
// from an earlier task to the end passes through p, and so does every chain to a later one.
std::vector<std::vector<int32_t>> SplitAtSingleTasks(const OrderModel& model) {
  const std::vector<int32_t> order = ProgramOrder(model);
  std::vector<int32_t> step_of(model.task_count);
  for (int32_t step = 0; step < model.task_count; ++step) step_of[order[step]] = step;
  std::vector<std::vector<int32_t>> groups;
  std::vector<int32_t> group;
  const auto close = [&] {
    if (!group.empty()) groups.push_back(std::exchange(group, {}));
  };
  // reach: the last step that a task before p has an edge to. origin[p]: the first step that a task
  // after p has an edge from.
  std::vector<int32_t> origin(model.task_count + 1, model.task_count);
  for (int32_t step = model.task_count - 1; step >= 0; --step) {
    int32_t first = step;
    if (model.predecessors[order[step]].empty()) first = -1;
    for (int32_t pred : model.predecessors[order[step]]) first = std::min(first, step_of[pred]);
    origin[step] = std::min(origin[step + 1], first);
  }
  int32_t reach = -1;
  for (int32_t step = 0; step < model.task_count; ++step) {
    const int32_t task = order[step];
    const bool nothing_jumps = reach <= step && origin[step + 1] >= step;
    if (nothing_jumps) close();
    group.push_back(task);
    if (nothing_jumps) close();
    if (model.successors[task].empty()) reach = model.task_count;
    for (int32_t next : model.successors[task]) reach = std::max(reach, step_of[next]);
  }
  close();
  return groups;
}

}  // namespace onnx_memplan
