// The problem as the searches for an execution order see it: who touches what, and how many bytes
// are live for a set of tasks that have run.
//
// Live bytes. For a set S of tasks that have run (closed under precedence), a storage is live when
// it has begun (live_in, or a toucher is in S) and has not ended (live_out, or a toucher is not in
// S). live(S) is the sum of their bytes: it follows from the set alone, whatever the order was.
// Each storage contributes a cut function, so live is submodular:
//   live(A) + live(B) >= live(A u B) + live(A n B).
// While task t runs at S, all that t touches is live too, and its scratch; an in-place option
// `from` -> `to` of t saves min(from, to) bytes when t is the last toucher of `from` and the first
// of `to`, and no two options that share a storage are taken at once (the two storages would then
// overlap a third one): the saving is a matching of largest weight. The most bytes during any step
// is the peak of the order; no placement of offsets needs fewer bytes.
#ifndef ONNX_MEMPLAN_PLAN_ORDER_MODEL_H_
#define ONNX_MEMPLAN_PLAN_ORDER_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "onnx_memplan/plan.h"
#include "plan/problem.h"

namespace onnx_memplan {

struct OrderOffer {
  int32_t from = 0;
  int32_t to = 0;
  int64_t saved_bytes = 0;  // min of the two sizes
};

// Storages that no task touches, that are always live, or that are empty are not storages of the
// model: the first and second kind are in the *_bytes constants below.
struct OrderModel {
  int32_t task_count = 0;
  int32_t storage_count = 0;
  std::vector<int64_t> bytes;              // by storage
  std::vector<uint8_t> live_in, live_out;  // by storage
  // By task: bytes live only while it runs, beside what it touches: its scratch. A task that stands
  // for several (order_reduce.h) may have a negative value: what it touches only after its peak.
  std::vector<int64_t> extra_bytes;
  TaskLists touched;                   // by task: storages
  TaskLists touchers;                  // by storage: tasks
  TaskLists predecessors, successors;  // by task: tasks
  std::vector<int32_t> offer_begin;    // by task, one more: into offers
  std::vector<OrderOffer> offers;
  // By storage: its index in the PlanProblem. Empty in models that were made from others.
  std::vector<int32_t> storage_of;
  // Live at every step.
  int64_t base_bytes = 0;
  // Untouched storages: live_in ones take space only at the first step, live_out ones only at the
  // last one. The searches leave them out (their bounds stay valid); OrderPeak counts them.
  int64_t first_step_bytes = 0;
  int64_t last_step_bytes = 0;

  std::span<const OrderOffer> OffersOf(int32_t task) const {
    return {offers.data() + offer_begin[task], offers.data() + offer_begin[task + 1]};
  }
};

OrderModel MakeOrderModel(const PlanProblem& problem);

// The problem with time running backwards: an order is legal there if and only if its reverse is
// legal here, and both have the same live bytes at each step.
OrderModel ReverseOrderModel(const OrderModel& model);

// The tasks that have run, with live bytes, ready tasks and undo. All bytes include base_bytes.
class ExecutionState {
 public:
  struct Effect {
    int64_t during = 0;  // live bytes while the task runs
    int64_t after = 0;   // live bytes when it has run
  };

  explicit ExecutionState(const OrderModel& model);

  int64_t live() const { return live_; }
  int32_t done_count() const { return done_count_; }
  bool done(int32_t task) const { return waiting_[task] < 0; }
  bool is_ready(int32_t task) const { return waiting_[task] == 0; }
  // Touchers that have not run, and one more when the storage is live_out.
  int32_t touches_left(int32_t storage) const {
    return toucher_count_[storage] - touch_count_[storage];
  }
  // Tasks that may run now, in no particular (but reproducible) order.
  std::span<const int32_t> ready() const { return ready_; }
  // `task` must be ready.
  Effect Try(int32_t task) const;
  Effect Run(int32_t task);
  // Undoes the last Run, which must have been of `task`.
  void Undo(int32_t task);
  void Reset();
  // How many tasks that touch the storage have run.
  int32_t touch_count(int32_t storage) const { return touch_count_[storage]; }
  bool begun(int32_t storage) const {
    return touch_count_[storage] > 0 || model_->live_in[storage] != 0;
  }

 private:
  const OrderModel* model_;
  std::vector<int32_t> toucher_count_;  // of the model; one more than the tasks when live_out
  std::vector<int32_t> touch_count_;
  std::vector<int32_t> waiting_;  // predecessors that have not run; -1: has run itself
  std::vector<int32_t> ready_;
  std::vector<int32_t> ready_position_;
  int64_t live_ = 0;
  int32_t done_count_ = 0;

  void AddReady(int32_t task);
  void RemoveReady(int32_t task);
};

// Part of a model: tasks that run after all of `before` and before all others, in whatever order
// among themselves. task_of[i] is the task of the whole model.
struct OrderPart {
  OrderModel model;
  std::vector<int32_t> task_of;
};
// Cuts parts out of a model, one after the other, each in time linear in its own size.
class PartExtractor {
 public:
  explicit PartExtractor(const OrderModel& model);

  // The part of `tasks`, after those that `state` (of the same model) has run. All that `tasks`
  // need is among them or has run.
  OrderPart Extract(const ExecutionState& state, std::vector<int32_t> tasks);

 private:
  const OrderModel* model_;
  std::vector<int32_t> local_task_, local_storage_;  // -1: not in the part
};

// The largest sum of saved bytes of offers that share no storage; a larger number where more than a
// dozen are tied together by common storages.
int64_t BestSaving(std::span<const OrderOffer> applicable);

// Live bytes at each step; `order` must be legal.
std::vector<int64_t> LiveBytesByStep(const OrderModel& model, std::span<const int32_t> order);
// The most of them: what the bounds of all placements for this order start from.
int64_t OrderPeak(const OrderModel& model, std::span<const int32_t> order);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_ORDER_MODEL_H_
