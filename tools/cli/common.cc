#include "common.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "support/status_macros.h"

namespace onnx_memplan::cli {
namespace {

std::atomic<bool> cancel_requested = false;

// The first Ctrl-C asks the planner to stop with the best plan so far; the second ends the program.
void OnInterrupt(int) {
  cancel_requested = true;
  std::signal(SIGINT, SIG_DFL);
}

absl::StatusOr<int64_t> ParseDimension(const std::string& text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a dimension"));
  }
  return value;
}

absl::StatusOr<Shape> ParseShape(const std::string& text) {
  Shape shape;
  if (text.empty() || text == "scalar") return shape;
  const std::vector<std::string> parts = absl::StrSplit(text, absl::ByAnyChar("x,"));
  for (const std::string& part : parts) {
    ASSIGN_OR_RETURN(const int64_t dim, ParseDimension(part));
    shape.push_back(dim);
  }
  return shape;
}

std::string JoinNames(const std::vector<TargetInfo>& items) {
  std::string text;
  for (const TargetInfo& item : items) {
    absl::StrAppend(&text, "\n  ", item.name, ": ", item.summary);
  }
  return text;
}

std::string PlannerNames() {
  std::string text;
  for (const PlannerInfo& planner : AvailablePlanners()) {
    absl::StrAppend(&text, "\n  ", std::string(planner.name), ": ", std::string(planner.summary));
  }
  return text;
}

}  // namespace

void AddModelOptions(CLI::App& app, ModelArguments& arguments) {
  app.add_option("MODEL", arguments.model, "The ONNX file");
  app.add_option("--dim", arguments.dims,
                 "NAME=VALUE: size of a symbolic dimension, e.g. batch=1 (repeatable)")
      ->type_name("NAME=VALUE")
      ->take_all();
  app.add_option("--input-shape", arguments.input_shapes,
                 "Whole shape of an input, e.g. x=1x3x224x224 (repeatable)")
      ->type_name("NAME=SHAPE")
      ->take_all();
  app.add_option("--bind", arguments.bindings,
                 "Make an input a constant: a .npy or .pb file, or values such as 5 or 1,3,224 "
                 "(repeatable)")
      ->type_name("NAME=FILE|VALUE")
      ->take_all();
  app.add_option("--pass", arguments.passes_on, "Switch a graph pass on (repeatable)")
      ->type_name("NAME")
      ->take_all();
  app.add_option("--no-pass", arguments.passes_off,
                 "Switch a graph pass off; --list-passes shows them (repeatable)")
      ->type_name("NAME")
      ->take_all();
  app.add_option("--target", arguments.target,
                 "What the code runs on, or a JSON file that describes it (docs/targets.md)" +
                     JoinNames(AvailableTargets()))
      ->type_name("NAME|FILE.json")
      ->capture_default_str();
  app.add_option(
         "--optimize", arguments.optimize,
         "balanced: fast code as far as the arena grows by at most 3 %; speed: whatever "
         "memory that takes; size: no weights larger than the model's; memory: the smallest "
         "arena")
      ->check(CLI::IsMember({"balanced", "speed", "size", "memory"}))
      ->capture_default_str();
  app.add_option("--threads", arguments.threads,
                 "Threads that the generated code runs on: the same results bit for bit, sooner, "
                 "with more working memory. With more than one, FILE_threads.cpp has a pool that "
                 "you may replace (docs/generated-code.md)")
      ->type_name("N")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
}

void AddPlannerOptions(CLI::App& app, PlannerArguments& arguments) {
  app.add_option("--planner", arguments.planner, "How to choose order and offsets" + PlannerNames())
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--time-limit", arguments.time_limit_seconds,
                 "Seconds after which the planner stops with the best plan so far")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--node-limit", arguments.node_limit,
                 "Search nodes of each exact method: a limit that gives the same plan everywhere")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", arguments.seed, "Seed of the randomised searches")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--planner-threads", arguments.threads, "Threads that the planner may use")
      ->type_name("N")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
}

void AddOutputOptions(CLI::App& app, OutputArguments& arguments) {
  auto* quiet = app.add_flag("-q,--quiet", arguments.quiet, "Print nothing but errors");
  app.add_flag("-v,--verbose", arguments.verbose, "Say what each stage did")->excludes(quiet);
}

absl::StatusOr<std::pair<std::string, std::string>> SplitAssignment(const std::string& option,
                                                                    const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " takes NAME=VALUE and not '", text, "'"));
  }
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

absl::StatusOr<LoadOptions> MakeLoadOptions(const ModelArguments& arguments) {
  LoadOptions options;
  for (const std::string& text : arguments.dims) {
    ASSIGN_OR_RETURN(const auto assignment, SplitAssignment("--dim", text));
    ASSIGN_OR_RETURN(options.dims[assignment.first], ParseDimension(assignment.second));
  }
  for (const std::string& text : arguments.input_shapes) {
    ASSIGN_OR_RETURN(const auto assignment, SplitAssignment("--input-shape", text));
    ASSIGN_OR_RETURN(options.input_shapes[assignment.first], ParseShape(assignment.second));
  }
  for (const std::string& text : arguments.bindings) {
    ASSIGN_OR_RETURN(const auto assignment, SplitAssignment("--bind", text));
    const auto& [name, value] = assignment;
    if (absl::EndsWith(value, ".npy") || absl::EndsWith(value, ".pb")) {
      ASSIGN_OR_RETURN(options.bind[name], ReadTensorFile(value));
    } else {
      options.bind[name] = value;
    }
  }
  return options;
}

PlanBudget MakeBudget(const PlannerArguments& planner, const OutputArguments& output) {
  PlanBudget budget;
  budget.time_limit_seconds = planner.time_limit_seconds;
  budget.node_limit = planner.node_limit;
  budget.seed = planner.seed;
  budget.threads = planner.threads;
  budget.cancel = &cancel_requested;
  std::signal(SIGINT, OnInterrupt);
  if (!output.quiet) {
    budget.progress = [](const PlanProgress& progress) {
      if (progress.seconds < 1) return;
      std::fprintf(stderr, "%6.1f s  %.*s: best %lld bytes, bound %lld, %lld states\n",
                   progress.seconds, static_cast<int>(progress.stage.size()), progress.stage.data(),
                   static_cast<long long>(progress.incumbent_bytes),
                   static_cast<long long>(progress.bound_bytes),
                   static_cast<long long>(progress.states));
    };
  }
  return budget;
}

absl::StatusOr<CompileOptions> MakeCompileOptions(const ModelArguments& model,
                                                  const PlannerArguments& planner,
                                                  const OutputArguments& output) {
  CompileOptions options;
  ASSIGN_OR_RETURN(options.load, MakeLoadOptions(model));
  options.passes.on = model.passes_on;
  options.passes.off = model.passes_off;
  options.target = model.target;
  options.optimize = model.optimize == "speed"    ? OptimizeFor::kSpeed
                     : model.optimize == "size"   ? OptimizeFor::kSize
                     : model.optimize == "memory" ? OptimizeFor::kMemory
                                                  : OptimizeFor::kBalanced;
  options.threads = model.threads;
  options.planner = planner.planner;
  options.budget = MakeBudget(planner, output);
  return options;
}

absl::StatusOr<int64_t> ParseBytes(const std::string& text) {
  std::string digits = text;
  int64_t unit = 1;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'K':
      case 'k':
        unit = 1024;
        break;
      case 'M':
      case 'm':
        unit = 1024 * 1024;
        break;
      case 'G':
      case 'g':
        unit = 1024 * 1024 * 1024;
        break;
      default:
        break;
    }
    if (unit != 1) digits.pop_back();
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(digits, &value) || value < 0 ||
      __builtin_mul_overflow(value, unit, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a number of bytes (65536, 64K, 2M)"));
  }
  return value;
}

absl::Status WriteFiles(const std::vector<OutputFile>& files) {
  namespace fs = std::filesystem;
  const auto temporary = [](const OutputFile& file) { return file.path + ".tmp"; };
  std::error_code error;
  const auto give_up = [&](const std::string& path) {
    for (const OutputFile& file : files) fs::remove(temporary(file), error);
    return absl::UnavailableError(absl::StrCat("cannot write ", path));
  };
  for (const OutputFile& file : files) {
    std::ofstream out(temporary(file), std::ios::binary);
    out.write(file.bytes.data(), static_cast<std::streamsize>(file.bytes.size()));
    out.close();
    if (!out) return give_up(file.path);
  }
  for (const OutputFile& file : files) {
    fs::rename(temporary(file), file.path, error);
    if (error) return give_up(file.path);
  }
  return absl::OkStatus();
}

}  // namespace onnx_memplan::cli
