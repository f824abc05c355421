// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include "ops/host_kernels.h"

#include "kernels/losses.h"

#include "absl/strings/str_cat.h"
#include "kernels/softmax.h"
#include "ops/families.h"
#include "ops/loss_lowering.h"
#include "ops/reduce_loops.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {

absl::StatusOr<kernels::LossReduction> ReadReduction(const NodeContext& node) {
  const std::string name = node.String("reduction", "mean");
  if (name == "none") return kernels::kLossNone;
  if (name == "mean") return kernels::kLossMean;
  if (name == "sum") return kernels::kLossSum;
  return node.Invalid(absl::StrCat("reduction '", name, "' is none of none, mean, sum"));
}

namespace {

// Inputs: scores of batch x classes x d1 x ..., targets of batch x d1 x ..., weights by class.
absl::StatusOr<std::vector<TensorType>> InferLoss(const NodeContext& node) {
  ASSIGN_OR_RETURN(const kernels::LossReduction reduction, ReadReduction(node));
  Shape expected = node.InputShape(0);
  if (expected.size() < 2) return node.Invalid("input 0 must have a class dimension");
  const int64_t classes = expected[1];
  expected.erase(expected.begin() + 1);
  if (node.InputShape(1) != expected) {
    return node.Invalid(absl::StrCat("the targets must be of shape ", ShapeToString(expected)));
  }
  if (node.HasInput(2) && node.InputType(2) != TensorType{node.InputDType(0), {classes}}) {
    return node.Invalid(absl::StrCat("the weights must be ", classes, " of input 0's type"));
  }
  const Shape loss = reduction == kernels::kLossNone ? expected : Shape{};
  return std::vector<TensorType>{{node.InputDType(0), loss}, node.InputType(0)};
}

template <Functor kSource, class Index>
absl::StatusOr<KernelCall> LossCallWith(const NodeContext& node) {
  using Source = typename decltype(kSource)::Type;
  const std::string index(DTypeCppName(kDTypeOf<Index>));
  return TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/losses.h",
                     absl::StrCat("kernels::ClassLoss<{T}, ", index, ", {F}>"), kSource.name(),
                     []<class T> { return FunctionOf<&kernels::ClassLoss<T, Index, Source>>(); });
}

// The loss from `x`, which is the node's input 0 or its log probabilities.
template <Functor kSource>
absl::StatusOr<KernelCall> LossCall(const NodeContext& node, KernelArg x) {
  absl::StatusOr<KernelCall> call =
      node.InputDType(1) == DType::kInt64   ? LossCallWith<kSource, int64_t>(node)
      : node.InputDType(1) == DType::kInt32 ? LossCallWith<kSource, int32_t>(node)
                                            : node.Invalid("the targets must be int32 or int64");
  RETURN_IF_ERROR(call.status());
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtAxis(node, node.InputShape(0), 1));
  kernels::ClassLossParams params = {};
  params.ignore_index = node.Int("ignore_index", -1);
  ASSIGN_OR_RETURN(params.reduction, ReadReduction(node));
  params.batch = split.outer;
  params.classes = split.count;
  params.inner = split.inner;
  call->params = MakeParams(params);
  call->args = {x, KernelArg::Input(1), node.HasInput(2) ? KernelArg::Input(2) : KernelArg::Null(),
                KernelArg::Output(0)};
  return call;
}

absl::StatusOr<Lowering> LowerNegativeLogLikelihood(const NodeContext& node, const Target&) {
  Lowering lowering;
  ASSIGN_OR_RETURN(KernelCall call,
                   (LossCall<KERNEL_FUNCTOR(FromLogProbabilities)>(node, KernelArg::Input(0))));
  lowering.calls.push_back(std::move(call));
  return lowering;
}

// Without the output of log probabilities, they are never stored.
absl::StatusOr<Lowering> LowerSoftmaxCrossEntropy(const NodeContext& node, const Target&) {
  Lowering lowering;
  if (!node.HasOutput(1)) {
    ASSIGN_OR_RETURN(KernelCall call,
                     (LossCall<KERNEL_FUNCTOR(FromScores)>(node, KernelArg::Input(0))));
    lowering.calls.push_back(std::move(call));
    return lowering;
  }
  ASSIGN_OR_RETURN(KernelCall softmax,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/softmax.h",
                               "kernels::Softmax<{T}, kernels::LogSoftmaxOf>", "", []<class T> {
                                 return FunctionOf<&kernels::Softmax<T, kernels::LogSoftmaxOf>>();
                               }));
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtAxis(node, node.InputShape(0), 1));
  softmax.params = MakeParams(kernels::SoftmaxParams{split.outer, split.count, split.inner});
  softmax.args = {KernelArg::Input(0), KernelArg::Output(1)};
  lowering.calls.push_back(std::move(softmax));
  ASSIGN_OR_RETURN(KernelCall loss,
                   (LossCall<KERNEL_FUNCTOR(FromLogProbabilities)>(node, KernelArg::Output(1))));
  lowering.calls.push_back(std::move(loss));
  return lowering;
}

// The log probabilities may lie over the scores.
std::vector<Alias> LogProbabilitiesInPlace(const NodeContext& node) {
  if (!node.HasOutput(1)) return {};
  return {{Alias::Kind::kInPlace, 1, 0, 0}};
}

}  // namespace

extern const OpDef kNegativeLogLikelihoodLoss = {
    .type = "NegativeLogLikelihoodLoss",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferLoss,
    .lower = LowerNegativeLogLikelihood,
    .gradient = NegativeLogLikelihoodLossGradient,
};

extern const OpDef kSoftmaxCrossEntropyLoss = {
    .type = "SoftmaxCrossEntropyLoss",
    .min_inputs = 2,
    .max_inputs = 3,
    .max_outputs = 2,
    .infer = InferLoss,
    .aliases = LogProbabilitiesInPlace,
    .lower = LowerSoftmaxCrossEntropy,
    .gradient = SoftmaxCrossEntropyLossGradient,
};

}  // namespace onnx_memplan
