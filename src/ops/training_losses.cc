// Losses that ONNX has no operator for, and the gradient operators of all losses.
//
// Cross-entropies as PyTorch's CrossEntropyLoss, of scores with the classes in dimension 1, with an
// optional output of log probabilities: SmoothCrossEntropy(scores, classes, [weight]) and
// SoftmaxCrossEntropyWithProbabilities(scores, probabilities, [weight]); attributes reduction,
// ignore_index, label_smoothing.
// CrossEntropyGrad(dloss, log probabilities, target, [weight]) -> dscores serves both;
// com.microsoft's SoftmaxCrossEntropyLossGrad has the same operands, or (log probabilities, target)
// for a dloss of 1. NegativeLogLikelihoodLossGrad(dloss, target, [weight]; classes).
// MseLoss, L1Loss, HuberLoss(prediction, target; reduction, delta), BCEWithLogitsLoss(logits,
// target, [weight of positives]), and their gradients MseLossGrad(dloss, prediction, target), ...
#include "ops/host_kernels.h"

#include "kernels/training_losses.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/softmax.h"
#include "ops/families.h"
#include "ops/loss_lowering.h"
#include "ops/reduce_loops.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr std::string_view kHeader = "kernels/training_losses.h";

KernelArg InputOrNull(const NodeContext& node, int32_t i) {
  return i >= 0 && node.HasInput(i) ? KernelArg::Input(i) : KernelArg::Null();
}

// ---- Cross-entropies

// Where a node has its operands; -1: it has none.
struct CrossEntropyOperands {
  int32_t dloss = -1;
  int32_t scores = 0;  // or log probabilities
  int32_t target = 1;
  int32_t weight = 2;
};

CrossEntropyOperands GradientOperands(const NodeContext& node) {
  if (node.num_inputs() == 2) return {-1, 0, 1, -1};
  return {0, 1, 2, 3};
}

Shape WithoutClasses(Shape scores) {
  scores.erase(scores.begin() + 1);
  return scores;
}

bool IsClassType(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

// Targets are classes or probabilities, as their element type says.
absl::Status CheckCrossEntropy(const NodeContext& node, const CrossEntropyOperands& at) {
  const TensorType& scores = node.InputType(at.scores);
  if (scores.rank() < 2) return node.Invalid("the scores must have a class dimension");
  if (!IsFloatingPoint(scores.dtype)) return node.Invalid("the scores must be floating point");
  const TensorType& target = node.InputType(at.target);
  const bool classes = IsClassType(target.dtype);
  const Shape expected = classes ? WithoutClasses(scores.shape) : scores.shape;
  if ((!classes && target.dtype != scores.dtype) || target.shape != expected) {
    return node.Invalid(absl::StrCat("the targets must be classes (int32 or int64) of shape ",
                                     ShapeToString(WithoutClasses(scores.shape)),
                                     ", or probabilities of type ", scores.ToString()));
  }
  if (at.weight >= 0 && node.HasInput(at.weight) &&
      node.InputType(at.weight) != TensorType{scores.dtype, {scores.shape[1]}}) {
    return node.Invalid(
        absl::StrCat("the weights must be ", scores.shape[1], " of the scores' type"));
  }
  return absl::OkStatus();
}

// Of what type the loss is.
absl::StatusOr<TensorType> LossType(const NodeContext& node, const TensorType& scores) {
  ASSIGN_OR_RETURN(const kernels::LossReduction reduction, ReadReduction(node));
  return TensorType{scores.dtype,
                    reduction == kernels::kLossNone ? WithoutClasses(scores.shape) : Shape{}};
}

absl::StatusOr<std::vector<TensorType>> InferCrossEntropy(const NodeContext& node) {
  RETURN_IF_ERROR(CheckCrossEntropy(node, {}));
  const bool probabilities = node.node().op_type == "SoftmaxCrossEntropyWithProbabilities";
  if (probabilities == IsClassType(node.InputDType(1))) {
    return node.Invalid(probabilities ? "the targets must be probabilities"
                                      : "the targets must be classes");
  }
  ASSIGN_OR_RETURN(const TensorType loss, LossType(node, node.InputType(0)));
  return std::vector<TensorType>{loss, node.InputType(0)};
}

absl::StatusOr<std::vector<TensorType>> InferCrossEntropyGrad(const NodeContext& node) {
  const CrossEntropyOperands at = GradientOperands(node);
  RETURN_IF_ERROR(CheckCrossEntropy(node, at));
  const TensorType& scores = node.InputType(at.scores);
  if (at.dloss >= 0) {
    ASSIGN_OR_RETURN(const TensorType loss, LossType(node, scores));
    if (node.InputDType(0) != loss.dtype || node.InputType(0).NumElements() != loss.NumElements()) {
      return node.Invalid(absl::StrCat("the gradient of the loss must be ", loss.ToString()));
    }
  }
  return std::vector<TensorType>{scores};
}

absl::StatusOr<kernels::CrossEntropyParams> MakeCrossEntropyParams(const NodeContext& node,
                                                                   const Shape& scores) {
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtAxis(node, scores, 1));
  kernels::CrossEntropyParams params = {};
  params.ignore_index = node.Int("ignore_index", -1);
  params.smoothing = static_cast<double>(node.Float("label_smoothing", 0));
  ASSIGN_OR_RETURN(params.reduction, ReadReduction(node));
  params.batch = split.outer;
  params.classes = split.count;
  params.inner = split.inner;
  return params;
}

// Kernel `name`<T, label type, target kind> for the element type of input `scores`;
// pick.operator()<T, Label, Target>() gives it.
template <class Pick>
absl::StatusOr<KernelCall> TargetCall(const NodeContext& node, const CrossEntropyOperands& at,
                                      std::string_view name, Pick pick) {
  const DType dtype = node.InputDType(at.scores);
  const DType label = node.InputDType(at.target);
  const auto pattern = [&](const char* target) {
    return absl::StrCat("kernels::", std::string(name), "<{T}, ", std::string(DTypeCppName(label)),
                        ", kernels::", target, ">");
  };
  if (label == DType::kInt64) {
    return TypedCallOf(
        FloatTypes(), node, dtype, kHeader, pattern("ClassTarget"), "",
        [&]<class T> { return pick.template operator()<T, int64_t, kernels::ClassTarget>(); });
  }
  if (label == DType::kInt32) {
    return TypedCallOf(
        FloatTypes(), node, dtype, kHeader, pattern("ClassTarget"), "",
        [&]<class T> { return pick.template operator()<T, int32_t, kernels::ClassTarget>(); });
  }
  return TypedCallOf(
      FloatTypes(), node, dtype, kHeader, pattern("ProbabilityTarget"), "",
      [&]<class T> { return pick.template operator()<T, T, kernels::ProbabilityTarget>(); });
}

// Log probabilities go to their output, or to scratch where there is none.
absl::StatusOr<Lowering> LowerCrossEntropy(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const kernels::CrossEntropyParams params,
                   MakeCrossEntropyParams(node, node.InputShape(0)));
  ASSIGN_OR_RETURN(KernelCall softmax,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/softmax.h",
                               "kernels::Softmax<{T}, kernels::LogSoftmaxOf>", "", []<class T> {
                                 return FunctionOf<&kernels::Softmax<T, kernels::LogSoftmaxOf>>();
                               }));
  ASSIGN_OR_RETURN(KernelCall loss,
                   TargetCall(node, {}, "CrossEntropy", []<class T, class Label, class Target> {
                     return FunctionOf<&kernels::CrossEntropy<T, Label, Target>>();
                   }));
  const KernelArg log_probabilities =
      node.HasOutput(1) ? KernelArg::Output(1) : KernelArg::Scratch();
  softmax.params = MakeParams(kernels::SoftmaxParams{params.batch, params.classes, params.inner});
  softmax.args = {KernelArg::Input(0), log_probabilities};
  loss.params = MakeParams(params);
  loss.args = {log_probabilities, KernelArg::Input(1), InputOrNull(node, 2), KernelArg::Output(0)};
  Lowering lowering;
  lowering.calls = {std::move(softmax), std::move(loss)};
  if (!node.HasOutput(1)) {
    lowering.scratch_bytes = node.InputType(0).Bytes();
    lowering.scratch_alignment = DTypeBytes(node.InputDType(0));
  }
  return lowering;
}

std::vector<Alias> LogProbabilitiesInPlace(const NodeContext& node) {
  if (!node.HasOutput(1)) return {};
  return {{Alias::Kind::kInPlace, 1, 0, 0}};
}

absl::StatusOr<Lowering> LowerCrossEntropyGrad(const NodeContext& node, const Target&) {
  const CrossEntropyOperands at = GradientOperands(node);
  ASSIGN_OR_RETURN(const kernels::CrossEntropyParams params,
                   MakeCrossEntropyParams(node, node.InputShape(at.scores)));
  ASSIGN_OR_RETURN(KernelCall call,
                   TargetCall(node, at, "CrossEntropyGrad", []<class T, class Label, class Target> {
                     return FunctionOf<&kernels::CrossEntropyGrad<T, Label, Target>>();
                   }));
  return OneCall(std::move(call), params,
                 {InputOrNull(node, at.dloss), KernelArg::Input(at.scores),
                  KernelArg::Input(at.target), InputOrNull(node, at.weight), KernelArg::Output(0)});
}

// dscores over the log probabilities.
std::vector<Alias> GradientInPlace(const NodeContext& node) {
  return {{Alias::Kind::kInPlace, 0, GradientOperands(node).scores, 0}};
}

// ---- NegativeLogLikelihoodLoss

// The shape of the log probabilities: that of the targets with the classes put in.
absl::StatusOr<Shape> LogProbabilityShape(const NodeContext& node) {
  ASSIGN_OR_RETURN(const int64_t classes, node.RequiredInt("classes"));
  Shape shape = node.InputShape(1);
  if (shape.empty()) return node.Invalid("the targets must have a batch dimension");
  shape.insert(shape.begin() + 1, classes);
  if (!CheckedNumElements(shape))
    return node.Invalid("attribute 'classes' is no number of classes");
  return shape;
}

absl::StatusOr<std::vector<TensorType>> InferNllGrad(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Shape shape, LogProbabilityShape(node));
  ASSIGN_OR_RETURN(const TensorType loss, LossType(node, {node.InputDType(0), shape}));
  if (!IsClassType(node.InputDType(1)) || node.InputType(0).NumElements() != loss.NumElements()) {
    return node.Invalid(
        absl::StrCat("the targets must be int32 or int64, and the gradient ", loss.ToString()));
  }
  if (node.HasInput(2) && node.InputType(2) != TensorType{node.InputDType(0), {shape[1]}}) {
    return node.Invalid(absl::StrCat("the weights must be ", shape[1], " of the gradient's type"));
  }
  return std::vector<TensorType>{{node.InputDType(0), shape}};
}

absl::StatusOr<Lowering> LowerNllGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const Shape shape, LogProbabilityShape(node));
  ASSIGN_OR_RETURN(const kernels::CrossEntropyParams params, MakeCrossEntropyParams(node, shape));
  const DType dtype = node.InputDType(0);
  absl::StatusOr<KernelCall> call =
      node.InputDType(1) == DType::kInt64
          ? TypedCallOf(FloatTypes(), node, dtype, kHeader,
                        "kernels::NegativeLogLikelihoodGrad<{T}, int64_t>", "",
                        []<class T> {
                          return FunctionOf<&kernels::NegativeLogLikelihoodGrad<T, int64_t>>();
                        })
          : TypedCallOf(FloatTypes(), node, dtype, kHeader,
                        "kernels::NegativeLogLikelihoodGrad<{T}, int32_t>", "", []<class T> {
                          return FunctionOf<&kernels::NegativeLogLikelihoodGrad<T, int32_t>>();
                        });
  RETURN_IF_ERROR(call.status());
  return OneCall(
      *std::move(call), params,
      {KernelArg::Input(0), KernelArg::Input(1), InputOrNull(node, 2), KernelArg::Output(0)});
}

// ---- Losses by element

// Operands from `first` on: prediction, target, weight.
absl::Status CheckElementLoss(const NodeContext& node, int32_t first) {
  const TensorType& x = node.InputType(first);
  if (node.InputType(first + 1) != x) {
    return node.Invalid("the prediction and the target must be of one type");
  }
  if (!node.HasInput(first + 2)) return absl::OkStatus();
  const TensorType& weight = node.InputType(first + 2);
  const bool fits = weight.rank() <= x.rank() &&
                    std::equal(weight.shape.rbegin(), weight.shape.rend(), x.shape.rbegin());
  if (weight.dtype != x.dtype || (!fits && weight.NumElements() != 1)) {
    return node.Invalid("the weights must be one, or have the last dimensions of the prediction");
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorType> ElementLossType(const NodeContext& node, int32_t first) {
  RETURN_IF_ERROR(CheckElementLoss(node, first));
  ASSIGN_OR_RETURN(const kernels::LossReduction reduction, ReadReduction(node));
  const TensorType& x = node.InputType(first);
  return TensorType{x.dtype, reduction == kernels::kLossNone ? x.shape : Shape{}};
}

absl::StatusOr<std::vector<TensorType>> InferElementLoss(const NodeContext& node) {
  ASSIGN_OR_RETURN(TensorType loss, ElementLossType(node, 0));
  return std::vector<TensorType>{std::move(loss)};
}

absl::StatusOr<std::vector<TensorType>> InferElementLossGrad(const NodeContext& node) {
  ASSIGN_OR_RETURN(const TensorType loss, ElementLossType(node, 1));
  if (node.InputDType(0) != loss.dtype || node.InputType(0).NumElements() != loss.NumElements()) {
    return node.Invalid(absl::StrCat("the gradient of the loss must be ", loss.ToString()));
  }
  return std::vector<TensorType>{node.InputType(1)};
}

absl::StatusOr<kernels::ElementLossParams> MakeElementLossParams(const NodeContext& node,
                                                                 int32_t first) {
  kernels::ElementLossParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(first).NumElements(), "the number of elements"));
  ASSIGN_OR_RETURN(params.reduction, ReadReduction(node));
  if (node.HasInput(first + 2)) {
    params.weights = static_cast<int32_t>(node.InputType(first + 2).NumElements());
  }
  params.delta = node.Float("delta", 1);
  return params;
}

template <Functor kError>
absl::StatusOr<Lowering> LowerElementLoss(const NodeContext& node, const Target&) {
  using Error = typename decltype(kError)::Type;
  ASSIGN_OR_RETURN(const kernels::ElementLossParams params, MakeElementLossParams(node, 0));
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), kHeader,
                               "kernels::ElementLoss<{T}, {F}>", kError.name(), []<class T> {
                                 return FunctionOf<&kernels::ElementLoss<T, Error>>();
                               }));
  return OneCall(
      std::move(call), params,
      {KernelArg::Input(0), KernelArg::Input(1), InputOrNull(node, 2), KernelArg::Output(0)});
}

template <Functor kError>
absl::StatusOr<Lowering> LowerElementLossGrad(const NodeContext& node, const Target&) {
  using Error = typename decltype(kError)::Type;
  ASSIGN_OR_RETURN(const kernels::ElementLossParams params, MakeElementLossParams(node, 1));
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), kHeader,
                               "kernels::ElementLossGrad<{T}, {F}>", kError.name(), []<class T> {
                                 return FunctionOf<&kernels::ElementLossGrad<T, Error>>();
                               }));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2),
                  InputOrNull(node, 3), KernelArg::Output(0)});
}

// The gradient over the prediction, and over the target.
std::vector<Alias> ElementGradientInPlace(const NodeContext&) {
  return {{Alias::Kind::kInPlace, 0, 1, 0}, {Alias::Kind::kInPlace, 0, 2, 0}};
}

// ---- Rules

absl::Status CheckOnlyPrediction(const GradientContext& g) {
  for (int32_t i = 1; i < g.num_inputs(); ++i) {
    if (!g.Wants(i)) continue;
    return g.context().Unsupported("gradients of a loss by its targets or weights");
  }
  if (g.OutputGradient(1) != kNoValue) {
    return g.context().Unsupported("the loss depends on its log probabilities");
  }
  return absl::OkStatus();
}

// `op_type`(dloss, log probabilities, target, weight).
absl::Status FromLogProbabilities(GradientContext& g, std::string_view op_type,
                                  std::string_view domain) {
  RETURN_IF_ERROR(CheckOnlyPrediction(g));
  if (!g.Wants(0)) return absl::OkStatus();
  ValueId log_probabilities = g.Output(1);
  if (log_probabilities == kNoValue) {
    if (g.num_outputs() > 1) {
      return g.context().Unsupported("its output of log probabilities is named but omitted");
    }
    const std::string forward = g.node().op_type;
    const std::string forward_domain = g.node().domain;
    log_probabilities = g.ExtendNode(forward, forward_domain, 1)[0];
  }
  RETURN_IF_ERROR(g.status());
  std::vector<ValueId> inputs = {g.OutputGradient(0), log_probabilities, g.Input(1)};
  if (g.Input(2) != kNoValue) inputs.push_back(g.Input(2));
  g.SetInputGradient(0, g.Add(op_type, std::move(inputs), g.node().attributes, domain));
  return g.status();
}

absl::Status CrossEntropyGradient(GradientContext& g) {
  return FromLogProbabilities(g, "CrossEntropyGrad", kMemplan);
}

// The operator of the same name with "Grad", of dloss and all inputs. A loss of the difference of
// its operands has the opposite gradient by its target.
template <bool kOfDifference>
absl::Status ElementLossGradient(GradientContext& g) {
  if (!kOfDifference) RETURN_IF_ERROR(CheckOnlyPrediction(g));
  if (!g.Wants(0) && !g.Wants(1)) return absl::OkStatus();
  std::vector<ValueId> inputs = {g.OutputGradient(0), g.Input(0), g.Input(1)};
  if (g.Input(2) != kNoValue) inputs.push_back(g.Input(2));
  const std::string op_type = g.node().op_type + "Grad";
  const ValueId gradient = g.Add(op_type, std::move(inputs), g.node().attributes, kMemplan);
  if (g.Wants(0)) g.SetInputGradient(0, gradient);
  if (g.Wants(1)) g.SetInputGradient(1, g.Add("Neg", {gradient}));
  return g.status();
}

constexpr OpDef CrossEntropyDef(std::string_view type) {
  return {.type = type,
          .domain = kMemplan,
          .min_inputs = 2,
          .max_inputs = 3,
          .max_outputs = 2,
          .infer = InferCrossEntropy,
          .aliases = LogProbabilitiesInPlace,
          .lower = LowerCrossEntropy,
          .gradient = CrossEntropyGradient};
}

constexpr OpDef CrossEntropyGradDef(std::string_view type, std::string_view domain,
                                    int32_t min_inputs) {
  return {.type = type,
          .domain = domain,
          .min_inputs = min_inputs,
          .max_inputs = 4,
          .infer = InferCrossEntropyGrad,
          .aliases = GradientInPlace,
          .lower = LowerCrossEntropyGrad};
}

template <Functor kError>
constexpr OpDef ElementLossDef(std::string_view type, int32_t max_inputs) {
  return {.type = type,
          .domain = kMemplan,
          .min_inputs = 2,
          .max_inputs = max_inputs,
          .infer = InferElementLoss,
          .lower = LowerElementLoss<kError>,
          .gradient = max_inputs == 2 ? ElementLossGradient<true> : ElementLossGradient<false>};
}

template <Functor kError>
constexpr OpDef ElementLossGradDef(std::string_view type, int32_t max_inputs) {
  return {.type = type,
          .domain = kMemplan,
          .min_inputs = 3,
          .max_inputs = max_inputs,
          .infer = InferElementLossGrad,
          .aliases = ElementGradientInPlace,
          .lower = LowerElementLossGrad<kError>};
}

}  // namespace

absl::Status SoftmaxCrossEntropyLossGradient(GradientContext& g) {
  return FromLogProbabilities(g, "SoftmaxCrossEntropyLossGrad", kMicrosoft);
}

absl::Status NegativeLogLikelihoodLossGradient(GradientContext& g) {
  RETURN_IF_ERROR(CheckOnlyPrediction(g));
  if (!g.Wants(0)) return absl::OkStatus();
  std::vector<ValueId> inputs = {g.OutputGradient(0), g.Input(1)};
  if (g.Input(2) != kNoValue) inputs.push_back(g.Input(2));
  GradientContext::Attributes attributes = g.node().attributes;
  attributes["classes"] = g.ShapeOf(g.Input(0))[1];
  g.SetInputGradient(0, g.Add("NegativeLogLikelihoodLossGrad", std::move(inputs),
                              std::move(attributes), kMemplan));
  return g.status();
}

extern const OpDef kSmoothCrossEntropy = CrossEntropyDef("SmoothCrossEntropy");
extern const OpDef kSoftmaxCrossEntropyWithProbabilities =
    CrossEntropyDef("SoftmaxCrossEntropyWithProbabilities");
extern const OpDef kCrossEntropyGrad = CrossEntropyGradDef("CrossEntropyGrad", kMemplan, 3);
extern const OpDef kSoftmaxCrossEntropyLossGrad =
    CrossEntropyGradDef("SoftmaxCrossEntropyLossGrad", kMicrosoft, 2);

extern const OpDef kNegativeLogLikelihoodLossGrad = {
    .type = "NegativeLogLikelihoodLossGrad",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferNllGrad,
    .lower = LowerNllGrad,
};

extern const OpDef kMseLoss = ElementLossDef<KERNEL_FUNCTOR(SquaredError)>("MseLoss", 2);
extern const OpDef kL1Loss = ElementLossDef<KERNEL_FUNCTOR(AbsoluteError)>("L1Loss", 2);
extern const OpDef kHuberLoss = ElementLossDef<KERNEL_FUNCTOR(HuberError)>("HuberLoss", 2);
extern const OpDef kBceWithLogitsLoss =
    ElementLossDef<KERNEL_FUNCTOR(LogisticError)>("BCEWithLogitsLoss", 3);
extern const OpDef kMseLossGrad =
    ElementLossGradDef<KERNEL_FUNCTOR(SquaredError)>("MseLossGrad", 3);
extern const OpDef kL1LossGrad = ElementLossGradDef<KERNEL_FUNCTOR(AbsoluteError)>("L1LossGrad", 3);
extern const OpDef kHuberLossGrad =
    ElementLossGradDef<KERNEL_FUNCTOR(HuberError)>("HuberLossGrad", 3);
extern const OpDef kBceWithLogitsLossGrad =
    ElementLossGradDef<KERNEL_FUNCTOR(LogisticError)>("BCEWithLogitsLossGrad", 4);

}  // namespace onnx_memplan
