// A model with one layer, trained by hand-made graphs: for tests of what keeps data between runs.
//
//   y = x W,  loss = mean((y - t)^2),  g = dloss/dW = x^T (y - t) * 2/4,
//   m' = 0.5 m + g,  W' = W - learning_rate m',  steps' = steps + 1.
#ifndef ONNX_MEMPLAN_TESTS_TESTING_TRAINING_GRAPH_H_
#define ONNX_MEMPLAN_TESTS_TESTING_TRAINING_GRAPH_H_

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "onnx_memplan/graph.h"

namespace onnx_memplan::testing {

// Builds graphs whose values have types from the start.
class TypedGraph {
 public:
  ValueId Input(const std::string& name, Shape shape) {
    graph.inputs.push_back(graph.AddValue(name, TensorType{DType::kFloat, std::move(shape)}));
    return graph.inputs.back();
  }
  ValueId AddState(const std::string& name, Tensor initial, StateKind kind) {
    const ValueId in = graph.AddValue(name, initial.type());
    graph.states.push_back(
        {.in = in, .out = kNoValue, .kind = kind, .initial = std::move(initial)});
    return in;
  }
  ValueId Add(const std::string& op, std::vector<ValueId> inputs, const std::string& output,
              Shape shape) {
    const ValueId value = graph.AddValue(output, TensorType{DType::kFloat, std::move(shape)});
    Node node;
    node.op_type = op;
    node.name = output + "_node";
    node.inputs = std::move(inputs);
    node.outputs = {value};
    graph.nodes.push_back(std::move(node));
    return value;
  }
  // The new value of a state.
  void Rewrite(ValueId in, ValueId out) {
    for (State& state : graph.states) {
      if (state.in == in) state.out = out;
    }
  }

  Graph graph;
};

inline const std::array<float, 12> kTrainingInput = {1, 2, 3, -1, 0.5F, 2, 0, 1, -2, 1.5F, -1, 0};
inline const std::array<float, 4> kTrainingTarget = {1, -1, 2, 0.5F};
inline const std::array<float, 3> kInitialWeight = {0.5F, -0.25F, 0.125F};

inline ValueId AddForward(TypedGraph& maker, ValueId x, ValueId weight) {
  return maker.Add("MatMul", {x, weight}, "y", {4, 1});
}

inline ValueId AddState(TypedGraph& maker, const char* name) {
  if (std::string(name) == "W") {
    return maker.AddState(
        name, Tensor::FromVector<float>({3, 1}, {kInitialWeight.begin(), kInitialWeight.end()}),
        StateKind::kParameter);
  }
  if (std::string(name) == "m") {
    return maker.AddState(name, Tensor::FromVector<float>({3, 1}, {0, 0, 0}),
                          StateKind::kOptimizer);
  }
  return maker.AddState(name, Tensor::FromVector<float>({1}, {7}), StateKind::kStatistic);
}

// Outputs: loss, g.
inline std::pair<ValueId, ValueId> AddGradient(TypedGraph& maker, ValueId x, ValueId t, ValueId y) {
  const ValueId difference = maker.Add("Sub", {y, t}, "difference", {4, 1});
  const ValueId squared = maker.Add("Mul", {difference, difference}, "squared", {4, 1});
  const ValueId loss = maker.Add("ReduceMean", {squared}, "loss", {});
  maker.graph.nodes.back().attributes["keepdims"] = int64_t{0};
  const ValueId g = maker.Add("Gemm", {x, difference}, "g", {3, 1});
  maker.graph.nodes.back().attributes["transA"] = int64_t{1};
  maker.graph.nodes.back().attributes["alpha"] = 0.5F;
  return {loss, g};
}

// Inputs x, t, learning_rate; outputs loss and the sum of the squares of W before the step; states
// W, m, steps. Program order has the updates before the other readers of the old values.
inline Graph TrainStepGraph() {
  TypedGraph maker;
  maker.graph.name = "train_step";
  const ValueId x = maker.Input("x", {4, 3});
  const ValueId t = maker.Input("t", {4, 1});
  const ValueId rate = maker.Input("learning_rate", {});
  const ValueId momentum = AddState(maker, "m");  // not first: the layout sorts by kind
  const ValueId weight = AddState(maker, "W");
  const ValueId steps = AddState(maker, "steps");
  const ValueId one = maker.graph.AddConstant("one", Tensor::FromVector<float>({1}, {1}));
  const ValueId half = maker.graph.AddConstant("half", Tensor::FromVector<float>({1}, {0.5F}));
  maker.Rewrite(steps, maker.Add("Add", {steps, one}, "next_steps", {1}));
  const ValueId y = AddForward(maker, x, weight);
  const auto [loss, g] = AddGradient(maker, x, t, y);
  const ValueId decayed = maker.Add("Mul", {momentum, half}, "decayed", {3, 1});
  const ValueId next_momentum = maker.Add("Add", {decayed, g}, "next_m", {3, 1});
  maker.Rewrite(momentum, next_momentum);
  const ValueId change = maker.Add("Mul", {rate, next_momentum}, "change", {3, 1});
  maker.Rewrite(weight, maker.Add("Sub", {weight, change}, "next_W", {3, 1}));
  const ValueId shape = maker.graph.AddConstant("row", Tensor::VectorInt64({1, 3}));
  const ValueId row = maker.Add("Reshape", {weight, shape}, "W_row", {1, 3});
  const ValueId norm = maker.Add("ReduceSumSquare", {row}, "weight_norm", {});
  maker.graph.nodes.back().attributes["keepdims"] = int64_t{0};
  maker.graph.outputs = {loss, norm};
  return std::move(maker.graph);
}

// Input x; output y; state W, only read.
inline Graph InferGraph() {
  TypedGraph maker;
  maker.graph.name = "infer";
  const ValueId x = maker.Input("x", {4, 3});
  maker.graph.outputs = {AddForward(maker, x, AddState(maker, "W"))};
  return std::move(maker.graph);
}

// Inputs x, t; outputs loss, g; state W, only read.
inline Graph GradientsGraph() {
  TypedGraph maker;
  maker.graph.name = "gradients";
  const ValueId x = maker.Input("x", {4, 3});
  const ValueId t = maker.Input("t", {4, 1});
  const ValueId weight = AddState(maker, "W");
  const auto [loss, g] = AddGradient(maker, x, t, AddForward(maker, x, weight));
  maker.graph.outputs = {loss, g};
  return std::move(maker.graph);
}

// The same by plain loops.
struct TrainingReference {
  std::array<double, 3> weight = {kInitialWeight[0], kInitialWeight[1], kInitialWeight[2]};
  std::array<double, 3> momentum = {0, 0, 0};
  double steps = 7;

  std::array<double, 4> Infer() const {
    std::array<double, 4> y = {};
    for (size_t row = 0; row < 4; ++row) {
      for (size_t i = 0; i < 3; ++i) y[row] += double{kTrainingInput[row * 3 + i]} * weight[i];
    }
    return y;
  }
  double WeightNorm() const {
    return weight[0] * weight[0] + weight[1] * weight[1] + weight[2] * weight[2];
  }
  double Loss() const {
    double loss = 0;
    for (size_t row = 0; row < 4; ++row) {
      const double difference = Infer()[row] - double{kTrainingTarget[row]};
      loss += difference * difference / 4;
    }
    return loss;
  }
  std::array<double, 3> Gradient() const {
    std::array<double, 3> g = {};
    for (size_t row = 0; row < 4; ++row) {
      const double difference = Infer()[row] - double{kTrainingTarget[row]};
      for (size_t i = 0; i < 3; ++i) g[i] += 0.5 * difference * double{kTrainingInput[row * 3 + i]};
    }
    return g;
  }
  void Step(double learning_rate) {
    const std::array<double, 3> g = Gradient();
    for (size_t i = 0; i < 3; ++i) {
      momentum[i] = 0.5 * momentum[i] + g[i];
      weight[i] -= learning_rate * momentum[i];
    }
    steps += 1;
  }
};

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_TESTING_TRAINING_GRAPH_H_
