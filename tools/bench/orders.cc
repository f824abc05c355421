// A table of planners over generated networks: inference and training steps in problem form.
//
//   bench_orders [--time-limit S] [--planners A,B,...] [--only SUBSTRING]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "generated_networks.h"
#include "onnx_memplan/plan.h"
#include "plan/liveness.h"
#include "plan/problem.h"

namespace onnx_memplan {
namespace {

struct Instance {
  std::string name;
  PlanProblem problem;
};

std::vector<Instance> Instances() {
  const std::pair<const char*, testing::Network> networks[] = {
      {"resnet18", testing::ResNet18()},
      {"googlenet", testing::GoogLeNet()},
      {"mobilenet_v2", testing::MobileNetV2()},
      {"densenet121", testing::DenseNet121()},
      {"efficientnet_b0", testing::EfficientNetB0()},
      {"randwire_3x32", testing::RandWire(32, 16, 32, 3, 2)},
      {"searched_cells_10", testing::SearchedCells(10, 16, 32, 22)},
      {"amoeba_cells_6", testing::SearchedCells(6, 32, 32, 7)},
      {"wavenet_40", testing::WaveNet(40, 32, 32, 32)},
      {"transformer_12", testing::Transformer(12, 64, 8)},
      {"transformer_1300", testing::Transformer(1300, 64, 8)},
  };
  std::vector<Instance> instances;
  for (const auto& [name, network] : networks) {
    instances.push_back({std::string(name) + " inference", testing::InferenceProblem(network)});
    instances.push_back({std::string(name) + " training", testing::TrainingProblem(network)});
    instances.push_back(
        {std::string(name) + " training, in place", testing::TrainingProblem(network, true)});
  }
  for (int32_t tasks : {50, 100, 200, 400}) {
    instances.push_back(
        {"random graph of " + std::to_string(tasks), testing::RandomDag(tasks, 40, 1)});
  }
  return instances;
}

int Main(int argc, char** argv) {
  double time_limit_seconds = 20;
  std::vector<std::string> planners = {"program", "auto"};
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--time-limit") time_limit_seconds = std::atof(argv[i + 1]);
    if (flag == "--planners") planners = absl::StrSplit(argv[i + 1], ',');
    if (flag == "--only") only = argv[i + 1];
  }
  std::printf(
      "| problem | tasks | program order's peak | planner | arena | bound | proof | seconds |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  bool good = true;
  for (const Instance& instance : Instances()) {
    if (instance.name.find(only) == std::string::npos) continue;
    const PlanProblem& problem = instance.problem;
    const std::vector<int32_t> order =
        ProgramOrder(BuildPrecedence(problem), static_cast<int32_t>(problem.tasks.size()));
    for (const std::string& name : planners) {
      const absl::StatusOr<std::unique_ptr<Planner>> planner = MakePlanner(name);
      if (!planner.ok()) {
        std::fprintf(stderr, "%s\n", planner.status().ToString().c_str());
        return 1;
      }
      const auto start = std::chrono::steady_clock::now();
      const absl::StatusOr<Plan> plan =
          (*planner)->Run(problem, {.time_limit_seconds = time_limit_seconds});
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      if (!plan.ok()) {
        std::fprintf(stderr, "%s\n", plan.status().ToString().c_str());
        good = false;
        continue;
      }
      const double gap = 100.0 * static_cast<double>(plan->arena_bytes - plan->lower_bound) /
                         static_cast<double>(plan->arena_bytes);
      const std::string proof =
          plan->proven_optimal ? "minimal" : std::to_string(gap).substr(0, 5) + " %";
      std::printf("| %s | %zu | %lld | %s | %lld | %lld | %s | %.3f |\n", instance.name.c_str(),
                  problem.tasks.size(), static_cast<long long>(PeakLiveBytes(problem, order)),
                  name.c_str(), static_cast<long long>(plan->arena_bytes),
                  static_cast<long long>(plan->lower_bound), proof.c_str(), seconds.count());
      std::fflush(stdout);
    }
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace onnx_memplan

int main(int argc, char** argv) { return onnx_memplan::Main(argc, argv); }
