#include "plan/order_beam.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "plan/task_hash.h"

namespace onnx_memplan {
namespace {

struct BeamState {
  ExecutionState execution;
  int64_t peak = 0;
  uint64_t hash = 0;  // of the set of tasks that have run
  int32_t trace = -1;
};

struct Candidate {
  int64_t peak = 0;
  int64_t live = 0;
  uint64_t hash = 0;
  int32_t parent = 0;
  int32_t task = 0;
};

// How a state was reached; states of one beam share their beginnings.
struct Trace {
  int32_t previous = -1;
  int32_t task = 0;
};

void AddCandidates(const BeamState& state, int32_t parent, const BeamOptions& options,
                   std::vector<Candidate>& candidates) {
  const size_t begin = candidates.size();
  for (int32_t task : state.execution.ready()) {
    const ExecutionState::Effect effect = state.execution.Try(task);
    const int64_t peak = std::max(state.peak, effect.during);
    if (peak > options.limit_bytes) continue;
    const Candidate candidate{.peak = peak,
                              .live = effect.after,
                              .hash = state.hash ^ TaskHash(task),
                              .parent = parent,
                              .task = task};
    if (peak == state.peak && effect.after <= state.execution.live()) {
      candidates.resize(begin);
      candidates.push_back(candidate);
      return;
    }
    candidates.push_back(candidate);
  }
}

// The `width` best candidates, one for each set of tasks.
void KeepBest(int32_t width, std::vector<Candidate>& candidates) {
  const auto key = [](const Candidate& c) {
    return std::tuple(c.peak, c.live, c.hash, c.parent, c.task);
  };
  std::sort(candidates.begin(), candidates.end(),
            [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
  // Equal sets have equal live bytes, so the best of them comes first; two sets with one hash would
  // only make the beam narrower.
  std::unordered_map<uint64_t, bool> seen;
  size_t kept = 0;
  for (const Candidate& candidate : candidates) {
    if (!seen.emplace(candidate.hash, true).second) continue;
    candidates[kept++] = candidate;
    if (kept == static_cast<size_t>(width)) break;
  }
  candidates.resize(kept);
}

}  // namespace

std::vector<int32_t> BeamOrder(const OrderModel& model, const BeamOptions& options) {
  std::vector<BeamState> beam, next;
  beam.push_back({.execution = ExecutionState(model), .peak = options.bound_bytes});
  std::vector<Trace> traces;
  std::vector<Candidate> candidates;
  for (int32_t step = 0; step < model.task_count; ++step) {
    if (options.stop && options.stop()) return {};
    candidates.clear();
    for (size_t i = 0; i < beam.size(); ++i) {
      AddCandidates(beam[i], static_cast<int32_t>(i), options, candidates);
    }
    if (candidates.empty()) return {};
    KeepBest(options.width, candidates);
    while (next.size() < candidates.size()) next.push_back(beam.front());
    next.erase(next.begin() + static_cast<int64_t>(candidates.size()), next.end());
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& candidate = candidates[i];
      next[i] = beam[candidate.parent];
      next[i].execution.Run(candidate.task);
      next[i].peak = candidate.peak;
      next[i].hash = candidate.hash;
      traces.push_back({.previous = beam[candidate.parent].trace, .task = candidate.task});
      next[i].trace = static_cast<int32_t>(traces.size()) - 1;
    }
    std::swap(beam, next);
  }
  std::vector<int32_t> order;
  for (int32_t t = beam.front().trace; t >= 0; t = traces[t].previous) {
    order.push_back(traces[t].task);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace onnx_memplan
