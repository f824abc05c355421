// A table of planners over instances: bytes, bound, gap, proof, seconds.
//
//   bench_planners [--time-limit S] [--capacity BYTES] [--planners A,B,...] FILE.csv...
//
// Every CSV of buffers (see onnx_memplan/buffers.h) is one instance.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx_memplan/buffers.h"

namespace onnx_memplan {
namespace {

struct Options {
  double time_limit_seconds = 10;
  std::optional<int64_t> capacity;
  std::vector<std::string> planners;
  std::vector<std::string> files;
};

std::vector<std::string> SplitCommas(const std::string& text) {
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t at = text.find(','); at != std::string::npos; at = text.find(',', from)) {
    parts.push_back(text.substr(from, at - from));
    from = at + 1;
  }
  parts.push_back(text.substr(from));
  return parts;
}

Options ParseArguments(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--time-limit" && i + 1 < argc) {
      options.time_limit_seconds = std::atof(argv[++i]);
    } else if (arg == "--capacity" && i + 1 < argc) {
      options.capacity = std::atoll(argv[++i]);
    } else if (arg == "--planners" && i + 1 < argc) {
      options.planners = SplitCommas(argv[++i]);
    } else {
      options.files.emplace_back(arg);
    }
  }
  if (options.planners.empty()) options.planners = {"auto"};
  if (options.planners.front() == "all") {
    options.planners.clear();
    for (const PlannerInfo& info : BufferPackers()) options.planners.emplace_back(info.name);
  }
  return options;
}

// One row of the table. Returns false when the instance cannot be read or a plan is wrong.
bool RunOne(const std::string& file, const std::string& planner, const Options& options) {
  const std::string name = std::filesystem::path(file).filename().string();
  absl::StatusOr<BufferList> list = ReadBuffersCsv(file);
  if (!list.ok()) {
    std::printf("%s: %s\n", name.c_str(), list.status().ToString().c_str());
    return false;
  }
  PlanBudget budget;
  budget.time_limit_seconds = options.time_limit_seconds;
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<BufferPlan> plan =
      PlanBuffers(list->buffers, options.capacity, planner, budget);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!plan.ok()) {
    std::printf("| %s | %s | %.3f | %s |\n", name.c_str(), planner.c_str(), seconds,
                plan.status().ToString().c_str());
    return plan.status().code() == absl::StatusCode::kResourceExhausted;
  }
  const double gap = plan->lower_bound == 0
                         ? 0
                         : 100.0 * static_cast<double>(plan->arena_bytes - plan->lower_bound) /
                               static_cast<double>(plan->lower_bound);
  std::printf("| %s | %zu | %s | %lld | %lld | %.3f | %s | %.3f | %s |\n", name.c_str(),
              list->buffers.size(), planner.c_str(), static_cast<long long>(plan->arena_bytes),
              static_cast<long long>(plan->lower_bound), gap, plan->proven_optimal ? "yes" : "no",
              seconds, plan->method.c_str());
  std::fflush(stdout);
  return true;
}

int Main(int argc, char** argv) {
  const Options options = ParseArguments(argc, argv);
  if (options.files.empty()) {
    std::fprintf(stderr,
                 "usage: bench_planners [--time-limit S] [--capacity BYTES] "
                 "[--planners NAME,...|all] FILE.csv...\n");
    return 2;
  }
  std::printf(
      "| instance | buffers | planner | bytes | bound | gap %% | proven | seconds | method |\n");
  std::printf("|---|---:|---|---:|---:|---:|---|---:|---|\n");
  bool good = true;
  for (const std::string& file : options.files) {
    for (const std::string& planner : options.planners) {
      good = RunOne(file, planner, options) && good;
    }
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace onnx_memplan

int main(int argc, char** argv) { return onnx_memplan::Main(argc, argv); }
