// Elementwise operators of one operand. Those with bounds or a second type (Clip, Cast) are in
// where_clip_cast.cc.
#include "ops/host_kernels.h"

#include "kernels/unary.h"
#include "ops/epilogue.h"
#include "ops/families.h"
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
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
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
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerIsNaN(const NodeContext& node, const Target&) {
  return LowerPredicate<KERNEL_FUNCTOR(IsNan)>(node, 0, 0);
}

absl::StatusOr<Lowering> LowerIsInf(const NodeContext& node, const Target&) {
  return LowerPredicate<KERNEL_FUNCTOR(IsInf)>(node,
                                               static_cast<float>(node.Int("detect_negative", 1)),
                                               static_cast<float>(node.Int("detect_positive", 1)));
}

constexpr OpDef Elementwise(std::string_view type,
                            absl::StatusOr<Lowering> (*lower)(const NodeContext&, const Target&)) {
  return {.type = type,
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = rules::SameTypeAsInput,
          .aliases = rules::InPlaceFirstInput,
          .lower = lower};
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

#define PLAIN(Name, F, ElementTypes) \
  extern const OpDef k##Name = Elementwise(#Name, LowerPlain<KERNEL_FUNCTOR(F), ElementTypes>)
PLAIN(Abs, Abs, NumericTypes);
PLAIN(Neg, Neg, SignedTypes);
PLAIN(Sign, Sign, NumericTypes);
PLAIN(Not, LogicalNot, BoolType);
PLAIN(BitwiseNot, BitwiseNot, IntegerTypes);
PLAIN(Ceil, Ceil, FloatTypes);
PLAIN(Floor, Floor, FloatTypes);
PLAIN(Round, Round, FloatTypes);
PLAIN(Sqrt, Sqrt, FloatTypes);
PLAIN(Reciprocal, Reciprocal, FloatTypes);
PLAIN(Exp, Exp, FloatTypes);
PLAIN(Log, Log, FloatTypes);
PLAIN(Sin, Sin, FloatTypes);
PLAIN(Cos, Cos, FloatTypes);
PLAIN(Tan, Tan, FloatTypes);
PLAIN(Asin, Asin, FloatTypes);
PLAIN(Acos, Acos, FloatTypes);
PLAIN(Atan, Atan, FloatTypes);
PLAIN(Sinh, Sinh, FloatTypes);
PLAIN(Cosh, Cosh, FloatTypes);
PLAIN(Asinh, Asinh, FloatTypes);
PLAIN(Acosh, Acosh, FloatTypes);
PLAIN(Atanh, Atanh, FloatTypes);
PLAIN(Erf, Erf, FloatTypes);
#undef PLAIN

extern const OpDef kRelu = Elementwise("Relu", LowerActivation<KERNEL_FUNCTOR(Relu), SignedTypes>);
#define ACTIVATION(Name) \
  extern const OpDef k##Name = Elementwise(#Name, LowerActivation<KERNEL_FUNCTOR(Name)>)
ACTIVATION(LeakyRelu);
ACTIVATION(ThresholdedRelu);
ACTIVATION(Elu);
ACTIVATION(Selu);
ACTIVATION(Celu);
ACTIVATION(Sigmoid);
ACTIVATION(Tanh);
ACTIVATION(HardSigmoid);
ACTIVATION(HardSwish);
ACTIVATION(Softplus);
ACTIVATION(Softsign);
ACTIVATION(Mish);
#undef ACTIVATION
extern const OpDef kSwish = Elementwise("Swish", LowerActivation<KERNEL_FUNCTOR(QuickGelu)>);
extern const OpDef kMicrosoftQuickGelu =
    Microsoft(Elementwise("QuickGelu", LowerActivation<KERNEL_FUNCTOR(QuickGelu)>));
extern const OpDef kGelu = Elementwise("Gelu", LowerGelu);
extern const OpDef kMicrosoftGelu = Microsoft(Elementwise("Gelu", LowerGelu));
extern const OpDef kShrink = Elementwise("Shrink", LowerShrink);

extern const OpDef kIsNaN = Predicate(Elementwise("IsNaN", LowerIsNaN));
extern const OpDef kIsInf = Predicate(Elementwise("IsInf", LowerIsInf));

}  // namespace onnx_memplan
