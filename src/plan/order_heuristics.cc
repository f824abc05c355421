#include "plan/order_heuristics.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace onnx_memplan {

std::vector<int32_t> ProgramOrder(const OrderModel& model) {
  return ProgramOrder(
      Precedence{.predecessors = model.predecessors, .successors = model.successors},
      model.task_count);
}

std::vector<int32_t> DepthFirstOrder(const OrderModel& model) {
  // The bytes that a task leaves behind, by which its consumer ranks it.
  std::vector<int64_t> weight(model.task_count, 0);
  for (int32_t t = 0; t < model.task_count; ++t) {
    for (int32_t s : model.touched[t]) weight[t] += model.bytes[s];
  }
  std::vector<int32_t> order;
  order.reserve(model.task_count);
  std::vector<uint8_t> seen(model.task_count, 0);
  struct Visit {
    int32_t task;
    std::vector<int32_t> inputs;  // still to run, the first one last
  };
  std::vector<Visit> stack;
  const auto open = [&](int32_t task) {
    seen[task] = 1;
    const auto preds = model.predecessors[task];
    std::vector<int32_t> inputs(preds.begin(), preds.end());
    std::stable_sort(inputs.begin(), inputs.end(),
                     [&](int32_t a, int32_t b) { return weight[a] < weight[b]; });
    stack.push_back({task, std::move(inputs)});
  };
  for (int32_t root = 0; root < model.task_count; ++root) {
    if (seen[root] || !model.successors[root].empty()) continue;
    open(root);
    while (!stack.empty()) {
      std::vector<int32_t>& inputs = stack.back().inputs;
      if (inputs.empty()) {
        order.push_back(stack.back().task);
        stack.pop_back();
        continue;
      }
      const int32_t next = inputs.back();
      inputs.pop_back();
      if (!seen[next]) open(next);
    }
  }
  return order;
}

namespace {

// List scheduling in O((tasks + touches) log tasks): what a ready task would add to the live bytes
// changes only when a storage that it touches begins, or when it becomes the storage's last one.
class ListScheduler {
 public:
  ListScheduler(const OrderModel& model, ListRule rule)
      : model_(model), rule_(rule), state_(model), change_(model.task_count) {}

  std::vector<int32_t> Run() {
    std::vector<int32_t> order;
    order.reserve(model_.task_count);
    for (int32_t task : state_.ready()) Refresh(task);
    while (!state_.ready().empty()) {
      const int32_t task = Choose();
      peak_ = std::max(peak_, state_.Run(task).during);
      change_[task].version = -1;
      order.push_back(task);
      Notify(task);
    }
    return order;
  }

 private:
  // Live bytes after and during the task, above what is live before it.
  struct Change {
    int64_t after = 0;
    int64_t during = 0;
    int32_t version = 0;
  };
  // (key, task, version); entries of old versions are skipped.
  using Entry = std::tuple<int64_t, int32_t, int32_t>;
  using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;
  // How many tasks that do not fit under the peak are looked at before one that needs least.
  static constexpr int kLooks = 64;

  void Refresh(int32_t task) {
    const ExecutionState::Effect effect = state_.Try(task);
    Change& change = change_[task];
    change.after = effect.after - state_.live();
    change.during = effect.during - state_.live();
    ++change.version;
    by_after_.emplace(change.after, task, change.version);
    by_during_.emplace(change.during, task, change.version);
  }

  void Notify(int32_t done) {
    for (int32_t s : model_.touched[done]) {
      if (state_.touch_count(s) != 1 && state_.touches_left(s) != 1) continue;
      for (int32_t other : model_.touchers[s]) {
        if (state_.is_ready(other)) Refresh(other);
      }
    }
    for (int32_t next : model_.successors[done]) {
      if (state_.is_ready(next)) Refresh(next);
    }
  }

  bool Stale(const Entry& entry) const {
    return change_[std::get<1>(entry)].version != std::get<2>(entry);
  }
  int32_t Top(Heap& heap) const {
    while (Stale(heap.top())) heap.pop();
    return std::get<1>(heap.top());
  }

  int32_t Choose() {
    if (rule_ == ListRule::kLive) return Top(by_after_);
    std::vector<Entry> too_large;
    int32_t chosen = -1;
    while (chosen < 0 && too_large.size() < kLooks && !by_after_.empty()) {
      const Entry entry = by_after_.top();
      if (!Stale(entry) && state_.live() + change_[std::get<1>(entry)].during <= peak_) {
        chosen = std::get<1>(entry);
        break;
      }
      if (!Stale(entry)) too_large.push_back(entry);
      by_after_.pop();
    }
    for (const Entry& entry : too_large) by_after_.push(entry);
    return chosen >= 0 ? chosen : Top(by_during_);
  }

  const OrderModel& model_;
  ListRule rule_;
  ExecutionState state_;
  std::vector<Change> change_;
  Heap by_after_, by_during_;
  int64_t peak_ = 0;
};

}  // namespace

std::vector<int32_t> ListOrder(const OrderModel& model, ListRule rule) {
  return ListScheduler(model, rule).Run();
}

std::vector<int32_t> ReversedListOrder(const OrderModel& model, ListRule rule) {
  std::vector<int32_t> order = ListOrder(ReverseOrderModel(model), rule);
  std::reverse(order.begin(), order.end());
  return order;
}

std::vector<int32_t> CriticalTasks(const OrderModel& model, std::span<const int32_t> order) {
  constexpr size_t kMost = 16;
  const std::vector<int64_t> live = LiveBytesByStep(model, order);
  std::vector<size_t> steps(order.size());
  std::iota(steps.begin(), steps.end(), size_t{0});
  std::stable_sort(steps.begin(), steps.end(),
                   [&](size_t a, size_t b) { return live[a] > live[b]; });
  std::vector<int32_t> tasks;
  for (size_t i = 0; i < std::min(steps.size(), kMost); ++i) tasks.push_back(order[steps[i]]);
  return tasks;
}

}  // namespace onnx_memplan
