// An independent check of a plan: nothing here is shared with the planners.
//
// Lifetimes become pieces, rectangles in steps x bytes. A declared in-place pair that the plan uses
// is cut at its task into the part of `from` before it, the part of `to` after it, and one piece
// for the step itself that covers the larger of both. A sweep over the steps then keeps the pieces
// of one step in address order; two that share a byte are neighbours when the second one enters.
#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "onnx_memplan/plan.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 62;

struct Span {
  int32_t first = 0;
  int32_t end = 0;  // one past the last step
  bool empty() const { return first >= end; }
};

struct Piece {
  Span steps;
  int64_t low = 0;
  int64_t high = 0;  // one past the last byte
  int32_t storage = -1;
  int32_t scratch_task = -1;
};

template <typename T>
bool InRange(int32_t index, const std::vector<T>& values) {
  return index >= 0 && static_cast<size_t>(index) < values.size();
}

class Verifier {
 public:
  Verifier(const PlanProblem& problem, const Plan& plan) : problem_(problem), plan_(plan) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckShape());
    RETURN_IF_ERROR(CheckOrder());
    ComputeSpans();
    RETURN_IF_ERROR(CheckOffsets());
    RETURN_IF_ERROR(CheckExtent());
    return CheckOverlap();
  }

 private:
  std::string StorageName(int32_t storage) const {
    return absl::StrCat("storage ", storage, " \"",
                        problem_.storages[static_cast<size_t>(storage)].name, "\"");
  }
  std::string TaskName(int32_t task) const {
    return absl::StrCat("task ", task, " \"", problem_.tasks[static_cast<size_t>(task)].name, "\"");
  }
  std::string PieceName(const Piece& piece) const {
    return absl::StrFormat("%s, bytes [%d, %d)",
                           piece.storage >= 0
                               ? StorageName(piece.storage)
                               : absl::StrCat("the scratch of ", TaskName(piece.scratch_task)),
                           piece.low, piece.high);
  }

  absl::Status CheckShape() const {
    if (plan_.order.size() != problem_.tasks.size()) {
      return absl::InvalidArgumentError(absl::StrFormat("the order has %d steps for %d tasks",
                                                        plan_.order.size(), problem_.tasks.size()));
    }
    if (plan_.offsets.size() != problem_.storages.size()) {
      return absl::InvalidArgumentError(absl::StrFormat("the plan has %d offsets for %d storages",
                                                        plan_.offsets.size(),
                                                        problem_.storages.size()));
    }
    if (plan_.scratch_offsets.size() != problem_.tasks.size()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("the plan has %d scratch offsets for %d tasks",
                          plan_.scratch_offsets.size(), problem_.tasks.size()));
    }
    for (size_t t = 0; t < problem_.tasks.size(); ++t) {
      const Task& task = problem_.tasks[t];
      bool good = task.scratch_bytes >= 0 && task.scratch_alignment > 0;
      for (int32_t s : task.reads) good = good && InRange(s, problem_.storages);
      for (int32_t s : task.writes) good = good && InRange(s, problem_.storages);
      for (int32_t a : task.after) good = good && InRange(a, problem_.tasks);
      if (!good) {
        return absl::InvalidArgumentError(
            absl::StrCat("malformed problem at ", TaskName(static_cast<int32_t>(t))));
      }
    }
    for (size_t s = 0; s < problem_.storages.size(); ++s) {
      if (problem_.storages[s].bytes < 0 || problem_.storages[s].alignment <= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("malformed problem at ", StorageName(static_cast<int32_t>(s))));
      }
    }
    for (const InPlaceOption& option : problem_.in_place) {
      if (!InRange(option.task, problem_.tasks) || !InRange(option.from, problem_.storages) ||
          !InRange(option.to, problem_.storages)) {
        return absl::InvalidArgumentError("malformed problem: in-place option out of range");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckOrder() {
    step_of_task_.assign(problem_.tasks.size(), -1);
    for (size_t step = 0; step < plan_.order.size(); ++step) {
      const int32_t task = plan_.order[step];
      if (!InRange(task, problem_.tasks)) {
        return absl::InvalidArgumentError(
            absl::StrFormat("step %d runs task %d, which does not exist", step, task));
      }
      int32_t& known = step_of_task_[static_cast<size_t>(task)];
      if (known >= 0) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%s runs at steps %d and %d", TaskName(task), known, step));
      }
      known = static_cast<int32_t>(step);
      if (problem_.fixed_order && static_cast<size_t>(task) != step) {
        return absl::InvalidArgumentError(
            absl::StrFormat("the order is fixed, but step %d runs %s", step, TaskName(task)));
      }
    }
    return CheckPrecedence();
  }

  absl::Status CheckPrecedence() const {
    // By storage: the only writing task; -1 none, -2 several.
    std::vector<int32_t> writer(problem_.storages.size(), -1);
    for (size_t t = 0; t < problem_.tasks.size(); ++t) {
      const auto task = static_cast<int32_t>(t);
      for (int32_t s : problem_.tasks[t].writes) {
        int32_t& known = writer[static_cast<size_t>(s)];
        known = (known == -1 || known == task) ? task : -2;
      }
    }
    for (size_t t = 0; t < problem_.tasks.size(); ++t) {
      const auto task = static_cast<int32_t>(t);
      for (int32_t before : problem_.tasks[t].after) {
        if (step_of_task_[static_cast<size_t>(before)] >= step_of_task_[t]) {
          return absl::InvalidArgumentError(
              absl::StrCat(TaskName(task), " must run after ", TaskName(before), " and does not"));
        }
      }
      for (int32_t s : problem_.tasks[t].reads) {
        const int32_t by = writer[static_cast<size_t>(s)];
        if (by < 0 || by == task || problem_.storages[static_cast<size_t>(s)].live_in) continue;
        if (step_of_task_[static_cast<size_t>(by)] >= step_of_task_[t]) {
          return absl::InvalidArgumentError(absl::StrCat(TaskName(task), " reads ", StorageName(s),
                                                         " before ", TaskName(by), " writes it"));
        }
      }
    }
    return absl::OkStatus();
  }

  void ComputeSpans() {
    // Without tasks, storages with data still need a place: one step stands for "before and after".
    const int32_t steps = std::max<int32_t>(1, static_cast<int32_t>(plan_.order.size()));
    spans_.assign(problem_.storages.size(), Span{.first = steps, .end = 0});
    for (size_t t = 0; t < problem_.tasks.size(); ++t) {
      const int32_t step = step_of_task_[t];
      for (const std::vector<int32_t>* list :
           {&problem_.tasks[t].reads, &problem_.tasks[t].writes}) {
        for (int32_t s : *list) {
          Span& span = spans_[static_cast<size_t>(s)];
          span.first = std::min(span.first, step);
          span.end = std::max(span.end, step + 1);
        }
      }
    }
    for (size_t s = 0; s < spans_.size(); ++s) {
      Span& span = spans_[s];
      if (problem_.storages[s].live_in) {
        span.first = 0;
        span.end = std::max(span.end, 1);
      }
      if (problem_.storages[s].live_out) {
        span.first = std::min(span.first, steps - 1);
        span.end = steps;
      }
    }
  }

  absl::Status CheckOffsets() const {
    for (size_t s = 0; s < spans_.size(); ++s) {
      if (spans_[s].empty()) continue;
      const Storage& storage = problem_.storages[s];
      const auto index = static_cast<int32_t>(s);
      const int64_t offset = plan_.offsets[s];
      if (offset < 0 || offset > kMaxBytes || storage.bytes > kMaxBytes) {
        return absl::InvalidArgumentError(
            absl::StrCat(StorageName(index), " has an offset out of range: ", offset));
      }
      if (offset % storage.alignment != 0) {
        return absl::InvalidArgumentError(absl::StrCat(StorageName(index), " has the offset ",
                                                       offset, ", not a multiple of its alignment ",
                                                       storage.alignment));
      }
      if (storage.fixed_offset.has_value() && offset != *storage.fixed_offset) {
        return absl::InvalidArgumentError(absl::StrCat(StorageName(index), " has the offset ",
                                                       offset, " but is fixed at ",
                                                       *storage.fixed_offset));
      }
    }
    for (size_t t = 0; t < problem_.tasks.size(); ++t) {
      const Task& task = problem_.tasks[t];
      if (task.scratch_bytes == 0) continue;
      const int64_t offset = plan_.scratch_offsets[t];
      if (offset < 0 || offset > kMaxBytes || task.scratch_bytes > kMaxBytes ||
          offset % task.scratch_alignment != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("the scratch of ", TaskName(static_cast<int32_t>(t)), " has the offset ",
                         offset, ", alignment ", task.scratch_alignment));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckExtent() const {
    int64_t extent = 0;
    for (size_t s = 0; s < spans_.size(); ++s) {
      if (spans_[s].empty() || problem_.storages[s].bytes == 0) continue;
      extent = std::max(extent, plan_.offsets[s] + problem_.storages[s].bytes);
    }
    for (size_t t = 0; t < problem_.tasks.size(); ++t) {
      if (problem_.tasks[t].scratch_bytes == 0) continue;
      extent = std::max(extent, plan_.scratch_offsets[t] + problem_.tasks[t].scratch_bytes);
    }
    if (extent != plan_.arena_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("arena_bytes is ", plan_.arena_bytes, " but the storages end at ", extent));
    }
    if (plan_.lower_bound > plan_.arena_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("the lower bound ", plan_.lower_bound,
                                                     " is above arena_bytes ", plan_.arena_bytes));
    }
    if (plan_.proven_optimal && plan_.lower_bound != plan_.arena_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan claims to be proven optimal with arena_bytes ", plan_.arena_bytes,
                       " and the lower bound ", plan_.lower_bound));
    }
    if (problem_.capacity.has_value() && plan_.arena_bytes > *problem_.capacity) {
      return absl::InvalidArgumentError(absl::StrCat(
          "arena_bytes ", plan_.arena_bytes, " is above the capacity ", *problem_.capacity));
    }
    return absl::OkStatus();
  }

  std::vector<Piece> MakePieces() const {
    std::vector<Span> rest = spans_;  // what no in-place piece has taken over
    std::vector<Piece> pieces;
    std::vector<std::array<int32_t, 3>> options;
    for (const InPlaceOption& option : problem_.in_place) {
      options.push_back({option.task, option.from, option.to});
    }
    std::sort(options.begin(), options.end());
    options.erase(std::unique(options.begin(), options.end()), options.end());
    std::set<std::array<int32_t, 3>> joined;  // step and pair
    for (const auto& [task, from_index, to_index] : options) {
      const auto from = static_cast<size_t>(from_index);
      const auto to = static_cast<size_t>(to_index);
      const int32_t step = step_of_task_[static_cast<size_t>(task)];
      if (from == to || spans_[from].end != step + 1 || spans_[to].first != step ||
          spans_[from].empty() || spans_[to].empty() || plan_.offsets[from] != plan_.offsets[to]) {
        continue;
      }
      // The span of a storage that lives on past the task by live_out, or from before it by
      // live_in, may still end or begin at this step; then the task is not its last or first
      // toucher.
      if (problem_.storages[from].live_out || problem_.storages[to].live_in) continue;
      if (problem_.storages[from].bytes == 0 || problem_.storages[to].bytes == 0) continue;
      if (!Touches(task, from_index) || !Touches(task, to_index)) continue;
      // A pair that one task offers in both directions is one piece.
      const auto [low, high] = std::minmax(from_index, to_index);
      if (!joined.insert({step, low, high}).second) continue;
      rest[from].end = step;
      rest[to].first = step + 1;
      pieces.push_back({.steps = {step, step + 1},
                        .low = plan_.offsets[from],
                        .high = plan_.offsets[from] + std::max(problem_.storages[from].bytes,
                                                               problem_.storages[to].bytes),
                        .storage = from_index});
    }
    for (size_t s = 0; s < rest.size(); ++s) {
      pieces.push_back({.steps = rest[s],
                        .low = plan_.offsets[s],
                        .high = plan_.offsets[s] + problem_.storages[s].bytes,
                        .storage = static_cast<int32_t>(s)});
    }
    for (size_t t = 0; t < problem_.tasks.size(); ++t) {
      pieces.push_back({.steps = {step_of_task_[t], step_of_task_[t] + 1},
                        .low = plan_.scratch_offsets[t],
                        .high = plan_.scratch_offsets[t] + problem_.tasks[t].scratch_bytes,
                        .scratch_task = static_cast<int32_t>(t)});
    }
    std::erase_if(
        pieces, [](const Piece& piece) { return piece.steps.empty() || piece.low >= piece.high; });
    return pieces;
  }

  bool Touches(int32_t task, int32_t storage) const {
    const Task& t = problem_.tasks[static_cast<size_t>(task)];
    return std::find(t.reads.begin(), t.reads.end(), storage) != t.reads.end() ||
           std::find(t.writes.begin(), t.writes.end(), storage) != t.writes.end();
  }

  absl::Status Conflict(const Piece& a, const Piece& b) const {
    return absl::InvalidArgumentError(absl::StrFormat("%s and %s overlap at step %d", PieceName(a),
                                                      PieceName(b),
                                                      std::max(a.steps.first, b.steps.first)));
  }

  absl::Status CheckOverlap() const {
    std::vector<Piece> pieces = MakePieces();
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
      return std::pair(a.steps.first, a.low) < std::pair(b.steps.first, b.low);
    });
    std::map<int64_t, const Piece*> live;  // by first byte
    using Leaving = std::pair<int32_t, int64_t>;
    std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> leaving;
    for (const Piece& piece : pieces) {
      while (!leaving.empty() && leaving.top().first <= piece.steps.first) {
        live.erase(leaving.top().second);
        leaving.pop();
      }
      const auto above = live.lower_bound(piece.low);
      if (above != live.end() && above->first < piece.high) return Conflict(*above->second, piece);
      if (above != live.begin()) {
        const Piece& below = *std::prev(above)->second;
        if (below.high > piece.low) return Conflict(below, piece);
      }
      live.emplace_hint(above, piece.low, &piece);
      leaving.emplace(piece.steps.end, piece.low);
    }
    return absl::OkStatus();
  }

  const PlanProblem& problem_;
  const Plan& plan_;
  std::vector<int32_t> step_of_task_;
  std::vector<Span> spans_;
};

}  // namespace

absl::Status VerifyPlan(const PlanProblem& problem, const Plan& plan) {
  return Verifier(problem, plan).Run();
}

}  // namespace onnx_memplan
