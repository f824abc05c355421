#include "plan/task_reach.h"

#include <algorithm>
#include <utility>

namespace onnx_memplan {

TaskReach::TaskReach(int32_t task_count, const TaskLists& predecessors, const TaskLists& successors)
    : words_((static_cast<size_t>(task_count) + 63) / 64),
      ancestors_(static_cast<size_t>(task_count) * words_, 0),
      descendants_(static_cast<size_t>(task_count) * words_, 0) {
  std::vector<int32_t> waiting(task_count);
  topological_.reserve(task_count);
  for (int32_t t = 0; t < task_count; ++t) {
    waiting[t] = static_cast<int32_t>(predecessors[t].size());
    if (waiting[t] == 0) topological_.push_back(t);
  }
  for (size_t i = 0; i < topological_.size(); ++i) {
    for (int32_t next : successors[topological_[i]]) {
      if (--waiting[next] == 0) topological_.push_back(next);
    }
  }
  const auto add = [this](std::vector<uint64_t>& bits, int32_t to, int32_t from) {
    uint64_t* row = bits.data() + static_cast<size_t>(to) * words_;
    const uint64_t* other = bits.data() + static_cast<size_t>(from) * words_;
    for (size_t w = 0; w < words_; ++w) row[w] |= other[w];
    row[from / 64] |= uint64_t{1} << (from % 64);
  };
  for (int32_t task : topological_) {
    for (int32_t pred : predecessors[task]) add(ancestors_, task, pred);
  }
  for (auto task = topological_.rbegin(); task != topological_.rend(); ++task) {
    for (int32_t next : successors[*task]) add(descendants_, *task, next);
  }
}

TaskLists ReducedPredecessors(int32_t task_count, const TaskLists& predecessors,
                              const TaskReach& reach) {
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (int32_t t = 0; t < task_count; ++t) {
    for (int32_t pred : predecessors[t]) {
      const bool implied = std::ranges::any_of(
          predecessors[t], [&](int32_t other) { return reach.Before(pred, other); });
      if (!implied) edges.emplace_back(t, pred);
    }
  }
  return TaskLists(task_count, std::move(edges));
}

TaskLists Inverse(int32_t task_count, const TaskLists& lists) {
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (int32_t t = 0; t < task_count; ++t) {
    for (int32_t other : lists[t]) edges.emplace_back(other, t);
  }
  return TaskLists(task_count, std::move(edges));
}

}  // namespace onnx_memplan
