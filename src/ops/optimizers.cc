// Updates of parameters: what a training step ends in. Domain kMemplan.
//
//   SgdUpdate(w, gradient, rate, [step], [scale], [momentum]) -> w', [momentum']
//   AdamUpdate(w, gradient, rate, step, [scale], first moment, second moment)
//       -> w', first moment', second moment'
//   AccumulateGradient(sum, gradient, step) -> sum'
//   ClipCoefficient(sum of squares) -> scale
//
// rate, scale: float scalars; step: int64 scalar, 1 in the first step. Attributes: see
// kernels::OptimizerParams. Each output may lie over the operand that it replaces.
#include "ops/host_kernels.h"

#include "ops/optimizers.h"

#include <array>
#include <charconv>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/families.h"
#include "ops/parallel_axis.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// What the user wrote: the shortest decimal that gives this float.
double ShortestDecimal(float value) {
  std::array<char, 32> text;
  const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), value);
  double result = static_cast<double>(value);
  std::from_chars(text.data(), end.ptr, result);
  return result;
}

}  // namespace

void SetOptimizerNumbers(const NodeContext& node, kernels::OptimizerParams* params) {
  // Attributes of ONNX are float; PyTorch's numbers are decimal, and Adam's corrections feel the
  // difference.
  params->beta1 = ShortestDecimal(node.Float("beta1", 0.9F));
  params->beta2 = ShortestDecimal(node.Float("beta2", 0.999F));
  params->momentum = node.Float("momentum", 0);
  params->weight_decay = node.Float("weight_decay", 0);
  params->epsilon = node.Float("epsilon", 1e-8F);
  params->nesterov = node.Int("nesterov", 0) != 0 ? 1 : 0;
  params->decoupled = node.Int("decoupled_weight_decay", 0) != 0 ? 1 : 0;
}

namespace {

constexpr int32_t kWeight = 0;
constexpr int32_t kGradient = 1;
constexpr int32_t kRate = 2;
constexpr int32_t kStep = 3;
constexpr int32_t kScale = 4;
constexpr int32_t kFirstMoment = 5;
constexpr int32_t kSecondMoment = 6;

KernelArg OptionalInput(const NodeContext& node, int32_t i) {
  return node.HasInput(i) ? KernelArg::Input(i) : KernelArg::Null();
}

absl::Status CheckScalar(const NodeContext& node, int32_t i, DType dtype) {
  if (!node.HasInput(i) || node.InputType(i) == TensorType{dtype, {}}) return absl::OkStatus();
  return node.Invalid(
      absl::StrCat("input ", i, " must be a scalar of type ", std::string(DTypeName(dtype))));
}

absl::StatusOr<std::vector<TensorType>> InferUpdate(const NodeContext& node) {
  RETURN_IF_ERROR(CheckScalar(node, kRate, DType::kFloat));
  RETURN_IF_ERROR(CheckScalar(node, kStep, DType::kInt64));
  RETURN_IF_ERROR(CheckScalar(node, kScale, DType::kFloat));
  for (int32_t i : {kGradient, kFirstMoment, kSecondMoment}) {
    if (node.HasInput(i) && node.InputType(i) != node.InputType(kWeight)) {
      return node.Invalid(absl::StrCat("input ", i, " must be of input 0's type"));
    }
  }
  for (int32_t i = 1; i < node.num_outputs(); ++i) {
    if (!node.HasInput(kFirstMoment + i - 1)) {
      return node.Invalid(absl::StrCat("output ", i, " has no moment to replace"));
    }
  }
  return std::vector<TensorType>(static_cast<size_t>(node.num_outputs()), node.InputType(kWeight));
}

std::vector<Alias> UpdateInPlace(const NodeContext& node) {
  std::vector<Alias> aliases = {{Alias::Kind::kInPlace, 0, kWeight, 0}};
  if (node.HasOutput(1)) aliases.push_back({Alias::Kind::kInPlace, 1, kFirstMoment, 0});
  if (node.HasOutput(2)) aliases.push_back({Alias::Kind::kInPlace, 2, kSecondMoment, 0});
  return aliases;
}

absl::StatusOr<kernels::OptimizerParams> MakeOptimizerParams(const NodeContext& node) {
  kernels::OptimizerParams params = {};
  SetOptimizerNumbers(node, &params);
  ASSIGN_OR_RETURN(params.every,
                   ToInt32(node, node.Int("accumulate_steps", 1), "accumulate_steps"));
  if (params.every < 1) return node.Invalid("accumulate_steps must be at least 1");
  if (params.every > 1 && !node.HasInput(kStep)) return node.Invalid("the step is missing");
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  return params;
}

template <Functor kRule>
absl::StatusOr<Lowering> LowerUpdateWith(const NodeContext& node) {
  using Rule = typename decltype(kRule)::Type;
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/optimizers.h",
                               "kernels::Update<{T}, {F}>", kRule.name(),
                               []<class T> { return FunctionOf<&kernels::Update<T, Rule>>(); }));
  ASSIGN_OR_RETURN(const kernels::OptimizerParams params, MakeOptimizerParams(node));
  std::vector<KernelArg> args;
  for (int32_t i = kWeight; i <= kSecondMoment; ++i) args.push_back(OptionalInput(node, i));
  for (int32_t i = 0; i < 3; ++i) {
    args.push_back(node.HasOutput(i) ? KernelArg::Output(i) : KernelArg::Null());
  }
  // Rate, step and scale are scalars.
  return ByElements(OneCall(std::move(call), params, std::move(args)), params,
                    {1, 1, 0, 0, 0, 1, 1, 1, 1, 1});
}

absl::StatusOr<Lowering> LowerSgd(const NodeContext& node, const Target&) {
  if (!node.HasInput(kFirstMoment)) return LowerUpdateWith<KERNEL_FUNCTOR(Sgd)>(node);
  if (!node.HasOutput(1)) return node.Invalid("the momentum must be an output too");
  return LowerUpdateWith<KERNEL_FUNCTOR(SgdMomentum)>(node);
}

absl::StatusOr<Lowering> LowerAdam(const NodeContext& node, const Target&) {
  for (int32_t i : {kStep, kFirstMoment, kSecondMoment}) {
    if (!node.HasInput(i)) return node.Invalid(absl::StrCat("input ", i, " is missing"));
  }
  if (!node.HasOutput(1) || !node.HasOutput(2)) {
    return node.Invalid("the moments must be outputs too");
  }
  return LowerUpdateWith<KERNEL_FUNCTOR(Adam)>(node);
}

absl::StatusOr<std::vector<TensorType>> InferAccumulate(const NodeContext& node) {
  if (node.InputType(1) != node.InputType(0) ||
      node.InputType(2) != TensorType{DType::kInt64, {}}) {
    return node.Invalid("takes a sum, a gradient of the same type, and an int64 scalar");
  }
  return std::vector<TensorType>{node.InputType(0)};
}

absl::StatusOr<Lowering> LowerAccumulate(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/optimizers.h",
                               "kernels::AccumulateGradient<{T}>", "", []<class T> {
                                 return FunctionOf<&kernels::AccumulateGradient<T>>();
                               }));
  kernels::OptimizerParams params = {};
  ASSIGN_OR_RETURN(params.every,
                   ToInt32(node, node.Int("accumulate_steps", 2), "accumulate_steps"));
  if (params.every < 2) return node.Invalid("accumulate_steps must be at least 2");
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  return ByElements(OneCall(std::move(call), params,
                            {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2),
                             KernelArg::Output(0)}),
                    params, {1, 1, 0, 1});
}

absl::StatusOr<std::vector<TensorType>> InferClip(const NodeContext& node) {
  if (!node.InputShape(0).empty()) return node.Invalid("takes a scalar");
  return std::vector<TensorType>{{DType::kFloat, {}}};
}

absl::StatusOr<Lowering> LowerClip(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/optimizers.h",
                               "kernels::ClipCoefficient<{T}>", "",
                               []<class T> { return FunctionOf<&kernels::ClipCoefficient<T>>(); }));
  kernels::ClipCoefficientParams params = {};
  params.max_norm = node.Float("max_norm", 1);
  ASSIGN_OR_RETURN(params.every,
                   ToInt32(node, node.Int("accumulate_steps", 1), "accumulate_steps"));
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

}  // namespace

extern const OpDef kSgdUpdate = {
    .type = "SgdUpdate",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 6,
    .max_outputs = 2,
    .infer = InferUpdate,
    .aliases = UpdateInPlace,
    .lower = LowerSgd,
};

extern const OpDef kAdamUpdate = {
    .type = "AdamUpdate",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 7,
    .min_outputs = 3,
    .max_outputs = 3,
    .infer = InferUpdate,
    .aliases = UpdateInPlace,
    .lower = LowerAdam,
};

extern const OpDef kAccumulateGradient = {
    .type = "AccumulateGradient",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferAccumulate,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerAccumulate,
};

extern const OpDef kClipCoefficient = {
    .type = "ClipCoefficient",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferClip,
    .lower = LowerClip,
};

}  // namespace onnx_memplan
