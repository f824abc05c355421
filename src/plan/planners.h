// Planners made of parts: an order, then offsets.
#ifndef ONNX_MEMPLAN_PLAN_PLANNERS_H_
#define ONNX_MEMPLAN_PLAN_PLANNERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/plan.h"
#include "plan/packer.h"

namespace onnx_memplan {

struct OrderResult {
  std::vector<int32_t> order;  // topological
  // No order has a smaller peak of live bytes (all in-place offers at hand). 0: nothing known.
  int64_t lower_bound = 0;
  std::string method;
};

class Orderer {
 public:
  virtual ~Orderer() = default;
  // `problem` has passed CheckProblem and its order is not fixed.
  virtual absl::StatusOr<OrderResult> Order(const PlanProblem& problem,
                                            const PlanBudget& budget) const = 0;
};

// The order of the problem's own list, or the topological order nearest to it. Its bound is the
// largest set of bytes that one task needs at once.
std::unique_ptr<Orderer> MakeProgramOrderer();

// Bytes that some task needs at once in every order: what it touches and its scratch, less what
// in-place offers can save; and all live_in, and all live_out storages together.
int64_t LargestTaskBytes(const PlanProblem& problem);

// Orders with `orderer` (the tasks' own order when that is fixed), then packs with `packer`, once
// with every in-place offer taken and once with only the needed ones, and keeps the smaller arena.
std::unique_ptr<Planner> Sequential(std::unique_ptr<Orderer> orderer,
                                    std::unique_ptr<Packer> packer);

// Runs planners one after the other within the budget and keeps the smallest arena and the best
// bound; stops when a plan is proven. Errors count only when no planner succeeds.
std::unique_ptr<Planner> BestOf(std::vector<std::unique_ptr<Planner>> planners);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_PLANNERS_H_
