// Gradients of elementwise functions: dX = dY * f'(saved), see
// codegen/kernels/activation_gradient.h for what is saved; and masks of elements that pass, see
// codegen/kernels/mask.h. Names, operands and attributes are ONNX Runtime's where it has the
// operator.
#include "ops/host_kernels.h"

#include "kernels/activation_gradient.h"

#include "kernels/mask.h"
#include "ops/families.h"
#include "ops/gemm_lowering.h"
#include "ops/parallel_axis.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::Status CheckFloat(const NodeContext& node) {
  if (IsFloatingPoint(node.InputDType(0))) return absl::OkStatus();
  return node.Invalid("gradients are of floating point");
}

// ---- dX = dY * f'(saved)

absl::StatusOr<std::vector<TensorType>> InferGradient(const NodeContext& node) {
  RETURN_IF_ERROR(CheckFloat(node));
  if (node.InputType(0) != node.InputType(1)) {
    return node.Invalid("the gradient and the saved tensor must have one type");
  }
  return rules::SameTypeAsInput(node);
}

std::vector<Alias> InPlaceBoth(const NodeContext&) {
  return {{Alias::Kind::kInPlace, 0, 0, 0}, {Alias::Kind::kInPlace, 0, 1, 0}};
}

// The attributes that are the functor's alpha and beta, with their defaults; empty: unused.
struct GradientAttributes {
  std::string_view type;
  std::string_view alpha;
  float alpha_default = 0;
  std::string_view beta = {};
  float beta_default = 0;
};

constexpr GradientAttributes kGradientAttributes[] = {
    {"CeluGrad", "alpha", 1},
    {"EluGrad", "alpha", 1},
    {"HardSigmoidGrad", "alpha", 0.2F},
    {"LeakyReluGrad", "alpha", 0.01F},
    {"QuickGeluGrad", "alpha", 1.702F},
    {"SeluGrad", "alpha", 1.67326319217681884765625F, "gamma", 1.05070102214813232421875F},
    {"ShrinkGrad", "lambd", 0.5F},
    {"ThresholdedReluGrad", "alpha", 1},
};

template <Functor kFunctor>
absl::StatusOr<Lowering> LowerGradient(const NodeContext& node, const Target&) {
  using F = typename decltype(kFunctor)::Type;
  ASSIGN_OR_RETURN(
      KernelCall call,
      TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/activation_gradient.h",
                  "kernels::ActivationGradient<{T}, {F}>", kFunctor.name(),
                  []<class T> { return FunctionOf<&kernels::ActivationGradient<T, F>>(); }));
  kernels::ActivationGradientParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  for (const GradientAttributes& attributes : kGradientAttributes) {
    if (attributes.type != node.node().op_type) continue;
    params.alpha = node.Float(attributes.alpha, attributes.alpha_default);
    params.beta = node.Float(attributes.beta, attributes.beta_default);
  }
  return ByElements(OneCall(std::move(call), params,
                            {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)}),
                    params, {1, 1, 1});
}

// ---- dX = dY * f'(X + bias), where the bias runs along the last dimension

absl::StatusOr<std::vector<TensorType>> InferBiasGradient(const NodeContext& node) {
  const TensorType& x = node.InputType(1);
  if (x.rank() < 1 || node.InputType(2) != TensorType{x.dtype, {x.shape.back()}}) {
    return node.Invalid("the bias must have one element for each of the last dimension");
  }
  return InferGradient(node);
}

template <Functor kFunctor>
absl::StatusOr<Lowering> LowerBiasGradient(const NodeContext& node, const Target&) {
  using F = typename decltype(kFunctor)::Type;
  ASSIGN_OR_RETURN(
      KernelCall call,
      TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/activation_gradient.h",
                  "kernels::BiasActivationGradient<{T}, {F}>", kFunctor.name(),
                  []<class T> { return FunctionOf<&kernels::BiasActivationGradient<T, F>>(); }));
  kernels::BiasActivationGradientParams params = {};
  const int64_t count = node.InputType(0).NumElements();
  ASSIGN_OR_RETURN(params.rows, ToInt32(node, count, "the number of elements"));
  ASSIGN_OR_RETURN(params.columns, ToInt32(node, node.InputShape(0).back(), "a dimension"));
  if (params.columns > 0) params.rows /= params.columns;
  return InParallel(OneCall(std::move(call), params,
                            {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2),
                             KernelArg::Output(0)}),
                    int64_t{params.rows} * params.columns * kElementWork,
                    {AxisOf<&kernels::BiasActivationGradientParams::rows>(
                        params, 1, {params.columns, params.columns, 0, params.columns})});
}

// ---- Masks

// Inputs from `first` on are one-element bounds of input 0's type.
absl::Status CheckBounds(const NodeContext& node, int32_t first) {
  RETURN_IF_ERROR(CheckFloat(node));
  for (int32_t i = first; i < node.num_inputs(); ++i) {
    if (!node.HasInput(i)) continue;
    if (node.InputDType(i) != node.InputDType(0) || node.InputType(i).NumElements() != 1) {
      return node.Invalid("the bounds must be scalars of the element type of input 0");
    }
  }
  return absl::OkStatus();
}

int64_t MaskBytes(const NodeContext& node) { return (node.InputType(0).NumElements() + 7) / 8; }

absl::StatusOr<std::vector<TensorType>> InferMask(const NodeContext& node) {
  RETURN_IF_ERROR(CheckBounds(node, 1));
  return std::vector<TensorType>{{DType::kUint8, {MaskBytes(node)}}};
}

absl::StatusOr<std::vector<TensorType>> InferMaskedGrad(const NodeContext& node) {
  RETURN_IF_ERROR(CheckFloat(node));
  if (node.InputType(1) != TensorType{DType::kUint8, {MaskBytes(node)}}) {
    return node.Invalid("the mask must be uint8, with one bit for each element of input 0");
  }
  return rules::SameTypeAsInput(node);
}

absl::StatusOr<std::vector<TensorType>> InferClipGrad(const NodeContext& node) {
  RETURN_IF_ERROR(CheckBounds(node, 2));
  return InferGradient(node);
}

absl::StatusOr<kernels::MaskParams> CountParams(const NodeContext& node) {
  kernels::MaskParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  return params;
}

absl::StatusOr<Lowering> LowerSignMask(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/mask.h",
                               "kernels::SignMask<{T}>", "",
                               []<class T> { return FunctionOf<&kernels::SignMask<T>>(); }));
  ASSIGN_OR_RETURN(const kernels::MaskParams params, CountParams(node));
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerClipMask(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/mask.h",
                               "kernels::ClipMask<{T}>", "",
                               []<class T> { return FunctionOf<&kernels::ClipMask<T>>(); }));
  ASSIGN_OR_RETURN(const kernels::MaskParams params, CountParams(node));
  return OneCall(
      std::move(call), params,
      {KernelArg::Input(0), OptionalInput(node, 1), OptionalInput(node, 2), KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerClipGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/mask.h",
                               "kernels::ClipGrad<{T}>", "",
                               []<class T> { return FunctionOf<&kernels::ClipGrad<T>>(); }));
  ASSIGN_OR_RETURN(const kernels::MaskParams params, CountParams(node));
  return ByElements(OneCall(std::move(call), params,
                            {KernelArg::Input(0), KernelArg::Input(1), OptionalInput(node, 2),
                             OptionalInput(node, 3), KernelArg::Output(0)}),
                    params, {1, 1, 0, 0, 1});
}

absl::StatusOr<Lowering> LowerMaskedGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/mask.h",
                               "kernels::MaskedGrad<{T}>", "",
                               []<class T> { return FunctionOf<&kernels::MaskedGrad<T>>(); }));
  kernels::MaskedGradParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  params.scale = node.Float("scale", 1);
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

constexpr OpDef Gradient(std::string_view type, std::string_view domain,
                         absl::StatusOr<Lowering> (*lower)(const NodeContext&, const Target&)) {
  return {.type = type,
          .domain = domain,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = InferGradient,
          .aliases = InPlaceBoth,
          .lower = lower};
}

constexpr OpDef BiasGradient(std::string_view type,
                             absl::StatusOr<Lowering> (*lower)(const NodeContext&, const Target&)) {
  OpDef def = Gradient(type, kMicrosoft, lower);
  def.min_inputs = 3;
  def.max_inputs = 3;
  def.infer = InferBiasGradient;
  return def;
}

}  // namespace

#define GRADIENT(Name, F, domain) \
  extern const OpDef k##Name = Gradient(#Name, domain, LowerGradient<KERNEL_FUNCTOR(F)>)
GRADIENT(ReluGrad, ReluGrad, kMicrosoft);
GRADIENT(SigmoidGrad, SigmoidGrad, kMicrosoft);
GRADIENT(TanhGrad, TanhGrad, kMicrosoft);
GRADIENT(LeakyReluGrad, LeakyReluGrad, kMicrosoft);
GRADIENT(QuickGeluGrad, QuickGeluGrad, kMicrosoft);
GRADIENT(FastGeluGrad, GeluTanhGrad, kMicrosoft);
GRADIENT(GeluGrad, GeluGrad, kMicrosoft);
GRADIENT(AbsGrad, AbsGrad, kMemplan);
GRADIENT(AcosGrad, AcosGrad, kMemplan);
GRADIENT(AcoshGrad, AcoshGrad, kMemplan);
GRADIENT(AsinGrad, AsinGrad, kMemplan);
GRADIENT(AsinhGrad, AsinhGrad, kMemplan);
GRADIENT(AtanGrad, AtanGrad, kMemplan);
GRADIENT(AtanhGrad, AtanhGrad, kMemplan);
GRADIENT(CeluGrad, CeluGrad, kMemplan);
GRADIENT(CosGrad, CosGrad, kMemplan);
GRADIENT(CoshGrad, CoshGrad, kMemplan);
GRADIENT(EluGrad, EluGrad, kMemplan);
GRADIENT(ErfGrad, ErfGrad, kMemplan);
GRADIENT(HardSigmoidGrad, HardSigmoidGrad, kMemplan);
GRADIENT(HardSwishGrad, HardSwishGrad, kMemplan);
GRADIENT(MishGrad, MishGrad, kMemplan);
GRADIENT(ReciprocalGrad, ReciprocalGrad, kMemplan);
GRADIENT(SeluGrad, SeluGrad, kMemplan);
GRADIENT(ShrinkGrad, ShrinkGrad, kMemplan);
GRADIENT(SinGrad, SinGrad, kMemplan);
GRADIENT(SinhGrad, SinhGrad, kMemplan);
GRADIENT(SoftplusGrad, SoftplusGrad, kMemplan);
GRADIENT(SoftsignGrad, SoftsignGrad, kMemplan);
GRADIENT(SqrtGrad, SqrtGrad, kMemplan);
GRADIENT(TanGrad, TanGrad, kMemplan);
GRADIENT(ThresholdedReluGrad, ThresholdedReluGrad, kMemplan);
#undef GRADIENT

// As Deeploy's training graphs name it.
extern const OpDef kPlainGeluGrad =
    Gradient("GeluGrad", "", LowerGradient<KERNEL_FUNCTOR(GeluGrad)>);

extern const OpDef kBiasGeluGrad =
    BiasGradient("BiasGeluGrad_dX", LowerBiasGradient<KERNEL_FUNCTOR(GeluGrad)>);
extern const OpDef kBiasFastGeluGrad =
    BiasGradient("BiasFastGeluGrad_dX", LowerBiasGradient<KERNEL_FUNCTOR(GeluTanhGrad)>);

extern const OpDef kSignMask = {
    .type = "SignMask",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferMask,
    .lower = LowerSignMask,
};

extern const OpDef kClipMask = {
    .type = "ClipMask",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 3,
    .infer = InferMask,
    .lower = LowerClipMask,
};

extern const OpDef kMaskedGrad = {
    .type = "MaskedGrad",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferMaskedGrad,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerMaskedGrad,
};

// Operands: dY, Y (or X: the result is the same), min, max.
extern const OpDef kClipGrad = {
    .type = "ClipGrad",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 4,
    .infer = InferClipGrad,
    .aliases = InPlaceBoth,
    .lower = LowerClipGrad,
};

}  // namespace onnx_memplan
