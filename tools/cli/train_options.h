// The options of on-device training.
#ifndef ONNX_MEMPLAN_TOOLS_CLI_TRAIN_OPTIONS_H_
#define ONNX_MEMPLAN_TOOLS_CLI_TRAIN_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/train.h"

namespace onnx_memplan::cli {

struct TrainArguments {
  bool train = false;
  std::string loss = "cross-entropy";
  std::string optimizer = "sgd";
  std::string batch_norm = "as-in-model";
  std::string running_variance = "pytorch";
  std::vector<double> betas = {0.9, 0.999};
  TrainOptions options;
};

void AddTrainOptions(CLI::App& app, TrainArguments& arguments);
// nullopt without --train. InvalidArgument for numbers that fit no meaning.
absl::StatusOr<std::optional<TrainOptions>> MakeTrainOptions(const TrainArguments& arguments);
// The options as the user would type them, in a fixed order; empty without --train.
std::string TrainOptionsText(const TrainArguments& arguments);

}  // namespace onnx_memplan::cli

#endif  // ONNX_MEMPLAN_TOOLS_CLI_TRAIN_OPTIONS_H_
