// A table of planners over instances: arena, bound, proof, seconds.
//
//   bench_planners [--time-limit S] [--planners NAME,...|all] [--capacity BYTES] [--details]
//                  [--corpus DIR [--only SUBSTRING]] [FILE.csv | MODEL.onnx ...]
//
// A CSV of buffers (onnx_memplan/buffers.h) is one instance, a model whose shapes are static is
// one, and --corpus adds every model of a corpus (tests/corpus/corpus_case.h), forward and training
// steps. One row for each instance; "=" behind an arena: proven minimal. --details: one row for
// each run instead, with the method.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "corpus/corpus_case.h"
#include "corpus/training_case.h"
#include "onnx_memplan/buffers.h"
#include "onnx_memplan/compile.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

struct Options {
  double time_limit_seconds = 10;
  std::optional<int64_t> capacity;
  std::vector<std::string> planners;
  std::string corpus;
  std::string only;  // part of the names of models of the corpus
  bool details = false;
  std::vector<std::string> files;
};

struct Run {
  int64_t arena_bytes = 0;
  int64_t lower_bound = 0;
  bool proven_optimal = false;
  std::string method;
  double seconds = 0;
};

struct Instance {
  std::string name;
  size_t items = 0;  // buffers, or tasks
  std::function<absl::StatusOr<Run>(const std::string& planner)> run;
};

// What is wrong with an instance, or with a run, is told and counted; the others go on.
class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  void Print(const char* items, std::vector<std::string> planners,
             const std::vector<Instance>& instances) {
    if (instances.empty()) return;
    if (!options_.planners.empty() && options_.planners.front() != "all") {
      planners = options_.planners;
    }
    std::printf("| instance | %s | ", items);
    if (options_.details) {
      std::printf(
          "planner | arena | bound | gap %% | proven | seconds | method |\n"
          "|---|---:|---|---:|---:|---:|---|---:|---|\n");
    } else {
      std::printf("bound |");
      for (const std::string& planner : planners) std::printf(" %s | s |", planner.c_str());
      std::printf("\n|---|---:|---:|");
      for (size_t p = 0; p < planners.size(); ++p) std::printf("---:|---:|");
      std::printf("\n");
    }
    for (const Instance& instance : instances) {
      options_.details ? PrintDetails(instance, planners) : PrintRow(instance, planners);
    }
    std::printf("\n");
  }

  void Fail(const std::string& name, const absl::Status& status) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), status.ToString().c_str());
    all_good_ = false;
  }
  bool all_good() const { return all_good_; }

 private:
  absl::StatusOr<Run> RunOne(const Instance& instance, const std::string& planner) {
    const auto start = std::chrono::steady_clock::now();
    absl::StatusOr<Run> run = instance.run(planner);
    if (!run.ok()) {
      if (run.status().code() != absl::StatusCode::kResourceExhausted) {
        Fail(absl::StrCat(instance.name, ", ", planner), run.status());
      }
      return run;
    }
    run->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return run;
  }

  void PrintDetails(const Instance& instance, const std::vector<std::string>& planners) {
    for (const std::string& planner : planners) {
      const absl::StatusOr<Run> run = RunOne(instance, planner);
      std::printf("| %s | %zu | %s |", instance.name.c_str(), instance.items, planner.c_str());
      if (run.ok()) {
        const auto bound = static_cast<double>(std::max<int64_t>(1, run->lower_bound));
        std::printf(" %lld | %lld | %.3f | %s | %.3f | %s |\n",
                    static_cast<long long>(run->arena_bytes),
                    static_cast<long long>(run->lower_bound),
                    100 * static_cast<double>(run->arena_bytes - run->lower_bound) / bound,
                    run->proven_optimal ? "yes" : "no", run->seconds, run->method.c_str());
      } else {
        std::printf(" | | | | | %s |\n", std::string(run.status().message()).c_str());
      }
      std::fflush(stdout);
    }
  }

  // The bound is the best of all planners: each holds for all orders and offsets.
  void PrintRow(const Instance& instance, const std::vector<std::string>& planners) {
    int64_t bound = 0;
    std::string cells;
    for (const std::string& planner : planners) {
      const absl::StatusOr<Run> run = RunOne(instance, planner);
      if (!run.ok()) {
        cells += " none | |";
        continue;
      }
      bound = std::max(bound, run->lower_bound);
      char seconds[32];
      std::snprintf(seconds, sizeof seconds, "%.3f", run->seconds);
      absl::StrAppend(&cells, " ", run->arena_bytes, run->proven_optimal ? " =" : "", " | ",
                      seconds, " |");
    }
    std::printf("| %s | %zu | %lld |%s\n", instance.name.c_str(), instance.items,
                static_cast<long long>(bound), cells.c_str());
    std::fflush(stdout);
  }

  const Options& options_;
  bool all_good_ = true;
};

Options ParseArguments(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const bool has_value = i + 1 < argc;
    if (arg == "--time-limit" && has_value) {
      options.time_limit_seconds = std::atof(argv[++i]);
    } else if (arg == "--capacity" && has_value) {
      options.capacity = std::atoll(argv[++i]);
    } else if (arg == "--planners" && has_value) {
      options.planners = absl::StrSplit(argv[++i], ',');
    } else if (arg == "--corpus" && has_value) {
      options.corpus = argv[++i];
    } else if (arg == "--only" && has_value) {
      options.only = argv[++i];
    } else if (arg == "--details") {
      options.details = true;
    } else {
      options.files.emplace_back(arg);
    }
  }
  return options;
}

std::vector<std::string> Names(const std::vector<PlannerInfo>& infos) {
  std::vector<std::string> names;
  for (const PlannerInfo& info : infos) names.emplace_back(info.name);
  return names;
}

PlanBudget Budget(const Options& options) {
  PlanBudget budget;
  budget.time_limit_seconds = options.time_limit_seconds;
  return budget;
}

absl::StatusOr<Instance> BufferInstance(const std::string& file, const Options& options) {
  ASSIGN_OR_RETURN(const BufferList list, ReadBuffersCsv(file));
  const auto run = [buffers = list.buffers,
                    &options](const std::string& planner) -> absl::StatusOr<Run> {
    ASSIGN_OR_RETURN(const BufferPlan plan,
                     PlanBuffers(buffers, options.capacity, planner, Budget(options)));
    return Run{plan.arena_bytes, plan.lower_bound, plan.proven_optimal, plan.method, 0};
  };
  return Instance{std::filesystem::path(file).stem().string(), list.buffers.size(), run};
}

absl::StatusOr<Instance> ModelInstance(const std::string& name, const std::string& path,
                                       CompileOptions compile, const Options& options) {
  compile.planner = "program";  // the problem is the same for every planner
  ASSIGN_OR_RETURN(const CompiledModel model, CompileModel(path, compile));
  const auto run = [problem = model.problem(),
                    &options](const std::string& planner_name) -> absl::StatusOr<Run> {
    ASSIGN_OR_RETURN(const std::unique_ptr<Planner> planner, MakePlanner(planner_name));
    ASSIGN_OR_RETURN(const Plan plan, planner->Run(problem, Budget(options)));
    return Run{plan.arena_bytes, plan.lower_bound, plan.proven_optimal, plan.method, 0};
  };
  return Instance{name, model.problem().tasks.size(), run};
}

// "model.onnx" says nothing; its folder does.
std::string NameOfModel(const std::filesystem::path& path) {
  return path.stem() == "model" && path.has_parent_path() ? path.parent_path().filename().string()
                                                          : path.stem().string();
}

void Add(const std::string& name, absl::StatusOr<Instance> instance,
         std::vector<Instance>& instances, Bench& bench) {
  if (instance.ok()) {
    instances.push_back(*std::move(instance));
  } else {
    bench.Fail(name, instance.status());
  }
}

void AddCorpus(const Options& options, std::vector<Instance>& instances, Bench& bench) {
  const std::string work = (std::filesystem::temp_directory_path() / "bench_planners").string();
  absl::StatusOr<std::vector<testing::CorpusModel>> models = testing::ListCorpus(options.corpus);
  if (!models.ok()) return bench.Fail(options.corpus, models.status());
  for (testing::CorpusModel& model : *models) {
    if (!absl::StrContains(model.name, options.only)) continue;
    testing::CorpusCase& first = model.cases.front();
    const absl::Status prepared = testing::PrepareCase(options.corpus, work, first);
    if (!prepared.ok()) {
      bench.Fail(model.name, prepared);
      continue;
    }
    CompileOptions compile;
    compile.load = first.load;
    Add(model.name, ModelInstance(model.name, first.model_path, compile, options), instances,
        bench);
    std::error_code ignored;
    std::filesystem::remove_all(work + "/" + model.name, ignored);
  }
  for (const std::string& name : testing::ListTrainingCases(options.corpus)) {
    if (!absl::StrContains(name, options.only)) continue;
    const auto training = testing::ReadTrainingCase(options.corpus, name);
    if (!training.ok()) {
      bench.Fail(name, training.status());
      continue;
    }
    CompileOptions compile;
    compile.train = training->options;
    Add(name, ModelInstance(name + ", step", training->model_path, compile, options), instances,
        bench);
  }
}

int Main(int argc, char** argv) {
  const Options options = ParseArguments(argc, argv);
  if (options.files.empty() && options.corpus.empty()) {
    std::fprintf(stderr,
                 "usage: bench_planners [--time-limit S] [--planners NAME,...|all] "
                 "[--capacity BYTES] [--details] [--corpus DIR [--only SUBSTRING]] [FILE.csv | "
                 "MODEL.onnx ...]\n");
    return 2;
  }
  Bench bench(options);
  std::vector<Instance> buffers, models;
  for (const std::string& file : options.files) {
    if (absl::EndsWith(file, ".csv")) {
      Add(file, BufferInstance(file, options), buffers, bench);
    } else {
      Add(file, ModelInstance(NameOfModel(file), file, {}, options), models, bench);
    }
  }
  if (!options.corpus.empty()) AddCorpus(options, models, bench);
  const bool all = !options.planners.empty() && options.planners.front() == "all";
  bench.Print("buffers", all ? Names(BufferPackers()) : std::vector<std::string>{"auto"}, buffers);
  bench.Print("tasks", Names(AvailablePlanners()), models);
  return bench.all_good() ? 0 : 1;
}

}  // namespace
}  // namespace onnx_memplan

int main(int argc, char** argv) { return onnx_memplan::Main(argc, argv); }
