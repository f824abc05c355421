#include "train_options.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace onnx_memplan::cli {
namespace {

const std::map<std::string, LossKind>& Losses() {
  static const std::map<std::string, LossKind> losses = {
      {"cross-entropy", LossKind::kCrossEntropy},
      {"cross-entropy-probabilities", LossKind::kCrossEntropyProbabilities},
      {"mse", LossKind::kMse},
      {"l1", LossKind::kL1},
      {"huber", LossKind::kHuber},
      {"bce-with-logits", LossKind::kBceWithLogits},
      {"model", LossKind::kModelOutput},
  };
  return losses;
}

const std::map<std::string, OptimizerKind>& Optimizers() {
  static const std::map<std::string, OptimizerKind> optimizers = {
      {"sgd", OptimizerKind::kSgd},
      {"adam", OptimizerKind::kAdam},
      {"adamw", OptimizerKind::kAdamW},
  };
  return optimizers;
}

const std::map<std::string, BatchNormMode>& BatchNormModes() {
  static const std::map<std::string, BatchNormMode> modes = {
      {"as-in-model", BatchNormMode::kAsInModel},
      {"train", BatchNormMode::kTrain},
      {"frozen", BatchNormMode::kFrozen},
  };
  return modes;
}

template <class Map>
CLI::IsMember Names(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return CLI::IsMember(names);
}

constexpr const char* kGroup = "Training";

void AddLossOptions(CLI::App& app, TrainArguments& arguments) {
  LossOptions& loss = arguments.options.loss;
  app.add_option("--loss", arguments.loss,
                 "What is minimised; 'model': the model's own scalar output. Cross-entropy takes "
                 "scores (of a model that ends in Softmax, those before it) and int64 classes")
      ->check(Names(Losses()))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--loss-output", arguments.options.loss_output,
                 "The output that the loss takes, when there are several")
      ->type_name("NAME")
      ->group(kGroup);
  app.add_flag("--loss-sum", loss.sum, "The sum over the elements instead of the mean")
      ->group(kGroup);
  app.add_option("--class-axis", loss.class_axis,
                 "Axis of the scores that counts classes: 1, or -1 for one row for each token")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--ignore-index", loss.ignore_index, "Class whose targets count nothing")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--label-smoothing", loss.label_smoothing, "Cross-entropy: 0 <= s <= 1")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option(
         "--class-weights", loss.class_weights,
         "One weight for each class (bce-with-logits: of positive targets, along the last axis)")
      ->delimiter(',')
      ->group(kGroup);
  app.add_option("--huber-delta", loss.huber_delta, "Where the Huber loss becomes linear")
      ->capture_default_str()
      ->group(kGroup);
}

void AddOptimizerOptions(CLI::App& app, TrainArguments& arguments) {
  OptimizerOptions& optimizer = arguments.options.optimizer;
  app.add_option("--optimizer", arguments.optimizer,
                 "Numbers mean what they mean in PyTorch; the learning rate is an argument of "
                 "each call")
      ->check(Names(Optimizers()))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--momentum", optimizer.momentum, "sgd")->capture_default_str()->group(kGroup);
  app.add_flag("--nesterov", optimizer.nesterov, "sgd: Nesterov's momentum")->group(kGroup);
  app.add_option("--weight-decay", optimizer.weight_decay,
                 "All optimizers; 0 for adamw too, where PyTorch has 0.01")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--betas", arguments.betas, "adam, adamw")
      ->delimiter(',')
      ->expected(2)
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--epsilon", optimizer.epsilon, "adam, adamw")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--clip-norm", optimizer.clip_norm,
                 "Scale all gradients so that their norm is at most this; 0: off")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--accumulate", optimizer.accumulate_steps,
                 "Average the gradients of that many calls before an update")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(kGroup);
}

}  // namespace

void AddTrainOptions(CLI::App& app, TrainArguments& arguments) {
  TrainOptions& options = arguments.options;
  app.add_flag("--train", arguments.train,
               "Generate NAME_train_step, NAME_infer, NAME_reset and access to the parameters")
      ->group(kGroup);
  AddLossOptions(app, arguments);
  AddOptimizerOptions(app, arguments);
  app.add_option("--trainable", options.trainable,
                 "Train only initializers of such names; * and ? as in a shell (repeatable)")
      ->type_name("GLOB")
      ->take_all()
      ->group(kGroup);
  app.add_option("--freeze", options.freeze, "Train no initializers of such names (repeatable)")
      ->type_name("GLOB")
      ->take_all()
      ->group(kGroup);
  app.add_option("--last-layers", options.last_layers,
                 "Train only the last K nodes that have parameters")
      ->type_name("K")
      ->check(CLI::PositiveNumber)
      ->group(kGroup);
  app.add_flag("--biases-only", options.biases_only, "Train only what is added")->group(kGroup);
  app.add_option("--batch-norm", arguments.batch_norm,
                 "train: by the statistics of the batch; frozen: by the running ones")
      ->check(Names(BatchNormModes()))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--running-variance", arguments.running_variance,
                 "Rule for the running variance: unbiased (pytorch) or of the population (onnx)")
      ->check(CLI::IsMember({"pytorch", "onnx"}))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--dropout-seed", options.dropout_seed, "The same masks on every target")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--recompute", options.recompute,
                 "Share of extra work allowed for computing again what is not kept, where that "
                 "makes the arena smaller")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--recompute-for-limit", options.recompute_for_limit,
                 "The same when the arena would pass --arena-limit otherwise")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(kGroup);
  app.add_flag("--gradients", options.gradients, "Also generate NAME_gradients")->group(kGroup);
  CLI::Option* const train = app.get_option("--train");
  for (CLI::Option* option : app.get_options()) {
    if (option != train && option->get_group() == kGroup) option->needs(train);
  }
}

absl::StatusOr<std::optional<TrainOptions>> MakeTrainOptions(const TrainArguments& arguments) {
  if (!arguments.train) return std::optional<TrainOptions>();
  TrainOptions options = arguments.options;
  options.loss.kind = Losses().at(arguments.loss);
  options.optimizer.kind = Optimizers().at(arguments.optimizer);
  options.optimizer.beta1 = arguments.betas[0];
  options.optimizer.beta2 = arguments.betas[1];
  options.batch_norm = BatchNormModes().at(arguments.batch_norm);
  options.onnx_running_variance = arguments.running_variance == "onnx";
  if (options.optimizer.kind != OptimizerKind::kSgd && options.optimizer.momentum != 0) {
    return absl::InvalidArgumentError(
        "--momentum belongs to --optimizer sgd; adam and adamw have --betas");
  }
  return std::optional(options);
}

std::string TrainOptionsText(const TrainArguments& arguments) {
  if (!arguments.train) return "";
  const TrainOptions& options = arguments.options;
  const TrainOptions defaults;
  std::string text = absl::StrCat(" --train --loss ", arguments.loss, " --optimizer ",
                                  arguments.optimizer, " --batch-norm ", arguments.batch_norm);
  const auto number = [&](const char* name, double value, double default_value) {
    if (value != default_value) absl::StrAppend(&text, " ", name, " ", value);
  };
  const auto flag = [&](const char* name, bool value) {
    if (value) absl::StrAppend(&text, " ", name);
  };
  const LossOptions& loss = options.loss;
  if (!options.loss_output.empty()) absl::StrAppend(&text, " --loss-output ", options.loss_output);
  flag("--loss-sum", loss.sum);
  number("--class-axis", static_cast<double>(loss.class_axis), 1);
  number("--ignore-index", static_cast<double>(loss.ignore_index), -100);
  number("--label-smoothing", loss.label_smoothing, 0);
  if (!loss.class_weights.empty()) {
    absl::StrAppend(&text, " --class-weights ", absl::StrJoin(loss.class_weights, ","));
  }
  number("--huber-delta", loss.huber_delta, defaults.loss.huber_delta);
  const OptimizerOptions& optimizer = options.optimizer;
  number("--momentum", optimizer.momentum, 0);
  flag("--nesterov", optimizer.nesterov);
  number("--weight-decay", optimizer.weight_decay, 0);
  if (arguments.betas != TrainArguments().betas) {
    absl::StrAppend(&text, " --betas ", absl::StrJoin(arguments.betas, ","));
  }
  number("--epsilon", optimizer.epsilon, defaults.optimizer.epsilon);
  number("--clip-norm", optimizer.clip_norm, 0);
  number("--accumulate", static_cast<double>(optimizer.accumulate_steps), 1);
  for (const std::string& glob : options.trainable) absl::StrAppend(&text, " --trainable ", glob);
  for (const std::string& glob : options.freeze) absl::StrAppend(&text, " --freeze ", glob);
  number("--last-layers", static_cast<double>(options.last_layers), 0);
  flag("--biases-only", options.biases_only);
  if (arguments.running_variance != "pytorch") {
    absl::StrAppend(&text, " --running-variance ", arguments.running_variance);
  }
  number("--dropout-seed", static_cast<double>(options.dropout_seed), 1);
  number("--recompute", options.recompute, defaults.recompute);
  number("--recompute-for-limit", options.recompute_for_limit, defaults.recompute_for_limit);
  flag("--gradients", options.gradients);
  return text;
}

}  // namespace onnx_memplan::cli
