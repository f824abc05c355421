// Arithmetic of two or more operands with numpy broadcasting.
#include "ops/host_kernels.h"

#include "absl/strings/str_cat.h"
#include "kernels/binary.h"
#include "kernels/unary.h"
#include "ops/broadcast.h"
#include "ops/families.h"
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
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
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

using Infer = absl::StatusOr<std::vector<TensorType>>(const NodeContext&);
using Lower = absl::StatusOr<Lowering>(const NodeContext&, const Target&);

constexpr OpDef BinaryOp(std::string_view type, Lower* lower,
                         Infer* infer = InferSameTypeBroadcast) {
  return {.type = type,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .aliases = InPlaceUnbroadcast,
          .lower = lower};
}

constexpr OpDef VariadicOp(std::string_view type, Lower* lower) {
  return {.type = type,
          .min_inputs = 1,
          .max_inputs = kVariadic,
          .infer = InferSameTypeBroadcast,
          .aliases = InPlaceVariadic,
          .lower = lower};
}

constexpr OpDef Microsoft(OpDef def) {
  def.domain = kMicrosoft;
  return def;
}

}  // namespace

extern const OpDef kAdd = BinaryOp("Add", LowerBinary<KERNEL_FUNCTOR(Add), NumericTypes>);
extern const OpDef kSub = BinaryOp("Sub", LowerBinary<KERNEL_FUNCTOR(Sub), NumericTypes>);
extern const OpDef kMul = BinaryOp("Mul", LowerBinary<KERNEL_FUNCTOR(Mul), NumericTypes>);
extern const OpDef kDiv = BinaryOp("Div", LowerBinary<KERNEL_FUNCTOR(Div), NumericTypes>);
extern const OpDef kMod = BinaryOp("Mod", LowerMod);
extern const OpDef kPow = BinaryOp("Pow", LowerPow, InferPow);
extern const OpDef kBitShift = BinaryOp("BitShift", LowerBitShift);
extern const OpDef kPRelu =
    BinaryOp("PRelu", LowerBinary<KERNEL_FUNCTOR(PRelu), SignedTypes>, InferUnidirectional);
extern const OpDef kMicrosoftBiasGelu = Microsoft(
    BinaryOp("BiasGelu", LowerBinary<KERNEL_FUNCTOR(BiasGelu), FloatTypes>, InferUnidirectional));
extern const OpDef kBitwiseAnd =
    BinaryOp("BitwiseAnd", LowerBinary<KERNEL_FUNCTOR(BitwiseAnd), IntegerTypes>);
extern const OpDef kBitwiseOr =
    BinaryOp("BitwiseOr", LowerBinary<KERNEL_FUNCTOR(BitwiseOr), IntegerTypes>);
extern const OpDef kBitwiseXor =
    BinaryOp("BitwiseXor", LowerBinary<KERNEL_FUNCTOR(BitwiseXor), IntegerTypes>);

extern const OpDef kSum = VariadicOp("Sum", LowerVariadic<KERNEL_FUNCTOR(Add), FloatTypes>);
extern const OpDef kMax = VariadicOp("Max", LowerVariadic<KERNEL_FUNCTOR(Max), NumericTypes>);
extern const OpDef kMin = VariadicOp("Min", LowerVariadic<KERNEL_FUNCTOR(Min), NumericTypes>);
extern const OpDef kMean = VariadicOp("Mean", LowerMean);

}  // namespace onnx_memplan
