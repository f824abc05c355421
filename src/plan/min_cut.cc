#include "plan/min_cut.h"

#include <algorithm>

namespace onnx_memplan {
namespace {
constexpr int32_t kSource = 0;
constexpr int32_t kSink = 1;
}  // namespace

MinCut::MinCut(int32_t node_count) : node_count_(node_count), head_(node_count, -1) {}

int32_t MinCut::AddArc(int32_t from, int32_t to, int64_t capacity) {
  const auto arc = static_cast<int32_t>(target_.size());
  target_.push_back(to);
  capacity_.push_back(capacity);
  next_.push_back(head_[from]);
  head_[from] = arc;
  target_.push_back(from);
  capacity_.push_back(0);
  next_.push_back(head_[to]);
  head_[to] = arc + 1;
  return arc / 2;
}

bool MinCut::BuildLevels() {
  level_.assign(node_count_, -1);
  queue_.clear();
  queue_.push_back(kSource);
  level_[kSource] = 0;
  for (size_t i = 0; i < queue_.size(); ++i) {
    const int32_t node = queue_[i];
    for (int32_t arc = head_[node]; arc >= 0; arc = next_[arc]) {
      if (residual_[arc] > 0 && level_[target_[arc]] < 0) {
        level_[target_[arc]] = level_[node] + 1;
        queue_.push_back(target_[arc]);
      }
    }
  }
  return level_[kSink] >= 0;
}

// One path of the level graph, without recursion; 0 when there is none left.
int64_t MinCut::Augment() {
  path_.clear();
  int32_t node = kSource;
  while (node != kSink) {
    int32_t& arc = cursor_[node];
    while (arc >= 0 && (residual_[arc] <= 0 || level_[target_[arc]] != level_[node] + 1)) {
      arc = next_[arc];
    }
    if (arc >= 0) {
      path_.push_back(arc);
      node = target_[arc];
      continue;
    }
    if (path_.empty()) return 0;
    node = target_[path_.back() ^ 1];
    path_.pop_back();
    cursor_[node] = next_[cursor_[node]];
  }
  int64_t flow = kInfinite;
  for (int32_t arc : path_) flow = std::min(flow, residual_[arc]);
  for (int32_t arc : path_) {
    residual_[arc] -= flow;
    residual_[arc ^ 1] += flow;
  }
  return flow;
}

int64_t MinCut::Solve(int64_t enough) {
  residual_ = capacity_;
  return Flow(enough);
}

int64_t MinCut::SolveWithout(std::span<const int32_t> arcs, int64_t enough) {
  residual_.insert(residual_.end(), capacity_.begin() + static_cast<int64_t>(residual_.size()),
                   capacity_.end());
  saved_residual_ = residual_;
  for (int32_t arc : arcs) residual_[2 * arc] = kInfinite;
  const int64_t more = Flow(enough);
  residual_.swap(saved_residual_);
  return more;
}

int64_t MinCut::Flow(int64_t enough) {
  int64_t total = 0;
  while (BuildLevels()) {
    cursor_ = head_;
    while (const int64_t flow = Augment()) {
      total += flow;
      if (total > enough || total >= kInfinite) return total;
    }
  }
  return total;
}

}  // namespace onnx_memplan
