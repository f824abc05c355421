// Is there an order whose live bytes never pass a budget?
//
// Depth-first over sets of tasks that have run (live bytes follow from the set alone, see
// order_model.h), with four prunings. S is a closed set of tasks that have run, f(S, t) the live
// bytes while t runs at S, B the budget.
//
// Safe move. If a ready task t has f(S, t) <= B and live(S + t) <= live(S), it is run at once and
// nothing else is tried. Why: take any order that completes S within B, and move t to its front.
// Let W be a state of that order before t, u the task that runs at W. Three facts:
//   (a) live(W + t) <= live(W). live is submodular, so running t later frees no less and begins no
//       more: live(W + t) - live(W) <= live(S + t) - live(S) <= 0.
//   (b) f(W + t, u) <= f(W, u). Write f(W, u) = live(W) + begin(W, u) + extra(u) - save(W, u),
//   where
//       begin(W, u) sums what u touches and W has not begun. Let A be the part of it that t touches
//       too. At W + t, begin is smaller by bytes(A). The options of u that applied at W still apply
//       (`from` has been left by at least as many touchers, storages of S are never un-ended)
//       unless their `to` is in A; a matching has at most one option for each `to`, and each saves
//       at most the bytes of its `to`, so save is smaller by at most bytes(A). So
//       f(W + t, u) - f(W, u) <= live(W + t) - live(W) <= 0 by (a).
//   (c) States after t are unchanged.
//   Storages with several writers need nothing more: A is made of exactly those. Scratch is part of
//   extra(u). live_in and live_out only fix one end of a storage's cut function. QED
// The same holds for a set Q of tasks instead of t when some order of Q from S is within B and
// live(S + Q) <= live(Y) for every closed Y between S and S + Q: by submodularity
// live(W u Q) + live((W) n (S + Q)) <= live(W) + live(S + Q), hence live(W u Q) <= live(W), which
// is (a), and (b) follows from it as before. S + Q is called a valley of S.
//
// Valley. When a state W has failed, every ancestor S on the search path of which W is a valley has
// failed too, with all its other children: completions of S may be assumed to pass through W. The
// condition is a minimum cut over the few tasks between S and W.
//
// Bound. Some tasks are known to be critical (they need the most bytes in every state). For each,
// the storages that would be live while it runs are counted along: what must be live in any case,
// and what has begun and is still needed by it or by a descendant of it.
//
// Memory. States that have failed are kept (StateTable) for this and for smaller budgets.
#ifndef ONNX_MEMPLAN_PLAN_EXACT_ORDER_SEARCH_H_
#define ONNX_MEMPLAN_PLAN_EXACT_ORDER_SEARCH_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/order_model.h"
#include "plan/state_table.h"

namespace onnx_memplan {

enum class OrderVerdict {
  kFound,       // order() is within the budget
  kInfeasible,  // no order is; lowest_rejected() is a bound for all of them
  kStopped,     // a limit was hit: nothing is known
};

class OrderSearch {
 public:
  OrderSearch(const OrderModel& model, int64_t table_bytes, std::function<bool()> stop);
  OrderSearch(const OrderSearch&) = delete;
  OrderSearch& operator=(const OrderSearch&) = delete;

  // Looks at no more than `node_limit` states. What failed in earlier calls helps when the budget
  // is not larger than theirs, so a stopped search may be called again and goes on.
  OrderVerdict Decide(int64_t budget_bytes, int64_t node_limit);

  const std::vector<int32_t>& order() const { return order_; }
  // After kInfeasible: the fewest bytes that any order needs at some step; above the budget.
  int64_t lowest_rejected() const { return lowest_rejected_; }
  int64_t total_nodes() const { return total_nodes_; }

  // Tasks for the bound, see above; at most some dozens.
  void SetCriticalTasks(std::span<const int32_t> tasks);

 private:
  struct Candidate {
    int64_t after;
    int64_t during;
    int32_t task;
  };
  struct Frame {
    int32_t trail_begin;  // length of the trail at the parent
    int32_t trail_end;    // length of the trail at this state
    size_t candidate_begin;
    size_t candidate_next;
  };
  // A critical task; counted holds, by storage, whether it is live at the task once it has begun.
  struct Critical {
    int32_t task;
    int64_t fixed_bytes;
    std::vector<uint8_t> counted;
    int64_t begun_bytes;
  };

  const OrderModel& model_;
  std::function<bool()> stop_;
  ExecutionState state_;
  StateTable failed_;
  std::vector<uint64_t> done_bits_;
  uint64_t hash_ = 0;
  std::vector<int32_t> trail_;       // tasks that have run
  std::vector<int64_t> trail_live_;  // live bytes after so many of them
  std::vector<int32_t> position_;    // by task: in trail_, or -1
  std::vector<Frame> frames_;
  std::vector<Candidate> candidates_;
  std::vector<Critical> critical_;
  std::vector<int32_t> order_;
  // Scratch of IsValley, by storage: nodes and the call that set them.
  std::vector<int64_t> stamp_;
  int64_t stamp_now_ = 0;
  int64_t budget_bytes_ = 0;
  bool reuses_failed_ = false;
  int64_t lowest_rejected_ = 0;
  int64_t total_nodes_ = 0;

  void Restart();
  void Run(int32_t task);
  void UndoTo(int32_t trail_length);
  void Reject(int64_t bytes);
  // Runs all safe moves, then pushes a frame with the candidates that are left.
  void Enter(int32_t trail_begin);
  bool PassesCriticalBound();
  // The state at the top has failed: pops frames until one has candidates left to try. False when
  // none has: the budget is infeasible.
  bool Fail();
  int32_t FurthestValleyFrame();
  bool IsValley(int32_t begin, int32_t end);
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_EXACT_ORDER_SEARCH_H_
