#include "autodiff/backward.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/gradient_context.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

bool IsFloating(DType dtype) {
  return dtype == DType::kFloat || dtype == DType::kDouble || dtype == DType::kFloat16;
}

// Nodes are visited from the last to the first. When a node is reached, all readers of its outputs
// have been, so that the gradients of its outputs are complete.
class Differentiator {
 public:
  explicit Differentiator(Graph& graph) : graph_(graph), forward_nodes_(graph.nodes.size()) {}

  absl::StatusOr<std::vector<ValueId>> Run(ValueId loss,
                                           const std::vector<ValueId>& with_respect_to) {
    MarkWanted(with_respect_to);
    gradients_.assign(graph_.values.size(), kNoValue);
    const TensorType type = *graph_.values[Index(loss)].type;
    const bool has_one = type.dtype == DType::kFloat || type.dtype == DType::kDouble;
    if (type.NumElements() != 1 || !has_one) {
      return absl::InvalidArgumentError(absl::StrCat("the loss '", graph_.values[Index(loss)].name,
                                                     "' is ", type.ToString(),
                                                     "; gradients are of one float or double"));
    }
    AddGradient(loss, AddOne(type));
    for (size_t n = forward_nodes_; n-- > 0;) RETURN_IF_ERROR(Visit(n));
    std::vector<ValueId> result;
    for (ValueId value : with_respect_to) result.push_back(gradients_[Index(value)]);
    return result;
  }

 private:
  // A value is wanted when it is asked for or computed from one that is.
  void MarkWanted(const std::vector<ValueId>& with_respect_to) {
    wanted_.assign(graph_.values.size(), false);
    for (ValueId value : with_respect_to) wanted_[Index(value)] = true;
    for (const Node& node : graph_.nodes) {
      MEMPLAN_CHECK_MSG(node.epilogue.empty(), graph_.NodeName(node));
      const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](ValueId v) { return v != kNoValue && wanted_[Index(v)]; });
      if (!any) continue;
      for (ValueId output : node.outputs) {
        if (output == kNoValue) continue;
        wanted_[Index(output)] = IsFloating(graph_.values[Index(output)].type->dtype);
      }
    }
  }

  ValueId AddOne(const TensorType& type) {
    const Tensor one = type.dtype == DType::kDouble ? Tensor::FromVector<double>(type.shape, {1.0})
                                                    : Tensor::FromVector<float>(type.shape, {1.0F});
    return graph_.AddConstant(graph_.UniqueValueName("grad/loss"), one);
  }

  // Rules add values; they have no gradients of their own.
  ValueId GradientOf(ValueId value) const {
    return value == kNoValue || Index(value) >= gradients_.size() ? kNoValue
                                                                  : gradients_[Index(value)];
  }

  absl::Status Visit(size_t n) {
    std::vector<ValueId> output_gradients;
    for (ValueId output : graph_.nodes[n].outputs) output_gradients.push_back(GradientOf(output));
    std::vector<bool> wanted;
    for (ValueId input : graph_.nodes[n].inputs) {
      wanted.push_back(input != kNoValue && wanted_[Index(input)]);
    }
    const auto is_there = [](ValueId id) { return id != kNoValue; };
    if (std::none_of(output_gradients.begin(), output_gradients.end(), is_there) ||
        std::none_of(wanted.begin(), wanted.end(), [](bool w) { return w; })) {
      return absl::OkStatus();
    }
    const OpDef* def = FindOp(graph_.nodes[n].op_type, graph_.nodes[n].domain);
    if (def == nullptr || def->gradient == nullptr) {
      return NodeContext(graph_, graph_.nodes[n])
          .Unsupported(
              "the operator has no gradient rule; train only what lies behind it (--freeze, "
              "--trainable), or write the model with other operators");
    }
    GradientContext context(graph_, static_cast<int32_t>(n), std::move(output_gradients), wanted);
    RETURN_IF_ERROR(def->gradient(context));
    RETURN_IF_ERROR(context.status());
    const std::vector<ValueId> inputs = graph_.nodes[n].inputs;
    for (size_t i = 0; i < context.input_gradients().size(); ++i) {
      const ValueId gradient = context.input_gradients()[i];
      if (gradient != kNoValue) AddGradient(inputs[i], gradient);
    }
    return absl::OkStatus();
  }

  void AddGradient(ValueId value, ValueId contribution) {
    ValueId& gradient = gradients_[Index(value)];
    if (gradient == kNoValue) {
      gradient = contribution;
      return;
    }
    const TensorType type = *graph_.values[Index(value)].type;
    const ValueId sum = graph_.AddValue(absl::StrCat("grad/", graph_.values.size()), type);
    graph_.nodes.push_back({.op_type = "Add",
                            .domain = "",
                            .name = graph_.values[Index(value)].name + "/grad/sum",
                            .inputs = {gradient, contribution},
                            .outputs = {sum},
                            .attributes = {},
                            .epilogue = {}});
    gradient = sum;
  }

  Graph& graph_;
  const size_t forward_nodes_;
  std::vector<bool> wanted_;        // by value of the forward graph
  std::vector<ValueId> gradients_;  // by value of the forward graph; kNoValue: none so far
};

}  // namespace

absl::StatusOr<std::vector<ValueId>> AddBackward(ValueId loss,
                                                 const std::vector<ValueId>& with_respect_to,
                                                 Graph& graph) {
  return Differentiator(graph).Run(loss, with_respect_to);
}

}  // namespace onnx_memplan
