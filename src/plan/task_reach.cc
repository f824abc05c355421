#include "plan/task_reach.h"

#include <algorithm>
#include <bit>
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

int64_t TaskReach::Add(int32_t before, int32_t after, const std::function<void(int32_t)>& changed) {
  const auto row = [this](std::vector<uint64_t>& bits, int32_t task) {
    return bits.data() + static_cast<size_t>(task) * words_;
  };
  const auto with = [](std::span<const uint64_t> bits, int32_t task) {
    std::vector<uint64_t> all(bits.begin(), bits.end());
    all[task / 64] |= uint64_t{1} << (task % 64);
    return all;
  };
  const std::vector<uint64_t> earlier = with(Ancestors(before), before);
  const std::vector<uint64_t> later = with(Descendants(after), after);
  int64_t pairs = 0;
  // `more` becomes part of the rows of all of `tasks`.
  const auto merge = [&](std::vector<uint64_t>& bits, const std::vector<uint64_t>& tasks,
                         const std::vector<uint64_t>& more) {
    for (int32_t task = 0; task < static_cast<int32_t>(topological_.size()); ++task) {
      if ((tasks[task / 64] >> (task % 64) & 1) == 0) continue;
      uint64_t* mine = row(bits, task);
      int64_t grown = 0;
      for (size_t w = 0; w < words_; ++w) {
        grown += std::popcount(more[w] & ~mine[w]);
        mine[w] |= more[w];
      }
      if (grown > 0) changed(task);
      pairs += grown;
    }
  };
  merge(descendants_, earlier, later);
  pairs = 0;  // each is in both tables
  merge(ancestors_, later, earlier);
  return pairs;
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
