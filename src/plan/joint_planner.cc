#include "plan/joint_planner.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plan/exact_order.h"
#include "plan/exact_order_search.h"
#include "plan/liveness.h"
#include "plan/order_beam.h"
#include "plan/order_heuristics.h"
#include "plan/order_lns.h"
#include "plan/order_model.h"
#include "plan/order_walk.h"
#include "plan/packer.h"
#include "plan/planners.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// All orders of so few tasks may be packed one by one.
constexpr int32_t kMaxEnumeratedTasks = 12;
constexpr int64_t kMaxEnumeratedOrders = 20000;
constexpr int kFewOrders = 24;
constexpr int kManyOrders = 200;
// One search of offsets: the nodes decide, so that results do not depend on the machine; the share
// of the time that is left is for problems so large that a node takes long.
struct PackEffort {
  int64_t nodes;
  double time_share;
};
constexpr PackEffort kShort = {6'000, 0.05};
constexpr PackEffort kMedium = {400'000, 0.2};
constexpr PackEffort kLong = {1'000'000'000, 0.8};
// Effort for one plain order.
constexpr double kMaxBeamBytes = 4e8;
constexpr int32_t kMaxSearchTasks = 4096;
constexpr int64_t kSearchTableBytes = int64_t{16} << 20;
constexpr int64_t kSearchNodes = 2000;
constexpr int32_t kMaxMoves = 300;
constexpr int64_t kLowerNodes = 500;
constexpr double kLowerShare = 0.2;
constexpr double kProgressSeconds = 0.25;

// The alignment that all storages and scratches of the problem share.
int64_t CommonAlignment(const PlanProblem& problem) {
  int64_t alignment = 0;  // of no storage at all
  const auto add = [&](int64_t bytes, int64_t other) {
    if (bytes > 0) alignment = alignment == 0 ? other : std::min(alignment, other);
  };
  for (const Storage& storage : problem.storages) add(storage.bytes, storage.alignment);
  for (const Task& task : problem.tasks) add(task.scratch_bytes, task.scratch_alignment);
  return std::max<int64_t>(1, alignment);
}

// Rounds all sizes up to multiples of `alignment`. Returns the largest rounding.
int64_t RoundSizes(PlanProblem& problem, int64_t alignment) {
  int64_t largest = 0;
  const auto round = [&](int64_t& bytes) {
    const int64_t slack = (alignment - bytes % alignment) % alignment;
    bytes += slack;
    largest = std::max(largest, slack);
  };
  for (Storage& storage : problem.storages) round(storage.bytes);
  for (Task& task : problem.tasks) round(task.scratch_bytes);
  return largest;
}

class JointSearch {
 public:
  JointSearch(const PlanProblem& problem, const PlanBudget& budget, OrderMethod method)
      : problem_(problem),
        budget_(budget),
        method_(method),
        deadline_(budget.time_limit_seconds, budget.cancel),
        packer_(MakePacker(AvailablePackers().front().name)),
        random_(budget.seed) {
    MEMPLAN_CHECK(packer_ != nullptr);
  }

  absl::StatusOr<Plan> Run() {
    for (const Storage& storage : problem_.storages) {
      const bool used = storage.live_in || storage.live_out;
      if (used && storage.fixed_offset.has_value()) {
        lower_bound_ = std::max(lower_bound_, *storage.fixed_offset + storage.bytes);
      }
    }
    RETURN_IF_ERROR(SearchOrders());
    if (!Done() && method_ != OrderMethod::kHeuristic) {
      RETURN_IF_ERROR(EnumerateOrders());
      RETURN_IF_ERROR(TryLowerOrders());
      RETURN_IF_ERROR(TryPlainOrders());
      // A few other orders cost less than a long search for offsets, which costs less than many.
      RETURN_IF_ERROR(TryOtherOrders(kFewOrders, kShort));
      RETURN_IF_ERROR(PackAgain(kMedium));
      RETURN_IF_ERROR(TryOtherOrders(kManyOrders, kShort));
      RETURN_IF_ERROR(PackAgain(kLong));
    }
    best_->lower_bound = std::min(lower_bound_, best_->arena_bytes);
    best_->proven_optimal = best_->arena_bytes == best_->lower_bound;
    best_->method = absl::StrCat("order: ", order_method_, "; offsets: ", pack_method_,
                                 "; bound: ", bound_method_);
    return *std::move(best_);
  }

 private:
  bool Done() const {
    return best_.has_value() && (best_->arena_bytes <= lower_bound_ || deadline_.expired());
  }

  void Raise(int64_t bound, const std::string& method) {
    if (bound <= lower_bound_) return;
    lower_bound_ = bound;
    bound_method_ = method;
  }

  // Orders of least peak, with and without what alignment costs, each packed.
  absl::Status SearchOrders() {
    const int64_t alignment = CommonAlignment(problem_);
    PlanProblem rounded = problem_;
    const int64_t slack = RoundSizes(rounded, alignment);
    model_ = MakeOrderModel(rounded);
    RETURN_IF_ERROR(SearchAndPack(model_, slack, slack == 0 ? 1.0 : 0.5));
    if (slack == 0 || Done()) return absl::OkStatus();
    return SearchAndPack(MakeOrderModel(problem_), 0, 1.0);
  }

  absl::Status SearchAndPack(const OrderModel& model, int64_t slack, double share) {
    OrderSearchOptions options;
    options.start = tight_order_;
    options.lower_bound = slack == 0 ? lower_bound_ : 0;
    options.node_limit = budget_.node_limit;
    options.seed = budget_.seed;
    options.method = method_;
    options.cancel = budget_.cancel;
    if (budget_.progress) {
      options.progress = [&, last = -kProgressSeconds](int64_t peak, int64_t bound,
                                                       int64_t nodes) mutable {
        const double now = deadline_.elapsed_seconds();
        if (now - last < kProgressSeconds) return;
        last = now;
        budget_.progress({.stage = "order",
                          .incumbent_bytes = peak,
                          .bound_bytes = bound - slack,
                          .states = nodes,
                          .seconds = now});
      };
    }
    // Packing and other orders need their share of the time.
    const Deadline deadline(0.6 * share * std::max(0.0, deadline_.remaining_seconds()),
                            budget_.cancel);
    const OrderSearchResult result = SearchOrder(model, options, deadline);
    Raise(result.lower_bound - slack, result.bound_by);
    order_method_ = result.found_by;
    tight_order_ = result.order;
    return PackOrder(problem_, result.order, kShort);
  }

  // `problem` may lack some of the in-place options.
  absl::Status PackOrder(const PlanProblem& problem, std::span<const int32_t> order,
                         const PackEffort& effort) {
    std::vector<int32_t> taken_before;
    bool first = true;
    for (const InPlacePolicy policy : {InPlacePolicy::kAtNeed, InPlacePolicy::kAll}) {
      if (!first && Done()) break;
      const Blocks blocks = MakeBlocks(problem, order, policy);
      if (!first && blocks.taken == taken_before) break;
      first = false;
      taken_before = blocks.taken;
      RETURN_IF_ERROR(CheckFixedBlocks(blocks));
      Pack(order, blocks, effort);
    }
    return absl::OkStatus();
  }

  Packing Pack(std::span<const int32_t> order, const Blocks& blocks, const PackEffort& effort) {
    PackOptions options{
        .node_limit = std::min(budget_.node_limit.value_or(INT64_MAX), effort.nodes),
        .seed = budget_.seed,
        .threads = budget_.threads,
        .cancel = budget_.cancel,
        .target_bytes = lower_bound_};
    options.time_limit_seconds = effort.time_share * std::max(0.0, deadline_.remaining_seconds());
    Packing packing = packer_->Pack(blocks, options);
    if (!best_.has_value() || packing.bytes < best_->arena_bytes) {
      best_ = MakePlan(problem_, order, blocks, packing.offsets);
      pack_method_ = packing.method;
    }
    return packing;
  }

  // With few tasks: every order that could give a smaller arena is packed to the end. Exact only
  // where the order has no in-place offers to decide on.
  absl::Status EnumerateOrders() {
    if (model_.task_count > kMaxEnumeratedTasks) return absl::OkStatus();
    const OrderModel model = MakeOrderModel(problem_);
    bool exact = true;
    absl::Status status;
    const bool all = ForEachOrderWithin(
        model, [&] { return best_->arena_bytes - 1; }, kMaxEnumeratedOrders,
        [&](std::span<const int32_t> order) {
          const Blocks blocks = MakeBlocks(problem_, order, InPlacePolicy::kAll);
          status = CheckFixedBlocks(blocks);
          if (!status.ok()) return false;
          if (blocks.order_bound >= best_->arena_bytes) return true;
          const Packing packing = Pack(order, blocks, kMedium);
          const int64_t bound = blocks.has_offers ? blocks.order_bound : packing.lower_bound;
          exact = exact && bound >= best_->arena_bytes;
          return !Done();
        });
    RETURN_IF_ERROR(status);
    if (all && exact) Raise(best_->arena_bytes, "all orders packed");
    return absl::OkStatus();
  }

  // The best order, with the live bytes lowered wherever that is easy.
  absl::Status TryLowerOrders() {
    const OrderModel model = MakeOrderModel(problem_);
    const Deadline deadline(kLowerShare * deadline_.remaining_seconds(), budget_.cancel);
    std::vector<int32_t> order = tight_order_;
    for (int32_t tasks : {40, 80, 160, 320}) {
      if (Done() || deadline.expired()) break;
      order = LowerEverywhere(model, order, {.node_limit = kLowerNodes, .first_tasks = tasks},
                              deadline);
      const int64_t before = best_->arena_bytes;
      RETURN_IF_ERROR(PackOrder(problem_, order, kShort));
      if (best_->arena_bytes >= before) continue;
      tight_order_ = order;
      order_method_ = "the same, lower away from the peak";
    }
    return absl::OkStatus();
  }

  // What the search hands out has been fused, split and put together again. Orders of the same peak
  // that follow one rule from start to end leave storages in fewer places, and mostly pack at once.
  absl::Status TryPlainOrders() {
    const OrderModel model = MakeOrderModel(problem_);
    const int64_t limit = std::max(OrderPeak(model, tight_order_), lower_bound_);
    const double state_bytes = 1.0 * model.task_count * (model.task_count + model.storage_count);
    const auto beam = [&](int32_t width) {
      if (state_bytes * width > kMaxBeamBytes) return std::vector<int32_t>();
      return BeamOrder(
          model, {.width = width, .bound_bytes = lower_bound_, .limit_bytes = limit, .stop = [&] {
                    return deadline_.expired();
                  }});
    };
    const auto search = [&] {
      if (model.task_count > kMaxSearchTasks) return std::vector<int32_t>();
      OrderSearch decide(model, kSearchTableBytes, [&] { return deadline_.expired(); });
      decide.Decide(limit, kSearchNodes);
      return decide.order();
    };
    const std::function<std::vector<int32_t>()> makers[] = {
        [&] { return ListOrder(model, ListRule::kPeakThenLive); },
        [&] { return beam(1); },
        [&] { return beam(8); },
        [&] { return ListOrder(model, ListRule::kLive); },
        search,
        [&] { return beam(64); },
        [&] { return ReversedListOrder(model, ListRule::kPeakThenLive); },
        [&] { return ProgramOrder(model); },
    };
    for (const auto& make : makers) {
      if (Done()) break;
      const std::vector<int32_t> order = make();
      if (order.empty() || OrderPeak(model, order) >= best_->arena_bytes) continue;
      const int64_t before = best_->arena_bytes;
      RETURN_IF_ERROR(PackOrder(problem_, order, kShort));
      if (best_->arena_bytes < before) order_method_ = "a plain order, better to pack";
    }
    return absl::OkStatus();
  }

  // Orders near the best one whose peak leaves room for a smaller arena.
  absl::Status TryOtherOrders(int count, const PackEffort& effort) {
    const double until = 0.5 * deadline_.remaining_seconds();
    const Deadline deadline(until, budget_.cancel);
    const OrderModel model = MakeOrderModel(problem_);
    std::vector<int32_t> order = tight_order_;
    const int64_t peak = OrderPeak(model, tight_order_);
    for (int i = 0; i < count && !Done() && !deadline.expired(); ++i) {
      if (peak >= best_->arena_bytes) break;
      // Tight ones first: what fits the bound must have a peak within the bound.
      const int64_t limit = i % 2 == 0 ? std::max(peak, lower_bound_) : best_->arena_bytes - 1;
      if (OrderPeak(model, order) > limit) order = tight_order_;
      order = WalkOrder(model, std::move(order), limit, std::min(kMaxMoves, 2 * model.task_count),
                        i % 2 == 0 ? WalkRule::kShrinkArea : WalkRule::kAny, random_);
      const int64_t before = best_->arena_bytes;
      RETURN_IF_ERROR(PackOrder(i % 4 < 2 ? problem_ : WithoutSomeOptions(), order, effort));
      if (best_->arena_bytes < before) order_method_ = "another order, better to pack";
    }
    return absl::OkStatus();
  }

  // Of several options that save the same bytes, one may be better to pack than another.
  PlanProblem WithoutSomeOptions() {
    PlanProblem problem = problem_;
    std::erase_if(problem.in_place, [&](const InPlaceOption&) { return random_() % 3 == 0; });
    return problem;
  }

  absl::Status PackAgain(const PackEffort& effort) {
    if (Done()) return absl::OkStatus();
    return PackOrder(problem_, tight_order_, effort);
  }

  const PlanProblem& problem_;
  const PlanBudget& budget_;
  OrderMethod method_;
  Deadline deadline_;
  std::unique_ptr<Packer> packer_;
  std::mt19937_64 random_;
  OrderModel model_;
  std::vector<int32_t> tight_order_;  // of the least peak known
  std::optional<Plan> best_;
  int64_t lower_bound_ = 0;
  std::string order_method_, pack_method_, bound_method_ = "fixed offsets";
};

class JointPlanner : public Planner {
 public:
  explicit JointPlanner(OrderMethod method) : method_(method) {}

 private:
  absl::StatusOr<Plan> DoPlan(const PlanProblem& problem, const PlanBudget& budget) const override {
    if (problem.fixed_order) {
      return Sequential(MakeProgramOrderer(), MakePacker(AvailablePackers().front().name))
          ->Run(problem, budget);
    }
    return JointSearch(problem, budget, method_).Run();
  }

  OrderMethod method_;
};

}  // namespace

std::unique_ptr<Planner> MakeJointPlanner(OrderMethod method) {
  return std::make_unique<JointPlanner>(method);
}

}  // namespace onnx_memplan
