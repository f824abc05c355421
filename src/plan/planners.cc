#include "plan/planners.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plan/joint_planner.h"
#include "plan/liveness.h"
#include "plan/olla_planner.h"
#include "plan/problem.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

class ProgramOrderer : public Orderer {
 public:
  absl::StatusOr<OrderResult> Order(const PlanProblem& problem, const PlanBudget&) const override {
    const auto task_count = static_cast<int32_t>(problem.tasks.size());
    return OrderResult{.order = ProgramOrder(BuildPrecedence(problem), task_count),
                       .lower_bound = LargestTaskBytes(problem),
                       .method = "program order"};
  }
};

class SequentialPlanner : public Planner {
 public:
  SequentialPlanner(std::unique_ptr<Orderer> orderer, std::unique_ptr<Packer> packer)
      : orderer_(std::move(orderer)), packer_(std::move(packer)) {}

 private:
  absl::StatusOr<Plan> DoPlan(const PlanProblem& problem, const PlanBudget& budget) const override {
    const Deadline deadline(budget.time_limit_seconds, budget.cancel);
    OrderResult ordered;
    if (problem.fixed_order) {
      ASSIGN_OR_RETURN(ordered, ProgramOrderer().Order(problem, budget));
      ordered.method = "fixed order";
    } else {
      ASSIGN_OR_RETURN(ordered, orderer_->Order(problem, budget));
    }
    return PackOrder(problem, budget, ordered, deadline);
  }

  // Packs `ordered` under each in-place policy that makes a difference.
  absl::StatusOr<Plan> PackOrder(const PlanProblem& problem, const PlanBudget& budget,
                                 const OrderResult& ordered, const Deadline& deadline) const {
    Plan best;
    bool have_plan = false;
    std::vector<int32_t> taken_before;
    for (const InPlacePolicy policy : {InPlacePolicy::kAtNeed, InPlacePolicy::kAll}) {
      const Blocks blocks = MakeBlocks(problem, ordered.order, policy);
      if (have_plan && (blocks.taken == taken_before || best.proven_optimal ||
                        best.arena_bytes == blocks.order_bound)) {
        break;
      }
      taken_before = blocks.taken;
      RETURN_IF_ERROR(CheckFixedBlocks(blocks));
      PackOptions options{.node_limit = budget.node_limit,
                          .seed = budget.seed,
                          .threads = budget.threads,
                          .cancel = budget.cancel};
      const double share = policy == InPlacePolicy::kAtNeed && !blocks.taken.empty() ? 0.5 : 1.0;
      options.time_limit_seconds = std::max(0.0, deadline.remaining_seconds() * share);
      const Packing packing = packer_->Pack(blocks, options);
      Plan plan = MakePlan(problem, ordered.order, blocks, packing.offsets);
      plan.lower_bound = ordered.lower_bound;
      if (problem.fixed_order) {
        plan.lower_bound = std::max(plan.lower_bound, blocks.order_bound);
        if (!blocks.has_offers) {
          plan.lower_bound = std::max(plan.lower_bound, packing.lower_bound);
        }
      }
      plan.proven_optimal = plan.arena_bytes == plan.lower_bound;
      plan.method = absl::StrCat(ordered.method, "; offsets: ", packing.method);
      if (!have_plan || plan.arena_bytes < best.arena_bytes) best = std::move(plan);
      have_plan = true;
    }
    return best;
  }

  std::unique_ptr<Orderer> orderer_;
  std::unique_ptr<Packer> packer_;
};

class BestOfPlanner : public Planner {
 public:
  explicit BestOfPlanner(std::vector<std::unique_ptr<Planner>> planners)
      : planners_(std::move(planners)) {}

 private:
  absl::StatusOr<Plan> DoPlan(const PlanProblem& problem, const PlanBudget& budget) const override {
    const Deadline deadline(budget.time_limit_seconds, budget.cancel);
    PlanProblem unlimited = problem;  // a plan that is too large still has a bound to offer
    unlimited.capacity.reset();
    absl::StatusOr<Plan> best = absl::FailedPreconditionError("no planner to choose from");
    int64_t bound = 0;
    for (size_t i = 0; i < planners_.size(); ++i) {
      PlanBudget share = budget;
      share.time_limit_seconds =
          std::max(0.0, deadline.remaining_seconds()) / static_cast<double>(planners_.size() - i);
      absl::StatusOr<Plan> plan = planners_[i]->Run(unlimited, share);
      if (plan.ok()) bound = std::max(bound, plan->lower_bound);
      if (!best.ok() || (plan.ok() && plan->arena_bytes < best->arena_bytes)) {
        best = std::move(plan);
      }
      if (!best.ok()) continue;
      best->lower_bound = bound;
      best->proven_optimal = best->arena_bytes == bound;
      if (best->proven_optimal || deadline.expired()) break;
    }
    return best;
  }

  std::vector<std::unique_ptr<Planner>> planners_;
};

std::unique_ptr<Planner> PackProgramOrder(std::string_view packer) {
  std::unique_ptr<Packer> made = MakePacker(packer);
  MEMPLAN_CHECK_MSG(made != nullptr, packer);
  return Sequential(MakeProgramOrderer(), std::move(made));
}

// One row: a name for --planner, a line of help, and how to make it.
struct Entry {
  PlannerInfo info;
  std::unique_ptr<Planner> (*make)();
};

// The list of planners. "auto" is first; everything that --planner offers is here.
constexpr Entry kPlanners[] = {
    {{"auto", "exact order search, exact offsets, and orders that pack better, until proven"},
     [] { return MakeJointPlanner(OrderMethod::kExact); }},
    {{"heuristic", "best of fast orders and beam search, portfolio of packers"},
     [] { return MakeJointPlanner(OrderMethod::kHeuristic); }},
    {{"ilp", "order by CBC: integer program in cumulative form; exact offsets"},
     [] { return MakeJointPlanner(OrderMethod::kIlp); }},
    {{"olla", "OLLA's integer programs as published (arXiv 2210.12924), for comparison"},
     [] { return MakeOllaPlanner(); }},
    {{"program", "the order of the model's own list, exact offsets"},
     [] { return PackProgramOrder(AvailablePackers().front().name); }},
};

}  // namespace

std::unique_ptr<Orderer> MakeProgramOrderer() { return std::make_unique<ProgramOrderer>(); }

int64_t LargestTaskBytes(const PlanProblem& problem) {
  std::vector<std::vector<InPlaceOption>> offers(problem.tasks.size());
  for (const InPlaceOption& option : problem.in_place) {
    offers[static_cast<size_t>(option.task)].push_back(option);
  }
  int64_t live_in = 0, live_out = 0;
  for (const Storage& storage : problem.storages) {
    if (storage.live_in) live_in += storage.bytes;
    if (storage.live_out) live_out += storage.bytes;
  }
  // All live_in storages hold data at the first step, all live_out ones at the last; no offer joins
  // two of a kind.
  int64_t largest = std::max(live_in, live_out);
  for (size_t t = 0; t < problem.tasks.size(); ++t) {
    const Task& task = problem.tasks[t];
    std::vector<int32_t> touched = task.reads;
    touched.insert(touched.end(), task.writes.begin(), task.writes.end());
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    int64_t bytes = task.scratch_bytes;
    for (int32_t storage : touched) bytes += problem.storages[static_cast<size_t>(storage)].bytes;
    std::map<int32_t, int64_t> saved;  // by `to`: at most one `from` lies under it
    for (const InPlaceOption& option : offers[t]) {
      const int64_t from_bytes = problem.storages[static_cast<size_t>(option.from)].bytes;
      const int64_t to_bytes = problem.storages[static_cast<size_t>(option.to)].bytes;
      saved[option.to] = std::max(saved[option.to], std::min(from_bytes, to_bytes));
    }
    for (const auto& [to, most] : saved) bytes -= most;
    largest = std::max(largest, bytes);
  }
  return largest;
}

std::unique_ptr<Planner> Sequential(std::unique_ptr<Orderer> orderer,
                                    std::unique_ptr<Packer> packer) {
  return std::make_unique<SequentialPlanner>(std::move(orderer), std::move(packer));
}

std::unique_ptr<Planner> BestOf(std::vector<std::unique_ptr<Planner>> planners) {
  return std::make_unique<BestOfPlanner>(std::move(planners));
}

const std::vector<PlannerInfo>& AvailablePlanners() {
  static const auto* const infos = [] {
    auto* list = new std::vector<PlannerInfo>;
    for (const Entry& entry : kPlanners) list->push_back(entry.info);
    return list;
  }();
  return *infos;
}

absl::StatusOr<std::unique_ptr<Planner>> MakePlanner(std::string_view name) {
  std::string names;
  for (const Entry& entry : kPlanners) {
    if (entry.info.name == name) return entry.make();
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(entry.info.name));
  }
  return absl::NotFoundError(
      absl::StrCat("there is no planner \"", std::string(name), "\"; there are: ", names));
}

}  // namespace onnx_memplan
