#include "pipeline/entry.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "autodiff/training.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Passes that make one node of several. Gradient rules are of single operators, so that these
// passes run on the whole step only.
PassOptions WithoutFusion(PassOptions options) {
  for (const char* pass : {"fuse-attention", "fuse-residual-add", "fuse-activations"}) {
    options.off.push_back(pass);
  }
  return options;
}

// Shares of extra work to try: none, the one that is always allowed, and, under a limit, more and
// more until the arena fits.
class BackwardPlanner {
 public:
  BackwardPlanner(const Target& target, const Planner& planner, const CompileOptions& options)
      : target_(target), planner_(planner), options_(options) {}

  absl::StatusOr<Entry> Plan(const std::string& name, const BackwardGraph& backward) const {
    const auto start = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(Entry best, Try(name, backward, {}, /*late=*/true));
    const double allowed = options_.train->recompute;
    if (allowed > 0) RETURN_IF_ERROR(KeepSmaller(name, backward, allowed, best));
    constexpr double kShares[] = {0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.5, 0.75, 1};
    for (double share : kShares) {
      if (Fits(best) || share > options_.train->recompute_for_limit) break;
      RETURN_IF_ERROR(KeepSmaller(name, backward, share, best));
    }
    if (!best.plan.proven_optimal) {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      RETURN_IF_ERROR(PlanAgain(spent.count(), best));
    }
    return best;
  }

 private:
  // What each variant gets of the time limit while they are compared; the best one gets the rest.
  static constexpr double kTrialShare = 0.05;

  bool Fits(const Entry& entry) const {
    return !options_.arena_limit_bytes || entry.plan.arena_bytes <= *options_.arena_limit_bytes;
  }

  absl::StatusOr<Entry> Try(const std::string& name, const BackwardGraph& backward,
                            const RecomputeLimits& limits, bool late) const {
    Graph graph = backward.graph;
    RecomputeResult recomputed;
    if (limits.extra_work > 0) {
      recomputed = Recompute(backward.forward_nodes, limits, target_, graph);
    }
    CompileOptions options = options_;
    options.budget.time_limit_seconds *= kTrialShare;
    ASSIGN_OR_RETURN(Entry entry,
                     MakeEntry(name, std::move(graph), target_, planner_, options, late));
    entry.recomputed = recomputed;
    return entry;
  }

  absl::Status KeepSmaller(const std::string& name, const BackwardGraph& backward, double share,
                           Entry& best) const {
    for (size_t longest_chain : {size_t{3}, size_t{6}, size_t{16}}) {
      for (bool late : {true, false}) {
        ASSIGN_OR_RETURN(Entry entry, Try(name, backward, {share, longest_chain}, late));
        const bool proves = entry.plan.proven_optimal && !best.plan.proven_optimal;
        if (entry.plan.arena_bytes < best.plan.arena_bytes ||
            (entry.plan.arena_bytes == best.plan.arena_bytes && proves)) {
          best = std::move(entry);
        }
      }
    }
    return absl::OkStatus();
  }

  // With the time that is left.
  absl::Status PlanAgain(double spent_seconds, Entry& entry) const {
    PlanBudget budget = options_.budget;
    budget.time_limit_seconds = std::max(budget.time_limit_seconds - spent_seconds,
                                         budget.time_limit_seconds * kTrialShare);
    absl::StatusOr<onnx_memplan::Plan> plan =
        RunTimed(planner_, entry.program.problem, budget, entry.planning_seconds);
    RETURN_IF_ERROR(plan.status());
    if (plan->arena_bytes < entry.plan.arena_bytes ||
        (plan->arena_bytes == entry.plan.arena_bytes &&
         plan->lower_bound > entry.plan.lower_bound)) {
      entry.plan = *std::move(plan);
    }
    return absl::OkStatus();
  }

  const Target& target_;
  const Planner& planner_;
  const CompileOptions& options_;
};

}  // namespace

BuildOptions BuildOptionsOf(const CompileOptions& options) {
  return {.io_in_arena = options.io_in_arena,
          .allow_missing_kernels = options.allow_missing_kernels,
          .threads = options.threads};
}

absl::StatusOr<Plan> RunTimed(const Planner& planner, const PlanProblem& problem,
                              const PlanBudget& budget, double& seconds) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Plan> plan = planner.Run(problem, budget);
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

absl::StatusOr<Entry> MakeEntry(std::string name, Graph graph, const Target& target,
                                const Planner& planner, const CompileOptions& options,
                                bool recompute_late) {
  Entry entry;
  entry.name = std::move(name);
  ASSIGN_OR_RETURN(entry.pass_runs, OptimizeGraph(options.passes, graph));
  BuildOptions build = BuildOptionsOf(options);
  build.recompute_late = recompute_late;
  ASSIGN_OR_RETURN(entry.program, BuildProgram(std::move(graph), target, build));
  ASSIGN_OR_RETURN(
      entry.plan, RunTimed(planner, entry.program.problem, options.budget, entry.planning_seconds));
  return entry;
}

absl::StatusOr<std::vector<Entry>> MakeTrainingEntries(LoadedModel model, const Target& target,
                                                       const Planner& planner,
                                                       const CompileOptions& options) {
  ASSIGN_OR_RETURN(ForwardGraphs forward, MakeForwardGraphs(*options.train, model.info.initializers,
                                                            std::move(model.graph)));
  RETURN_IF_ERROR(OptimizeGraph(WithoutFusion(options.passes), forward.training).status());
  RETURN_IF_ERROR(OptimizeGraph(WithoutFusion(options.passes), forward.inference).status());
  ASSIGN_OR_RETURN(TrainingGraphs training, MakeTrainingGraphs(*options.train, std::move(forward)));

  const BackwardPlanner backward(target, planner, options);
  std::vector<Entry> entries;
  ASSIGN_OR_RETURN(Entry step, backward.Plan("train_step", training.step));
  entries.push_back(std::move(step));
  ASSIGN_OR_RETURN(Entry inference,
                   MakeEntry("infer", std::move(training.inference), target, planner, options));
  entries.push_back(std::move(inference));
  if (training.gradients) {
    ASSIGN_OR_RETURN(Entry gradients, backward.Plan("gradients", *training.gradients));
    gradients.gradient_of = {""};  // the loss is none
    gradients.gradient_of.insert(gradients.gradient_of.end(), training.parameters.begin(),
                                 training.parameters.end());
    entries.push_back(std::move(gradients));
  }
  return entries;
}

}  // namespace onnx_memplan
