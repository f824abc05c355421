// Minimum cut in a small directed graph, by Dinic's algorithm (E. A. Dinic, 1970).
#ifndef ONNX_MEMPLAN_PLAN_MIN_CUT_H_
#define ONNX_MEMPLAN_PLAN_MIN_CUT_H_

#include <cstdint>
#include <span>
#include <vector>

namespace onnx_memplan {

class MinCut {
 public:
  // Larger than any sum of bytes (CheckProblem limits those to 2^61).
  static constexpr int64_t kInfinite = int64_t{1} << 62;

  // Node 0 is the source, node 1 the sink.
  explicit MinCut(int32_t node_count);

  int32_t AddNode() {
    head_.push_back(-1);
    return node_count_++;
  }
  // An arc of `capacity` bytes. Returns its index, for SetCapacity.
  int32_t AddArc(int32_t from, int32_t to, int64_t capacity);
  void SetCapacity(int32_t arc, int64_t capacity) { capacity_[2 * arc] = capacity; }

  // The capacity of the smallest cut between source and sink; stops early, with the flow found so
  // far, once that is more than `enough`. Starts from no flow at every call.
  int64_t Solve(int64_t enough = kInfinite);
  // After a Solve that did not stop early: how much larger the smallest cut is when `arcs` have no
  // limit; stops early as Solve does. The flow of Solve stays what it was, for the next call. Arcs
  // may have been added since, not nodes.
  int64_t SolveWithout(std::span<const int32_t> arcs, int64_t enough = kInfinite);
  // After one of them that did not stop early: whether the node is on the source side of the
  // smallest such side.
  bool OnSourceSide(int32_t node) const { return level_[node] >= 0; }

 private:
  int32_t node_count_;
  std::vector<int32_t> head_;      // by node: first arc, or -1
  std::vector<int32_t> next_;      // by arc
  std::vector<int32_t> target_;    // by arc; arc 2i is what AddArc made, 2i+1 its reverse
  std::vector<int64_t> capacity_;  // by arc; the reverse arcs have 0
  std::vector<int64_t> residual_, saved_residual_;
  std::vector<int32_t> level_, cursor_, queue_, path_;

  int64_t Flow(int64_t enough);
  bool BuildLevels();
  int64_t Augment();
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_MIN_CUT_H_
