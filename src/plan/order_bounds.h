// Lower bounds on the peak that hold for every order.
#ifndef ONNX_MEMPLAN_PLAN_ORDER_BOUNDS_H_
#define ONNX_MEMPLAN_PLAN_ORDER_BOUNDS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/min_cut.h"
#include "plan/order_model.h"

namespace onnx_memplan {

// The fewest bytes that are live while a task runs, over every state in which it can run.
//
// Idea: when task t runs, the set S of tasks that have run contains its ancestors and none of its
// descendants; live bytes are a sum of cut functions of S (order_model.h), so the smallest sum is a
// minimum cut. Nodes: the tasks, and two for each storage. A task on the source side has run. An
// arc task -> predecessor keeps the set closed. Storage s is an arc begin(s) -> end(s) of its
// bytes: arcs toucher -> begin(s) pull begin(s) to the source side as soon as one toucher has run,
// arcs end(s) -> toucher leave end(s) on the sink side while one has not. What t touches is live in
// any case and counts in full, less the most that its in-place options can ever save.
class TaskBounds {
 public:
  explicit TaskBounds(const OrderModel& model);

  // Bytes, with base_bytes; stops early with a smaller valid bound once it is more than `enough`.
  int64_t Bound(int32_t task, int64_t enough = MinCut::kInfinite);
  // After Bound: whether `other` has run in the smallest state that attains it.
  bool InState(int32_t other) const { return cut_.OnSourceSide(TaskNode(other)); }

 private:
  const OrderModel* model_;
  MinCut cut_;
  std::vector<int32_t> source_arc_, sink_arc_;  // by task
  std::vector<int32_t> storage_arc_;            // by storage
  std::vector<int32_t> fixed_arcs_;             // set for the task at hand
  std::vector<int32_t> seen_;                   // by task: the last search that reached it
  int32_t stamp_ = 0;

  int32_t TaskNode(int32_t task) const { return 2 + task; }
  void Fix(int32_t task, const TaskLists& lists, const std::vector<int32_t>& arcs);
};

// The bytes that `task` needs in any state: what it touches and its extra bytes, less the most that
// its in-place options can save. Without base_bytes.
int64_t WorkingSetBytes(const OrderModel& model, int32_t task);

// The largest TaskBounds::Bound of all tasks. `order` is any legal order: its live bytes at a task
// are at least that task's bound, so most tasks need no cut. Stops when `stop` says so; what it
// returns holds in any case.
int64_t LargestTaskBound(const OrderModel& model, std::span<const int32_t> order,
                         const std::function<bool()>& stop = nullptr);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_ORDER_BOUNDS_H_
