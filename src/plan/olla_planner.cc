#include "plan/olla_planner.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plan/ilp_olla.h"
#include "plan/liveness.h"
#include "plan/order_bounds.h"
#include "plan/order_heuristics.h"
#include "plan/packer.h"
#include "plan/planners.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr int32_t kMaxJointTasks = 8;
constexpr int32_t kMaxJointStorages = 12;

// Blocks in the order of `addresses`, each as low as the ones below it allow.
std::vector<int64_t> Settle(const Blocks& blocks, const std::vector<double>& addresses) {
  std::vector<int32_t> order(blocks.blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return addresses[a] < addresses[b]; });
  std::vector<int64_t> offsets(blocks.blocks.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    const Block& block = blocks.blocks[order[i]];
    int64_t offset = 0;
    for (size_t j = 0; j < i; ++j) {
      const Block& below = blocks.blocks[order[j]];
      if (below.first_step < block.end_step && block.first_step < below.end_step) {
        offset = std::max(offset, offsets[order[j]] + below.bytes);
      }
    }
    offsets[order[i]] = (offset + block.alignment - 1) / block.alignment * block.alignment;
  }
  return offsets;
}

class OllaSearch {
 public:
  OllaSearch(const PlanProblem& problem, const PlanBudget& budget)
      : problem_(problem),
        budget_(budget),
        deadline_(budget.time_limit_seconds, budget.cancel),
        model_(MakeOrderModel(problem)) {}

  absl::StatusOr<Plan> Run() {
    const std::vector<int32_t> program_order = ProgramOrder(model_);
    lower_bound_ = LargestTaskBound(model_, program_order, [&] { return deadline_.expired(); });
    std::vector<int32_t> order;
    const bool fixed = std::ranges::any_of(
        problem_.storages, [](const Storage& storage) { return storage.fixed_offset.has_value(); });
    if (!fixed && model_.task_count <= kMaxJointTasks &&
        model_.storage_count <= kMaxJointStorages) {
      order = Solve({.early_updates = false, .joint = true}, 0.5);
    }
    if (order.empty()) order = Solve({.early_updates = model_.task_count > 12}, 0.7);
    if (order.empty()) {
      absl::StrAppend(&method_, method_.empty() ? "" : "; ", "no order found: program order");
      order = program_order;
    }
    for (const char* packer : {"pyramid", ""}) {
      if (best_.has_value() && best_->arena_bytes <= lower_bound_) break;
      RETURN_IF_ERROR(PackWith(packer, order));
    }
    best_->lower_bound = std::min(lower_bound_, best_->arena_bytes);
    best_->proven_optimal = best_->lower_bound == best_->arena_bytes;
    best_->method = absl::StrCat(method_, "; offsets: ", pack_method_);
    return *std::move(best_);
  }

 private:
  std::vector<int32_t> Solve(OllaOptions options, double share) {
    options.ilp = {.time_limit_seconds = share * std::max(0.0, deadline_.remaining_seconds()),
                   .node_limit = budget_.node_limit,
                   .seed = budget_.seed,
                   .cancel = budget_.cancel};
    if (budget_.progress) {
      options.ilp.progress = [&](double, double, int64_t nodes) {
        budget_.progress({.stage = "OLLA",
                          .bound_bytes = lower_bound_,
                          .states = nodes,
                          .seconds = deadline_.elapsed_seconds()});
      };
    }
    OllaResult result = SolveOlla(model_, options);
    lower_bound_ = std::max(lower_bound_, result.lower_bound);
    absl::StrAppend(&method_, method_.empty() ? "" : "; ", result.description);
    if (!result.addresses.empty()) {
      const Blocks blocks = MakeBlocks(problem_, result.order, InPlacePolicy::kNone);
      // What has no address of its own, scratch and the rest, comes last.
      std::vector<double> addresses(blocks.blocks.size(), 1e300);
      for (int32_t s = 0; s < model_.storage_count; ++s) {
        addresses[blocks.storage_block[model_.storage_of[s]]] = result.addresses[s];
      }
      Keep(result.order, blocks, Settle(blocks, addresses), "the same program");
    }
    return result.order;
  }

  absl::Status PackWith(const std::string& name, std::span<const int32_t> order) {
    const std::unique_ptr<Packer> packer =
        MakePacker(name.empty() ? AvailablePackers().front().name : std::string_view(name));
    MEMPLAN_CHECK_MSG(packer != nullptr, name);
    for (const InPlacePolicy policy : {InPlacePolicy::kAtNeed, InPlacePolicy::kAll}) {
      const Blocks blocks = MakeBlocks(problem_, order, policy);
      RETURN_IF_ERROR(CheckFixedBlocks(blocks));
      PackOptions options{.node_limit = budget_.node_limit,
                          .seed = budget_.seed,
                          .threads = budget_.threads,
                          .cancel = budget_.cancel,
                          .target_bytes = lower_bound_};
      options.time_limit_seconds = 0.4 * std::max(0.0, deadline_.remaining_seconds());
      Packing packing = packer->Pack(blocks, options);
      Keep(order, blocks, packing.offsets, packing.method);
    }
    return absl::OkStatus();
  }

  void Keep(std::span<const int32_t> order, const Blocks& blocks,
            const std::vector<int64_t>& offsets, const std::string& method) {
    Plan plan = MakePlan(problem_, order, blocks, offsets);
    if (best_.has_value() && plan.arena_bytes >= best_->arena_bytes) return;
    best_ = std::move(plan);
    pack_method_ = method;
  }

  const PlanProblem& problem_;
  const PlanBudget& budget_;
  Deadline deadline_;
  OrderModel model_;
  int64_t lower_bound_ = 0;
  std::optional<Plan> best_;
  std::string method_, pack_method_;
};

class OllaPlanner : public Planner {
 private:
  absl::StatusOr<Plan> DoPlan(const PlanProblem& problem, const PlanBudget& budget) const override {
    if (problem.fixed_order) {
      return Sequential(MakeProgramOrderer(), MakePacker("pyramid"))->Run(problem, budget);
    }
    return OllaSearch(problem, budget).Run();
  }
};

}  // namespace

std::unique_ptr<Planner> MakeOllaPlanner() { return std::make_unique<OllaPlanner>(); }

}  // namespace onnx_memplan
