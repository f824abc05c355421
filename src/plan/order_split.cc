#include "plan/order_split.h"

#include <algorithm>
#include <utility>

#include "plan/order_heuristics.h"

namespace onnx_memplan {

// In a topological order, let c be the task at step p. All tasks before p are ancestors of c if and
// only if each has a successor at a step of at most p: going down from p, that successor is c or
// has been found to be an ancestor already. In the same way, all tasks behind p are descendants if
// and only if each has a predecessor at a step of at least p.
std::vector<std::vector<int32_t>> SplitAtSingleTasks(const OrderModel& model) {
  const std::vector<int32_t> order = ProgramOrder(model);
  std::vector<int32_t> step_of(model.task_count);
  for (int32_t step = 0; step < model.task_count; ++step) step_of[order[step]] = step;
  std::vector<std::vector<int32_t>> groups;
  std::vector<int32_t> group;
  const auto close = [&] {
    if (!group.empty()) groups.push_back(std::exchange(group, {}));
  };
  // origin[p]: the least, over the tasks from p on, of their nearest predecessor's step; none: -1.
  std::vector<int32_t> origin(model.task_count + 1, model.task_count);
  for (int32_t step = model.task_count - 1; step >= 0; --step) {
    int32_t nearest = -1;
    for (int32_t pred : model.predecessors[order[step]]) {
      nearest = std::max(nearest, step_of[pred]);
    }
    origin[step] = std::min(origin[step + 1], nearest);
  }
  // The most, over the tasks before p, of their nearest successor's step; none: beyond the end.
  int32_t reach = -1;
  for (int32_t step = 0; step < model.task_count; ++step) {
    const int32_t task = order[step];
    const bool is_cut = reach <= step && origin[step + 1] >= step;
    if (is_cut) close();
    group.push_back(task);
    if (is_cut) close();
    int32_t nearest = model.task_count;
    for (int32_t next : model.successors[task]) nearest = std::min(nearest, step_of[next]);
    reach = std::max(reach, nearest);
  }
  close();
  return groups;
}

}  // namespace onnx_memplan
