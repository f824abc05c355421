// Small random problems with every feature of PlanProblem, for comparison with brute force.
#ifndef ONNX_MEMPLAN_TESTS_PLAN_RANDOM_PROBLEMS_H_
#define ONNX_MEMPLAN_TESTS_PLAN_RANDOM_PROBLEMS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "onnx_memplan/plan.h"
#include "plan/order_model.h"
#include "plan/problem.h"

namespace onnx_memplan::testing {

struct RandomProblemOptions {
  int32_t max_tasks = 7;
  int32_t max_storages = 8;
  int64_t max_bytes = 9;
  // Largest power of two among the alignments.
  int32_t max_alignment_log2 = 0;
};

// Storages with one or several writers, live_in, live_out and both; tasks with scratch, control
// edges and in-place options, sensible or not. `random()` gives unsigned integers.
template <typename Random>
PlanProblem MakeRandomProblem(Random& random, const RandomProblemOptions& options) {
  const auto below = [&](int64_t bound) {
    return static_cast<int32_t>(random() % static_cast<uint64_t>(bound));
  };
  PlanProblem problem;
  const int32_t tasks = 1 + below(options.max_tasks);
  const int32_t storages = 1 + below(options.max_storages);
  problem.tasks.resize(tasks);
  problem.storages.resize(storages);
  for (Storage& storage : problem.storages) {
    storage.bytes = below(options.max_bytes + 1);
    storage.alignment = int64_t{1} << below(options.max_alignment_log2 + 1);
    storage.live_in = below(6) == 0;
    storage.live_out = below(6) == 0;
  }
  for (int32_t s = 0; s < storages; ++s) {
    const int32_t writer = below(tasks);
    problem.tasks[writer].writes.push_back(s);
    if (below(6) == 0) problem.tasks[below(tasks)].writes.push_back(s);
    const int32_t readers = below(4);
    for (int32_t i = 0; i < readers; ++i) {
      // Readers after the writer: acyclic whatever else there is.
      const int32_t reader = writer + below(tasks - writer);
      problem.tasks[reader].reads.push_back(s);
    }
  }
  for (int32_t t = 0; t < tasks; ++t) {
    Task& task = problem.tasks[t];
    for (std::vector<int32_t>* list : {&task.reads, &task.writes}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    if (t > 0 && below(3) == 0) task.after.push_back(below(t));
    if (below(4) == 0) task.scratch_bytes = below(options.max_bytes);
    // Few enough for the best choice among them to be found by trying all.
    int32_t offers = 0;
    for (int32_t to : task.writes) {
      for (const bool read : {true, false}) {
        for (int32_t from : read ? task.reads : task.writes) {
          if (from == to || below(read ? 2 : 8) != 0 || offers == 10) continue;
          problem.in_place.push_back({.task = t, .from = from, .to = to});
          ++offers;
        }
      }
    }
  }
  return problem;
}

// Equal seeds give equal problems.
inline PlanProblem RandomProblem(uint32_t seed, const RandomProblemOptions& options = {}) {
  std::mt19937 random(seed);
  return MakeRandomProblem(random, options);
}

// Calls `visit` with every legal order.
inline void ForEachOrder(const PlanProblem& problem,
                         const std::function<void(const std::vector<int32_t>&)>& visit) {
  const auto count = static_cast<int32_t>(problem.tasks.size());
  const Precedence precedence = BuildPrecedence(problem);
  std::vector<int32_t> order;
  std::vector<bool> done(problem.tasks.size(), false);
  const std::function<void()> extend = [&] {
    if (static_cast<int32_t>(order.size()) == count) visit(order);
    for (int32_t t = 0; t < count; ++t) {
      if (done[t] || std::ranges::any_of(precedence.predecessors[t],
                                         [&](int32_t pred) { return !done[pred]; })) {
        continue;
      }
      done[t] = true;
      order.push_back(t);
      extend();
      order.pop_back();
      done[t] = false;
    }
  };
  extend();
}

// The least peak of any order, of the model alone: without what takes space at the ends only.
inline int64_t SmallestModelPeak(const PlanProblem& problem, const OrderModel& model) {
  OrderModel inner = model;
  inner.first_step_bytes = inner.last_step_bytes = 0;
  int64_t best = INT64_MAX;
  ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
    best = std::min(best, OrderPeak(inner, order));
  });
  return best;
}

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_PLAN_RANDOM_PROBLEMS_H_
