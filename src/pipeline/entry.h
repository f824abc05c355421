// The functions of a generated file, optimised, lowered and planned.
#ifndef ONNX_MEMPLAN_PIPELINE_ENTRY_H_
#define ONNX_MEMPLAN_PIPELINE_ENTRY_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autodiff/recompute.h"
#include "onnx_memplan/compile.h"
#include "ops/target.h"
#include "plan_build/program.h"

namespace onnx_memplan {

struct Entry {
  std::string name;  // "run", "train_step", ...
  std::vector<PassRun> pass_runs;
  Program program;
  Plan plan;
  double planning_seconds = 0;
  // See EntryPoint.
  std::vector<std::string> gradient_of;
  // What is computed again in the backward pass.
  RecomputeResult recomputed;
  // Where images are kept in blocks of channels: the arena without that.
  std::optional<int64_t> plain_arena_bytes;
  // Where steps are shared out to threads: the arena for one.
  std::optional<int64_t> one_thread_arena_bytes;
  // The graph before all passes, if they made operators of it that are not ONNX's.
  std::optional<Graph> source;
};

// What CompileOptions say of the program.
BuildOptions BuildOptionsOf(const CompileOptions& options);

// Planner::Run; adds the seconds that it took to `seconds`.
absl::StatusOr<Plan> RunTimed(const Planner& planner, const PlanProblem& problem,
                              const PlanBudget& budget, double& seconds);

// `recompute_late`: see BuildOptions.
absl::StatusOr<Entry> MakeEntry(std::string name, Graph graph, const Target& target,
                                const Planner& planner, const CompileOptions& options,
                                bool recompute_late = true);

// "run": images are kept in blocks of channels where the target gains by that and
// CompileOptions::optimize allows what it does to the arena.
absl::StatusOr<Entry> MakeInferenceEntry(Graph graph, const Target& target, const Planner& planner,
                                         const CompileOptions& options);

// "train_step", "infer" and, when asked for, "gradients". Values are computed again where that
// makes the arena smaller: see TrainOptions::recompute and recompute_for_limit.
absl::StatusOr<std::vector<Entry>> MakeTrainingEntries(LoadedModel model, const Target& target,
                                                       const Planner& planner,
                                                       const CompileOptions& options);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PIPELINE_ENTRY_H_
