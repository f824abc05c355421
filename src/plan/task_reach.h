// Which task must run before which, as rows of bits.
#ifndef ONNX_MEMPLAN_PLAN_TASK_REACH_H_
#define ONNX_MEMPLAN_PLAN_TASK_REACH_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/problem.h"

namespace onnx_memplan {

// Transitive closure of a precedence. Takes task_count^2 / 4 bytes: for up to some thousands of
// tasks.
class TaskReach {
 public:
  TaskReach(int32_t task_count, const TaskLists& predecessors, const TaskLists& successors);

  // `before` runs before `after` in every order. No task is before itself.
  bool Before(int32_t before, int32_t after) const {
    return (Row(ancestors_, after)[before / 64] >> (before % 64) & 1) != 0;
  }
  std::span<const uint64_t> Ancestors(int32_t task) const { return Row(ancestors_, task); }
  std::span<const uint64_t> Descendants(int32_t task) const { return Row(descendants_, task); }
  // From now on `before` runs before `after`, which must not be before it. Calls `changed` for each
  // task whose ancestors or descendants grow; returns how many pairs get an order.
  int64_t Add(int32_t before, int32_t after, const std::function<void(int32_t)>& changed);
  // Tasks in a topological order of the first precedence.
  std::span<const int32_t> topological() const { return topological_; }
  size_t words() const { return words_; }

 private:
  std::span<const uint64_t> Row(const std::vector<uint64_t>& bits, int32_t task) const {
    return {bits.data() + static_cast<size_t>(task) * words_, words_};
  }

  size_t words_;
  std::vector<uint64_t> ancestors_, descendants_;
  std::vector<int32_t> topological_;
};

// `predecessors` without the ones that others imply.
TaskLists ReducedPredecessors(int32_t task_count, const TaskLists& predecessors,
                              const TaskReach& reach);
// The inverse lists.
TaskLists Inverse(int32_t task_count, const TaskLists& lists);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_TASK_REACH_H_
