#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "commands.h"
#include "common.h"
#include "support/status_macros.h"
#include "train_options.h"

namespace onnx_memplan::cli {
namespace {

struct CompileArguments {
  ModelArguments model;
  PlannerArguments planner;
  OutputArguments output;
  TrainArguments train;
  std::string emit;
  std::vector<std::string> reports;
  std::string arena_limit;
  std::string weights = "inline";
  std::string arena = "static";
  std::string io = "caller";
  std::string name;
  std::string arena_section;
  std::string weights_section;
  std::string state_section;
  std::string self_test;
  std::string emit_onnx;
  bool reproducible = false;
  bool list_passes = false;
};

void AddOptions(CLI::App& app, CompileArguments& arguments) {
  AddModelOptions(app, arguments.model);
  app.add_option("--emit", arguments.emit, "Write FILE.cpp and FILE.h (and the weights, if apart)")
      ->type_name("FILE.cpp");
  app.add_option("--report", arguments.reports,
                 "Write the memory report; the ending chooses the form (repeatable)")
      ->type_name("FILE.json|.txt|.html|.svg")
      ->take_all();
  app.add_option("--arena-limit", arguments.arena_limit,
                 "Fail, and say what is in the way, when the arena is larger")
      ->type_name("BYTES|64K|2M");
  app.add_option("--weights", arguments.weights,
                 "inline: in the .cpp; incbin: a file that the assembler includes; binary: a file "
                 "that your program maps or reads")
      ->check(CLI::IsMember({"inline", "incbin", "binary"}))
      ->capture_default_str();
  app.add_option("--arena", arguments.arena,
                 "static: the generated file owns the arena; caller: you pass it at each call")
      ->check(CLI::IsMember({"static", "caller"}))
      ->capture_default_str();
  app.add_option("--io", arguments.io,
                 "Who holds inputs and outputs: your buffers (caller) or the arena")
      ->check(CLI::IsMember({"caller", "arena"}))
      ->capture_default_str();
  app.add_option("--namespace", arguments.name,
                 "Prefix of the generated functions; default: the name of the file")
      ->type_name("NAME");
  app.add_option("--arena-section", arguments.arena_section,
                 "Linker section of the arena, e.g. .dtcm")
      ->type_name("SECTION");
  app.add_option("--weights-section", arguments.weights_section,
                 "Linker section of the weights, e.g. .extflash")
      ->type_name("SECTION");
  app.add_option("--state-section", arguments.state_section,
                 "Linker section of what outlives a call (--train), e.g. .noinit")
      ->type_name("SECTION");
  app.add_option("--self-test", arguments.self_test,
                 "Also write FILE_selftest.cpp with a main() that runs the inputs of DIR "
                 "(input_0.npy, ...) and compares with output_0.npy, ...")
      ->type_name("DIR");
  app.add_option("--emit-onnx", arguments.emit_onnx, "Write the optimised graph as ONNX")
      ->type_name("FILE.onnx");
  AddPlannerOptions(app, arguments.planner);
  AddTrainOptions(app, arguments.train);
  app.add_flag("--reproducible", arguments.reproducible,
               "Leave times out of reports, so that equal runs give equal files");
  app.add_flag("--list-passes", arguments.list_passes, "List the graph passes and stop");
  AddOutputOptions(app, arguments.output);
}

absl::StatusOr<ReportFormat> FormatOfPath(const std::string& path) {
  if (absl::EndsWith(path, ".json")) return ReportFormat::kJson;
  if (absl::EndsWith(path, ".txt")) return ReportFormat::kText;
  if (absl::EndsWith(path, ".svg")) return ReportFormat::kSvg;
  if (absl::EndsWith(path, ".html")) return ReportFormat::kHtml;
  return absl::InvalidArgumentError(
      absl::StrCat("--report ", path, ": the name must end in .json, .txt, .svg or .html"));
}

// The options that shape the generated code, in a fixed order and without paths.
std::string OptionsText(const CompileArguments& arguments) {
  std::string text =
      absl::StrCat("--target ", arguments.model.target, " --optimize ", arguments.model.optimize,
                   " --planner ", arguments.planner.planner, " --weights ", arguments.weights,
                   " --arena ", arguments.arena, " --io ", arguments.io);
  for (const std::string& dim : arguments.model.dims) absl::StrAppend(&text, " --dim ", dim);
  for (const std::string& shape : arguments.model.input_shapes) {
    absl::StrAppend(&text, " --input-shape ", shape);
  }
  for (const std::string& pass : arguments.model.passes_on)
    absl::StrAppend(&text, " --pass ", pass);
  for (const std::string& pass : arguments.model.passes_off) {
    absl::StrAppend(&text, " --no-pass ", pass);
  }
  if (arguments.model.threads > 1) {
    absl::StrAppend(&text, " --threads ", arguments.model.threads);
  }
  return text + TrainOptionsText(arguments.train);
}

absl::StatusOr<EmitOptions> MakeEmitOptions(const CompileArguments& arguments,
                                            const CompiledModel& model) {
  const std::filesystem::path path(arguments.emit);
  EmitOptions options;
  options.stem = path.stem().string();
  options.name = arguments.name;
  options.arena = arguments.arena == "static" ? ArenaOwner::kStatic : ArenaOwner::kCaller;
  options.weights = arguments.weights == "inline"   ? WeightsForm::kInline
                    : arguments.weights == "incbin" ? WeightsForm::kIncbin
                                                    : WeightsForm::kBinary;
  options.arena_section = arguments.arena_section;
  options.weights_section = arguments.weights_section;
  options.state_section = arguments.state_section;
  options.provenance.options = OptionsText(arguments);
  if (!arguments.self_test.empty()) {
    ASSIGN_OR_RETURN(DataSet data, ReadDataSet(arguments.self_test, model));
    SelfTest test;
    test.inputs = std::move(data.inputs);
    test.outputs = std::move(data.outputs);
    options.self_test = std::move(test);
  }
  return options;
}

absl::Status AppendEmitted(const CompileArguments& arguments, const CompiledModel& model,
                           std::vector<OutputFile>& files) {
  const std::filesystem::path path(arguments.emit);
  if (path.extension() != ".cpp") {
    return absl::InvalidArgumentError(
        absl::StrCat("--emit ", arguments.emit, ": the name must end in .cpp"));
  }
  ASSIGN_OR_RETURN(EmitOptions options, MakeEmitOptions(arguments, model));
  ASSIGN_OR_RETURN(std::vector<EmittedFile> emitted, model.Emit(std::move(options)));
  for (EmittedFile& file : emitted) {
    files.push_back({(path.parent_path() / file.name).string(), std::move(file.bytes)});
  }
  return absl::OkStatus();
}

void PrintPassRuns(const CompiledModel& model) {
  for (const PassRun& run : model.pass_runs()) {
    std::fprintf(stderr, "pass %-28s %4lld rewrites, %lld -> %lld nodes\n", run.pass.c_str(),
                 static_cast<long long>(run.rewrites), static_cast<long long>(run.nodes_before),
                 static_cast<long long>(run.nodes_after));
  }
}

absl::Status RunCompile(const CompileArguments& arguments) {
  if (arguments.list_passes) {
    for (const PassInfo& pass : ListPasses()) {
      std::printf("%-28s %s%s\n", std::string(pass.name).c_str(), std::string(pass.summary).c_str(),
                  pass.required        ? " (required)"
                  : pass.on_by_default ? ""
                                       : " (off by default)");
    }
    return absl::OkStatus();
  }
  for (const std::string& path : arguments.reports) RETURN_IF_ERROR(FormatOfPath(path).status());
  ASSIGN_OR_RETURN(CompileOptions options,
                   MakeCompileOptions(arguments.model, arguments.planner, arguments.output));
  options.io_in_arena = arguments.io == "arena";
  options.allow_missing_kernels = arguments.emit.empty();
  ASSIGN_OR_RETURN(options.train, MakeTrainOptions(arguments.train));
  if (!arguments.arena_limit.empty()) {
    ASSIGN_OR_RETURN(options.arena_limit_bytes, ParseBytes(arguments.arena_limit));
  }
  ASSIGN_OR_RETURN(const CompiledModel model, CompileModel(arguments.model.model, options));
  if (!arguments.output.quiet) {
    for (const std::string& warning : model.info().warnings) {
      std::fprintf(stderr, "warning: %s\n", warning.c_str());
    }
  }
  if (const absl::Status kernels = model.CheckKernels(); !arguments.output.quiet && !kernels.ok()) {
    const std::string message(kernels.message());
    std::fprintf(stderr, "warning: planned only: %s\n", message.c_str());
  }
  if (arguments.output.verbose) PrintPassRuns(model);

  std::vector<OutputFile> files;
  if (!arguments.emit.empty()) RETURN_IF_ERROR(AppendEmitted(arguments, model, files));
  for (const std::string& path : arguments.reports) {
    ASSIGN_OR_RETURN(const ReportFormat format, FormatOfPath(path));
    files.push_back(
        {path, model.Report(format, {.all_steps = true, .reproducible = arguments.reproducible})});
  }
  if (!arguments.emit_onnx.empty()) {
    ASSIGN_OR_RETURN(std::string bytes, model.ExportOnnx());
    files.push_back({arguments.emit_onnx, std::move(bytes)});
  }
  RETURN_IF_ERROR(WriteFiles(files));
  if (!arguments.output.quiet) {
    const ReportOptions report = {.all_steps = arguments.output.verbose,
                                  .reproducible = arguments.reproducible};
    std::fputs(model.Report(ReportFormat::kText, report).c_str(), stdout);
    if (!files.empty()) std::puts("");
    for (const OutputFile& file : files) std::printf("wrote %s\n", file.path.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

void AddCompileCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<CompileArguments>();
  AddOptions(app, *arguments);
  app.callback([&app, &action, arguments] {
    if (!app.get_subcommands().empty()) return;
    if (arguments->model.model.empty() && !arguments->list_passes) {
      throw CLI::RequiredError("MODEL");
    }
    action = [arguments] { return RunCompile(*arguments); };
  });
}

}  // namespace onnx_memplan::cli
