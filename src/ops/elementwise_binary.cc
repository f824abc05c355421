// Arithmetic of two or more operands with numpy broadcasting.
#include "ops/host_kernels.h"

#include "absl/strings/str_cat.h"
#include "kernels/binary.h"
#include "kernels/unary.h"
#include "ops/broadcast.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/onnx_dtype.h"
#include "ops/parallel_axis.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

template <Functor kFunctor, class ElementTypes>
absl::StatusOr<KernelCall> CallOf(const NodeContext& node) {
  using F = typename decltype(kFunctor)::Type;
  return TypedCallOf(ElementTypes(), node, node.InputDType(0), "kernels/binary.h",
                     "kernels::Binary<{T}, {T}, {T}, {F}>", kFunctor.name(),
                     []<class T> { return FunctionOf<&kernels::Binary<T, T, T, F>>(); });
}

template <Functor kFunctor, class ElementTypes>
absl::StatusOr<Lowering> LowerBinary(const NodeContext& node, const Target&) {
  return OneBinaryCall(node, CallOf<kFunctor, ElementTypes>(node));
}

absl::StatusOr<Lowering> LowerMod(const NodeContext& node, const Target&) {
  return OneBinaryCall(node, node.Int("fmod", 0) != 0
                                 ? CallOf<KERNEL_FUNCTOR(Fmod), NumericTypes>(node)
                                 : CallOf<KERNEL_FUNCTOR(Mod), NumericTypes>(node));
}

absl::StatusOr<Lowering> LowerBitShift(const NodeContext& node, const Target&) {
  const std::string direction = node.String("direction", "");
  if (direction == "LEFT") {
    return OneBinaryCall(node, CallOf<KERNEL_FUNCTOR(ShiftLeft), UnsignedTypes>(node));
  }
  if (direction == "RIGHT") {
    return OneBinaryCall(node, CallOf<KERNEL_FUNCTOR(ShiftRight), UnsignedTypes>(node));
  }
  return node.Invalid("attribute 'direction' must be LEFT or RIGHT");
}

// Pow: the exponent may have another type than the base.

template <class Base>
absl::StatusOr<KernelCall> PowCall(const NodeContext& node) {
  const std::string base(DTypeCppName(kDTypeOf<Base>));
  return TypedCall<float, double, int32_t, int64_t, uint32_t, uint64_t>(
      node, node.InputDType(1), "kernels/binary.h",
      absl::StrCat("kernels::Binary<", base, ", {T}, ", base, ", kernels::Pow>"),
      []<class T> { return FunctionOf<&kernels::Binary<Base, T, Base, kernels::Pow>>(); });
}

// The exponent if it is one number that is known; nullopt otherwise.
std::optional<double> ConstantExponent(const NodeContext& node) {
  if (node.InputConstant(1) == nullptr || node.InputType(1).NumElements() != 1) return std::nullopt;
  const absl::StatusOr<std::vector<double>> values = node.ConstantDoubles(1, "Y");
  return values.ok() ? std::optional<double>(values->front()) : std::nullopt;
}

template <Functor kFunctor>
absl::StatusOr<Lowering> LowerUnaryFloat(const NodeContext& node) {
  using F = typename decltype(kFunctor)::Type;
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/unary.h",
                               "kernels::Unary<{T}, {F}>", kFunctor.name(),
                               []<class T> { return FunctionOf<&kernels::Unary<T, F>>(); }));
  kernels::UnaryParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  return ByElements(OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)}),
                    params, {1, 1});
}

// Gelu by the tanh approximation.
absl::StatusOr<Lowering> LowerFastGelu(const NodeContext& node, const Target& target) {
  if (node.HasInput(1)) {
    return LowerBinary<KERNEL_FUNCTOR(BiasGeluTanh), FloatTypes>(node, target);
  }
  return LowerUnaryFloat<KERNEL_FUNCTOR(GeluTanh)>(node);
}

absl::StatusOr<Lowering> LowerPow(const NodeContext& node, const Target&) {
  // The powers that normalisations and approximations are made of are products.
  const std::optional<double> exponent = ConstantExponent(node);
  const bool is_float = node.InputDType(0) == DType::kFloat || node.InputDType(0) == DType::kDouble;
  if (is_float && node.OutputShape(0) == node.InputShape(0)) {
    if (exponent == 2.0) return LowerUnaryFloat<KERNEL_FUNCTOR(Square)>(node);
    if (exponent == 3.0) return LowerUnaryFloat<KERNEL_FUNCTOR(Cube)>(node);
  }
  switch (node.InputDType(0)) {
    case DType::kFloat:
      return OneBinaryCall(node, PowCall<float>(node));
    case DType::kDouble:
      return OneBinaryCall(node, PowCall<double>(node));
    case DType::kInt32:
      return OneBinaryCall(node, PowCall<int32_t>(node));
    case DType::kInt64:
      return OneBinaryCall(node, PowCall<int64_t>(node));
    default:
      return node.Unsupported("the base must be float, double, int32 or int64");
  }
}

absl::StatusOr<std::vector<TensorType>> InferPow(const NodeContext& node) {
  ASSIGN_OR_RETURN(Shape shape, BroadcastInputs(node));
  return std::vector<TensorType>{{node.InputDType(0), std::move(shape)}};
}

// PRelu and BiasGelu: input 1 broadcasts to input 0.
absl::StatusOr<std::vector<TensorType>> InferUnidirectional(const NodeContext& node) {
  ASSIGN_OR_RETURN(std::vector<TensorType> types, InferSameTypeBroadcast(node));
  if (types[0].shape != node.InputShape(0)) {
    return node.Invalid("input 1 does not broadcast to the shape of input 0");
  }
  return types;
}

// com.microsoft FastGelu: Gelu by the tanh approximation of X or of X + bias.
absl::StatusOr<std::vector<TensorType>> InferFastGelu(const NodeContext& node) {
  return node.HasInput(1) ? InferUnidirectional(node) : rules::SameTypeAsInput(node);
}

// Sum, Max, Min, Mean: any number of operands. Operands 0 and 1 are combined into the output, then
// each further one is added to it.

template <Functor kFunctor, class ElementTypes>
absl::StatusOr<Lowering> LowerVariadic(const NodeContext& node, const Target& target) {
  if (node.num_inputs() == 1) return rules::LowerCopy(node, target);
  const Shape& output = node.OutputShape(0);
  Lowering lowering;
  for (int32_t i = 1; i < node.num_inputs(); ++i) {
    ASSIGN_OR_RETURN(KernelCall call, (CallOf<kFunctor, ElementTypes>(node)));
    ASSIGN_OR_RETURN(call, BinaryCall(node, std::move(call), output,
                                      i == 1 ? KernelArg::Input(0) : KernelArg::Output(0),
                                      i == 1 ? node.InputShape(0) : output, KernelArg::Input(i),
                                      node.InputShape(i), KernelArg::Output(0)));
    lowering.calls.push_back(std::move(call));
  }
  return lowering;
}

absl::StatusOr<Lowering> LowerMean(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(Lowering lowering,
                   (LowerVariadic<KERNEL_FUNCTOR(Add), FloatTypes>(node, target)));
  if (node.num_inputs() == 1) return lowering;
  ASSIGN_OR_RETURN(
      KernelCall call,
      (TypedCall<float, double>(node, node.InputDType(0), "kernels/unary.h",
                                "kernels::Unary<{T}, kernels::DivideByAlpha>", []<class T> {
                                  return FunctionOf<&kernels::Unary<T, kernels::DivideByAlpha>>();
                                })));
  kernels::UnaryParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.OutputType(0).NumElements(), "the number of elements"));
  params.alpha = static_cast<float>(node.num_inputs());
  call.params = MakeParams(params);
  call.args = {KernelArg::Output(0), KernelArg::Output(0)};
  lowering.calls.push_back(std::move(call));
  return lowering;
}

// Of operands 0 and 1 only (the others are read after the output is first written), and of those
// only one that is no later operand as well.
std::vector<Alias> InPlaceVariadic(const NodeContext& node) {
  const std::vector<ValueId>& inputs = node.node().inputs;
  std::vector<Alias> aliases;
  for (const Alias& alias : InPlaceUnbroadcast(node)) {
    bool read_later = alias.input > 1;
    for (int32_t i = 2; i < node.num_inputs(); ++i) {
      read_later |= inputs[static_cast<size_t>(i)] == inputs[static_cast<size_t>(alias.input)];
    }
    if (!read_later) aliases.push_back(alias);
  }
  return aliases;
}

// ---- Gradients

Shape InputShapeOf(const GradientContext& g, int32_t i) { return g.ShapeOf(g.Input(i)); }

// `gradient`, of the output's shape, for input i.
void SetSummed(GradientContext& g, int32_t i, ValueId gradient) {
  g.SetInputGradient(i, g.SumTo(gradient, InputShapeOf(g, i)));
}

absl::Status AddGradient(GradientContext& g) {
  for (int32_t i = 0; i < g.num_inputs(); ++i) {
    if (g.Wants(i)) SetSummed(g, i, g.OutputGradient(0));
  }
  return g.status();
}

absl::Status SubGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  if (g.Wants(0)) SetSummed(g, 0, dy);
  if (g.Wants(1)) {
    g.SetInputGradient(1, g.Add("Neg", {g.SumTo(dy, InputShapeOf(g, 1))}));
  }
  return g.status();
}

absl::Status MulGradient(GradientContext& g) {
  for (int32_t i = 0; i < 2; ++i) {
    if (g.Wants(i)) SetSummed(g, i, g.Add("Mul", {g.OutputGradient(0), g.Input(1 - i)}));
  }
  return g.status();
}

// d/dB A / B = -Y / B, where B is constant along the axes that are summed.
absl::Status DivGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  const ValueId b = g.Input(1);
  if (g.Wants(0)) SetSummed(g, 0, g.Add("Div", {dy, b}));
  if (g.Wants(1)) {
    const ValueId sum = g.SumTo(g.Add("Mul", {dy, g.Output(0)}), InputShapeOf(g, 1));
    g.SetInputGradient(1, g.Add("Neg", {g.Add("Div", {sum, b})}));
  }
  return g.status();
}

// Y = A - q B with a quotient q that is an integer.
absl::Status ModGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  if (g.Wants(0)) SetSummed(g, 0, dy);
  if (g.Wants(1)) {
    const ValueId quotient = g.Add("Div", {g.Add("Sub", {g.Output(0), g.Input(0)}), g.Input(1)});
    SetSummed(g, 1, g.Add("Mul", {dy, quotient}));
  }
  return g.status();
}

// dA for a known exponent.
ValueId PowerGradient(GradientContext& g, double exponent) {
  const ValueId dy = g.OutputGradient(0);
  const ValueId a = g.Input(0);
  const DType dtype = g.Type(a).dtype;
  if (exponent == 0.5 && InputShapeOf(g, 0) == g.ShapeOf(dy)) {
    return g.Add("SqrtGrad", {dy, g.Output(0)}, {}, kMemplan);
  }
  if (exponent == -1 && InputShapeOf(g, 0) == g.ShapeOf(dy)) {
    return g.Add("ReciprocalGrad", {dy, g.Output(0)}, {}, kMemplan);
  }
  if (exponent == 1) return dy;
  const ValueId scaled = g.Add("Mul", {dy, g.Scalar(exponent, dtype)});
  if (exponent == 0) return scaled;
  if (exponent == 2) return g.Add("Mul", {scaled, a});
  return g.Add("Mul", {scaled, g.Add("Pow", {a, g.Scalar(exponent - 1, dtype)})});
}

// dA for an exponent in memory; 0 where that is 0, of A = 0 too.
ValueId RuntimePowerGradient(GradientContext& g, ValueId exponent) {
  const DType dtype = g.Type(g.Input(0)).dtype;
  const ValueId lower = g.Add("Sub", {exponent, g.Scalar(1, dtype)});
  const ValueId slope = g.Add("Mul", {g.Add("Pow", {g.Input(0), lower}), exponent});
  const ValueId zero = g.Scalar(0, dtype);
  const ValueId safe = g.Add("Where", {g.Add("Equal", {exponent, zero}), zero, slope});
  return g.Add("Mul", {g.OutputGradient(0), safe});
}

absl::Status PowGradient(GradientContext& g) {
  const std::optional<double> known = ConstantExponent(g.context());
  const DType dtype = g.Type(g.Input(0)).dtype;
  ValueId exponent = g.Input(1);
  if (!known && g.Type(exponent).dtype != dtype) {
    exponent = g.Add("Cast", {exponent}, {{"to", OnnxNumberOf(dtype)}});
  }
  if (g.Wants(0)) {
    SetSummed(g, 0, known ? PowerGradient(g, *known) : RuntimePowerGradient(g, exponent));
  }
  if (g.Wants(1)) {
    // Y log A; 0 where A is.
    const ValueId zero = g.Scalar(0, dtype);
    const ValueId product = g.Add("Mul", {g.Output(0), g.Add("Log", {g.Input(0)})});
    const ValueId slope = g.Add("Where", {g.Add("Equal", {g.Input(0), zero}), zero, product});
    const ValueId summed = g.SumTo(g.Add("Mul", {g.OutputGradient(0), slope}), InputShapeOf(g, 1));
    const DType wanted = g.Type(g.Input(1)).dtype;
    g.SetInputGradient(
        1, wanted == dtype ? summed : g.Add("Cast", {summed}, {{"to", OnnxNumberOf(wanted)}}));
  }
  return g.status();
}

// As PyTorch, at 0 the slope counts.
absl::Status PReluGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  const ValueId zero = g.Scalar(0, g.Type(dy).dtype);
  if (g.Wants(0)) {
    const ValueId below = g.Add("LessOrEqual", {g.Input(0), zero});
    g.SetInputGradient(0, g.Add("Where", {below, g.Add("Mul", {dy, g.Input(1)}), dy}));
  }
  if (g.Wants(1)) SetSummed(g, 1, g.Add("Mul", {g.Add("Min", {g.Input(0), zero}), dy}));
  return g.status();
}

// dX of a Gelu of X + bias, by the gradient operators with a bias (along the last dimension) and
// without.
ValueId BiasGeluInputGradient(GradientContext& g, std::string_view with_bias,
                              std::string_view without) {
  const ValueId dy = g.OutputGradient(0);
  const Shape bias = InputShapeOf(g, 1);
  if (bias.size() == 1 && bias[0] == g.ShapeOf(dy).back()) {
    return g.Add(with_bias, {dy, g.Input(0), g.Input(1)}, {}, kMicrosoft);
  }
  return g.Add(without, {dy, g.Add("Add", {g.Input(0), g.Input(1)})}, {}, kMicrosoft);
}

absl::Status FastGeluGradient(GradientContext& g) {
  if (g.Input(1) == kNoValue) {
    g.SetInputGradient(0, g.Add("FastGeluGrad", {g.OutputGradient(0), g.Input(0)}, {}, kMicrosoft));
    return g.status();
  }
  const ValueId dx = BiasGeluInputGradient(g, "BiasFastGeluGrad_dX", "FastGeluGrad");
  if (g.Wants(0)) g.SetInputGradient(0, dx);
  if (g.Wants(1)) SetSummed(g, 1, dx);
  return g.status();
}

absl::Status BiasGeluGradient(GradientContext& g) {
  const ValueId dx = BiasGeluInputGradient(g, "BiasGeluGrad_dX", "GeluGrad");
  if (g.Wants(0)) g.SetInputGradient(0, dx);
  if (g.Wants(1)) SetSummed(g, 1, dx);
  return g.status();
}

absl::Status MeanGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  const ValueId part = g.Add("Mul", {dy, g.Scalar(1.0 / g.num_inputs(), g.Type(dy).dtype)});
  for (int32_t i = 0; i < g.num_inputs(); ++i) {
    if (g.Wants(i)) SetSummed(g, i, part);
  }
  return g.status();
}

// Of Max and Min. Operands that tie share the gradient evenly.
absl::Status ExtremeGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  if (g.num_inputs() == 1) {
    g.SetInputGradient(0, dy);
    return g.status();
  }
  const DType dtype = g.Type(dy).dtype;
  std::vector<ValueId> wins, counts;
  for (int32_t i = 0; i < g.num_inputs(); ++i) {
    wins.push_back(g.Add("Equal", {g.Input(i), g.Output(0)}));
    counts.push_back(g.Add("Cast", {wins.back()}, {{"to", OnnxNumberOf(dtype)}}));
  }
  const ValueId share = g.Add("Div", {dy, g.Add("Sum", counts)});
  for (int32_t i = 0; i < g.num_inputs(); ++i) {
    if (!g.Wants(i)) continue;
    SetSummed(g, i, g.Add("Where", {wins[static_cast<size_t>(i)], share, g.Scalar(0, dtype)}));
  }
  return g.status();
}

using Infer = absl::StatusOr<std::vector<TensorType>>(const NodeContext&);
using Gradient = absl::Status(GradientContext&);
using Lower = absl::StatusOr<Lowering>(const NodeContext&, const Target&);

constexpr OpDef BinaryOp(std::string_view type, Lower* lower, Gradient* gradient,
                         Infer* infer = InferSameTypeBroadcast) {
  return {.type = type,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .aliases = InPlaceUnbroadcast,
          .lower = lower,
          .gradient = gradient};
}

constexpr OpDef VariadicOp(std::string_view type, Lower* lower, Gradient* gradient) {
  return {.type = type,
          .min_inputs = 1,
          .max_inputs = kVariadic,
          .infer = InferSameTypeBroadcast,
          .aliases = InPlaceVariadic,
          .lower = lower,
          .gradient = gradient};
}

constexpr OpDef Microsoft(OpDef def) {
  def.domain = kMicrosoft;
  return def;
}

}  // namespace

extern const OpDef kAdd =
    BinaryOp("Add", LowerBinary<KERNEL_FUNCTOR(Add), NumericTypes>, AddGradient);
extern const OpDef kSub =
    BinaryOp("Sub", LowerBinary<KERNEL_FUNCTOR(Sub), NumericTypes>, SubGradient);
extern const OpDef kMul =
    BinaryOp("Mul", LowerBinary<KERNEL_FUNCTOR(Mul), NumericTypes>, MulGradient);
extern const OpDef kDiv =
    BinaryOp("Div", LowerBinary<KERNEL_FUNCTOR(Div), NumericTypes>, DivGradient);
extern const OpDef kMod = BinaryOp("Mod", LowerMod, ModGradient);
extern const OpDef kPow = BinaryOp("Pow", LowerPow, PowGradient, InferPow);
extern const OpDef kBitShift = BinaryOp("BitShift", LowerBitShift, rules::ZeroGradient);
extern const OpDef kPRelu = BinaryOp("PRelu", LowerBinary<KERNEL_FUNCTOR(PRelu), SignedTypes>,
                                     PReluGradient, InferUnidirectional);
extern const OpDef kMicrosoftBiasGelu =
    Microsoft(BinaryOp("BiasGelu", LowerBinary<KERNEL_FUNCTOR(BiasGelu), FloatTypes>,
                       BiasGeluGradient, InferUnidirectional));
extern const OpDef kMicrosoftFastGelu = {
    .type = "FastGelu",
    .domain = kMicrosoft,
    .min_inputs = 1,
    .max_inputs = 2,
    .infer = InferFastGelu,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerFastGelu,
    .gradient = FastGeluGradient,
};
extern const OpDef kBitwiseAnd = BinaryOp(
    "BitwiseAnd", LowerBinary<KERNEL_FUNCTOR(BitwiseAnd), IntegerTypes>, rules::ZeroGradient);
extern const OpDef kBitwiseOr = BinaryOp(
    "BitwiseOr", LowerBinary<KERNEL_FUNCTOR(BitwiseOr), IntegerTypes>, rules::ZeroGradient);
extern const OpDef kBitwiseXor = BinaryOp(
    "BitwiseXor", LowerBinary<KERNEL_FUNCTOR(BitwiseXor), IntegerTypes>, rules::ZeroGradient);

extern const OpDef kSum =
    VariadicOp("Sum", LowerVariadic<KERNEL_FUNCTOR(Add), FloatTypes>, AddGradient);
extern const OpDef kMax =
    VariadicOp("Max", LowerVariadic<KERNEL_FUNCTOR(Max), NumericTypes>, ExtremeGradient);
extern const OpDef kMin =
    VariadicOp("Min", LowerVariadic<KERNEL_FUNCTOR(Min), NumericTypes>, ExtremeGradient);
extern const OpDef kMean = VariadicOp("Mean", LowerMean, MeanGradient);

}  // namespace onnx_memplan
