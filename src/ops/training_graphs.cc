// Operators that only training graphs made elsewhere have: ONNX Runtime's training artifacts
// (domain com.microsoft) and Deeploy's (SGD, in the default domain).
#include "ops/host_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/accumulate.h"
#include "kernels/copy.h"
#include "kernels/optimizers.h"
#include "ops/data_movement.h"
#include "ops/families.h"
#include "ops/gemm_lowering.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// ---- SGD: weight - lr * gradient, where lr is an attribute

absl::StatusOr<std::vector<TensorType>> InferSgd(const NodeContext& node) {
  if (node.InputType(0) != node.InputType(1)) {
    return node.Invalid("the gradient must be of the weight's type");
  }
  return rules::SameTypeAsInput(node);
}

absl::StatusOr<Lowering> LowerSgd(const NodeContext& node, const Target&) {
  if (!node.HasAttribute("lr")) return node.Invalid("attribute 'lr' is missing");
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/optimizers.h",
                                "kernels::Update<{T}, kernels::Sgd>", "", []<class T> {
                                  return FunctionOf<&kernels::Update<T, kernels::Sgd>>();
                                })));
  kernels::OptimizerParams params = {};
  params.every = 1;
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  call.constants.push_back(Tensor::FromVector<float>({}, {node.Float("lr", 0)}));
  const KernelArg null = KernelArg::Null();
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Constant(0), null, null,
                  null, null, KernelArg::Output(0), null, null});
}

// ---- InPlaceAccumulatorV2: buffer, gradient, overwrite flag -> updated flag, the new buffer

absl::StatusOr<std::vector<TensorType>> InferAccumulator(const NodeContext& node) {
  if (node.InputType(0) != node.InputType(1) ||
      (node.HasInput(2) &&
       (node.InputDType(2) != DType::kBool || node.InputType(2).NumElements() != 1))) {
    return node.Invalid("takes a buffer, a gradient of its type, and a bool");
  }
  std::vector<TensorType> types = {{DType::kBool, {1}}, node.InputType(0)};
  types.resize(static_cast<size_t>(node.num_outputs()));
  return types;
}

std::vector<Alias> AccumulatorAliases(const NodeContext& node) {
  if (!node.HasOutput(1)) return {};
  return {{Alias::Kind::kInPlace, 1, 0, 0}, {Alias::Kind::kInPlace, 1, 1, 0}};
}

absl::StatusOr<Lowering> LowerAccumulator(const NodeContext& node, const Target&) {
  if (!node.HasOutput(1)) {
    return node.Unsupported(
        "it writes over its input, and inputs are constant here; give it its second output, the "
        "new buffer");
  }
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/accumulate.h",
                                "kernels::Accumulate<{T}>", "",
                                []<class T> { return FunctionOf<&kernels::Accumulate<T>>(); })));
  kernels::AccumulateParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  return OneCall(
      std::move(call), params,
      {KernelArg::Input(0), KernelArg::Input(1), OptionalInput(node, 2),
       node.HasOutput(0) ? KernelArg::Output(0) : KernelArg::Null(), KernelArg::Output(1)});
}

// ---- BroadcastGradientArgs: two shapes -> the axes along which each operand was broadcast

// Of the operand of shape `own` beside one of shape `other`.
std::vector<int64_t> BroadcastAxes(const Shape& own, const Shape& other) {
  const size_t rank = std::max(own.size(), other.size());
  std::vector<int64_t> axes;
  for (size_t i = 0; i < rank; ++i) {
    const bool is_missing = i + own.size() < rank;
    const size_t from_own = i + own.size() - rank;
    const bool is_repeated = !is_missing && i + other.size() >= rank && own[from_own] == 1 &&
                             other[i + other.size() - rank] != 1;
    if (is_missing || is_repeated) axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

absl::StatusOr<std::vector<Tensor>> BroadcastArgs(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Shape a, node.ConstantInts(0, "a_shape"));
  ASSIGN_OR_RETURN(const Shape b, node.ConstantInts(1, "b_shape"));
  if (!rules::Broadcast(a, b)) return node.Invalid("the shapes do not broadcast");
  return std::vector<Tensor>{Tensor::VectorInt64(BroadcastAxes(a, b)),
                             Tensor::VectorInt64(BroadcastAxes(b, a))};
}

absl::StatusOr<std::vector<TensorType>> InferBroadcastArgs(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> axes, BroadcastArgs(node));
  std::vector<TensorType> types = {axes[0].type(), axes[1].type()};
  types.resize(static_cast<size_t>(node.num_outputs()));
  return types;
}

absl::StatusOr<Lowering> LowerBroadcastArgs(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> axes, BroadcastArgs(node));
  Lowering lowering;
  for (int32_t i = 0; i < node.num_outputs(); ++i) {
    const Tensor& value = axes[static_cast<size_t>(i)];
    if (!node.HasOutput(i) || value.NumElements() == 0) continue;
    RETURN_IF_ERROR(AppendKnownOutput(node, i, value, &lowering));
  }
  return lowering;
}

}  // namespace

extern const OpDef kPlainSgd = {
    .type = "SGD",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferSgd,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerSgd,
};

extern const OpDef kInPlaceAccumulator = {
    .type = "InPlaceAccumulatorV2",
    .domain = kMicrosoft,
    .min_inputs = 2,
    .max_inputs = 3,
    .max_outputs = 2,
    .infer = InferAccumulator,
    .aliases = AccumulatorAliases,
    .lower = LowerAccumulator,
};

extern const OpDef kBroadcastGradientArgs = {
    .type = "BroadcastGradientArgs",
    .domain = kMicrosoft,
    .min_inputs = 2,
    .max_inputs = 2,
    .max_outputs = 2,
    .infer = InferBroadcastArgs,
    .lower = LowerBroadcastArgs,
};

}  // namespace onnx_memplan
