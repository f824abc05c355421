#include "autodiff/optimizer.h"

#include <gmock/gmock.h>

#include <cmath>

#include "autodiff/training_form.h"
#include "autodiff/training_util.h"

namespace onnx_memplan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kTensors = 2;
const Shape kShapes[kTensors] = {{2, 3}, {4}};
const char* const kNames[kTensors] = {"w", "b"};
constexpr float kRate = 0.125F;

// Two parameters whose gradients are inputs.
Graph MakeGraph(const OptimizerOptions& options, absl::Status* status = nullptr) {
  Graph graph;
  std::mt19937 random(11);
  std::vector<ParameterGradient> pairs;
  for (size_t i = 0; i < kTensors; ++i) {
    const TensorType type = {DType::kFloat, kShapes[i]};
    const ValueId parameter = graph.AddValue(kNames[i], type);
    const ValueId gradient = graph.AddValue(std::string("d") + kNames[i], type);
    graph.inputs.push_back(gradient);
    graph.states.push_back(
        {parameter, kNoValue, StateKind::kParameter, Random<float>(kShapes[i], random)});
    pairs.push_back({parameter, gradient});
  }
  const absl::Status added = AddUpdates(options, pairs, graph);
  if (status != nullptr) {
    *status = added;
    return graph;
  }
  EXPECT_TRUE(added.ok()) << added;
  const absl::Status verified = graph.Verify(/*typed=*/true);
  EXPECT_TRUE(verified.ok()) << verified;
  return graph;
}

Data Inputs(uint32_t seed) {
  std::mt19937 random(seed);
  Data data = {{kLearningRate, Tensor::FromVector<float>({}, {kRate})}};
  for (size_t i = 0; i < kTensors; ++i) {
    data[std::string("d") + kNames[i]] = Random<float>(kShapes[i], random);
  }
  return data;
}

// The formulas of PyTorch's documentation in double, for all elements of all tensors.
class Reference {
 public:
  Reference(const OptimizerOptions& options, const Graph& graph) : options_(options) {
    for (const char* name : kNames) {
      for (float w : FindState(graph, name)->initial.As<float>()) {
        weights_.push_back(static_cast<double>(w));
      }
    }
    first_.assign(weights_.size(), 0);
    second_.assign(weights_.size(), 0);
  }

  void Step(std::vector<double> g) {
    ++step_;
    Clip(g);
    const double rate = static_cast<double>(kRate);
    for (size_t i = 0; i < weights_.size(); ++i) {
      double& w = weights_[i];
      if (options_.kind == OptimizerKind::kAdamW) {
        w -= rate * options_.weight_decay * w;
      } else {
        g[i] += options_.weight_decay * w;
      }
      if (options_.kind == OptimizerKind::kSgd) {
        first_[i] = options_.momentum * first_[i] + g[i];
        w -= rate * (options_.nesterov ? g[i] + options_.momentum * first_[i] : first_[i]);
        continue;
      }
      first_[i] = options_.beta1 * first_[i] + (1 - options_.beta1) * g[i];
      second_[i] = options_.beta2 * second_[i] + (1 - options_.beta2) * g[i] * g[i];
      const double m = first_[i] / (1 - std::pow(options_.beta1, step_));
      const double v = second_[i] / (1 - std::pow(options_.beta2, step_));
      w -= rate * m / (std::sqrt(v) + options_.epsilon);
    }
  }

  const std::vector<double>& weights() const { return weights_; }

 private:
  void Clip(std::vector<double>& g) const {
    if (options_.clip_norm == 0) return;
    double squares = 0;
    for (double x : g) squares += x * x;
    const double scale = std::min(1.0, options_.clip_norm / (std::sqrt(squares) + 1e-6));
    for (double& x : g) x *= scale;
  }

  const OptimizerOptions options_;
  std::vector<double> weights_;
  std::vector<double> first_;
  std::vector<double> second_;
  double step_ = 0;
};

std::vector<double> Concatenated(const Data& data, const std::string& prefix) {
  std::vector<double> all;
  for (const char* name : kNames) {
    for (float x : data.at(prefix + name).As<float>()) all.push_back(static_cast<double>(x));
  }
  return all;
}

std::vector<OptimizerOptions> AllKinds() {
  return {{},
          {.weight_decay = 0.25},
          {.momentum = 0.9},
          {.momentum = 0.9, .weight_decay = 0.125},
          {.momentum = 0.75, .nesterov = true},
          {.momentum = 0.75, .nesterov = true, .weight_decay = 0.125, .clip_norm = 0.5},
          {.clip_norm = 0.5},
          {.clip_norm = 1000},
          {.kind = OptimizerKind::kAdam},
          {.kind = OptimizerKind::kAdam, .weight_decay = 0.25, .beta1 = 0.8, .beta2 = 0.95},
          {.kind = OptimizerKind::kAdam, .epsilon = 0.125, .clip_norm = 0.25},
          {.kind = OptimizerKind::kAdamW, .weight_decay = 0.25},
          {.kind = OptimizerKind::kAdamW, .weight_decay = 0.25, .clip_norm = 1}};
}

void ExpectNear(const std::vector<double>& expected, const std::vector<double>& got,
                const std::string& what) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(expected[i], got[i], 2e-6) << what << ", element " << i;
  }
}

TEST(AddUpdates, ThreeStepsAreThoseOfTheFormulas) {
  int number = 0;
  for (const OptimizerOptions& options : AllKinds()) {
    const Graph graph = MakeGraph(options);
    Reference reference(options, graph);
    Data states;
    for (uint32_t step = 1; step <= 3; ++step) {
      const Data inputs = Inputs(step);
      RunStep(graph, inputs, states);
      reference.Step(Concatenated(inputs, "d"));
      ExpectNear(reference.weights(), Concatenated(states, ""),
                 "optimizer " + std::to_string(number) + ", step " + std::to_string(step));
    }
    ++number;
  }
}

TEST(AddUpdates, ThreeAccumulatedCallsAreOneWithTheMeanGradient) {
  int number = 0;
  for (OptimizerOptions options : AllKinds()) {
    options.accumulate_steps = 3;
    const Graph graph = MakeGraph(options);
    Reference reference(options, graph);
    Data states;
    for (uint32_t group = 0; group < 3; ++group) {
      std::vector<double> mean(10, 0.0);
      for (uint32_t call = 0; call < 3; ++call) {
        const std::vector<double> before =
            states.empty() ? reference.weights() : Concatenated(states, "");
        const Data inputs = Inputs(10 * group + call);
        RunStep(graph, inputs, states);
        const std::vector<double> g = Concatenated(inputs, "d");
        for (size_t i = 0; i < g.size(); ++i) mean[i] += g[i] / 3;
        if (call < 2) {
          EXPECT_EQ(before, Concatenated(states, ""));
        }
      }
      reference.Step(mean);
      ExpectNear(reference.weights(), Concatenated(states, ""),
                 "optimizer " + std::to_string(number) + ", group " + std::to_string(group));
    }
    ++number;
  }
}

TEST(AddUpdates, StatesAreThoseThatTheRuleNeeds) {
  EXPECT_TRUE(StateNames(MakeGraph({}), StateKind::kOptimizer).empty());
  EXPECT_THAT(StateNames(MakeGraph({.momentum = 0.5}), StateKind::kOptimizer),
              ElementsAre("w/momentum", "b/momentum"));
  EXPECT_THAT(StateNames(MakeGraph({.kind = OptimizerKind::kAdam}), StateKind::kOptimizer),
              ElementsAre(kStepCounter, "w/exp_avg", "w/exp_avg_sq", "b/exp_avg", "b/exp_avg_sq"));
  EXPECT_THAT(StateNames(MakeGraph({.accumulate_steps = 2}), StateKind::kOptimizer),
              ElementsAre(kStepCounter, "w/gradient_sum", "b/gradient_sum"));
  for (const OptimizerOptions& options : AllKinds()) {
    for (const State& state : MakeGraph(options).states) EXPECT_NE(state.out, kNoValue);
  }
}

TEST(AddUpdates, BetasAreTheDecimalsThatWereWritten) {
  // As a float, 1 - beta2 is 5% off; with six digits, it is 0.
  OptimizerOptions options = {.kind = OptimizerKind::kAdam, .beta2 = 0.9999995};
  const Graph graph = MakeGraph(options);
  Reference reference(options, graph);
  Data states;
  RunStep(graph, Inputs(1), states);
  reference.Step(Concatenated(Inputs(1), "d"));
  ExpectNear(reference.weights(), Concatenated(states, ""), "beta2");
}

TEST(AddUpdates, NumbersOutOfRangeAreRefused) {
  const std::vector<std::pair<OptimizerOptions, const char*>> cases = {
      {{.momentum = -1}, "momentum"},
      {{.nesterov = true}, "Nesterov"},
      {{.weight_decay = -0.5}, "weight decay"},
      {{.weight_decay = std::nan("")}, "finite"},
      {{.beta1 = 1}, "betas"},
      {{.beta2 = -0.1}, "betas"},
      {{.epsilon = -1}, "epsilon"},
      {{.clip_norm = -1}, "norm"},
      {{.accumulate_steps = 0}, "accumulated"}};
  for (const auto& [options, text] : cases) {
    absl::Status status;
    MakeGraph(options, &status);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

}  // namespace
}  // namespace onnx_memplan::testing
