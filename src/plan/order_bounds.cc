#include "plan/order_bounds.h"

#include <algorithm>
#include <numeric>

namespace onnx_memplan {

int64_t WorkingSetBytes(const OrderModel& model, int32_t task) {
  int64_t bytes = model.extra_bytes[task] - BestSaving(model.OffersOf(task));
  for (int32_t s : model.touched[task]) bytes += model.bytes[s];
  return bytes;
}

TaskBounds::TaskBounds(const OrderModel& model)
    : model_(&model),
      cut_(2 + model.task_count + 2 * model.storage_count),
      seen_(model.task_count, 0) {
  for (int32_t t = 0; t < model.task_count; ++t) {
    source_arc_.push_back(cut_.AddArc(0, TaskNode(t), 0));
    sink_arc_.push_back(cut_.AddArc(TaskNode(t), 1, 0));
    for (int32_t pred : model.predecessors[t]) {
      cut_.AddArc(TaskNode(t), TaskNode(pred), MinCut::kInfinite);
    }
  }
  for (int32_t s = 0; s < model.storage_count; ++s) {
    const int32_t begin = 2 + model.task_count + 2 * s;
    const int32_t end = begin + 1;
    storage_arc_.push_back(cut_.AddArc(begin, end, model.bytes[s]));
    if (model.live_in[s]) cut_.AddArc(0, begin, MinCut::kInfinite);
    if (model.live_out[s]) cut_.AddArc(end, 1, MinCut::kInfinite);
    for (int32_t toucher : model.touchers[s]) {
      if (!model.live_in[s]) cut_.AddArc(TaskNode(toucher), begin, MinCut::kInfinite);
      if (!model.live_out[s]) cut_.AddArc(end, TaskNode(toucher), MinCut::kInfinite);
    }
  }
}

// Sets the arcs that fix all tasks reached from `task` along `lists`. Precedence would imply them;
// said directly, the paths that carry flow are short.
void TaskBounds::Fix(int32_t task, const TaskLists& lists, const std::vector<int32_t>& arcs) {
  const size_t begin = fixed_arcs_.size();
  std::vector<int32_t> reached = {task};
  ++stamp_;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (int32_t other : lists[reached[i]]) {
      if (seen_[other] == stamp_) continue;
      seen_[other] = stamp_;
      reached.push_back(other);
      fixed_arcs_.push_back(arcs[other]);
    }
  }
  for (size_t i = begin; i < fixed_arcs_.size(); ++i) {
    cut_.SetCapacity(fixed_arcs_[i], MinCut::kInfinite);
  }
}

int64_t TaskBounds::Bound(int32_t task, int64_t enough) {
  const int64_t fixed = model_->base_bytes + WorkingSetBytes(*model_, task);
  fixed_arcs_.assign(1, sink_arc_[task]);
  cut_.SetCapacity(sink_arc_[task], MinCut::kInfinite);
  Fix(task, model_->predecessors, source_arc_);
  Fix(task, model_->successors, sink_arc_);
  for (int32_t s : model_->touched[task]) cut_.SetCapacity(storage_arc_[s], 0);
  const int64_t others = cut_.Solve(std::max<int64_t>(0, enough - fixed));
  for (int32_t s : model_->touched[task]) cut_.SetCapacity(storage_arc_[s], model_->bytes[s]);
  for (int32_t arc : fixed_arcs_) cut_.SetCapacity(arc, 0);
  return fixed + others;
}

int64_t LargestTaskBound(const OrderModel& model, std::span<const int32_t> order,
                         const std::function<bool()>& stop) {
  int64_t bound = model.base_bytes;
  if (order.empty()) return bound + model.first_step_bytes + model.last_step_bytes;
  for (int32_t t = 0; t < model.task_count; ++t) {
    bound = std::max(bound, model.base_bytes + WorkingSetBytes(model, t));
  }
  ExecutionState state(model);
  std::vector<int64_t> during(model.task_count);
  for (int32_t task : order) during[task] = state.Run(task).during;
  std::vector<int32_t> tasks(order.begin(), order.end());
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](int32_t a, int32_t b) { return during[a] > during[b]; });
  if (during[tasks.front()] <= bound) return bound;
  TaskBounds bounds(model);
  for (int32_t task : tasks) {
    if (during[task] <= bound || (stop && stop())) break;
    bound = std::max(bound, bounds.Bound(task));
  }
  return bound;
}

}  // namespace onnx_memplan
