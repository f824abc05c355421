// The memory planning problem, its solution, and the planners.
//
// Nothing here knows of ONNX or of operators: a network, a CSV of buffers and a profile trace are
// all storages (blocks of bytes) and tasks (steps that read and write them).
#ifndef ONNX_MEMPLAN_PLAN_H_
#define ONNX_MEMPLAN_PLAN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace onnx_memplan {

// A block of bytes that must have one place in the arena from the first step that touches it to
// the last one.
struct Storage {
  std::string name;
  int64_t bytes = 0;
  // The offset must be a multiple of this. A power of two.
  int64_t alignment = 1;
  // Holds data before the first task runs: the lifetime starts at step 0.
  bool live_in = false;
  // Its data must survive the last task: the lifetime ends after the last step.
  bool live_out = false;
  // Where the storage must lie, when it is not for the planner to choose.
  std::optional<int64_t> fixed_offset = std::nullopt;

  friend bool operator==(const Storage&, const Storage&) = default;
};

// One step of the program. All indices are into PlanProblem.
//
// Precedence: a task runs after every task in `after`. A storage that has exactly one writer and is
// not live_in adds its own: its readers run after its writer. Storages with several writers (a
// concatenation whose parts are written in place) or with data before the first task (a parameter
// that an update rewrites) add none; whoever builds the problem says them in `after`.
struct Task {
  std::string name;
  std::vector<int32_t> reads = {};
  std::vector<int32_t> writes = {};
  std::vector<int32_t> after = {};
  // Working memory that only this task uses, while it runs. 0: none.
  int64_t scratch_bytes = 0;
  int64_t scratch_alignment = 1;

  friend bool operator==(const Task&, const Task&) = default;
};

// The kernel of `task` may write storage `to` over storage `from`. The planner may take the offer
// when `task` is the last to touch `from` and the first to touch `to`; the two then have the same
// offset. An offer that is not taken costs nothing.
struct InPlaceOption {
  int32_t task = 0;
  int32_t from = 0;
  int32_t to = 0;

  friend bool operator==(const InPlaceOption&, const InPlaceOption&) = default;
};

struct PlanProblem {
  std::vector<Storage> storages;
  std::vector<Task> tasks;
  std::vector<InPlaceOption> in_place;
  // The arena must not be larger; ResourceExhausted when no plan is found that fits.
  std::optional<int64_t> capacity = std::nullopt;
  // The order of execution is the order of `tasks`; only offsets are to be chosen.
  bool fixed_order = false;

  friend bool operator==(const PlanProblem&, const PlanProblem&) = default;
};

// An execution order and a place for every byte.
struct Plan {
  // order[step] is the task that runs at `step`.
  std::vector<int32_t> order;
  // By storage; storages that no task touches and that are neither live_in nor live_out have 0.
  std::vector<int64_t> offsets;
  // By task; 0 where the task has no scratch.
  std::vector<int64_t> scratch_offsets;
  // One past the highest byte that any storage or scratch takes.
  int64_t arena_bytes = 0;
  // No order and no offsets need fewer bytes than this.
  int64_t lower_bound = 0;
  // arena_bytes is the minimum over all orders and offsets. Never set because a limit was hit.
  bool proven_optimal = false;
  // Which methods found the order and offsets and proved the bound, for people.
  std::string method;

  friend bool operator==(const Plan&, const Plan&) = default;
};

// What a planner tells while it works.
struct PlanProgress {
  std::string_view stage;
  int64_t incumbent_bytes = 0;
  int64_t bound_bytes = 0;
  int64_t states = 0;
  double seconds = 0;
};

struct PlanBudget {
  // Wall-clock limit. Results may then depend on the machine; node_limit is reproducible.
  double time_limit_seconds = 10;
  // Limit of search nodes of each exact method; nullopt: the planner's own default.
  std::optional<int64_t> node_limit = std::nullopt;
  uint64_t seed = 1;
  int32_t threads = 1;
  // Called at most a few times a second. May be empty.
  std::function<void(const PlanProgress&)> progress = nullptr;
  // Set by another thread or a signal handler: stop soon and return the best plan so far.
  const std::atomic<bool>* cancel = nullptr;
};

// An order and offsets for a problem. Run() checks the problem, calls the method, and verifies its
// plan with VerifyPlan: no planner can hand out an illegal plan.
class Planner {
 public:
  virtual ~Planner() = default;
  // InvalidArgument for a malformed problem (index out of range, cycle, negative size),
  // ResourceExhausted when the plan passes problem.capacity.
  absl::StatusOr<Plan> Run(const PlanProblem& problem, const PlanBudget& budget) const;

 private:
  virtual absl::StatusOr<Plan> DoPlan(const PlanProblem& problem,
                                      const PlanBudget& budget) const = 0;
};

// The selectable planners: {name, one line for --help}, "auto" first.
struct PlannerInfo {
  std::string_view name;
  std::string_view summary;
};
const std::vector<PlannerInfo>& AvailablePlanners();
// NotFound, with the names that exist, for another name.
absl::StatusOr<std::unique_ptr<Planner>> MakePlanner(std::string_view name);

// OK if and only if `problem` is well formed: indices in range, sizes not negative, alignments
// powers of two, precedence acyclic.
absl::Status CheckProblem(const PlanProblem& problem);

// Recomputes everything from the definition, with no planner code: the order is a permutation that
// respects precedence; two storages (or a storage and a scratch) whose lifetimes share a step
// share no byte, save an in-place pair at its task, which then starts at the same offset; offsets
// are aligned and fixed offsets kept; arena_bytes is the extent; lower_bound <= arena_bytes.
// The status names the first violation.
absl::Status VerifyPlan(const PlanProblem& problem, const Plan& plan);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_H_
