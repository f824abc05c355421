#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "commands.h"
#include "common.h"
#include "onnx_memplan/compare.h"
#include "support/status_macros.h"

namespace onnx_memplan::cli {
namespace {

struct VerifyArguments {
  ModelArguments model;
  PlannerArguments planner;
  OutputArguments output;
  std::string data;
  double relative_tolerance = 1e-5;
};

absl::Status RunVerify(const VerifyArguments& arguments) {
  ASSIGN_OR_RETURN(const CompileOptions options,
                   MakeCompileOptions(arguments.model, arguments.planner, arguments.output));
  ASSIGN_OR_RETURN(const CompiledModel model, CompileModel(arguments.model.model, options));
  ASSIGN_OR_RETURN(const DataSet data, ReadDataSet(arguments.data, model));
  ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, model.Run(data.inputs));
  bool good = true;
  for (size_t k = 0; k < outputs.size(); ++k) {
    ASSIGN_OR_RETURN(const Difference difference, CompareTensors(outputs[k], data.outputs[k]));
    const double limit = arguments.relative_tolerance * difference.scale;
    const bool within = difference.largest <= limit;
    good = good && within;
    if (!arguments.output.quiet || !within) {
      std::printf("output '%s': largest difference %.3g, limit %.3g (largest value %.3g): %s\n",
                  model.outputs()[k].name.c_str(), difference.largest, limit, difference.scale,
                  within ? "ok" : "DIFFERS");
    }
  }
  if (!good) return absl::DataLossError("the outputs differ from the reference");
  return absl::OkStatus();
}

}  // namespace

void AddVerifyCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "verify", "Replay the plan on this machine and compare with reference data");
  auto arguments = std::make_shared<VerifyArguments>();
  AddModelOptions(*command, arguments->model);
  command->get_option("MODEL")->required();
  command
      ->add_option("--data", arguments->data,
                   "Folder with input_0.npy, ... and output_0.npy, ... (or .pb)")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--tolerance", arguments->relative_tolerance,
                   "Allowed difference, as a share of the largest expected value")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddPlannerOptions(*command, arguments->planner);
  AddOutputOptions(*command, arguments->output);
  command->callback(
      [&action, arguments] { action = [arguments] { return RunVerify(*arguments); }; });
}

}  // namespace onnx_memplan::cli
