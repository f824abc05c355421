// Trains the training cases of the corpus and compares with PyTorch: the loss before each of ten
// steps, every gradient of the first step, every parameter after one and ten steps. Prints one
// Markdown row for each case.
//
//   onnx_memplan_training --corpus DIR [--filter NAME ...] [--target NAME]
//
// Exit status 1 when a case fails, 77 where the corpus is absent.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "corpus/training_case.h"
#include "onnx_memplan/compile.h"
#include "support/status_macros.h"

namespace onnx_memplan::testing {
namespace {

constexpr int kSkipped = 77;
constexpr int kSteps = 10;

struct Arguments {
  std::string corpus;
  std::vector<std::string> filters;
  std::string target = "generic";
  std::string planner = "auto";
  bool verbose = false;
};

// The largest difference as a share of what is allowed.
struct Worst {
  double share = 0;
  std::string where;

  void Add(double difference, double allowed, const std::string& what) {
    const double value = std::isnan(difference) ? HUGE_VAL : difference / allowed;
    if (value <= share) return;
    share = value;
    where = what;
  }
};

double LargestDifference(const Tensor& actual, const Tensor& expected) {
  if (actual.type() != expected.type()) return NAN;
  double largest = 0;
  for (size_t i = 0; i < actual.As<float>().size(); ++i) {
    const double difference =
        std::abs(double{actual.As<float>()[i]} - double{expected.As<float>()[i]});
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

struct Outcome {
  Worst losses;
  Worst gradients;
  Worst parameters;
  size_t steps = 0;
  int64_t arena_bytes = 0;
  int64_t infer_bytes = 0;
  bool proven = false;

  bool passed() const { return losses.share <= 1 && gradients.share <= 1 && parameters.share <= 1; }
};

void CompareStates(const StateMap& states, const std::vector<Reference>& references,
                   const std::string& when, Worst& worst) {
  for (const Reference& reference : references) {
    const auto it = states.find(reference.name);
    // Frozen parameters are no states.
    if (it == states.end()) continue;
    worst.Add(LargestDifference(it->second, reference.tensor), reference.allowed,
              reference.name + when);
  }
}

// The exporter ran the model in training mode once, on the same batch, so that running statistics
// in the file are those after step 1: that is where steps 2 to 10 go on from.
void ResetStatistics(StateMap& states) {
  std::erase_if(states, [](const auto& state) {
    return state.first.ends_with(".running_mean") || state.first.ends_with(".running_var");
  });
}

absl::StatusOr<Outcome> Train(const TrainingCase& training_case, const Arguments& arguments) {
  CompileOptions options;
  options.target = arguments.target;
  options.planner = arguments.planner;
  options.train = training_case.options;
  ASSIGN_OR_RETURN(const CompiledModel model, CompileModel(training_case.model_path, options));
  Outcome outcome;
  outcome.steps = model.plan().order.size();
  outcome.arena_bytes = model.plan().arena_bytes;
  outcome.proven = model.plan().proven_optimal;

  StateMap states;
  const std::vector<Tensor> batch = {training_case.input, training_case.target};
  ASSIGN_OR_RETURN(const std::vector<Tensor> gradients, model.RunEntry("gradients", batch, states));
  ASSIGN_OR_RETURN(const std::vector<NamedType> names, model.OutputsOf("gradients"));
  for (const Reference& reference : training_case.gradients) {
    for (size_t i = 1; i < names.size(); ++i) {
      if (names[i].name != reference.name + "/gradient") continue;
      outcome.gradients.Add(LargestDifference(gradients[i], reference.tensor), reference.allowed,
                            reference.name);
    }
  }
  std::vector<Tensor> inputs = batch;
  inputs.push_back(Tensor::FromVector<float>({}, {training_case.learning_rate}));
  for (int step = 0; step < kSteps; ++step) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> loss, model.RunEntry("train_step", inputs, states));
    const auto s = static_cast<size_t>(step);
    outcome.losses.Add(std::abs(double{loss[0].As<float>()[0]} - training_case.losses[s]),
                       training_case.allowed_loss_difference[s], absl::StrCat("step ", step + 1));
    if (step == 0) {
      ResetStatistics(states);
      CompareStates(states, training_case.after1, " (1)", outcome.parameters);
    }
  }
  CompareStates(states, training_case.after10, " (10)", outcome.parameters);
  return outcome;
}

int Main(const Arguments& arguments) {
  if (!std::filesystem::exists(arguments.corpus + "/models")) {
    std::printf("skipped: no corpus at '%s'\n", arguments.corpus.c_str());
    return kSkipped;
  }
  std::puts(
      "| case | steps | arena bytes | proven | losses | gradients | parameters |\n"
      "|---|---|---|---|---|---|---|");
  int failures = 0;
  for (const std::string& name : ListTrainingCases(arguments.corpus)) {
    const bool wanted =
        arguments.filters.empty() ||
        std::any_of(arguments.filters.begin(), arguments.filters.end(),
                    [&](const std::string& f) { return name.find(f) != std::string::npos; });
    if (!wanted) continue;
    const absl::StatusOr<TrainingCase> training_case = ReadTrainingCase(arguments.corpus, name);
    const absl::StatusOr<Outcome> outcome = training_case.ok()
                                                ? Train(*training_case, arguments)
                                                : absl::StatusOr<Outcome>(training_case.status());
    if (!outcome.ok()) {
      std::printf("| %s | %s |\n", name.c_str(), std::string(outcome.status().message()).c_str());
      ++failures;
      continue;
    }
    std::printf("| %s | %zu | %lld | %s | %.3f | %.3f | %.3f |%s\n", name.c_str(), outcome->steps,
                static_cast<long long>(outcome->arena_bytes), outcome->proven ? "yes" : "no",
                outcome->losses.share, outcome->gradients.share, outcome->parameters.share,
                outcome->passed() ? "" : " FAILED");
    if (arguments.verbose || !outcome->passed()) {
      std::printf("  worst: %s; %s; %s\n", outcome->losses.where.c_str(),
                  outcome->gradients.where.c_str(), outcome->parameters.where.c_str());
    }
    if (!outcome->passed()) ++failures;
    std::fflush(stdout);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace onnx_memplan::testing

int main(int argc, char** argv) {
  using onnx_memplan::testing::Arguments;
  Arguments arguments;
  CLI::App app("Trains the training cases of the corpus and compares with PyTorch");
  app.add_option("--corpus", arguments.corpus, "The corpus folder")->required();
  app.add_option("--filter", arguments.filters, "Only cases whose name contains this");
  app.add_option("--target", arguments.target, "As of onnx-memplan");
  app.add_option("--planner", arguments.planner, "As of onnx-memplan");
  app.add_flag("--verbose,-v", arguments.verbose, "Name the worst tensors");
  CLI11_PARSE(app, argc, argv);
  return onnx_memplan::testing::Main(arguments);
}
