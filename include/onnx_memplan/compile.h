// The whole path in one call: model file -> optimised graph -> plan -> C++ files and reports.
#ifndef ONNX_MEMPLAN_COMPILE_H_
#define ONNX_MEMPLAN_COMPILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/emit.h"
#include "onnx_memplan/graph.h"
#include "onnx_memplan/load.h"
#include "onnx_memplan/optimize.h"
#include "onnx_memplan/passes.h"
#include "onnx_memplan/plan.h"
#include "onnx_memplan/tensor.h"
#include "onnx_memplan/train.h"

namespace onnx_memplan {

// The version of this library, as in --version.
std::string_view Version();

struct CompileOptions {
  LoadOptions load;
  PassOptions passes;
  // The name of a built-in target (AvailableTargets) or the path of a JSON file, see
  // docs/targets.md.
  std::string target = "generic";
  OptimizeFor optimize = OptimizeFor::kBalanced;
  // See AvailablePlanners.
  std::string planner = "auto";
  PlanBudget budget;
  // ResourceExhausted, naming the largest tensors at the peak, when the arena would be larger.
  std::optional<int64_t> arena_limit_bytes;
  // Graph inputs and outputs live in the arena and not in buffers of the caller.
  bool io_in_arena = false;
  // The generated code runs its steps on so many threads, by a function that the caller may supply.
  int32_t threads = 1;
  // Plan and report what code cannot be generated for: operators that are not known, when the file
  // declares the types of their outputs, and nodes that have no kernel (of an element type, say).
  // Emit and Run then fail and list them.
  bool allow_missing_kernels = false;
  // A training step and what goes with it instead of inference alone.
  std::optional<TrainOptions> train;
};

struct TargetInfo {
  std::string name;
  std::string summary;
};
std::vector<TargetInfo> AvailableTargets();

enum class ReportFormat : uint8_t { kText, kJson, kSvg, kHtml };

struct ReportOptions {
  // Text: every step and tensor, not only the summary and the peak.
  bool all_steps = true;
  // Leave out what differs from run to run (planning time).
  bool reproducible = false;
};

struct NamedType {
  std::string name;
  TensorType type;
};

// Tensors that outlive a call, by name: parameters, running statistics, optimizer states.
using StateMap = std::map<std::string, Tensor>;

// A planned program: one entry point, "run", or those of on-device training: "train_step" (the
// first), "infer" and, when asked for, "gradients". Copies share it; it never changes.
class CompiledModel {
 public:
  struct Impl;
  explicit CompiledModel(std::shared_ptr<const Impl> impl);

  std::vector<std::string> entry_points() const;
  // NotFound for another name of an entry point.
  absl::StatusOr<std::vector<NamedType>> InputsOf(std::string_view entry) const;
  absl::StatusOr<std::vector<NamedType>> OutputsOf(std::string_view entry) const;
  // Of the first entry point.
  std::vector<NamedType> inputs() const;
  std::vector<NamedType> outputs() const;
  const Graph& graph() const;  // optimised
  const PlanProblem& problem() const;
  const Plan& plan() const;
  const ModelInfo& info() const;
  const std::vector<PassRun>& pass_runs() const;
  // OK, or Unimplemented with the nodes that have no kernel
  // (CompileOptions::allow_missing_kernels).
  absl::Status CheckKernels() const;

  std::string Report(ReportFormat format, const ReportOptions& options) const;
  // The generated files. Provenance fields that are empty are filled in.
  absl::StatusOr<std::vector<EmittedFile>> Emit(EmitOptions options) const;
  // The optimised graph as a serialised ONNX model, with standard operators only.
  absl::StatusOr<std::string> ExportOnnx() const;
  // Runs the plan on this machine: the kernels, order and addresses of the generated code.
  // `inputs` in the order of inputs(). Memory that the plan says is free is poisoned.
  absl::StatusOr<std::vector<Tensor>> Run(std::span<const Tensor> inputs) const;
  // The same for any entry point, whose states it takes from `states` and leaves there. A state
  // that is missing starts as in the model. NotFound for another name of an entry point.
  absl::StatusOr<std::vector<Tensor>> RunEntry(std::string_view entry,
                                               std::span<const Tensor> inputs,
                                               StateMap& states) const;

 private:
  std::shared_ptr<const Impl> impl_;
};

// Loads, optimises, lowers, plans and verifies the plan.
// Errors: see LoadModel, OptimizeGraph, Planner::Run; NotFound for an unknown target or planner.
absl::StatusOr<CompiledModel> CompileModel(const std::string& path, const CompileOptions& options);
// The same for a graph that LoadModel (or the caller) made.
absl::StatusOr<CompiledModel> CompileGraph(LoadedModel model, const CompileOptions& options);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_COMPILE_H_
