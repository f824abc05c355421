// The fewest bytes that are live while task t runs, over all states in which another task u has run
// (or has not), is a minimum cut as for a single task (order_bounds.h), with u on the source side
// (the sink side). Where that is more than the budget, u runs after t (before t) in every order
// within the budget. This is the edge finding of scheduling theory (J. Carlier, E. Pinson, 1989),
// with cuts in the place of machines. It settles where tasks belong that depend on little, such as
// values that are computed again: they may run nearly anywhere, but hold bytes from then on.
//
// A cut within the budget is a state: what is on its source side may run before t, what is not may
// run after it. So one cut answers for many tasks. Others are tested in groups, and a group is
// halved only when it does not pass as a whole.
#include "plan/order_tighten.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "plan/min_cut.h"
#include "plan/order_bounds.h"
#include "plan/task_reach.h"

namespace onnx_memplan {
namespace {

// The last ones add little.
constexpr int kMaxRounds = 4;

// The states in which one task can run, as cuts. Only tasks that may have run or not are nodes, and
// storages whose life depends on those.
class StatesOfTask {
 public:
  // `others`: the tasks that are neither before nor after `task` by `reach`. `node_of`, by task, is
  // -1 and is left so.
  StatesOfTask(const OrderModel& model, const TaskReach& reach, const TaskLists& predecessors,
               int32_t task, const std::vector<int32_t>& others, std::vector<int32_t>& node_of)
      : cut_(2 + static_cast<int32_t>(others.size())),
        fixed_bytes_(model.base_bytes + WorkingSetBytes(model, task)) {
    for (size_t i = 0; i < others.size(); ++i) node_of[others[i]] = 2 + static_cast<int32_t>(i);
    for (int32_t other : others) {
      source_arc_.push_back(cut_.AddArc(0, node_of[other], 0));
      sink_arc_.push_back(cut_.AddArc(node_of[other], 1, 0));
      for (int32_t pred : predecessors[other]) {
        if (node_of[pred] >= 0) cut_.AddArc(node_of[other], node_of[pred], MinCut::kInfinite);
      }
    }
    for (int32_t s = 0; s < model.storage_count; ++s) AddStorage(model, reach, task, s, node_of);
    for (int32_t other : others) node_of[other] = -1;
  }

  // Of the state of fewest bytes.
  int64_t LeastBytes() { return fixed_bytes_ + cut_.Solve(); }
  // How many more, at least, when all of `members` (indices into `others`) have run or when none of
  // them has; exact up to `enough`.
  int64_t MoreBytes(std::span<const int32_t> members, bool have_run, int64_t enough) {
    arcs_.clear();
    for (int32_t member : members) {
      arcs_.push_back((have_run ? source_arc_ : sink_arc_)[member]);
    }
    return cut_.SolveWithout(arcs_, enough);
  }
  // In the state that the last of these calls found.
  bool HasRun(int32_t member) const { return cut_.OnSourceSide(2 + member); }

 private:
  void AddStorage(const OrderModel& model, const TaskReach& reach, int32_t task, int32_t s,
                  const std::vector<int32_t>& node_of) {
    bool begun = model.live_in[s] != 0, stays = model.live_out[s] != 0, open = false;
    for (int32_t toucher : model.touchers[s]) {
      if (toucher == task) return;  // in the working set
      if (node_of[toucher] >= 0) {
        open = true;
      } else if (reach.Before(toucher, task)) {
        begun = true;
      } else {
        stays = true;
      }
    }
    if (begun && stays) fixed_bytes_ += model.bytes[s];
    if (!open || (begun && stays)) return;
    const int32_t begin_node = begun ? 0 : cut_.AddNode();
    const int32_t end_node = stays ? 1 : cut_.AddNode();
    cut_.AddArc(begin_node, end_node, model.bytes[s]);
    for (int32_t toucher : model.touchers[s]) {
      const int32_t node = node_of[toucher];
      if (node < 0) continue;
      if (!begun) cut_.AddArc(node, begin_node, MinCut::kInfinite);
      if (!stays) cut_.AddArc(end_node, node, MinCut::kInfinite);
    }
  }

  MinCut cut_;
  int64_t fixed_bytes_;
  std::vector<int32_t> source_arc_, sink_arc_;  // by member
  std::vector<int32_t> arcs_;
};

class Tightener {
 public:
  Tightener(const OrderModel& model, int64_t budget_bytes, const std::function<bool()>& stop)
      : model_(model),
        budget_bytes_(budget_bytes),
        stop_(stop),
        reach_(model.task_count, model.predecessors, model.successors),
        predecessors_(model.predecessors),
        node_of_(model.task_count, -1),
        changed_(model.task_count, 1),
        valid_below_(std::numeric_limits<int64_t>::max()) {}

  TightOrder Run() {
    for (int round = 0; round < kMaxRounds; ++round) {
      const int64_t before = added_pairs_;
      for (int32_t task : reach_.topological()) {
        if (infeasible_ || (stop_ && stop_())) return Result();
        if (changed_[task]) Place(task);
      }
      if (added_pairs_ == before) break;
      predecessors_ = AllPredecessors();
    }
    return Result();
  }

 private:
  // Finds what must run before or after `task`.
  void Place(int32_t task) {
    changed_[task] = 0;
    std::vector<int32_t> others;
    for (int32_t other : reach_.topological()) {
      if (IsOpen(task, other)) others.push_back(other);
    }
    StatesOfTask states(model_, reach_, predecessors_, task, others, node_of_);
    const int64_t least = states.LeastBytes();
    ++cuts_;
    if (least > budget_bytes_) {
      valid_below_ = std::min(valid_below_, least);
      infeasible_ = true;
      return;
    }
    may_precede_.assign(others.size(), 0);
    may_follow_.assign(others.size(), 0);
    Note(states);
    for (const bool precede : {true, false}) Test(task, others, states, least, precede);
  }

  bool IsOpen(int32_t task, int32_t other) const {
    return other != task && !reach_.Before(other, task) && !reach_.Before(task, other);
  }

  // There is a state within the budget, the last one that was found.
  void Note(const StatesOfTask& states) {
    for (size_t i = 0; i < may_precede_.size(); ++i) {
      (states.HasRun(static_cast<int32_t>(i)) ? may_precede_ : may_follow_)[i] = 1;
    }
  }

  void Test(int32_t task, const std::vector<int32_t>& others, StatesOfTask& states, int64_t least,
            bool precede) {
    // What cannot precede takes its descendants along, so that they come last.
    std::vector<int32_t> members(others.size());
    for (size_t i = 0; i < members.size(); ++i) members[i] = static_cast<int32_t>(i);
    if (!precede) std::reverse(members.begin(), members.end());
    const std::vector<uint8_t>& may = precede ? may_precede_ : may_follow_;
    std::vector<std::pair<size_t, size_t>> ranges = {{0, members.size()}};
    std::vector<int32_t> group;
    while (!ranges.empty()) {
      const auto [begin, end] = ranges.back();
      ranges.pop_back();
      group.clear();
      for (size_t i = begin; i < end; ++i) {
        if (!may[members[i]] && IsOpen(task, others[members[i]])) group.push_back(members[i]);
      }
      if (group.empty()) continue;
      ++cuts_;
      const int64_t bytes = least + states.MoreBytes(group, precede, budget_bytes_ - least);
      if (bytes <= budget_bytes_) {
        Note(states);
        continue;
      }
      if (group.size() == 1) {
        valid_below_ = std::min(valid_below_, bytes);
        const int32_t other = others[group.front()];
        precede ? AddEdge(task, other) : AddEdge(other, task);
      } else {
        const size_t middle = begin + (end - begin) / 2;
        ranges.emplace_back(middle, end);
        ranges.emplace_back(begin, middle);
      }
    }
  }

  void AddEdge(int32_t before, int32_t after) {
    edges_.emplace_back(after, before);
    added_pairs_ += reach_.Add(before, after, [&](int32_t task) { changed_[task] = 1; });
  }

  TaskLists AllPredecessors() const {
    std::vector<std::pair<int32_t, int32_t>> all = edges_;
    for (int32_t t = 0; t < model_.task_count; ++t) {
      for (int32_t pred : model_.predecessors[t]) all.emplace_back(t, pred);
    }
    return TaskLists(model_.task_count, std::move(all));
  }

  TightOrder Result() const {
    TightOrder result;
    result.infeasible = infeasible_;
    result.valid_below = valid_below_;
    result.added_pairs = added_pairs_;
    result.cuts = cuts_;
    if (infeasible_) return result;
    result.model = model_;
    result.model.predecessors = AllPredecessors();
    result.model.successors = Inverse(model_.task_count, result.model.predecessors);
    return result;
  }

  const OrderModel& model_;
  const int64_t budget_bytes_;
  const std::function<bool()>& stop_;
  TaskReach reach_;
  TaskLists predecessors_;                         // with the edges of earlier rounds
  std::vector<int32_t> node_of_;                   // scratch of StatesOfTask
  std::vector<uint8_t> may_precede_, may_follow_;  // of the task at hand, by member
  std::vector<uint8_t> changed_;  // by task: what is before or after it, since it was placed
  std::vector<std::pair<int32_t, int32_t>> edges_;  // (after, before)
  int64_t valid_below_;
  int64_t added_pairs_ = 0;
  int64_t cuts_ = 0;
  bool infeasible_ = false;
};

}  // namespace

TightOrder TightenOrder(const OrderModel& model, int64_t budget_bytes,
                        const std::function<bool()>& stop) {
  return Tightener(model, budget_bytes, stop).Run();
}

}  // namespace onnx_memplan
