// Small models for the tests of training, and what their graphs compute.
#ifndef ONNX_MEMPLAN_TESTS_AUTODIFF_TRAINING_UTIL_H_
#define ONNX_MEMPLAN_TESTS_AUTODIFF_TRAINING_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "load/onnx_text.h"
#include "onnx_memplan/graph.h"
#include "ops/op_def.h"
#include "passes/infer.h"

namespace onnx_memplan::testing {

using Data = std::map<std::string, Tensor>;

inline size_t At(ValueId id) { return static_cast<size_t>(id); }

inline LoadedModel LoadText(const std::string& text) {
  absl::StatusOr<LoadedModel> model = Load(ParseOnnx(text));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

inline void InferTypesOf(Graph& graph) {
  const absl::Status status = InferAndFold(graph);
  ASSERT_TRUE(status.ok()) << status;
}

inline Graph TypedText(const std::string& text) {
  Graph graph = LoadText(text).graph;
  InferTypesOf(graph);
  return graph;
}

inline ValueId Find(const Graph& graph, const std::string& name) {
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].name == name) return static_cast<ValueId>(v);
  }
  ADD_FAILURE() << "no value '" << name << "' in\n" << graph.ToText();
  return kNoValue;
}

inline int64_t CountOf(const Graph& graph, const std::string& op_type) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.op_type == op_type; });
}

inline const State* FindState(const Graph& graph, const std::string& name) {
  for (const State& state : graph.states) {
    if (graph.values[At(state.in)].name == name) return &state;
  }
  return nullptr;
}

inline std::vector<std::string> StateNames(const Graph& graph, StateKind kind) {
  std::vector<std::string> names;
  for (const State& state : graph.states) {
    if (state.kind == kind) names.push_back(graph.values[At(state.in)].name);
  }
  return names;
}

// Every value of the graph by its name, each node run on the host. `given`: inputs and states; a
// state that is missing is as in the model.
inline Data Evaluate(const Graph& graph, const Data& given) {
  Graph run = graph;  // EvaluateNode takes its operands as constants
  for (const State& state : graph.states) run.values[At(state.in)].constant = state.initial;
  for (Value& value : run.values) {
    const auto it = given.find(value.name);
    if (it != given.end()) value.constant = it->second;
  }
  for (const Node& node : graph.nodes) {
    absl::StatusOr<std::vector<Tensor>> results = EvaluateNode(run, node);
    EXPECT_TRUE(results.ok()) << results.status();
    if (!results.ok()) break;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue) {
        run.values[At(node.outputs[i])].constant = std::move((*results)[i]);
      }
    }
  }
  Data data;
  for (const Value& value : run.values) {
    if (value.constant) data[value.name] = *value.constant;
  }
  return data;
}

// One run: states go on in `states`; returns the outputs.
inline std::vector<Tensor> RunStep(const Graph& graph, const Data& inputs, Data& states) {
  Data given = states;
  given.insert(inputs.begin(), inputs.end());
  const Data all = Evaluate(graph, given);
  for (const State& state : graph.states) {
    const ValueId now = state.out == kNoValue ? state.in : state.out;
    states[graph.values[At(state.in)].name] = all.at(graph.values[At(now)].name);
  }
  std::vector<Tensor> outputs;
  for (ValueId id : graph.outputs) outputs.push_back(all.at(graph.values[At(id)].name));
  return outputs;
}

template <class T>
Tensor Random(Shape shape, std::mt19937& random, double low = -1, double high = 1) {
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<T> values(static_cast<size_t>(*CheckedNumElements(shape)));
  for (T& value : values) value = static_cast<T>(uniform(random));
  return Tensor::FromVector<T>(std::move(shape), values);
}

// Random data for the inputs of a graph: classes below 3 for integers.
inline Data RandomInputs(const Graph& graph, uint32_t seed) {
  std::mt19937 random(seed);
  Data data;
  for (ValueId id : graph.inputs) {
    const TensorType& type = *graph.values[At(id)].type;
    Tensor& tensor = data[graph.values[At(id)].name];
    if (type.dtype == DType::kFloat) tensor = Random<float>(type.shape, random);
    if (type.dtype == DType::kDouble) tensor = Random<double>(type.shape, random);
    if (type.dtype == DType::kInt64) {
      std::vector<int64_t> values(static_cast<size_t>(type.NumElements()));
      for (int64_t& value : values) value = static_cast<int64_t>(random() % 3);
      tensor = Tensor::FromVector<int64_t>(type.shape, values);
    }
  }
  return data;
}

inline TrainingGraphs MakeGraphs(const TrainOptions& options, const std::string& text) {
  LoadedModel model = LoadText(text);
  absl::StatusOr<ForwardGraphs> forward =
      MakeForwardGraphs(options, model.info.initializers, std::move(model.graph));
  EXPECT_TRUE(forward.ok()) << forward.status();
  if (!forward.ok()) return {};
  InferTypesOf(forward->training);
  InferTypesOf(forward->inference);
  absl::StatusOr<TrainingGraphs> graphs = MakeTrainingGraphs(options, *std::move(forward));
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  if (!graphs.ok()) return {};
  for (const Graph* graph : {&graphs->step.graph, &graphs->inference}) {
    const absl::Status verified = graph->Verify(/*typed=*/true);
    EXPECT_TRUE(verified.ok()) << verified;
  }
  return *std::move(graphs);
}

// {v, v, ...} as ONNX text, changing sign from one to the next and growing a little.
inline std::string Numbers(int count, double first = 0.1) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) {
    const double value = (first + 0.07 * (i % 11)) * (i % 2 == 0 ? 1 : -1);
    text += (i == 0 ? "" : ", ") + std::to_string(value);
  }
  return text + "}";
}

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_AUTODIFF_TRAINING_UTIL_H_
