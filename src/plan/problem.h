// Precedence of a PlanProblem's tasks, shared by every planner.
#ifndef ONNX_MEMPLAN_PLAN_PROBLEM_H_
#define ONNX_MEMPLAN_PLAN_PROBLEM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "onnx_memplan/plan.h"

namespace onnx_memplan {

// Lists of task indices, one for each task, in one array.
class TaskLists {
 public:
  TaskLists() = default;
  // `edges` are (task, entry) pairs; duplicates are dropped and each list is sorted.
  TaskLists(int32_t task_count, std::vector<std::pair<int32_t, int32_t>> edges);

  std::span<const int32_t> operator[](int32_t task) const {
    return {entries_.data() + begin_[static_cast<size_t>(task)],
            entries_.data() + begin_[static_cast<size_t>(task) + 1]};
  }
  int64_t total() const { return static_cast<int64_t>(entries_.size()); }

 private:
  std::vector<int64_t> begin_{0};
  std::vector<int32_t> entries_;
};

// Who must run before whom: Task::after, and writer before reader for every storage that has
// exactly one writing task and is not live_in. Direct edges only, without duplicates.
struct Precedence {
  TaskLists predecessors;
  TaskLists successors;
};

// Indices of `problem` must be in range.
Precedence BuildPrecedence(const PlanProblem& problem);

// The topological order that always runs the ready task of the smallest index; the order of
// `problem.tasks` itself when that is legal. Shorter than the number of tasks if and only if there
// is a cycle.
std::vector<int32_t> ProgramOrder(const Precedence& precedence, int32_t task_count);

// Whether `order` is a permutation of all tasks that respects `precedence`.
bool IsTopologicalOrder(const Precedence& precedence, std::span<const int32_t> order,
                        int32_t task_count);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_PROBLEM_H_
