#include "onnx_memplan/compile.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "emit/emit.h"
#include "load/export.h"
#include "ops/target.h"
#include "pipeline/target_file.h"
#include "plan_build/program.h"
#include "replay/replay.h"
#include "report/memory_report.h"
#include "support/status_macros.h"

namespace onnx_memplan {

struct CompiledModel::Impl {
  ModelInfo info;
  std::string planner;
  double planning_seconds = 0;
  std::vector<PassRun> pass_runs;
  Program program;
  Plan plan;
};

namespace {

std::vector<NamedType> NamedTypes(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<NamedType> result;
  for (ValueId id : ids) {
    const Value& value = graph.values[static_cast<size_t>(id)];
    result.push_back({value.name, *value.type});
  }
  return result;
}

int64_t MainOpset(const ModelInfo& info) {
  const auto it = info.opset_imports.find("");
  return it == info.opset_imports.end() ? 0 : it->second;
}

MemoryReport ReportOf(const CompiledModel::Impl& impl, bool reproducible) {
  ReportModel model = {.name = impl.program.graph.name,
                       .sha256 = impl.info.sha256,
                       .producer = impl.info.producer,
                       .ir_version = impl.info.ir_version,
                       .opset = MainOpset(impl.info)};
  MemoryReport report =
      MakeReport(impl.program, impl.plan, std::move(model), impl.planner,
                 reproducible ? std::nullopt : std::optional<double>(impl.planning_seconds));
  report.weights_bytes = EmittedWeightsBytes(impl.program, impl.plan);
  return report;
}

// What the limit misses, and who is to blame.
absl::Status TooLarge(const CompiledModel::Impl& impl, int64_t limit_bytes) {
  const MemoryReport report = ReportOf(impl, /*reproducible=*/true);
  std::string text = absl::StrCat(
      "the arena needs ", report.arena_bytes, " bytes, ", report.arena_bytes - limit_bytes,
      " more than the limit of ", limit_bytes,
      report.lower_bound_bytes > limit_bytes
          ? absl::StrCat(", and no order or placement fits (lower bound ", report.lower_bound_bytes,
                         ")")
          : std::string(", though a plan that fits is not ruled out: try a longer --time-limit"));
  if (!report.steps.empty()) {
    absl::StrAppend(&text, "\nlargest at the peak, step ", report.peak_step, " '",
                    report.steps[static_cast<size_t>(report.peak_step)].name, "':");
  }
  for (size_t i = 0; i < report.peak.size() && i < 8; ++i) {
    absl::StrAppend(&text, "\n  ", report.peak[i].bytes, " bytes: '", report.peak[i].name, "' (",
                    report.peak[i].why, ")");
  }
  return absl::ResourceExhaustedError(text);
}

}  // namespace

std::string_view Version() { return ONNX_MEMPLAN_VERSION; }

std::vector<TargetInfo> AvailableTargets() {
  std::vector<TargetInfo> result;
  for (const Target& target : BuiltinTargets()) result.push_back({target.name, target.summary});
  return result;
}

CompiledModel::CompiledModel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

std::vector<NamedType> CompiledModel::inputs() const { return NamedTypes(graph(), graph().inputs); }
std::vector<NamedType> CompiledModel::outputs() const {
  return NamedTypes(graph(), graph().outputs);
}
const Graph& CompiledModel::graph() const { return impl_->program.graph; }
const ModelInfo& CompiledModel::info() const { return impl_->info; }
const PlanProblem& CompiledModel::problem() const { return impl_->program.problem; }
const Plan& CompiledModel::plan() const { return impl_->plan; }
const std::vector<PassRun>& CompiledModel::pass_runs() const { return impl_->pass_runs; }

std::string CompiledModel::Report(ReportFormat format, const ReportOptions& options) const {
  const MemoryReport report = ReportOf(*impl_, options.reproducible);
  switch (format) {
    case ReportFormat::kText:
      return RenderText(report, options.all_steps);
    case ReportFormat::kJson:
      return RenderJson(report);
    case ReportFormat::kSvg:
      return RenderSvg(report);
    case ReportFormat::kHtml:
      return RenderHtml(report);
  }
  return "";
}

absl::StatusOr<std::vector<EmittedFile>> CompiledModel::Emit(EmitOptions options) const {
  Provenance& provenance = options.provenance;
  if (provenance.tool_version.empty()) provenance.tool_version = Version();
  if (provenance.model_sha256.empty()) provenance.model_sha256 = impl_->info.sha256;
  if (provenance.opset == 0) provenance.opset = static_cast<int32_t>(MainOpset(impl_->info));
  return EmitCode(impl_->program, impl_->plan, options);
}

absl::StatusOr<std::string> CompiledModel::ExportOnnx() const {
  return onnx_memplan::ExportOnnx(graph());
}

absl::StatusOr<std::vector<Tensor>> CompiledModel::Run(std::span<const Tensor> inputs) const {
  return Replay(impl_->program, impl_->plan, inputs, {.poison = true});
}

absl::StatusOr<CompiledModel> CompileGraph(LoadedModel model, const CompileOptions& options) {
  auto impl = std::make_shared<CompiledModel::Impl>();
  impl->info = std::move(model.info);
  ASSIGN_OR_RETURN(const Target target, ResolveTarget(options.target));
  ASSIGN_OR_RETURN(const std::unique_ptr<Planner> planner, MakePlanner(options.planner));
  ASSIGN_OR_RETURN(impl->pass_runs, OptimizeGraph(options.passes, model.graph));
  ASSIGN_OR_RETURN(impl->program, BuildProgram(std::move(model.graph), target,
                                               {.io_in_arena = options.io_in_arena}));

  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(impl->plan, planner->Run(impl->program.problem, options.budget));
  impl->planning_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  impl->planner = options.planner;
  if (options.arena_limit_bytes && impl->plan.arena_bytes > *options.arena_limit_bytes) {
    return TooLarge(*impl, *options.arena_limit_bytes);
  }
  return CompiledModel(std::move(impl));
}

absl::StatusOr<CompiledModel> CompileModel(const std::string& path, const CompileOptions& options) {
  ASSIGN_OR_RETURN(LoadedModel model, LoadModel(path, options.load));
  // The names that exporters give ("main_graph", "torch_jit") say nothing; the file's name does, or
  // its folder's.
  const std::filesystem::path file(path);
  model.graph.name = file.stem() == "model" && file.has_parent_path()
                         ? file.parent_path().filename().string()
                         : file.stem().string();
  return CompileGraph(std::move(model), options);
}

}  // namespace onnx_memplan
