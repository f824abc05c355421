#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/run_node.h"
#include "passes/graph_maker.h"

namespace onnx_memplan::testing {
namespace {

constexpr size_t kScale = 4;

Attributes With(Attributes attributes, const Attributes& more) {
  attributes.insert(more.begin(), more.end());
  return attributes;
}

// A weight gradient, and the optimizer that uses it.
struct Gradient {
  std::string type;
  std::string domain;
  std::vector<Shape> inputs;
  Attributes attributes = {};
};

struct Optimizer {
  std::string type;
  int moments = 0;
  Attributes attributes = {};
};

const std::vector<Optimizer>& Optimizers() {
  static const std::vector<Optimizer>* const all = new std::vector<Optimizer>{
      {"SgdUpdate", 0, {{"weight_decay", 0.1F}}},
      {"SgdUpdate", 1, {{"momentum", 0.9F}, {"weight_decay", 0.1F}}},
      {"SgdUpdate", 1, {{"momentum", 0.5F}, {"nesterov", int64_t{1}}}},
      {"AdamUpdate", 2, {{"weight_decay", 0.1F}, {"beta1", 0.8F}}},
      {"AdamUpdate", 2, {{"weight_decay", 0.1F}, {"decoupled_weight_decay", int64_t{1}}}}};
  return *all;
}

class UpdateGraph {
 public:
  UpdateGraph(const Gradient& gradient, const Optimizer& optimizer) {
    std::vector<ValueId> operands;
    for (const Shape& shape : gradient.inputs) {
      operands.push_back(Input("operand", {DType::kFloat, shape}));
    }
    gradient_ = Add({.op_type = gradient.type,
                     .domain = gradient.domain,
                     .name = "gradient",
                     .inputs = operands,
                     .outputs = {},
                     .attributes = gradient.attributes,
                     .epilogue = {}},
                    1)[0];
    const TensorType type = *graph.values[static_cast<size_t>(gradient_)].type;
    Node update = {.op_type = optimizer.type,
                   .domain = kMemplan,
                   .name = "update",
                   .inputs = {Input("w", type), gradient_, Input("rate", {DType::kFloat, {}})},
                   .outputs = {},
                   .attributes = optimizer.attributes,
                   .epilogue = {}};
    if (optimizer.moments > 0) {
      update.inputs.push_back(Input("step", {DType::kInt64, {}}));
      update.inputs.push_back(kNoValue);
      for (int i = 0; i < optimizer.moments; ++i) update.inputs.push_back(Input("moment", type));
    }
    graph.outputs = Add(std::move(update), static_cast<size_t>(optimizer.moments) + 1);
  }

  ValueId Input(const std::string& name, const TensorType& type) {
    graph.inputs.push_back(graph.AddValue(graph.UniqueValueName(name), type));
    return graph.inputs.back();
  }
  std::vector<ValueId> Add(Node node, size_t outputs) {
    node.outputs.assign(outputs, kNoValue);
    const absl::StatusOr<std::vector<TensorType>> types = InferTypes(graph, node);
    EXPECT_TRUE(types.ok()) << types.status();
    if (!types.ok()) std::abort();
    for (size_t i = 0; i < outputs; ++i) {
      node.outputs[i] = graph.AddValue(graph.UniqueValueName(node.name + "_out"), types->at(i));
    }
    graph.nodes.push_back(node);
    return node.outputs;
  }
  Node& update() { return graph.nodes.back(); }
  ValueId gradient() const { return gradient_; }

  Graph graph;

 private:
  ValueId gradient_ = kNoValue;
};

// Positive throughout: second moments have roots, and no sum cancels.
std::map<ValueId, Tensor> PositiveInputs(const Graph& graph) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(0.1F, 1);
  std::map<ValueId, Tensor> data;
  for (ValueId id : graph.inputs) {
    const TensorType& type = *graph.values[static_cast<size_t>(id)].type;
    if (type.dtype == DType::kInt64) {
      data[id] = Tensor::ScalarInt64(3);
      continue;
    }
    std::vector<float> values(static_cast<size_t>(type.NumElements()));
    for (float& value : values) value = uniform(random);
    data[id] = Tensor::FromVector<float>(type.shape, values);
  }
  return data;
}

// The graph's outputs by the kernels of `target`.
std::vector<Tensor> RunOn(const Target& target, const Graph& graph) {
  std::map<ValueId, Tensor> data = PositiveInputs(graph);
  for (const Node& node : graph.nodes) {
    NodeUnderTest run(node.op_type, node.domain);
    for (const auto& [name, attribute] : node.attributes) run.Set(name, attribute);
    for (ValueId input : node.inputs) {
      if (input == kNoValue) {
        run.NoInput();
      } else {
        run.Input(data.at(input), /*constant=*/false);
      }
    }
    const auto results = run.Outputs(static_cast<int>(node.outputs.size())).Run(target);
    EXPECT_TRUE(results.ok()) << results.status();
    if (!results.ok()) return {};
    for (size_t i = 0; i < node.outputs.size(); ++i) data[node.outputs[i]] = (*results)[i];
  }
  std::vector<Tensor> outputs;
  for (ValueId id : graph.outputs) outputs.push_back(data.at(id));
  return outputs;
}

Graph Fused(Graph graph) {
  const auto runs = OptimizeGraph({.on = {"fuse-updates"}, .only_named = true}, graph);
  EXPECT_TRUE(runs.ok()) << runs.status();
  EXPECT_TRUE(graph.Verify(/*typed=*/true).ok());
  return graph;
}

int64_t FusedNodes(const Graph& graph) {
  return Count(graph, "MatMulUpdate") + Count(graph, "ConvWeightUpdate");
}

void ExpectTheSameOnEveryTarget(const Graph& unfused, const Graph& fused) {
  for (const Target& target : BuiltinTargets()) {
    SCOPED_TRACE(target.name);
    const std::vector<Tensor> want = RunOn(target, unfused);
    const std::vector<Tensor> got = RunOn(target, fused);
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(want[i].type(), got[i].type());
      for (size_t j = 0; j < want[i].As<float>().size(); ++j) {
        const float expected = want[i].As<float>()[j];
        ASSERT_NEAR(expected, got[i].As<float>()[j], 2e-5F * std::fmax(1.0F, std::abs(expected)))
            << "output " << i << ", element " << j;
      }
    }
  }
}

void ExpectFused(const std::vector<Gradient>& gradients) {
  for (const Gradient& gradient : gradients) {
    for (const Optimizer& optimizer : Optimizers()) {
      const UpdateGraph maker(gradient, optimizer);
      const Graph fused = Fused(maker.graph);
      SCOPED_TRACE(fused.ToText());
      ASSERT_EQ(FusedNodes(fused), 1);
      ASSERT_EQ(fused.nodes.size(), 1u);
      ExpectTheSameOnEveryTarget(maker.graph, fused);
    }
  }
}

TEST(FuseUpdates, ProductsOfMatrices) {
  const Attributes transposed = {{"transA", int64_t{1}}};
  ExpectFused({{"Gemm", "", {{7, 5}, {7, 33}}, With(transposed, {{"alpha", 0.25F}})},
               {"Gemm", "", {{64, 37}, {64, 16}}, transposed},
               {"Gemm", "", {{5, 7}, {7, 17}}},
               {"Gemm", "", {{1, 130}, {1, 70}}, transposed},
               {"MatMul", "", {{9, 4}, {4, 31}}},
               {"MatMul", "", {{1, 300}, {300, 20}}},
               {"FusedMatMul", kMicrosoft, {{6, 19}, {6, 18}}, With(transposed, {{"alpha", 2.0F}})},
               {"FusedMatMul", kMicrosoft, {{3, 6}, {6, 49}}}});
}

TEST(FuseUpdates, GradientsOfConvolutionWeights) {
  const auto ints = [](std::vector<int64_t> values) { return Attribute(std::move(values)); };
  ExpectFused({{"ConvWeightGrad",
                kMemplan,
                {{2, 3, 7, 9}, {2, 5, 7, 9}},
                {{"kernel_shape", ints({3, 3})}, {"pads", ints({1, 1, 1, 1})}}},
               {"ConvWeightGrad",
                kMemplan,
                {{1, 6, 9, 5}, {1, 8, 4, 2}},
                {{"kernel_shape", ints({3, 2})}, {"strides", ints({2, 2})}, {"group", int64_t{2}}}},
               {"ConvWeightGrad",
                kMemplan,
                {{3, 17, 4, 4}, {3, 35, 4, 4}},
                {{"kernel_shape", ints({1, 1})}}},
               {"ConvWeightGrad",
                kMemplan,
                {{2, 4, 11}, {2, 3, 5}},
                {{"kernel_shape", ints({3})},
                 {"dilations", ints({2})},
                 {"strides", ints({2})},
                 {"pads", ints({1, 1})}}},
               {"ConvWeightGrad",
                kMemplan,
                {{1, 2, 4, 3, 5}, {1, 4, 3, 3, 4}},
                {{"kernel_shape", ints({2, 1, 2})}}}});
}

const Gradient kProduct = {"Gemm", "", {{7, 5}, {7, 33}}, {{"transA", int64_t{1}}}};

TEST(FuseUpdates, NotWhereSomethingElseReadsTheGradient) {
  for (const bool output : {false, true}) {
    UpdateGraph maker(kProduct, Optimizers()[0]);
    if (output) {
      maker.graph.outputs.push_back(maker.gradient());
    } else {
      maker.graph.outputs.push_back(maker.Add({.op_type = "Neg",
                                               .domain = "",
                                               .name = "reader",
                                               .inputs = {maker.gradient()},
                                               .outputs = {},
                                               .attributes = {},
                                               .epilogue = {}},
                                              1)[0]);
    }
    EXPECT_EQ(FusedNodes(Fused(maker.graph)), 0);
  }
}

TEST(FuseUpdates, NotWhereGradientsAreScaled) {
  UpdateGraph maker(kProduct, Optimizers()[1]);
  const ValueId scale = maker.Input("scale", {DType::kFloat, {}});
  maker.update().inputs[kScale] = scale;
  EXPECT_EQ(FusedNodes(Fused(maker.graph)), 0);
}

TEST(FuseUpdates, NotWhereGradientsAreAccumulated) {
  UpdateGraph maker(kProduct, Optimizers()[1]);
  maker.update().attributes["accumulate_steps"] = int64_t{2};
  EXPECT_EQ(FusedNodes(Fused(maker.graph)), 0);
}

TEST(FuseUpdates, NotWhereLittleIsSavedOrTheFactorsDoNotFit) {
  const Attributes transposed = {{"transA", int64_t{1}}};
  const Attributes both = {{"transA", int64_t{1}}, {"transB", int64_t{1}}};
  const std::vector<Gradient> gradients = {
      {"Gemm", "", {{7, 5}, {7, 15}}, transposed},
      {"Gemm", "", {{7, 5}, {20, 7}}, both},
      {"Gemm", "", {{7, 5}, {7, 20}, {20}}, transposed},
      {"MatMul", "", {{2, 3, 4}, {4, 20}}},
      {"ConvWeightGrad",
       kMemplan,
       {{1, 4, 6, 6}, {1, 4, 6, 6}},
       {{"kernel_shape", std::vector<int64_t>{1, 1}}, {"group", int64_t{4}}}}};
  for (const Gradient& gradient : gradients) {
    EXPECT_EQ(FusedNodes(Fused(UpdateGraph(gradient, Optimizers()[0]).graph)), 0);
  }
}

}  // namespace
}  // namespace onnx_memplan::testing
