#include "autodiff/optimizer.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autodiff/training_form.h"
#include "ops/op_def.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

absl::Status CheckOptions(const OptimizerOptions& options) {
  const auto fail = [](const char* what) { return absl::InvalidArgumentError(what); };
  for (double number : {options.momentum, options.weight_decay, options.beta1, options.beta2,
                        options.epsilon, options.clip_norm}) {
    if (!std::isfinite(number)) return fail("the optimizer's numbers must be finite");
  }
  if (options.momentum < 0) return fail("the momentum must not be negative");
  if (options.nesterov && options.momentum == 0) return fail("Nesterov needs a momentum");
  if (options.weight_decay < 0) return fail("the weight decay must not be negative");
  if (options.beta1 < 0 || options.beta1 >= 1 || options.beta2 < 0 || options.beta2 >= 1) {
    return fail("the betas must be in [0, 1)");
  }
  if (options.epsilon < 0) return fail("epsilon must not be negative");
  if (options.clip_norm < 0) return fail("the norm to clip at must not be negative");
  if (options.accumulate_steps < 1) return fail("gradients are accumulated over at least 1 step");
  return absl::OkStatus();
}

class Updater {
 public:
  Updater(const OptimizerOptions& options, Graph& graph) : options_(options), graph_(graph) {}

  absl::Status Run(std::vector<ParameterGradient> gradients) {
    rate_ = graph_.AddValue(graph_.UniqueValueName(kLearningRate), TensorType{DType::kFloat, {}});
    graph_.inputs.push_back(rate_);
    const bool uses_moments = options_.kind != OptimizerKind::kSgd;
    if (uses_moments || options_.accumulate_steps > 1) step_ = StepNumber(graph_);
    if (options_.accumulate_steps > 1) {
      for (ParameterGradient& pair : gradients) RETURN_IF_ERROR(Accumulate(pair));
    }
    if (options_.clip_norm > 0) RETURN_IF_ERROR(MakeScale(gradients));
    for (const ParameterGradient& pair : gradients) RETURN_IF_ERROR(Update(pair));
    return absl::OkStatus();
  }

 private:
  // Appends a node; its outputs are named after `base`.
  absl::StatusOr<std::vector<ValueId>> Append(Node node, const std::string& base, size_t outputs) {
    node.name = base;
    node.outputs.assign(outputs, kNoValue);
    ASSIGN_OR_RETURN(const std::vector<TensorType> types, InferTypes(graph_, node));
    for (size_t i = 0; i < outputs; ++i) {
      const std::string name = i == 0 ? base : absl::StrCat(base, "_", i);
      node.outputs[i] = graph_.AddValue(graph_.UniqueValueName(name), types[i]);
    }
    graph_.nodes.push_back(node);
    return node.outputs;
  }

  // `type` by value: adding a value moves the types.
  ValueId AddState(const std::string& name, TensorType type) {
    std::byte* unused = nullptr;
    const ValueId id = graph_.AddValue(graph_.UniqueValueName(name), type);
    graph_.states.push_back({id, kNoValue, StateKind::kOptimizer, Tensor::Zeros(type, &unused)});
    return id;
  }

  void SetOut(ValueId in, ValueId out) {
    for (State& state : graph_.states) {
      if (state.in == in) state.out = out;
    }
  }

  const std::string& NameOf(ValueId value) const { return graph_.values[Index(value)].name; }
  const TensorType& TypeOf(ValueId value) const { return *graph_.values[Index(value)].type; }

  Node MakeNode(const char* type, std::vector<ValueId> inputs) const {
    Node node = {.op_type = type,
                 .domain = kMemplan,
                 .name = "",
                 .inputs = std::move(inputs),
                 .outputs = {},
                 .attributes = {},
                 .epilogue = {}};
    if (options_.accumulate_steps > 1) {
      node.attributes["accumulate_steps"] = options_.accumulate_steps;
    }
    return node;
  }

  absl::Status Accumulate(ParameterGradient& pair) {
    const std::string name = NameOf(pair.parameter) + "/gradient_sum";
    const ValueId sum = AddState(name, TypeOf(pair.parameter));
    ASSIGN_OR_RETURN(
        const std::vector<ValueId> next,
        Append(MakeNode("AccumulateGradient", {sum, pair.gradient, step_}), name + "/next", 1));
    SetOut(sum, next[0]);
    pair.gradient = next[0];
    return absl::OkStatus();
  }

  absl::Status MakeScale(const std::vector<ParameterGradient>& gradients) {
    Node sum = {.op_type = "Sum",
                .domain = "",
                .name = "",
                .inputs = {},
                .outputs = {},
                .attributes = {},
                .epilogue = {}};
    for (const ParameterGradient& pair : gradients) {
      Node square = {.op_type = "ReduceSumSquare",
                     .domain = "",
                     .name = "",
                     .inputs = {pair.gradient},
                     .outputs = {},
                     .attributes = {{"keepdims", int64_t{0}}},
                     .epilogue = {}};
      ASSIGN_OR_RETURN(const std::vector<ValueId> squares,
                       Append(std::move(square), NameOf(pair.parameter) + "/gradient_square", 1));
      sum.inputs.push_back(squares[0]);
    }
    ASSIGN_OR_RETURN(const std::vector<ValueId> total,
                     Append(std::move(sum), "optimizer/sum_of_squares", 1));
    Node clip = MakeNode("ClipCoefficient", {total[0]});
    clip.attributes["max_norm"] = static_cast<float>(options_.clip_norm);
    ASSIGN_OR_RETURN(const std::vector<ValueId> scale,
                     Append(std::move(clip), "optimizer/gradient_scale", 1));
    scale_ = scale[0];
    return absl::OkStatus();
  }

  absl::Status Update(const ParameterGradient& pair) {
    const std::string base = NameOf(pair.parameter);  // adding values moves the names
    const bool sgd = options_.kind == OptimizerKind::kSgd;
    std::vector<ValueId> states = {pair.parameter};
    const TensorType type = TypeOf(pair.parameter);
    if (!sgd) {
      states.push_back(AddState(base + "/exp_avg", type));
      states.push_back(AddState(base + "/exp_avg_sq", type));
    } else if (options_.momentum > 0) {
      states.push_back(AddState(base + "/momentum", type));
    }
    Node node = MakeNode(sgd ? "SgdUpdate" : "AdamUpdate",
                         {pair.parameter, pair.gradient, rate_, step_, scale_});
    node.inputs.insert(node.inputs.end(), states.begin() + 1, states.end());
    while (node.inputs.back() == kNoValue) node.inputs.pop_back();
    SetNumbers(node);
    ASSIGN_OR_RETURN(const std::vector<ValueId> next,
                     Append(std::move(node), base + "/next", states.size()));
    for (size_t i = 0; i < states.size(); ++i) SetOut(states[i], next[i]);
    return absl::OkStatus();
  }

  void SetNumbers(Node& node) const {
    node.attributes["weight_decay"] = static_cast<float>(options_.weight_decay);
    if (options_.kind == OptimizerKind::kSgd) {
      node.attributes["momentum"] = static_cast<float>(options_.momentum);
      node.attributes["nesterov"] = int64_t{options_.nesterov ? 1 : 0};
      return;
    }
    node.attributes["beta1"] = static_cast<float>(options_.beta1);
    node.attributes["beta2"] = static_cast<float>(options_.beta2);
    node.attributes["epsilon"] = static_cast<float>(options_.epsilon);
    node.attributes["decoupled_weight_decay"] =
        int64_t{options_.kind == OptimizerKind::kAdamW ? 1 : 0};
  }

  const OptimizerOptions& options_;
  Graph& graph_;
  ValueId rate_ = kNoValue;
  ValueId step_ = kNoValue;   // kNoValue: nothing asks for it
  ValueId scale_ = kNoValue;  // kNoValue: gradients are taken as they are
};

}  // namespace

absl::Status AddUpdates(const OptimizerOptions& options,
                        const std::vector<ParameterGradient>& gradients, Graph& graph) {
  RETURN_IF_ERROR(CheckOptions(options));
  return Updater(options, graph).Run(gradients);
}

}  // namespace onnx_memplan
