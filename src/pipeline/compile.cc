#include "onnx_memplan/compile.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autodiff/training.h"
#include "emit/emit.h"
#include "load/export.h"
#include "ops/op_def.h"
#include "ops/target.h"
#include "pipeline/entry.h"
#include "pipeline/target_file.h"
#include "plan_build/program.h"
#include "replay/replay.h"
#include "report/memory_report.h"
#include "support/status_macros.h"

namespace onnx_memplan {

struct CompiledModel::Impl {
  ModelInfo info;
  PassOptions passes;
  std::string planner;
  std::vector<Entry> entries;

  const Entry& main() const { return entries.front(); }
  absl::StatusOr<const Entry*> Find(std::string_view name) const {
    for (const Entry& entry : entries) {
      if (entry.name == name) return &entry;
    }
    return absl::NotFoundError(absl::StrCat("no entry point is named '", std::string(name), "'"));
  }
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

const char* SummaryOf(const std::string& entry) {
  if (entry == "train_step") {
    return "Trains on one batch: computes the loss and its gradients and updates the parameters.\n"
           "The loss is that before the update.";
  }
  if (entry == "infer") return "Runs the network once, with the parameters as they are.";
  if (entry == "gradients") {
    return "Computes the loss and its gradient by each parameter, and updates nothing.";
  }
  return "Runs the network once.";
}

std::vector<EntryPoint> EntryPointsOf(const CompiledModel::Impl& impl) {
  std::vector<EntryPoint> points;
  for (const Entry& entry : impl.entries) {
    EntryPoint point = {.suffix = entry.name, .program = &entry.program, .plan = &entry.plan};
    point.summary = SummaryOf(entry.name);
    if (entry.name == "train_step") {
      // The last input. A model may have a tensor named learning_rate itself.
      const Graph& graph = entry.program.graph;
      point.by_value = {graph.values[static_cast<size_t>(graph.inputs.back())].name};
    }
    point.gradient_of = entry.gradient_of;
    points.push_back(std::move(point));
  }
  return points;
}

ReportSavings SavingsOf(const Entry& entry) {
  ReportSavings savings;
  savings.recomputed_values = entry.recomputed.values;
  savings.recomputed_bytes = entry.recomputed.saved_bytes;
  if (entry.recomputed.total_work > 0) {
    savings.extra_work = static_cast<double>(entry.recomputed.extra_work) /
                         static_cast<double>(entry.recomputed.total_work);
  }
  const Graph& graph = entry.program.graph;
  for (const Node& node : graph.nodes) {
    if (node.domain != kMemplan || !node.attributes.contains("optimizer")) continue;
    savings.gradient_bytes_not_stored +=
        graph.values[static_cast<size_t>(node.outputs[0])].type->Bytes();
  }
  return savings;
}

ReportModel ReportModelOf(const CompiledModel::Impl& impl) {
  return {.name = impl.main().program.graph.name,
          .sha256 = impl.info.sha256,
          .producer = impl.info.producer,
          .ir_version = impl.info.ir_version,
          .opset = MainOpset(impl.info)};
}

ReportEntry ReportEntryOf(const Entry& entry) {
  return {.name = entry.name,
          .program = &entry.program,
          .plan = &entry.plan,
          .planning_seconds = std::nullopt,
          .savings = SavingsOf(entry),
          .plain_arena_bytes = entry.plain_arena_bytes,
          .one_thread_arena_bytes = entry.one_thread_arena_bytes};
}

MemoryReport ReportOf(const CompiledModel::Impl& impl, bool reproducible) {
  std::vector<ReportEntry> entries;
  for (const Entry& entry : impl.entries) {
    entries.push_back(ReportEntryOf(entry));
    if (!reproducible) entries.back().planning_seconds = entry.planning_seconds;
  }
  MemoryReport report = MakeReport(entries, ReportModelOf(impl), impl.planner);
  report.weights_bytes = EmittedWeightsBytes(EntryPointsOf(impl));
  return report;
}

// What the limit misses in `entry`, and who is to blame.
absl::Status TooLarge(const CompiledModel::Impl& impl, const Entry& entry, int64_t limit_bytes) {
  const ReportEntry entries[] = {ReportEntryOf(entry)};
  const MemoryReport report = MakeReport(entries, ReportModelOf(impl), impl.planner);
  std::string text = absl::StrCat(
      "the arena ",
      impl.entries.size() > 1 ? absl::StrCat("of '", entry.name, "' ") : std::string(), "needs ",
      report.arena_bytes, " bytes, ", report.arena_bytes - limit_bytes, " more than the limit of ",
      limit_bytes,
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

std::vector<std::string> CompiledModel::entry_points() const {
  std::vector<std::string> names;
  for (const Entry& entry : impl_->entries) names.push_back(entry.name);
  return names;
}

CompiledModel::CompiledModel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

std::vector<NamedType> CompiledModel::inputs() const { return NamedTypes(graph(), graph().inputs); }
std::vector<NamedType> CompiledModel::outputs() const {
  return NamedTypes(graph(), graph().outputs);
}
const Graph& CompiledModel::graph() const { return impl_->main().program.graph; }
const ModelInfo& CompiledModel::info() const { return impl_->info; }
const PlanProblem& CompiledModel::problem() const { return impl_->main().program.problem; }
const Plan& CompiledModel::plan() const { return impl_->main().plan; }
const std::vector<PassRun>& CompiledModel::pass_runs() const { return impl_->main().pass_runs; }

absl::Status CompiledModel::CheckKernels() const {
  for (const Entry& entry : impl_->entries) {
    RETURN_IF_ERROR(onnx_memplan::CheckKernels(entry.program));
  }
  return absl::OkStatus();
}

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
  return EmitCode(EntryPointsOf(*impl_), options);
}

absl::StatusOr<std::string> CompiledModel::ExportOnnx() const {
  const Entry& entry = impl_->main();
  if (!entry.source) return onnx_memplan::ExportOnnx(entry.program.graph);
  PassOptions passes = impl_->passes;
  passes.off.emplace_back("fuse-attention");
  Graph standard = *entry.source;
  RETURN_IF_ERROR(OptimizeGraph(passes, standard).status());
  return onnx_memplan::ExportOnnx(standard);
}

absl::StatusOr<std::vector<Tensor>> CompiledModel::Run(std::span<const Tensor> inputs) const {
  return Replay(impl_->main().program, impl_->main().plan, inputs, {.poison = true});
}

absl::StatusOr<std::vector<NamedType>> CompiledModel::InputsOf(std::string_view name) const {
  ASSIGN_OR_RETURN(const Entry* entry, impl_->Find(name));
  return NamedTypes(entry->program.graph, entry->program.graph.inputs);
}

absl::StatusOr<std::vector<NamedType>> CompiledModel::OutputsOf(std::string_view name) const {
  ASSIGN_OR_RETURN(const Entry* entry, impl_->Find(name));
  return NamedTypes(entry->program.graph, entry->program.graph.outputs);
}

absl::StatusOr<std::vector<Tensor>> CompiledModel::RunEntry(std::string_view name,
                                                            std::span<const Tensor> inputs,
                                                            StateMap& states) const {
  ASSIGN_OR_RETURN(const Entry* entry, impl_->Find(name));
  const Graph& graph = entry->program.graph;
  const auto name_of = [&](const State& state) -> const std::string& {
    return graph.values[static_cast<size_t>(state.in)].name;
  };
  std::vector<Tensor> data;
  for (const State& state : graph.states) {
    const auto it = states.find(name_of(state));
    data.push_back(it == states.end() ? state.initial : it->second);
  }
  ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                   Replay(entry->program, entry->plan, inputs, {.poison = true, .states = &data}));
  for (size_t i = 0; i < data.size(); ++i) {
    states.insert_or_assign(name_of(graph.states[i]), std::move(data[i]));
  }
  return outputs;
}

absl::StatusOr<CompiledModel> CompileGraph(LoadedModel model, const CompileOptions& options) {
  auto impl = std::make_shared<CompiledModel::Impl>();
  impl->info = model.info;
  impl->passes = options.passes;
  impl->planner = options.planner;
  ASSIGN_OR_RETURN(Target target, ResolveTarget(options.target));
  target.optimize = options.optimize;
  ASSIGN_OR_RETURN(const std::unique_ptr<Planner> planner, MakePlanner(options.planner));
  if (options.train) {
    ASSIGN_OR_RETURN(impl->entries,
                     MakeTrainingEntries(std::move(model), target, *planner, options));
  } else {
    ASSIGN_OR_RETURN(Entry entry,
                     MakeInferenceEntry(std::move(model.graph), target, *planner, options));
    impl->entries.push_back(std::move(entry));
  }
  for (const Entry& entry : impl->entries) {  // they share one arena
    if (options.arena_limit_bytes && entry.plan.arena_bytes > *options.arena_limit_bytes) {
      return TooLarge(*impl, entry, *options.arena_limit_bytes);
    }
  }
  return CompiledModel(std::move(impl));
}

absl::StatusOr<CompiledModel> CompileModel(const std::string& path, const CompileOptions& options) {
  LoadOptions load = options.load;
  if (options.allow_missing_kernels) load.keep_declared_types = true;
  ASSIGN_OR_RETURN(LoadedModel model, LoadModel(path, load));
  // The names that exporters give ("main_graph", "torch_jit") say nothing; the file's name does, or
  // its folder's.
  const std::filesystem::path file(path);
  model.graph.name = file.stem() == "model" && file.has_parent_path()
                         ? file.parent_path().filename().string()
                         : file.stem().string();
  return CompileGraph(std::move(model), options);
}

}  // namespace onnx_memplan
