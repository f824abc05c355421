// Elementwise operators of one operand. Those with bounds or a second type (Clip, Cast) are in
// where_clip_cast.cc.
#include "ops/host_kernels.h"

#include "kernels/unary.h"
#include "ops/epilogue.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/parallel_axis.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::StatusOr<kernels::UnaryParams> CountParams(const NodeContext& node) {
  kernels::UnaryParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  return params;
}

template <Functor kFunctor, class ElementTypes>
absl::StatusOr<Lowering> LowerWith(const NodeContext& node, float alpha, float beta) {
  using F = typename decltype(kFunctor)::Type;
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(ElementTypes(), node, node.InputDType(0), "kernels/unary.h",
                               "kernels::Unary<{T}, {F}>", kFunctor.name(),
                               []<class T> { return FunctionOf<&kernels::Unary<T, F>>(); }));
  ASSIGN_OR_RETURN(kernels::UnaryParams params, CountParams(node));
  params.alpha = alpha;
  params.beta = beta;
  return ByElements(OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)}),
                    params, {1, 1});
}

template <Functor kFunctor, class ElementTypes>
absl::StatusOr<Lowering> LowerPlain(const NodeContext& node, const Target&) {
  return LowerWith<kFunctor, ElementTypes>(node, 0, 0);
}

// With the attributes that the table of activations names.
template <Functor kFunctor, class ElementTypes = FloatTypes>
absl::StatusOr<Lowering> LowerActivation(const NodeContext& node, const Target&) {
  for (const ActivationDef& def : ActivationTable()) {
    if (def.op_type == node.node().op_type && def.op_domain == node.node().domain) {
      return LowerWith<kFunctor, ElementTypes>(node,
                                               node.Float(def.alpha_attribute, def.alpha_default),
                                               node.Float(def.beta_attribute, def.beta_default));
    }
  }
  return node.Unsupported("the operator is not in the table of activations");
}

absl::StatusOr<Lowering> LowerGelu(const NodeContext& node, const Target&) {
  return node.String("approximate", "none") == "tanh"
             ? LowerWith<KERNEL_FUNCTOR(GeluTanh), FloatTypes>(node, 0, 0)
             : LowerWith<KERNEL_FUNCTOR(Gelu), FloatTypes>(node, 0, 0);
}

absl::StatusOr<Lowering> LowerShrink(const NodeContext& node, const Target&) {
  return LowerWith<KERNEL_FUNCTOR(Shrink), FloatTypes>(node, node.Float("lambd", 0.5F),
                                                       node.Float("bias", 0));
}

absl::StatusOr<std::vector<TensorType>> InferPredicate(const NodeContext& node) {
  return std::vector<TensorType>{{DType::kBool, node.InputShape(0)}};
}

template <Functor kFunctor>
absl::StatusOr<Lowering> LowerPredicate(const NodeContext& node, float alpha, float beta) {
  using F = typename decltype(kFunctor)::Type;
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/unary.h",
                               "kernels::UnaryPredicate<{T}, {F}>", kFunctor.name(), []<class T> {
                                 return FunctionOf<&kernels::UnaryPredicate<T, F>>();
                               }));
  ASSIGN_OR_RETURN(kernels::UnaryParams params, CountParams(node));
  params.alpha = alpha;
  params.beta = beta;
  return ByElements(OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)}),
                    params, {1, 1});
}

absl::StatusOr<Lowering> LowerIsNaN(const NodeContext& node, const Target&) {
  return LowerPredicate<KERNEL_FUNCTOR(IsNan)>(node, 0, 0);
}

absl::StatusOr<Lowering> LowerIsInf(const NodeContext& node, const Target&) {
  return LowerPredicate<KERNEL_FUNCTOR(IsInf)>(node,
                                               static_cast<float>(node.Int("detect_negative", 1)),
                                               static_cast<float>(node.Int("detect_positive", 1)));
}

// ---- Gradients: most are one operator of dY and what is saved, see activation_gradient.cc

// The attributes of an activation, defaults filled in.
GradientContext::Attributes ActivationAttributes(const NodeContext& node) {
  GradientContext::Attributes attributes;
  const auto copy = [&](std::string_view name, float default_value) {
    if (!name.empty()) attributes[std::string(name)] = node.Float(name, default_value);
  };
  for (const ActivationDef& def : ActivationTable()) {
    if (def.op_type != node.node().op_type || def.op_domain != node.node().domain) continue;
    copy(def.alpha_attribute, def.alpha_default);
    copy(def.beta_attribute, def.beta_default);
  }
  return attributes;
}

absl::Status AddGradient(GradientContext& g, std::string_view op_type, std::string_view domain,
                         ValueId saved) {
  GradientContext::Attributes attributes = ActivationAttributes(g.context());
  g.SetInputGradient(0,
                     g.Add(op_type, {g.OutputGradient(0), saved}, std::move(attributes), domain));
  return g.status();
}

// An operator's name as a template argument.
template <size_t kSize>
struct OpName {
  char text[kSize] = {};
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr OpName(const char (&name)[kSize]) {
    for (size_t i = 0; i < kSize; ++i) text[i] = name[i];
  }
  constexpr std::string_view name() const { return {text, kSize - 1}; }
};

// The gradient operator is ours, and saves the operand (X) or the result (Y).
template <OpName kType>
absl::Status OfX(GradientContext& g) {
  return AddGradient(g, kType.name(), kMemplan, g.Input(0));
}
template <OpName kType>
absl::Status OfY(GradientContext& g) {
  return AddGradient(g, kType.name(), kMemplan, g.Output(0));
}
// The gradient operator is ONNX Runtime's.
template <OpName kType>
absl::Status MicrosoftOfX(GradientContext& g) {
  return AddGradient(g, kType.name(), kMicrosoft, g.Input(0));
}
template <OpName kType>
absl::Status MicrosoftOfY(GradientContext& g) {
  return AddGradient(g, kType.name(), kMicrosoft, g.Output(0));
}

absl::Status NegGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Add("Neg", {g.OutputGradient(0)}));
  return g.status();
}

absl::Status ExpGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Add("Mul", {g.OutputGradient(0), g.Output(0)}));
  return g.status();
}

absl::Status LogGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Add("Div", {g.OutputGradient(0), g.Input(0)}));
  return g.status();
}

// Y is positive where X is, unless the slope is negative.
absl::Status LeakyReluGradient(GradientContext& g) {
  const bool keeps_sign = g.context().Float("alpha", 0.01F) >= 0;
  return AddGradient(g, "LeakyReluGrad", kMicrosoft, keeps_sign ? g.Output(0) : g.Input(0));
}

// With a threshold of 0 or more, what passes is positive and all else is 0.
absl::Status ThresholdedReluGradient(GradientContext& g) {
  if (g.context().Float("alpha", 1) < 0) return OfX<"ThresholdedReluGrad">(g);
  g.SetInputGradient(0, g.Add("ReluGrad", {g.OutputGradient(0), g.Output(0)}, {}, kMicrosoft));
  return g.status();
}

absl::Status EluGradient(GradientContext& g) {
  if (!(g.context().Float("alpha", 1) >= 0)) {
    return g.context().Unsupported("no gradient for a negative alpha");
  }
  return OfY<"EluGrad">(g);
}

absl::Status SeluGradient(GradientContext& g) {
  if (!(g.context().Float("alpha", 1) >= 0) || !(g.context().Float("gamma", 1) > 0)) {
    return g.context().Unsupported("no gradient for a negative alpha or gamma");
  }
  return OfY<"SeluGrad">(g);
}

absl::Status ShrinkGradient(GradientContext& g) {
  const float lambd = g.context().Float("lambd", 0.5F);
  if (!(lambd >= 0)) return g.context().Unsupported("no gradient for a negative lambd");
  g.SetInputGradient(
      0, g.Add("ShrinkGrad", {g.OutputGradient(0), g.Input(0)}, {{"lambd", lambd}}, kMemplan));
  return g.status();
}

absl::Status GeluGradient(GradientContext& g) {
  const bool tanh = g.context().String("approximate", "none") == "tanh";
  return AddGradient(g, tanh ? "FastGeluGrad" : "GeluGrad", kMicrosoft, g.Input(0));
}

constexpr OpDef Elementwise(std::string_view type,
                            absl::StatusOr<Lowering> (*lower)(const NodeContext&, const Target&),
                            absl::Status (*gradient)(GradientContext&)) {
  return {.type = type,
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = rules::SameTypeAsInput,
          .aliases = rules::InPlaceFirstInput,
          .lower = lower,
          .gradient = gradient};
}

constexpr OpDef Microsoft(OpDef def) {
  def.domain = kMicrosoft;
  return def;
}

constexpr OpDef Predicate(OpDef def) {
  def.infer = InferPredicate;
  return def;
}

}  // namespace

#define PLAIN(Name, ElementTypes, gradient) \
  extern const OpDef k##Name =              \
      Elementwise(#Name, LowerPlain<KERNEL_FUNCTOR(Name), ElementTypes>, gradient)
PLAIN(Abs, NumericTypes, OfX<"AbsGrad">);
PLAIN(Neg, SignedTypes, NegGradient);
PLAIN(Sign, NumericTypes, rules::ZeroGradient);
PLAIN(BitwiseNot, IntegerTypes, rules::ZeroGradient);
PLAIN(Ceil, FloatTypes, rules::ZeroGradient);
PLAIN(Floor, FloatTypes, rules::ZeroGradient);
PLAIN(Round, FloatTypes, rules::ZeroGradient);
PLAIN(Sqrt, FloatTypes, OfY<"SqrtGrad">);
PLAIN(Reciprocal, FloatTypes, OfY<"ReciprocalGrad">);
PLAIN(Exp, FloatTypes, ExpGradient);
PLAIN(Log, FloatTypes, LogGradient);
PLAIN(Sin, FloatTypes, OfX<"SinGrad">);
PLAIN(Cos, FloatTypes, OfX<"CosGrad">);
PLAIN(Tan, FloatTypes, OfY<"TanGrad">);
PLAIN(Asin, FloatTypes, OfX<"AsinGrad">);
PLAIN(Acos, FloatTypes, OfX<"AcosGrad">);
PLAIN(Atan, FloatTypes, OfX<"AtanGrad">);
PLAIN(Sinh, FloatTypes, OfX<"SinhGrad">);
PLAIN(Cosh, FloatTypes, OfX<"CoshGrad">);
PLAIN(Asinh, FloatTypes, OfX<"AsinhGrad">);
PLAIN(Acosh, FloatTypes, OfX<"AcoshGrad">);
PLAIN(Atanh, FloatTypes, OfX<"AtanhGrad">);
PLAIN(Erf, FloatTypes, OfX<"ErfGrad">);
#undef PLAIN
extern const OpDef kNot =
    Elementwise("Not", LowerPlain<KERNEL_FUNCTOR(LogicalNot), BoolType>, rules::ZeroGradient);

extern const OpDef kRelu = Elementwise("Relu", LowerActivation<KERNEL_FUNCTOR(Relu), SignedTypes>,
                                       MicrosoftOfY<"ReluGrad">);
#define ACTIVATION(Name, gradient) \
  extern const OpDef k##Name = Elementwise(#Name, LowerActivation<KERNEL_FUNCTOR(Name)>, gradient)
ACTIVATION(LeakyRelu, LeakyReluGradient);
ACTIVATION(ThresholdedRelu, ThresholdedReluGradient);
ACTIVATION(Elu, EluGradient);
ACTIVATION(Selu, SeluGradient);
ACTIVATION(Celu, OfY<"CeluGrad">);
ACTIVATION(Sigmoid, MicrosoftOfY<"SigmoidGrad">);
ACTIVATION(Tanh, MicrosoftOfY<"TanhGrad">);
ACTIVATION(HardSigmoid, OfY<"HardSigmoidGrad">);
ACTIVATION(HardSwish, OfX<"HardSwishGrad">);
ACTIVATION(Softplus, OfY<"SoftplusGrad">);
ACTIVATION(Softsign, OfY<"SoftsignGrad">);
ACTIVATION(Mish, OfX<"MishGrad">);
#undef ACTIVATION
extern const OpDef kSwish =
    Elementwise("Swish", LowerActivation<KERNEL_FUNCTOR(QuickGelu)>, MicrosoftOfX<"QuickGeluGrad">);
extern const OpDef kMicrosoftQuickGelu = Microsoft(Elementwise(
    "QuickGelu", LowerActivation<KERNEL_FUNCTOR(QuickGelu)>, MicrosoftOfX<"QuickGeluGrad">));
extern const OpDef kGelu = Elementwise("Gelu", LowerGelu, GeluGradient);
extern const OpDef kMicrosoftGelu = Microsoft(Elementwise("Gelu", LowerGelu, GeluGradient));
extern const OpDef kShrink = Elementwise("Shrink", LowerShrink, ShrinkGradient);

extern const OpDef kIsNaN = Predicate(Elementwise("IsNaN", LowerIsNaN, rules::ZeroGradient));
extern const OpDef kIsInf = Predicate(Elementwise("IsInf", LowerIsInf, rules::ZeroGradient));

}  // namespace onnx_memplan
