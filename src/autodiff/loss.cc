#include "autodiff/loss.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/op_def.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

absl::StatusOr<ValueId> ChosenOutput(const TrainOptions& options, const Graph& graph) {
  std::vector<std::string> names;
  for (ValueId output : graph.outputs) {
    const std::string& name = graph.values[Index(output)].name;
    if (name == options.loss_output || graph.outputs.size() == 1) {
      if (options.loss_output.empty() || name == options.loss_output) return output;
    }
    names.push_back(name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      options.loss_output.empty() ? "which output does the loss take? Say --loss-output NAME"
                                  : "no output is named '" + options.loss_output + "'",
      "; the model has: ", absl::StrJoin(names, ", ")));
}

absl::Status CheckOptions(const LossOptions& options) {
  const auto fail = [](const char* what) { return absl::InvalidArgumentError(what); };
  const bool classes = options.kind == LossKind::kCrossEntropy ||
                       options.kind == LossKind::kCrossEntropyProbabilities;
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    return fail("the label smoothing must be in [0, 1]");
  }
  if (!classes && options.label_smoothing > 0) {
    return fail("label smoothing belongs to cross-entropy");
  }
  if (!classes && options.kind != LossKind::kBceWithLogits && !options.class_weights.empty()) {
    return fail("class weights belong to cross-entropy and bce-with-logits");
  }
  if (options.kind == LossKind::kHuber &&
      !(options.huber_delta > 0 && std::isfinite(options.huber_delta))) {
    return fail("the Huber delta must be positive");
  }
  for (float weight : options.class_weights) {
    if (!(weight >= 0 && std::isfinite(weight))) {
      return fail("class weights must not be negative");
    }
  }
  return absl::OkStatus();
}

class LossAppender {
 public:
  using Attributes = std::map<std::string, Attribute, std::less<>>;

  LossAppender(const LossOptions& options, Graph& graph) : options_(options), graph_(graph) {}

  absl::StatusOr<ValueId> Run(ValueId prediction) {
    switch (options_.kind) {
      case LossKind::kModelOutput:
        return ModelLoss(prediction);
      case LossKind::kCrossEntropy:
      case LossKind::kCrossEntropyProbabilities:
        return CrossEntropy(BeforeSoftmax(prediction));
      case LossKind::kMse:
        return Elementwise("MseLoss", prediction);
      case LossKind::kL1:
        return Elementwise("L1Loss", prediction);
      case LossKind::kHuber:
        attributes_["delta"] = static_cast<float>(options_.huber_delta);
        return Elementwise("HuberLoss", prediction);
      case LossKind::kBceWithLogits:
        return Elementwise("BCEWithLogitsLoss", BeforeSigmoid(prediction));
    }
    return absl::InvalidArgumentError("no such loss");
  }

 private:
  const TensorType& TypeOf(ValueId value) const { return *graph_.values[Index(value)].type; }
  const std::string& NameOf(ValueId value) const { return graph_.values[Index(value)].name; }

  absl::StatusOr<ValueId> ModelLoss(ValueId output) const {
    if (TypeOf(output).NumElements() == 1) return output;
    return absl::InvalidArgumentError(absl::StrCat("output '", NameOf(output), "' is ",
                                                   TypeOf(output).ToString(),
                                                   " and no loss; choose one with --loss"));
  }

  // The node of this type that makes `value`, or null.
  const Node* MakerOf(ValueId value, const char* type) const {
    for (const Node& node : graph_.nodes) {
      if (node.Is(type) && !node.outputs.empty() && node.outputs[0] == value) return &node;
    }
    return nullptr;
  }
  // A Softmax over anything but the classes is part of the model.
  ValueId BeforeSoftmax(ValueId value) const {
    const Node* softmax = MakerOf(value, "Softmax");
    if (softmax == nullptr) return value;
    const auto it = softmax->attributes.find("axis");
    const auto* axis =
        it == softmax->attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
    const int64_t rank = TypeOf(value).rank();
    const auto from_front = [rank](int64_t a) { return a < 0 ? a + rank : a; };
    const bool over_classes =
        from_front(axis == nullptr ? -1 : *axis) == from_front(options_.class_axis);
    return over_classes ? softmax->inputs[0] : value;
  }
  ValueId BeforeSigmoid(ValueId value) const {
    const Node* sigmoid = MakerOf(value, "Sigmoid");
    return sigmoid == nullptr ? value : sigmoid->inputs[0];
  }

  ValueId AddTarget(const TensorType& type) {
    const ValueId target = graph_.AddValue(graph_.UniqueValueName(kTarget), type);
    graph_.inputs.push_back(target);
    return target;
  }

  absl::StatusOr<ValueId> Append(const char* op_type, const char* domain,
                                 std::vector<ValueId> inputs, Attributes attributes,
                                 const std::string& name) {
    Node node = {.op_type = op_type,
                 .domain = domain,
                 .name = name,
                 .inputs = std::move(inputs),
                 .outputs = {kNoValue},
                 .attributes = std::move(attributes),
                 .epilogue = {}};
    ASSIGN_OR_RETURN(const std::vector<TensorType> types, InferTypes(graph_, node));
    node.outputs[0] = graph_.AddValue(graph_.UniqueValueName(name), types[0]);
    graph_.nodes.push_back(node);
    return node.outputs[0];
  }

  absl::StatusOr<ValueId> Reshape(ValueId value, const Shape& shape) {
    if (TypeOf(value).shape == shape) return value;
    const ValueId constant =
        graph_.AddConstant(graph_.UniqueValueName("loss/shape"), Tensor::VectorInt64(shape));
    return Append("Reshape", "", {value, constant}, {}, "loss/reshaped");
  }

  // Operand: weights by class, as a constant.
  ValueId ClassWeights(DType dtype) {
    const auto count = static_cast<int64_t>(options_.class_weights.size());
    if (dtype == DType::kDouble) {
      return graph_.AddConstant(
          graph_.UniqueValueName("loss/class_weights"),
          Tensor::FromVector<double>(
              {count}, {options_.class_weights.begin(), options_.class_weights.end()}));
    }
    return graph_.AddConstant(graph_.UniqueValueName("loss/class_weights"),
                              Tensor::FromVector<float>({count}, options_.class_weights));
  }

  std::string Reduction() const { return options_.sum ? "sum" : "mean"; }

  // The class axis is brought to place 1, where ONNX and PyTorch have it: scores whose last axis
  // counts the classes become one row for each token.
  absl::StatusOr<ValueId> CrossEntropy(ValueId scores) {
    const TensorType type = TypeOf(scores);
    const int64_t axis =
        options_.class_axis < 0 ? options_.class_axis + type.rank() : options_.class_axis;
    if (axis < 1 || axis >= type.rank() || (axis != 1 && axis != type.rank() - 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cross-entropy of '", NameOf(scores), "' (", type.ToString(), "): the class axis ",
          options_.class_axis, " must be 1 or the last one; see --class-axis"));
    }
    const int64_t classes = type.shape[static_cast<size_t>(axis)];
    if (!options_.class_weights.empty() &&
        options_.class_weights.size() != static_cast<size_t>(classes)) {
      return absl::InvalidArgumentError(absl::StrCat("there are ", classes, " classes and ",
                                                     options_.class_weights.size(), " weights"));
    }
    const bool probabilities = options_.kind == LossKind::kCrossEntropyProbabilities;
    Shape target_shape = type.shape;
    if (!probabilities) target_shape.erase(target_shape.begin() + axis);
    ValueId target =
        AddTarget({probabilities ? type.dtype : DType::kInt64, std::move(target_shape)});
    if (axis != 1) {
      const int64_t rows = type.NumElements() / std::max<int64_t>(classes, 1);
      ASSIGN_OR_RETURN(scores, Reshape(scores, {rows, classes}));
      ASSIGN_OR_RETURN(target, Reshape(target, probabilities ? Shape{rows, classes} : Shape{rows}));
    }
    std::vector<ValueId> inputs = {scores, target};
    if (!options_.class_weights.empty()) inputs.push_back(ClassWeights(type.dtype));
    attributes_["reduction"] = Reduction();
    if (!probabilities) attributes_["ignore_index"] = options_.ignore_index;
    if (probabilities || options_.label_smoothing > 0) {
      attributes_["label_smoothing"] = static_cast<float>(options_.label_smoothing);
      return Append(probabilities ? "SoftmaxCrossEntropyWithProbabilities" : "SmoothCrossEntropy",
                    kMemplan, std::move(inputs), attributes_, "loss");
    }
    return Append("SoftmaxCrossEntropyLoss", "", std::move(inputs), attributes_, "loss");
  }

  absl::StatusOr<ValueId> Elementwise(const char* op_type, ValueId prediction) {
    const TensorType type = TypeOf(prediction);
    std::vector<ValueId> inputs = {prediction, AddTarget(type)};
    if (options_.kind == LossKind::kBceWithLogits && !options_.class_weights.empty()) {
      inputs.push_back(ClassWeights(type.dtype));
    }
    attributes_["reduction"] = Reduction();
    return Append(op_type, kMemplan, std::move(inputs), attributes_, "loss");
  }

  const LossOptions& options_;
  Graph& graph_;
  Attributes attributes_;
};

}  // namespace

absl::StatusOr<ValueId> AppendLoss(const TrainOptions& options, Graph& graph) {
  RETURN_IF_ERROR(CheckOptions(options.loss));
  ASSIGN_OR_RETURN(const ValueId output, ChosenOutput(options, graph));
  const Value& chosen = graph.values[Index(output)];
  if (chosen.type->dtype != DType::kFloat && chosen.type->dtype != DType::kDouble) {
    return absl::InvalidArgumentError(
        absl::StrCat("output '", chosen.name, "' is ", chosen.type->ToString(),
                     "; a loss takes float or double; see --loss-output"));
  }
  const bool classes = options.loss.kind == LossKind::kCrossEntropy ||
                       options.loss.kind == LossKind::kCrossEntropyProbabilities;
  if (classes && chosen.type->rank() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "output '", chosen.name, "' is ", chosen.type->ToString(),
        "; cross-entropy takes a batch axis and a class axis; if it is the loss itself: "
        "--loss model"));
  }
  ASSIGN_OR_RETURN(const ValueId loss, LossAppender(options.loss, graph).Run(output));
  graph.outputs = {loss};
  return loss;
}

}  // namespace onnx_memplan
