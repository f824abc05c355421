#include "plan/exact_order_search.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "plan/min_cut.h"
#include "plan/order_bounds.h"
#include "plan/task_hash.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

// Minimum cuts over more tasks than this cost more than they save.
constexpr int32_t kMaxValleyTasks = 256;
constexpr int64_t kNodesBetweenStops = 256;

// By task: whether `lists` lead to it from `task`.
std::vector<uint8_t> Reached(int32_t task_count, int32_t task, const TaskLists& lists) {
  std::vector<uint8_t> reached(task_count, 0);
  std::vector<int32_t> queue = {task};
  for (size_t i = 0; i < queue.size(); ++i) {
    for (int32_t next : lists[queue[i]]) {
      if (reached[next]) continue;
      reached[next] = 1;
      queue.push_back(next);
    }
  }
  return reached;
}

}  // namespace

OrderSearch::OrderSearch(const OrderModel& model, int64_t table_bytes, std::function<bool()> stop)
    : model_(model),
      stop_(std::move(stop)),
      state_(model),
      failed_((static_cast<size_t>(model.task_count) + 63) / 64, table_bytes),
      done_bits_((static_cast<size_t>(model.task_count) + 63) / 64, 0),
      position_(model.task_count, -1),
      stamp_(model.storage_count, 0) {}

void OrderSearch::SetCriticalTasks(std::span<const int32_t> tasks) {
  critical_.clear();
  for (int32_t task : tasks) {
    const std::vector<uint8_t> ancestor = Reached(model_.task_count, task, model_.predecessors);
    const std::vector<uint8_t> descendant = Reached(model_.task_count, task, model_.successors);
    Critical critical{.task = task,
                      .fixed_bytes = model_.base_bytes + WorkingSetBytes(model_, task),
                      .counted = std::vector<uint8_t>(model_.storage_count, 0),
                      .begun_bytes = 0};
    for (int32_t s = 0; s < model_.storage_count; ++s) {
      const std::span<const int32_t> touchers = model_.touchers[s];
      if (std::ranges::find(touchers, task) != touchers.end()) continue;  // in the working set
      const bool needed = model_.live_out[s] || std::ranges::any_of(touchers, [&](int32_t other) {
                            return descendant[other] != 0;
                          });
      if (!needed) continue;
      const bool begun = model_.live_in[s] || std::ranges::any_of(touchers, [&](int32_t other) {
                           return ancestor[other] != 0;
                         });
      if (begun) {
        critical.fixed_bytes += model_.bytes[s];
      } else {
        critical.counted[s] = 1;
      }
    }
    critical_.push_back(std::move(critical));
  }
}

void OrderSearch::Restart() {
  state_.Reset();
  trail_.clear();
  trail_live_.assign(1, state_.live());
  std::fill(done_bits_.begin(), done_bits_.end(), 0);
  std::fill(position_.begin(), position_.end(), -1);
  hash_ = 0;
  frames_.clear();
  candidates_.clear();
  for (Critical& critical : critical_) critical.begun_bytes = 0;
}

void OrderSearch::Run(int32_t task) {
  for (Critical& critical : critical_) {
    for (int32_t s : model_.touched[task]) {
      if (critical.counted[s] && state_.touch_count(s) == 0) {
        critical.begun_bytes += model_.bytes[s];
      }
    }
  }
  state_.Run(task);
  position_[task] = static_cast<int32_t>(trail_.size());
  trail_.push_back(task);
  trail_live_.push_back(state_.live());
  done_bits_[task / 64] |= uint64_t{1} << (task % 64);
  hash_ ^= TaskHash(task);
}

void OrderSearch::UndoTo(int32_t trail_length) {
  while (static_cast<int32_t>(trail_.size()) > trail_length) {
    const int32_t task = trail_.back();
    trail_.pop_back();
    trail_live_.pop_back();
    position_[task] = -1;
    state_.Undo(task);
    done_bits_[task / 64] &= ~(uint64_t{1} << (task % 64));
    hash_ ^= TaskHash(task);
    for (Critical& critical : critical_) {
      for (int32_t s : model_.touched[task]) {
        if (critical.counted[s] && state_.touch_count(s) == 0) {
          critical.begun_bytes -= model_.bytes[s];
        }
      }
    }
  }
}

void OrderSearch::Reject(int64_t bytes) { lowest_rejected_ = std::min(lowest_rejected_, bytes); }

bool OrderSearch::PassesCriticalBound() {
  for (const Critical& critical : critical_) {
    if (state_.done(critical.task)) continue;
    const int64_t bound = critical.fixed_bytes + critical.begun_bytes;
    if (bound > budget_bytes_) {
      Reject(bound);
      return false;
    }
  }
  return true;
}

void OrderSearch::Enter(int32_t trail_begin) {
  ++total_nodes_;
  const size_t begin = candidates_.size();
  while (true) {
    candidates_.resize(begin);
    Candidate safe{.after = std::numeric_limits<int64_t>::max(), .during = 0, .task = -1};
    for (int32_t task : state_.ready()) {
      const ExecutionState::Effect effect = state_.Try(task);
      if (effect.during > budget_bytes_) {
        Reject(effect.during);
        continue;
      }
      const Candidate candidate{.after = effect.after, .during = effect.during, .task = task};
      if (effect.after <= state_.live()) {
        if (std::tuple(effect.after, task) < std::tuple(safe.after, safe.task)) safe = candidate;
      } else {
        candidates_.push_back(candidate);
      }
    }
    if (safe.task < 0) break;
    Run(safe.task);
  }
  frames_.push_back({.trail_begin = trail_begin,
                     .trail_end = static_cast<int32_t>(trail_.size()),
                     .candidate_begin = begin,
                     .candidate_next = begin});
  if (state_.done_count() == model_.task_count) return;
  if (!PassesCriticalBound()) {
    candidates_.resize(begin);
  } else if (failed_.Contains(hash_, done_bits_)) {
    // What made it fail in an earlier call is not known; in this call it has been counted.
    if (reuses_failed_) Reject(budget_bytes_ + 1);
    candidates_.resize(begin);
  }
  std::sort(candidates_.begin() + static_cast<int64_t>(begin), candidates_.end(),
            [](const Candidate& a, const Candidate& b) {
              return std::tuple(a.after, a.during, a.task) < std::tuple(b.after, b.during, b.task);
            });
}

bool OrderSearch::IsValley(int32_t begin, int32_t end) {
  // Nodes: one for each task between, two for each storage whose life changes there.
  ++stamp_now_;
  MinCut cut(2 + (end - begin));
  const auto node = [&](int32_t task) { return 2 + position_[task] - begin; };
  int64_t live_at_end = 0;
  for (int32_t i = begin; i < end; ++i) {
    const int32_t task = trail_[i];
    for (int32_t pred : model_.predecessors[task]) {
      if (position_[pred] >= begin) cut.AddArc(node(task), node(pred), MinCut::kInfinite);
    }
    for (int32_t s : model_.touched[task]) {
      if (stamp_[s] == stamp_now_) continue;
      stamp_[s] = stamp_now_;
      bool begun = model_.live_in[s] != 0, stays = model_.live_out[s] != 0;
      for (int32_t other : model_.touchers[s]) {
        begun = begun || (position_[other] >= 0 && position_[other] < begin);
        stays = stays || position_[other] < 0;
      }
      if (begun && stays) continue;
      if (stays) live_at_end += model_.bytes[s];
      const int32_t begin_node = begun ? 0 : cut.AddNode();
      const int32_t end_node = stays ? 1 : cut.AddNode();
      cut.AddArc(begin_node, end_node, model_.bytes[s]);
      for (int32_t other : model_.touchers[s]) {
        if (position_[other] < begin) continue;
        if (!begun) cut.AddArc(node(other), begin_node, MinCut::kInfinite);
        if (!stays) cut.AddArc(end_node, node(other), MinCut::kInfinite);
      }
    }
  }
  return cut.Solve() >= live_at_end;
}

int32_t OrderSearch::FurthestValleyFrame() {
  const auto top = static_cast<int32_t>(frames_.size()) - 1;
  const int32_t end = frames_[top].trail_end;
  const int64_t live = trail_live_[end];
  int32_t furthest = top;
  int32_t checked = end;
  while (furthest > 0 && end - frames_[furthest - 1].trail_end <= kMaxValleyTasks) {
    const int32_t begin = frames_[furthest - 1].trail_end;
    bool low = false;
    for (; checked >= begin; --checked) low = low || trail_live_[checked] < live;
    if (low) break;
    --furthest;
  }
  // Between S and W a valley of S is one of every state on the path, so the frames with the
  // property are the upper ones.
  for (int32_t frame = furthest; frame < top; frame += (top - frame + 1) / 2) {
    if (IsValley(frames_[frame].trail_end, end)) return frame;
  }
  return top;
}

bool OrderSearch::Fail() {
  while (true) {
    failed_.Insert(hash_, done_bits_);
    if (frames_.size() == 1) return false;
    const int32_t target = FurthestValleyFrame();
    const auto top = static_cast<int32_t>(frames_.size()) - 1;
    if (target == top) {
      UndoTo(frames_[top].trail_begin);
      candidates_.resize(frames_[top].candidate_begin);
      frames_.pop_back();
      if (frames_.back().candidate_next < candidates_.size()) return true;
      continue;  // the parent has nothing left to try: it has failed as well
    }
    while (static_cast<int32_t>(frames_.size()) - 1 > target) {
      UndoTo(frames_.back().trail_begin);
      candidates_.resize(frames_.back().candidate_begin);
      frames_.pop_back();
      failed_.Insert(hash_, done_bits_);
    }
  }
}

OrderVerdict OrderSearch::Decide(int64_t budget_bytes, int64_t node_limit) {
  if (budget_bytes > budget_bytes_) failed_.Clear();
  budget_bytes_ = budget_bytes;
  reuses_failed_ = failed_.size() > 0;
  lowest_rejected_ = std::numeric_limits<int64_t>::max();
  Restart();
  const int64_t last_node = total_nodes_ + node_limit;
  Enter(0);
  while (true) {
    if (state_.done_count() == model_.task_count) {
      order_ = trail_;
      return OrderVerdict::kFound;
    }
    Frame& frame = frames_.back();
    if (frame.candidate_next == candidates_.size()) {
      if (!Fail()) return OrderVerdict::kInfeasible;
      continue;
    }
    if (total_nodes_ >= last_node || (total_nodes_ % kNodesBetweenStops == 0 && stop_ && stop_())) {
      return OrderVerdict::kStopped;
    }
    const int32_t task = candidates_[frame.candidate_next++].task;
    const auto trail_begin = static_cast<int32_t>(trail_.size());
    Run(task);
    Enter(trail_begin);
  }
}

}  // namespace onnx_memplan
