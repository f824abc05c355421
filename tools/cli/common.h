// What several commands share: model and planner options, files, progress.
#ifndef ONNX_MEMPLAN_TOOLS_CLI_COMMON_H_
#define ONNX_MEMPLAN_TOOLS_CLI_COMMON_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memplan/compile.h"

namespace onnx_memplan::cli {

// Options that say which model, and for what.
struct ModelArguments {
  std::string model;
  std::vector<std::string> dims;
  std::vector<std::string> input_shapes;
  std::vector<std::string> bindings;
  std::vector<std::string> passes_on;
  std::vector<std::string> passes_off;
  std::string target = "generic";
  std::string optimize = "balanced";
  int32_t threads = 1;
};

struct PlannerArguments {
  std::string planner = "auto";
  double time_limit_seconds = 10;
  std::optional<int64_t> node_limit;
  uint64_t seed = 1;
  int32_t threads = 1;
};

struct OutputArguments {
  bool quiet = false;
  bool verbose = false;
};

void AddModelOptions(CLI::App& app, ModelArguments& arguments);
void AddPlannerOptions(CLI::App& app, PlannerArguments& arguments);
void AddOutputOptions(CLI::App& app, OutputArguments& arguments);

absl::StatusOr<LoadOptions> MakeLoadOptions(const ModelArguments& arguments);
absl::StatusOr<CompileOptions> MakeCompileOptions(const ModelArguments& model,
                                                  const PlannerArguments& planner,
                                                  const OutputArguments& output);
// Limits, progress on stderr once planning takes longer than a second, and cancellation by Ctrl-C.
PlanBudget MakeBudget(const PlannerArguments& planner, const OutputArguments& output);

// "65536", "64K", "2M", "1G": powers of 1024.
absl::StatusOr<int64_t> ParseBytes(const std::string& text);
// {"NAME", "VALUE"} of "NAME=VALUE".
absl::StatusOr<std::pair<std::string, std::string>> SplitAssignment(const std::string& option,
                                                                    const std::string& text);

// Reference data: input_0.npy, input_1.npy, ... and output_0.npy, ... (or .pb), in the model's
// order.
struct DataSet {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};
// NotFound for a missing file, InvalidArgument for one of another type than the model's.
absl::StatusOr<DataSet> ReadDataSet(const std::string& folder, const CompiledModel& model);

// Writes all of `files` or none: each goes to a temporary file beside its place first.
struct OutputFile {
  std::string path;
  std::string bytes;
};
absl::Status WriteFiles(const std::vector<OutputFile>& files);

}  // namespace onnx_memplan::cli

#endif  // ONNX_MEMPLAN_TOOLS_CLI_COMMON_H_
