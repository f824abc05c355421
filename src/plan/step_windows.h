// Time axes for integer programs: the steps that a task may run at, and from steps back to an
// order.
#ifndef ONNX_MEMPLAN_PLAN_STEP_WINDOWS_H_
#define ONNX_MEMPLAN_PLAN_STEP_WINDOWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "plan/order_model.h"
#include "plan/task_reach.h"

namespace onnx_memplan {

// Task v runs at a step of [earliest[v], latest[v]]; steps count from 0.
struct StepWindows {
  int32_t step_count = 0;
  std::vector<int32_t> earliest = {};
  std::vector<int32_t> latest = {};
};

// One step for each task: all ancestors come before, all descendants after.
StepWindows WindowsByCount(const OrderModel& model, const TaskReach& reach);

// As many steps as tasks on the longest path, times `stretch`, plus `extra`; tasks may share a
// step, but a task never shares one with its predecessors.
StepWindows WindowsByPath(const OrderModel& model, double stretch, int32_t extra);

// Steps within the windows, each after those of the predecessors, that follow `order` as closely as
// they can. With WindowsByCount: the positions in `order`.
std::vector<int32_t> StepsNear(const OrderModel& model, const StepWindows& windows,
                               std::span<const int32_t> order);

// A legal order that runs the tasks step by step; within a step, the task that leaves the fewest
// live bytes first.
std::vector<int32_t> SequenceSteps(const OrderModel& model, std::span<const int32_t> step_of);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_STEP_WINDOWS_H_
