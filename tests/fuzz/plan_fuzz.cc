// Small problems from bytes: every planner's plan is legal (Planner::Run verifies), bounds and
// proofs agree with the least peak over all orders and with each other.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "onnx_memplan/plan.h"
#include "plan/liveness.h"
#include "plan/random_problems.h"

namespace {

using onnx_memplan::Plan;
using onnx_memplan::PlanProblem;

// The bytes, two at a time, then zeros.
struct ByteSource {
  const uint8_t* data;
  size_t size;
  uint32_t operator()() {
    if (size < 2) return 0;
    const uint32_t value = data[0] | static_cast<uint32_t>(data[1]) << 8;
    data += 2;
    size -= 2;
    return value;
  }
};

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

Plan PlanWith(const char* name, const PlanProblem& problem) {
  const auto plan = (*onnx_memplan::MakePlanner(name))
                        ->Run(problem, {.time_limit_seconds = 1, .node_limit = 5000});
  if (!plan.ok()) std::fprintf(stderr, "%s: %s\n", name, plan.status().ToString().c_str());
  Require(plan.ok(), "no plan");
  return *plan;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteSource source{data, size};
  const PlanProblem problem = onnx_memplan::testing::MakeRandomProblem(
      source, {.max_tasks = 6, .max_storages = 7, .max_bytes = 40, .max_alignment_log2 = 3});
  int64_t least_peak = INT64_MAX;
  onnx_memplan::testing::ForEachOrder(problem, [&](const std::vector<int32_t>& order) {
    least_peak = std::min(least_peak, onnx_memplan::PeakLiveBytes(problem, order));
  });
  const Plan best = PlanWith("auto", problem);
  Require(best.arena_bytes >= least_peak, "an arena below the least peak");
  for (const char* name : {"heuristic", "program"}) {
    const Plan plan = PlanWith(name, problem);
    Require(plan.lower_bound <= best.arena_bytes, "a bound above a plan");
    Require(best.lower_bound <= plan.arena_bytes, "a bound of auto above a plan");
    Require(!plan.proven_optimal || plan.arena_bytes <= best.arena_bytes, "a false proof");
  }
  return 0;
}
