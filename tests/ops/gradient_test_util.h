// Gradient rules against central differences.
//
//   ExpectGradientsAgree({.op = "Conv", .inputs = {x, w}, .attributes = {{"group", int64_t{2}}}});
//
// checks, with a loss that is a random weighting of the node's outputs:
// - in double, the rule's gradient of each input against central differences of the node itself,
// for
//   all inputs at once and for each one alone (rules save work where little is asked for);
// - that a node which its rule has changed (ExtendNode) still gives the same outputs;
// - that whatever the rule's nodes offer to write in place gives the same bits there;
// - in float, on every target, the rule's gradients against those in double.
#ifndef ONNX_MEMPLAN_TESTS_OPS_GRADIENT_TEST_UTIL_H_
#define ONNX_MEMPLAN_TESTS_OPS_GRADIENT_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"
#include "ops/cases.h"
#include "ops/gradient_context.h"
#include "ops/kernel_call.h"
#include "ops/op_def.h"
#include "ops/target.h"
#include "support/status_macros.h"

namespace onnx_memplan {

inline constexpr int32_t kAllOutputs = INT32_MAX;

struct GradientTolerance {
  double step = 1e-4;  // of the differences, relative to the larger of 1 and the element
  // Largest absolute difference of a gradient's elements, relative to the larger of 1 and the
  // largest element of that gradient.
  double for_double = 1e-6;
  double for_float = 1e-4;
  bool checks_float = true;
};

struct GradientCase {
  std::string op;
  // nullopt: omitted. Floating ones are of double. Integers and bools are known while planning,
  // unless `runtime` lists them.
  std::vector<std::optional<Tensor>> inputs;
  cases::Attributes attributes = {};
  std::string domain = {};
  int32_t num_outputs = 1;
  std::vector<int32_t> fixed = {};    // floating inputs known while planning: no gradient
  std::vector<int32_t> runtime = {};  // integer or bool inputs only known at run time
  GradientTolerance tolerance = {};
  int32_t loss_outputs = kAllOutputs;  // the loss depends on the first so many outputs only
};

namespace gradient_test {

// By value: the data of those that a run has. (Value::constant is what is known while planning.)
using TensorData = std::map<ValueId, Tensor>;

inline Tensor ToFloat(const Tensor& tensor) {
  if (tensor.dtype() != DType::kDouble) return tensor;
  std::vector<float> values;
  for (const double value : tensor.As<double>()) values.push_back(static_cast<float>(value));
  return Tensor::FromVector<float>(tensor.shape(), values);
}

inline std::vector<double> ToDoubles(const Tensor& tensor) {
  if (tensor.dtype() == DType::kDouble) {
    return {tensor.As<double>().begin(), tensor.As<double>().end()};
  }
  return {tensor.As<float>().begin(), tensor.As<float>().end()};
}

// Doubles in about [-1.5, 1.5], none near 0 and no two alike: no operator has a kink close by.
inline Tensor DistinctDoubles(Shape shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> values(static_cast<size_t>(CheckedNumElements(shape).value()));
  for (size_t i = 0; i < values.size(); ++i) {
    const double size =
        0.1 + 1.4 * (static_cast<double>(i) + 0.5) / static_cast<double>(values.size());
    values[i] = random() % 2 == 0 ? size : -size;
  }
  std::shuffle(values.begin(), values.end(), random);
  return Tensor::FromVector<double>(std::move(shape), values);
}

// The same in [0.6, 2.1], for operators of positive numbers.
inline Tensor PositiveDoubles(Shape shape, uint32_t seed) {
  const Tensor signed_values = DistinctDoubles(std::move(shape), seed);
  std::vector<double> values;
  for (const double value : signed_values.As<double>()) values.push_back(0.5 + std::abs(value));
  return Tensor::FromVector<double>(signed_values.shape(), values);
}

// Runs `node` as `target`'s kernels would and adds its outputs to `data`. Memory that the node is
// to write, and its scratch, is full of NaN before. Also tries whatever it offers to do in place.
class NodeRun {
 public:
  NodeRun(const Graph& graph, const Node& node, const Target& target, TensorData& data)
      : graph_(graph), node_(node), target_(target), data_(data) {}

  absl::Status Run() {
    ASSIGN_OR_RETURN(lowering_, LowerNode(graph_, node_, target_));
    const std::vector<Tensor> results = RunWith(nullptr);
    const OpDef* def = FindOp(node_.op_type, node_.domain);
    const std::vector<Alias> aliases =
        def->aliases == nullptr ? std::vector<Alias>{} : def->aliases(NodeContext(graph_, node_));
    for (const Alias& alias : aliases) {
      if (alias.kind != Alias::Kind::kInPlace || !IsFree(alias)) continue;
      EXPECT_EQ(results, RunWith(&alias))
          << node_.op_type << ": output " << alias.output << " over input " << alias.input;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (node_.outputs[i] != kNoValue) data_[node_.outputs[i]] = results[i];
    }
    return absl::OkStatus();
  }

 private:
  struct Memory {
    std::unique_ptr<std::byte[]> bytes;
    TensorType type;
  };

  const TensorType& Type(ValueId id) const { return *graph_.values[static_cast<size_t>(id)].type; }

  // The pair exists, and the input is not also another operand.
  bool IsFree(const Alias& alias) const {
    const ValueId input = node_.inputs[static_cast<size_t>(alias.input)];
    return static_cast<size_t>(alias.output) < node_.outputs.size() &&
           node_.outputs[static_cast<size_t>(alias.output)] != kNoValue &&
           std::count(node_.inputs.begin(), node_.inputs.end(), input) == 1;
  }

  static std::unique_ptr<std::byte[]> Allocate(int64_t bytes) {
    auto memory = std::make_unique<std::byte[]>(static_cast<size_t>(bytes));
    std::memset(memory.get(), 0xff, static_cast<size_t>(bytes));
    return memory;
  }

  std::vector<Tensor> RunWith(const Alias* alias) {
    std::vector<std::unique_ptr<std::byte[]>> memory;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (const ValueId id : node_.inputs) {
      inputs.push_back(nullptr);
      if (id == kNoValue) continue;
      const Tensor& tensor = data_.at(id);
      memory.push_back(Allocate(tensor.Bytes()));
      std::memcpy(memory.back().get(), tensor.data(), static_cast<size_t>(tensor.Bytes()));
      inputs.back() = memory.back().get();
    }
    for (const ValueId id : node_.outputs) {
      outputs.push_back(nullptr);
      if (id == kNoValue) continue;
      memory.push_back(Allocate(Type(id).Bytes()));
      outputs.back() = memory.back().get();
    }
    if (alias != nullptr) {
      outputs[static_cast<size_t>(alias->output)] =
          const_cast<std::byte*>(inputs[static_cast<size_t>(alias->input)]);
    }
    memory.push_back(Allocate(lowering_.scratch_bytes));
    std::byte* scratch = memory.back().get();
    for (const KernelCall& call : lowering_.calls) InvokeOnHost(call, inputs, outputs, scratch);
    std::vector<Tensor> results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == nullptr) {
        results.emplace_back();
        continue;
      }
      std::byte* bytes = nullptr;
      results.push_back(Tensor::Zeros(Type(node_.outputs[i]), &bytes));
      std::memcpy(bytes, outputs[i], static_cast<size_t>(results.back().Bytes()));
    }
    return results;
  }

  const Graph& graph_;
  const Node& node_;
  const Target& target_;
  TensorData& data_;
  Lowering lowering_;
};

// `graph` with float wherever it has double, and its data.
inline Graph InFloat(Graph graph, TensorData& data) {
  for (Value& value : graph.values) {
    if (value.type && value.type->dtype == DType::kDouble) value.type->dtype = DType::kFloat;
    if (value.constant) value.constant = ToFloat(*value.constant);
  }
  for (auto& [id, tensor] : data) tensor = ToFloat(tensor);
  return graph;
}

// Node `node` of a typed graph, with the data of its inputs: those that are constants of the graph
// are known while planning, and gradients are asked for of the other floating ones.
class GradientChecker {
 public:
  GradientChecker(Graph graph, int32_t node, TensorData data, const GradientTolerance& tolerance,
                  int32_t loss_outputs)
      : graph_(std::move(graph)),
        node_(static_cast<size_t>(node)),
        data_(std::move(data)),
        tolerance_(tolerance),
        loss_outputs_(loss_outputs) {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (const ValueId id : Forward().outputs) {
      const auto number = static_cast<int32_t>(loss_weights_.size());
      if (id == kNoValue || number >= loss_outputs_ ||
          graph_.values[static_cast<size_t>(id)].type->dtype != DType::kDouble) {
        loss_weights_.emplace_back();
        continue;
      }
      const TensorType& type = *graph_.values[static_cast<size_t>(id)].type;
      std::vector<double> weights(static_cast<size_t>(type.NumElements()));
      for (double& weight : weights) weight = uniform(random);
      loss_weights_.push_back(Tensor::FromVector<double>(type.shape, weights));
    }
    for (const ValueId id : Forward().inputs) {
      const bool known =
          id == kNoValue || graph_.values[static_cast<size_t>(id)].constant.has_value();
      wanted_.push_back(!known && data_.at(id).dtype() == DType::kDouble);
      if (id != kNoValue && known) data_[id] = *graph_.values[static_cast<size_t>(id)].constant;
    }
  }

  // What a rule adds and computes, for tables of rules.
  struct Report {
    std::vector<std::string> nodes;              // "SqrtGrad(dY, Y)"
    std::vector<Tensor> loss_weights;            // the gradients of the outputs
    std::vector<std::vector<double>> gradients;  // by input; empty where none is wanted
    double largest_error = 0;                    // of differences, as in ExpectClose
  };

  absl::StatusOr<Report> MakeReport() const {
    Report report;
    report.loss_weights = loss_weights_;
    ASSIGN_OR_RETURN(
        report.gradients,
        RuleGradients(graph_, data_, wanted_, BuiltinTargets().front(), nullptr, &report.nodes));
    const std::vector<std::vector<double>> exact = Differences();
    for (size_t i = 0; i < exact.size(); ++i) {
      double scale = 1;
      for (const double value : exact[i]) scale = std::fmax(scale, std::abs(value));
      for (size_t j = 0; j < exact[i].size(); ++j) {
        const double error = std::abs(exact[i][j] - report.gradients[i][j]) / scale;
        report.largest_error = std::fmax(report.largest_error, error);
      }
    }
    return report;
  }

  void Check() {
    const Target& generic = BuiltinTargets().front();
    TensorData outputs = data_;
    ASSERT_TRUE(NodeRun(graph_, Forward(), generic, outputs).Run().ok());
    const std::vector<std::vector<double>> exact = Differences();
    const auto all = RuleGradients(graph_, data_, wanted_, generic, &outputs);
    ASSERT_TRUE(all.ok()) << all.status();
    ExpectClose(exact, *all, tolerance_.for_double, "against differences");
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (!wanted_[i]) continue;
      std::vector<bool> one(wanted_.size(), false);
      one[i] = true;
      const auto alone = RuleGradients(graph_, data_, one, generic, &outputs);
      ASSERT_TRUE(alone.ok()) << alone.status();
      std::vector<std::vector<double>> expected(exact.size());
      expected[i] = exact[i];
      ExpectClose(expected, *alone, tolerance_.for_double, "alone, against differences");
    }
    if (!tolerance_.checks_float) return;
    TensorData float_data = data_;
    const Graph float_graph = InFloat(graph_, float_data);
    for (const Target& target : BuiltinTargets()) {
      const auto in_float = RuleGradients(float_graph, float_data, wanted_, target, nullptr);
      ASSERT_TRUE(in_float.ok()) << in_float.status();
      ExpectClose(*all, *in_float, tolerance_.for_float, "in float for " + target.name);
    }
  }

 private:
  const Node& Forward() const { return graph_.nodes[node_]; }

  double Loss(const TensorData& inputs) const {
    TensorData data = inputs;
    EXPECT_TRUE(NodeRun(graph_, Forward(), BuiltinTargets().front(), data).Run().ok());
    double loss = 0;
    for (size_t i = 0; i < loss_weights_.size(); ++i) {
      if (loss_weights_[i].data() == nullptr) continue;
      const std::vector<double> y = ToDoubles(data.at(Forward().outputs[i]));
      for (size_t j = 0; j < y.size(); ++j) loss += y[j] * loss_weights_[i].As<double>()[j];
    }
    return loss;
  }

  // By input; empty where none is wanted.
  std::vector<std::vector<double>> Differences() const {
    std::vector<std::vector<double>> result(wanted_.size());
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (!wanted_[i]) continue;
      const ValueId id = Forward().inputs[i];
      const std::vector<double> x = ToDoubles(data_.at(id));
      for (size_t j = 0; j < x.size(); ++j) {
        const double step = tolerance_.step * std::fmax(1, std::abs(x[j]));
        const auto loss_at = [&](double value) {
          std::vector<double> moved = x;
          moved[j] = value;
          TensorData data = data_;
          data[id] = Tensor::FromVector<double>(data_.at(id).shape(), moved);
          return Loss(data);
        };
        result[i].push_back((loss_at(x[j] + step) - loss_at(x[j] - step)) / (2 * step));
      }
    }
    return result;
  }

  // The gradients that the rule's nodes give, by input. `outputs`: what the forward node must still
  // give after the rule; may be null.
  absl::StatusOr<std::vector<std::vector<double>>> RuleGradients(
      Graph graph, TensorData data, const std::vector<bool>& wanted, const Target& target,
      const TensorData* outputs, std::vector<std::string>* texts = nullptr) const {
    std::vector<ValueId> output_gradients;
    for (const Tensor& weights : loss_weights_) {
      output_gradients.push_back(kNoValue);
      if (weights.data() == nullptr) continue;
      const ValueId y = graph.nodes[node_].outputs[output_gradients.size() - 1];
      const TensorType type = *graph.values[static_cast<size_t>(y)].type;
      const Tensor gradient = type.dtype == DType::kFloat ? ToFloat(weights) : weights;
      const std::string name = "output_gradient" + std::to_string(output_gradients.size());
      output_gradients.back() = graph.AddValue(name, type);
      data[output_gradients.back()] = gradient;
    }
    const OpDef* def = FindOp(graph.nodes[node_].op_type, graph.nodes[node_].domain);
    if (def == nullptr || def->gradient == nullptr) {
      return absl::UnimplementedError(graph.nodes[node_].op_type + " has no gradient rule");
    }
    const std::vector<ValueId> before = graph.nodes[node_].outputs;
    const size_t first_added = graph.nodes.size();
    GradientContext context(graph, static_cast<int32_t>(node_), output_gradients, wanted);
    RETURN_IF_ERROR(def->gradient(context));
    RETURN_IF_ERROR(context.status());
    for (size_t id = 0; id < graph.values.size(); ++id) {
      const Value& value = graph.values[id];
      if (value.constant) data[static_cast<ValueId>(id)] = *value.constant;
    }
    RETURN_IF_ERROR(NodeRun(graph, graph.nodes[node_], target, data).Run());
    for (size_t i = 0; i < before.size() && outputs != nullptr; ++i) {
      if (before[i] == kNoValue) continue;
      EXPECT_EQ(data.at(before[i]), outputs->at(before[i])) << "output " << i << " has changed";
    }
    for (size_t n = first_added; n < graph.nodes.size(); ++n) {
      RETURN_IF_ERROR(NodeRun(graph, graph.nodes[n], target, data).Run());
    }
    for (size_t n = first_added; n < graph.nodes.size() && texts != nullptr; ++n) {
      texts->push_back(TextOf(graph, graph.nodes[n], output_gradients));
    }
    std::vector<std::vector<double>> result(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      const ValueId id = context.input_gradients()[i];
      const int64_t count = data.at(graph.nodes[node_].inputs[i]).NumElements();
      result[i] = id == kNoValue ? std::vector<double>(static_cast<size_t>(count), 0.0)
                                 : ToDoubles(data.at(id));
    }
    return result;
  }

  // "Mul(dY, X1)": X and Y are the forward node's operands and results, t what rules compute;
  // constants are left out.
  std::string TextOf(const Graph& graph, const Node& node,
                     const std::vector<ValueId>& output_gradients) const {
    const auto name_in = [](const std::vector<ValueId>& values, ValueId id, std::string letter) {
      const auto it = std::find(values.begin(), values.end(), id);
      if (it == values.end()) return std::string();
      return values.size() == 1 ? letter : letter + std::to_string(it - values.begin());
    };
    std::string text;
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      std::string name = name_in(output_gradients, id, "dY");
      if (name.empty()) name = name_in(graph.nodes[node_].inputs, id, "X");
      if (name.empty()) name = name_in(graph.nodes[node_].outputs, id, "Y");
      if (name.empty() && graph.values[static_cast<size_t>(id)].constant) continue;
      text += (text.empty() ? "" : ", ") + (name.empty() ? std::string("t") : name);
    }
    return node.op_type + "(" + text + ")";
  }

  static void ExpectClose(const std::vector<std::vector<double>>& expected,
                          const std::vector<std::vector<double>>& actual, double tolerance,
                          const std::string& what) {
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(expected[i].size(), actual[i].size()) << "input " << i << ", " << what;
      double scale = 1;
      for (const double value : expected[i]) scale = std::fmax(scale, std::abs(value));
      for (size_t j = 0; j < expected[i].size(); ++j) {
        ASSERT_NEAR(expected[i][j], actual[i][j], tolerance * scale)
            << "input " << i << ", element " << j << ", " << what;
      }
    }
  }

  Graph graph_;
  size_t node_;
  TensorData data_;
  GradientTolerance tolerance_;
  int32_t loss_outputs_;
  std::vector<Tensor> loss_weights_;  // by output; without data for those of other types
  std::vector<bool> wanted_;          // by input
};

}  // namespace gradient_test

// For graphs of one's own: the gradients of node `node` of a typed graph. See GradientChecker.
inline void ExpectGradientsAgree(const Graph& graph, int32_t node,
                                 const gradient_test::TensorData& data,
                                 const GradientTolerance& tolerance = {},
                                 int32_t loss_outputs = kAllOutputs) {
  gradient_test::GradientChecker(graph, node, data, tolerance, loss_outputs).Check();
}

// The node of `c` in a graph of its own, with its data.
inline absl::StatusOr<gradient_test::GradientChecker> MakeChecker(const GradientCase& c) {
  const auto lists = [](const std::vector<int32_t>& list, size_t i) {
    return std::count(list.begin(), list.end(), static_cast<int32_t>(i)) > 0;
  };
  Graph graph;
  gradient_test::TensorData data;
  Node node;
  node.op_type = c.op;
  node.domain = c.domain;
  node.attributes = c.attributes;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    node.inputs.push_back(kNoValue);
    if (!c.inputs[i]) continue;
    const Tensor& tensor = *c.inputs[i];
    EXPECT_NE(tensor.dtype(), DType::kFloat) << "operands are given in double";
    const bool known = tensor.dtype() == DType::kDouble ? lists(c.fixed, i) : !lists(c.runtime, i);
    const ValueId id = graph.AddValue("in" + std::to_string(i), tensor.type());
    if (known) graph.values[static_cast<size_t>(id)].constant = tensor;
    data[id] = tensor;
    node.inputs.back() = id;
  }
  const auto types = [&] {
    node.outputs.assign(static_cast<size_t>(c.num_outputs), kNoValue);
    for (ValueId& id : node.outputs)
      id = graph.AddValue("out" + std::to_string(graph.values.size()));
    return InferTypes(graph, node);
  }();
  RETURN_IF_ERROR(types.status());
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    graph.values[static_cast<size_t>(node.outputs[i])].type = (*types)[i];
  }
  graph.nodes.push_back(node);
  return gradient_test::GradientChecker(graph, 0, data, c.tolerance, c.loss_outputs);
}

inline void ExpectGradientsAgree(const GradientCase& c) {
  std::string name = c.domain + " " + c.op + " of";
  for (const auto& input : c.inputs) name += input ? " " + input->type().ToString() : " nothing";
  SCOPED_TRACE(name);
  absl::StatusOr<gradient_test::GradientChecker> checker = MakeChecker(c);
  ASSERT_TRUE(checker.ok()) << checker.status();
  checker->Check();
}

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_TESTS_OPS_GRADIENT_TEST_UTIL_H_
