// Trains the training cases of the corpus and compares with PyTorch: the loss before each of ten
// steps, every gradient of the first step, every parameter after one and ten steps. Each case runs
// by replaying the plan on this machine and (--generated) by compiled generated code. Prints one
// Markdown row for each case: the largest difference as a share of what is allowed.
//
//   onnx_memplan_training --corpus DIR [--filter NAME ...] [--target NAME]
//                         [--generated] [--compiler "g++ -std=c++17 -O2"] [--budget SHARE]
//
// Exit status 1 when a case fails, 77 where the corpus is absent.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "corpus/training_case.h"
#include "corpus/training_generated.h"
#include "onnx_memplan/compile.h"
#include "support/status_macros.h"

namespace onnx_memplan::testing {
namespace {

constexpr int kSkipped = 77;
constexpr size_t kSteps = 10;
constexpr int kCasesAtOnce = 2;

struct Arguments {
  std::string corpus;
  std::vector<std::string> filters;
  std::string target = "generic";
  std::string planner = "auto";
  std::string compiler = "g++ -std=c++17 -O2 -Wall -Wextra";
  // Share of the arena without recomputation that must do; 0: no limit.
  double budget = 0;
  bool generated = false;
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

// Of one way to run the case.
struct Shares {
  Worst losses;
  Worst gradients;
  Worst parameters;

  bool passed() const { return losses.share <= 1 && gradients.share <= 1 && parameters.share <= 1; }
  std::string where() const {
    return absl::StrCat(losses.where, "; ", gradients.where, "; ", parameters.where);
  }
};

struct Outcome {
  Shares replay;
  Shares generated;
  double compile_seconds = 0;
  size_t steps = 0;
  int64_t arena_bytes = 0;
  bool proven = false;

  bool passed() const { return replay.passed() && generated.passed(); }
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

void AddLoss(const TrainingCase& training_case, size_t step, float loss, Worst& losses) {
  losses.Add(std::abs(double{loss} - training_case.losses[step]),
             training_case.allowed_loss_difference[step], absl::StrCat("step ", step + 1));
}

absl::StatusOr<Shares> Replay(const TrainingCase& training_case, const CompiledModel& model) {
  Shares shares;
  StateMap states;
  const std::vector<Tensor> batch = {training_case.input, training_case.target};
  ASSIGN_OR_RETURN(const std::vector<Tensor> gradients, model.RunEntry("gradients", batch, states));
  ASSIGN_OR_RETURN(const std::vector<NamedType> names, model.OutputsOf("gradients"));
  for (const Reference& reference : training_case.gradients) {
    for (size_t i = 1; i < names.size(); ++i) {
      if (names[i].name != reference.name + "/gradient") continue;
      shares.gradients.Add(LargestDifference(gradients[i], reference.tensor), reference.allowed,
                           reference.name);
    }
  }
  std::vector<Tensor> inputs = batch;
  inputs.push_back(Tensor::FromVector<float>({}, {training_case.learning_rate}));
  for (size_t step = 0; step < kSteps; ++step) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> loss, model.RunEntry("train_step", inputs, states));
    AddLoss(training_case, step, loss[0].As<float>()[0], shares.losses);
    if (step == 0) {
      ResetStatistics(states);
      CompareStates(states, training_case.after1, " (1)", shares.parameters);
    }
  }
  CompareStates(states, training_case.after10, " (10)", shares.parameters);
  return shares;
}

Shares CompareGenerated(const TrainingCase& training_case, const GeneratedRun& run) {
  Shares shares;
  if (run.losses.size() != kSteps) shares.losses.Add(NAN, 1, "number of steps");
  for (size_t step = 0; step < run.losses.size(); ++step) {
    AddLoss(training_case, step, run.losses[step], shares.losses);
  }
  CompareStates(run.gradients, training_case.gradients, "", shares.gradients);
  CompareStates(run.after1, training_case.after1, " (1)", shares.parameters);
  CompareStates(run.after10, training_case.after10, " (10)", shares.parameters);
  return shares;
}

absl::StatusOr<Outcome> RunCase(const TrainingCase& training_case, const Arguments& arguments) {
  CompileOptions options;
  options.target = arguments.target;
  options.planner = arguments.planner;
  options.train = training_case.options;
  if (arguments.budget > 0) {
    options.train->recompute = 0;
    options.train->gradients = false;
    ASSIGN_OR_RETURN(const CompiledModel whole, CompileModel(training_case.model_path, options));
    options.train = training_case.options;
    options.arena_limit_bytes =
        static_cast<int64_t>(arguments.budget * static_cast<double>(whole.plan().arena_bytes));
  }
  ASSIGN_OR_RETURN(const CompiledModel model, CompileModel(training_case.model_path, options));
  Outcome outcome;
  outcome.steps = model.plan().order.size();
  outcome.arena_bytes = model.plan().arena_bytes;
  outcome.proven = model.plan().proven_optimal;
  ASSIGN_OR_RETURN(outcome.replay, Replay(training_case, model));
  if (arguments.generated) {
    ASSIGN_OR_RETURN(const GeneratedRun run,
                     TrainGenerated(model, training_case, arguments.compiler));
    outcome.generated = CompareGenerated(training_case, run);
    outcome.compile_seconds = run.compile_seconds;
  }
  return outcome;
}

std::string Cells(const Shares& shares) {
  return absl::StrFormat(" %.3f | %.3f | %.3f |", shares.losses.share, shares.gradients.share,
                         shares.parameters.share);
}

// One row of the table.
std::string Row(const std::string& name, const absl::StatusOr<Outcome>& outcome,
                const Arguments& arguments) {
  if (!outcome.ok()) return absl::StrCat("| ", name, " | ", outcome.status().message(), " |\n");
  std::string row =
      absl::StrFormat("| %s | %d | %d | %s |%s", name, outcome->steps, outcome->arena_bytes,
                      outcome->proven ? "yes" : "no", Cells(outcome->replay));
  if (arguments.generated) {
    absl::StrAppend(&row, Cells(outcome->generated),
                    absl::StrFormat(" %.1f |", outcome->compile_seconds));
  }
  absl::StrAppend(&row, outcome->passed() ? "\n" : " FAILED\n");
  if (!arguments.verbose && outcome->passed()) return row;
  absl::StrAppend(&row, "  worst by replay: ", outcome->replay.where(), "\n");
  if (arguments.generated) {
    absl::StrAppend(&row, "  worst generated: ", outcome->generated.where(), "\n");
  }
  return row;
}

bool Selected(const Arguments& arguments, const std::string& name) {
  return arguments.filters.empty() ||
         std::any_of(arguments.filters.begin(), arguments.filters.end(),
                     [&](const std::string& f) { return name.find(f) != std::string::npos; });
}

// Each thread takes the next case until none is left: compilers run side by side.
std::vector<absl::StatusOr<Outcome>> RunCases(const std::vector<std::string>& names,
                                              const Arguments& arguments) {
  std::vector<absl::StatusOr<Outcome>> outcomes(names.size(), absl::UnknownError("did not run"));
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < names.size();) {
      const absl::StatusOr<TrainingCase> training_case =
          ReadTrainingCase(arguments.corpus, names[i]);
      outcomes[i] = training_case.ok() ? RunCase(*training_case, arguments)
                                       : absl::StatusOr<Outcome>(training_case.status());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kCasesAtOnce; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

int Main(const Arguments& arguments) {
  if (!std::filesystem::exists(arguments.corpus + "/models")) {
    std::printf("skipped: no corpus at '%s'\n", arguments.corpus.c_str());
    return kSkipped;
  }
  std::vector<std::string> names = ListTrainingCases(arguments.corpus);
  std::erase_if(names, [&](const std::string& name) { return !Selected(arguments, name); });
  const std::vector<absl::StatusOr<Outcome>> outcomes = RunCases(names, arguments);
  std::printf(
      "| case | steps | arena bytes | proven | losses | gradients | parameters |%s\n",
      arguments.generated ? " generated: losses | gradients | parameters | compile s |" : "");
  std::printf("|---|---|---|---|---|---|---|%s\n", arguments.generated ? "---|---|---|---|" : "");
  int failures = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    std::fputs(Row(names[i], outcomes[i], arguments).c_str(), stdout);
    if (!outcomes[i].ok() || !outcomes[i]->passed()) ++failures;
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
  app.add_flag("--generated", arguments.generated, "Compile and run the generated code too");
  app.add_option("--compiler", arguments.compiler, "Command that compiles generated code")
      ->capture_default_str();
  app.add_option("--budget", arguments.budget,
                 "Recompute until this share of the arena without recomputation is enough");
  app.add_flag("--verbose,-v", arguments.verbose, "Name the worst tensors");
  CLI11_PARSE(app, argc, argv);
  return onnx_memplan::testing::Main(arguments);
}
