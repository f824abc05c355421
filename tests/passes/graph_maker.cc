#include "passes/graph_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/op_def.h"

namespace onnx_memplan::testing {

double GraphMaker::Uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random_);
}

ValueId GraphMaker::Input(Shape shape, DType dtype) {
  const ValueId v =
      graph_.AddValue(graph_.UniqueValueName("input"), TensorType{dtype, std::move(shape)});
  graph_.inputs.push_back(v);
  return v;
}

ValueId GraphMaker::Constant(Shape shape, double low, double high) {
  const TensorType type = {DType::kFloat, shape};
  std::vector<float> values(static_cast<size_t>(type.NumElements()));
  for (float& value : values) value = static_cast<float>(Uniform(low, high));
  return graph_.AddConstant(graph_.UniqueValueName("constant"),
                            Tensor::FromVector(std::move(shape), values));
}

ValueId GraphMaker::Scalar(double value, Shape shape) {
  return graph_.AddConstant(
      graph_.UniqueValueName("scalar"),
      Tensor::FromVector(std::move(shape), std::vector<float>{static_cast<float>(value)}));
}

ValueId GraphMaker::Floats(const std::vector<float>& values) {
  return graph_.AddConstant(
      graph_.UniqueValueName("floats"),
      Tensor::FromVector<float>({static_cast<int64_t>(values.size())}, values));
}

ValueId GraphMaker::Ints(std::vector<int64_t> values) {
  return graph_.AddConstant(graph_.UniqueValueName("ints"), Tensor::VectorInt64(values));
}

ValueId GraphMaker::Op(std::string_view type, std::vector<ValueId> inputs, Attributes attributes) {
  return OpWithOutputs(type, std::move(inputs), 1, std::move(attributes))[0];
}

std::vector<ValueId> GraphMaker::OpWithOutputs(std::string_view type, std::vector<ValueId> inputs,
                                               int64_t num_outputs, Attributes attributes) {
  Node node;
  node.op_type = std::string(type);
  node.name = "node_" + std::to_string(graph_.nodes.size());
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.outputs.assign(static_cast<size_t>(num_outputs), kNoValue);
  const absl::StatusOr<std::vector<TensorType>> types = InferTypes(graph_, node);
  EXPECT_TRUE(types.ok()) << types.status();
  if (!types.ok()) std::abort();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    node.outputs[i] = graph_.AddValue(graph_.UniqueValueName(node.op_type), types->at(i));
  }
  graph_.nodes.push_back(node);
  return node.outputs;
}

std::vector<Tensor> RandomInputs(const Graph& graph, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> inputs;
  for (ValueId v : graph.inputs) {
    const TensorType type = *graph.values[static_cast<size_t>(v)].type;
    std::byte* data = nullptr;
    Tensor tensor = Tensor::Zeros(type, &data);
    std::uniform_real_distribution<double> uniform(-2, 2);
    for (int64_t i = 0; i < type.NumElements(); ++i) {
      if (type.dtype == DType::kFloat) {
        reinterpret_cast<float*>(data)[i] = static_cast<float>(uniform(random));
      } else if (type.dtype == DType::kInt64) {
        reinterpret_cast<int64_t*>(data)[i] = static_cast<int64_t>(random() % 3);
      } else if (type.dtype == DType::kInt32) {
        reinterpret_cast<int32_t*>(data)[i] = static_cast<int32_t>(random() % 3);
      } else if (DTypeBytes(type.dtype) == 1) {
        data[i] = static_cast<std::byte>(random() % 2);
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

std::vector<Tensor> RunGraph(const Graph& graph, const std::vector<Tensor>& inputs) {
  // EvaluateNode takes its operands as constants.
  Graph run = graph;
  const auto at = [&](ValueId v) -> Value& { return run.values[static_cast<size_t>(v)]; };
  for (size_t i = 0; i < inputs.size(); ++i) at(run.inputs[i]).constant = inputs[i];
  for (const Node& node : graph.nodes) {
    // Operands that the graph does not know must not be taken for known ones while lowering.
    absl::StatusOr<std::vector<Tensor>> results = EvaluateNode(run, node);
    EXPECT_TRUE(results.ok()) << results.status();
    if (!results.ok()) return {};
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue) at(node.outputs[i]).constant = std::move((*results)[i]);
    }
  }
  std::vector<Tensor> outputs;
  for (ValueId v : graph.outputs) outputs.push_back(*at(v).constant);
  return outputs;
}

int64_t Count(const Graph& graph, std::string_view op_type) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.op_type == op_type; });
}

Node Only(const Graph& graph, std::string_view op_type) {
  EXPECT_EQ(Count(graph, op_type), 1) << op_type << " in\n" << graph.ToText();
  const auto it = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                               [&](const Node& node) { return node.op_type == op_type; });
  return it == graph.nodes.end() ? Node{} : *it;
}

namespace {

void ExpectClose(const Tensor& want, const Tensor& got, double relative) {
  ASSERT_EQ(want.type(), got.type());
  if (want.dtype() != DType::kFloat) {
    EXPECT_TRUE(want == got);
    return;
  }
  double largest = 0;
  for (float value : want.As<float>()) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  for (int64_t i = 0; i < want.NumElements(); ++i) {
    const auto a = static_cast<double>(want.As<float>()[static_cast<size_t>(i)]);
    const auto b = static_cast<double>(got.As<float>()[static_cast<size_t>(i)]);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ASSERT_LE(std::abs(a - b), relative * largest + 1e-30) << "element " << i;
  }
}

std::vector<std::string> Interface(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& ids : {graph.inputs, graph.outputs}) {
    for (ValueId v : ids) {
      const Value& value = graph.values[static_cast<size_t>(v)];
      names.push_back(value.name + ":" + value.type->ToString());
    }
  }
  return names;
}

}  // namespace

Graph Optimized(const Graph& graph, const std::vector<std::string>& names, double relative) {
  PassOptions options;
  options.on = names;
  options.only_named = !names.empty();
  return OptimizedWith(options, graph, relative);
}

Graph OptimizedWith(const PassOptions& options, const Graph& graph, double relative) {
  Graph optimized = graph;
  const auto runs = OptimizeGraph(options, optimized);
  EXPECT_TRUE(runs.ok()) << runs.status();
  if (!runs.ok()) return optimized;
  const absl::Status verified = optimized.Verify(/*typed=*/true);
  EXPECT_TRUE(verified.ok()) << verified;
  EXPECT_EQ(Interface(graph), Interface(optimized));
  const std::vector<Tensor> inputs = RandomInputs(graph, 7);
  const std::vector<Tensor> want = RunGraph(graph, inputs);
  const std::vector<Tensor> got = RunGraph(optimized, inputs);
  EXPECT_EQ(want.size(), got.size());
  for (size_t i = 0; i < std::min(want.size(), got.size()); ++i) {
    SCOPED_TRACE("output " + std::to_string(i) + " of\n" + graph.ToText() + "became\n" +
                 optimized.ToText());
    ExpectClose(want[i], got[i], relative);
  }
  return optimized;
}

}  // namespace onnx_memplan::testing
