// Where, Clip, Cast, CastLike and Dropout.
#include "ops/host_kernels.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "kernels/cast.h"
#include "kernels/clip.h"
#include "kernels/strided_copy.h"
#include "kernels/unary.h"
#include "kernels/where.h"
#include "ops/broadcast.h"
#include "ops/data_movement.h"
#include "ops/dropout.h"
#include "ops/epilogue.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/onnx_dtype.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// ---- Where

absl::StatusOr<std::vector<TensorType>> InferWhere(const NodeContext& node) {
  if (node.InputDType(0) != DType::kBool) return node.Invalid("the condition must be bool");
  if (node.InputDType(1) != node.InputDType(2)) {
    return node.Invalid("inputs 1 and 2 must have the same element type");
  }
  ASSIGN_OR_RETURN(Shape shape, BroadcastInputs(node));
  return std::vector<TensorType>{{node.InputDType(1), std::move(shape)}};
}

absl::StatusOr<Lowering> LowerWhere(const NodeContext& node, const Target&) {
  KernelCall call = WidthCall(node.InputDType(1), "kernels/where.h", "kernels::Where<{T}>",
                              []<class T> { return FunctionOf<&kernels::Where<T>>(); });
  const std::array operands = {node.InputShape(0), node.InputShape(1), node.InputShape(2)};
  const BroadcastLoops loops = CollapseBroadcast(node.OutputShape(0), operands);
  kernels::WhereParams params = {};
  params.rank = static_cast<int32_t>(loops.dims.size());
  RETURN_IF_ERROR(ToKernelDims(node, loops.dims, params.dims));
  RETURN_IF_ERROR(ToKernelDims(node, loops.strides[0], params.condition_strides));
  RETURN_IF_ERROR(ToKernelDims(node, loops.strides[1], params.a_strides));
  RETURN_IF_ERROR(ToKernelDims(node, loops.strides[2], params.b_strides));
  return OneCall(
      std::move(call), params,
      {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2), KernelArg::Output(0)});
}

absl::Status WhereGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  for (int32_t i = 1; i < 3; ++i) {
    if (!g.Wants(i)) continue;
    const ValueId zero = g.Scalar(0, g.Type(dy).dtype);
    const ValueId chosen =
        i == 1 ? g.Add("Where", {g.Input(0), dy, zero}) : g.Add("Where", {g.Input(0), zero, dy});
    const Shape shape = g.ShapeOf(g.Input(i));
    g.SetInputGradient(i, g.SumTo(chosen, shape));
  }
  return g.status();
}

// ---- Clip

absl::StatusOr<std::vector<TensorType>> InferClip(const NodeContext& node) {
  for (int32_t i = 1; i < node.num_inputs(); ++i) {
    if (!node.HasInput(i)) continue;
    if (node.InputDType(i) != node.InputDType(0) || node.InputType(i).NumElements() != 1) {
      return node.Invalid("the bounds must be scalars of the element type of input 0");
    }
  }
  return rules::SameTypeAsInput(node);
}

absl::StatusOr<Lowering> LowerClip(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const int32_t count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  if (const std::optional<Epilogue> known = AsActivation(node); known) {
    KernelCall call;
    call.header = "kernels/unary.h";
    call.name = "kernels::Unary<float, kernels::Clip>";
    call.function = FunctionOf<&kernels::Unary<float, kernels::Clip>>();
    const kernels::UnaryParams params = {count, known->alpha, known->beta};
    return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
  }
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(NumericTypes(), node, node.InputDType(0), "kernels/clip.h",
                               "kernels::ClipTo<{T}>", "",
                               []<class T> { return FunctionOf<&kernels::ClipTo<T>>(); }));
  const auto bound = [&](int32_t i) {
    return node.HasInput(i) ? KernelArg::Input(i) : KernelArg::Null();
  };
  return OneCall(std::move(call), kernels::ClipParams{count},
                 {KernelArg::Input(0), bound(1), bound(2), KernelArg::Output(0)});
}

// An element passes strictly between the bounds: on one, PyTorch's hardtanh and relu6 have gradient
// 0, which is what networks are trained with, and its clamp has 1. A bound gets the gradients of
// the elements that it replaces: those where Y is not X (the upper one wins where they cross).
absl::Status ClipGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  const ValueId y = g.Output(0);
  const auto bound = [&](int32_t i) {
    return g.Input(i) == kNoValue ? GradientContext::kOmitted : g.Input(i);
  };
  if (g.Wants(0)) {
    std::vector<ValueId> operands = {dy, y, bound(1), bound(2)};
    while (operands.back() == GradientContext::kOmitted) operands.pop_back();
    g.SetInputGradient(0, g.Add("ClipGrad", operands, {}, kMemplan));
  }
  for (int32_t i = 1; i < 3; ++i) {
    if (!g.Wants(i)) continue;
    const ValueId zero = g.Scalar(0, g.Type(dy).dtype);
    ValueId replaced = i == 1 ? g.Add("Less", {g.Input(0), g.Input(1)})
                              : g.Add("Greater", {g.Input(0), g.Input(2)});
    if (i == 1 && g.Input(2) != kNoValue) {
      replaced = g.Add("And", {replaced, g.Add("LessOrEqual", {g.Input(1), g.Input(2)})});
    }
    const ValueId chosen = g.Add("Where", {replaced, dy, zero});
    const ValueId sum = g.Add("ReduceSum", {chosen}, {{"keepdims", int64_t{0}}});
    const Shape shape = g.ShapeOf(g.Input(i));
    g.SetInputGradient(i, g.ReshapeTo(sum, shape));
  }
  return g.status();
}

// ---- Cast

absl::StatusOr<std::vector<TensorType>> InferCast(const NodeContext& node) {
  ASSIGN_OR_RETURN(const int64_t number, node.RequiredInt("to"));
  const std::optional<DType> dtype = DTypeOfOnnxNumber(number);
  if (!dtype) {
    return node.Unsupported(absl::StrCat("element type ", number,
                                         " (string, complex, 8-bit float or 4-bit) "
                                         "is not supported"));
  }
  return std::vector<TensorType>{{*dtype, node.InputShape(0)}};
}

absl::StatusOr<std::vector<TensorType>> InferCastLike(const NodeContext& node) {
  return std::vector<TensorType>{{node.InputDType(1), node.InputShape(0)}};
}

std::vector<Alias> CastAliases(const NodeContext& node) {
  if (node.InputDType(0) == node.OutputType(0).dtype) return rules::ViewOfFirstInput(node);
  return rules::InPlaceFirstInput(node);
}

template <class From>
absl::StatusOr<KernelCall> CastFrom(const NodeContext& node) {
  return TypedCallOf(
      AllTypes(), node, node.OutputType(0).dtype, "kernels/cast.h",
      absl::StrCat("kernels::Cast<", std::string(DTypeCppName(kDTypeOf<From>)), ", {T}>"), "",
      []<class To> { return FunctionOf<&kernels::Cast<From, To>>(); });
}

template <class... From>
absl::StatusOr<KernelCall> CastCall(Types<From...>, const NodeContext& node) {
  absl::StatusOr<KernelCall> call = node.Unsupported(
      absl::StrCat("no conversion from ", std::string(DTypeName(node.InputDType(0)))));
  ((node.InputDType(0) == kDTypeOf<From> ? void(call = CastFrom<From>(node)) : void()), ...);
  return call;
}

absl::StatusOr<Lowering> LowerCast(const NodeContext& node, const Target& target) {
  if (node.InputDType(0) == node.OutputType(0).dtype) return rules::LowerCopy(node, target);
  ASSIGN_OR_RETURN(KernelCall call, CastCall(AllTypes(), node));
  kernels::CastParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

absl::Status CastGradient(GradientContext& g) {
  if (g.Wants(0)) {
    const int64_t to = OnnxNumberOf(g.Type(g.Input(0)).dtype);
    g.SetInputGradient(0, g.Add("Cast", {g.OutputGradient(0)}, {{"to", to}}));
  }
  return g.status();
}

// ---- Dropout: the identity in inference, with a mask that keeps all.

absl::StatusOr<std::vector<TensorType>> InferDropout(const NodeContext& node) {
  return std::vector<TensorType>{node.InputType(0), {DType::kBool, node.InputShape(0)}};
}

absl::Status CheckInference(const NodeContext& node) {
  if (!node.HasInput(2)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int64_t> training, node.ConstantInts(2, "training_mode"));
  if (training.empty() || training[0] == 0) return absl::OkStatus();
  if (node.HasInput(1)) {
    ASSIGN_OR_RETURN(const std::vector<double> ratio, node.ConstantDoubles(1, "ratio"));
    if (ratio.size() == 1 && ratio[0] == 0) return absl::OkStatus();
  }
  return node.Unsupported(
      "training_mode is set, and its random numbers are not reproducible; "
      "export the model for inference");
}

absl::StatusOr<Lowering> LowerDropout(const NodeContext& node, const Target& target) {
  RETURN_IF_ERROR(CheckInference(node));
  ASSIGN_OR_RETURN(Lowering lowering, rules::LowerCopy(node, target));
  if (!node.HasOutput(1)) return lowering;
  KernelCall call;
  call.header = "kernels/strided_copy.h";
  call.name = "kernels::Fill<uint8_t>";
  call.function = FunctionOf<&kernels::Fill<uint8_t>>();
  kernels::FillParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  call.params = MakeParams(params);
  call.args = {KernelArg::Constant(0), KernelArg::Output(1)};
  call.constants = {Tensor::FromVector<uint8_t>({}, {1})};
  lowering.calls.push_back(std::move(call));
  return lowering;
}

}  // namespace

extern const OpDef kWhere = {
    .type = "Where",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferWhere,
    .aliases = InPlaceUnbroadcast,
    .lower = LowerWhere,
    .gradient = WhereGradient,
};

extern const OpDef kClip = {
    .type = "Clip",
    .min_inputs = 1,
    .max_inputs = 3,
    .infer = InferClip,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerClip,
    .gradient = ClipGradient,
};

extern const OpDef kCast = {
    .type = "Cast",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferCast,
    .aliases = CastAliases,
    .lower = LowerCast,
    .gradient = CastGradient,
};

extern const OpDef kCastLike = {
    .type = "CastLike",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferCastLike,
    .aliases = CastAliases,
    .lower = LowerCast,
    .gradient = CastGradient,
};

extern const OpDef kDropout = {
    .type = "Dropout",
    .min_inputs = 1,
    .max_inputs = 3,
    .max_outputs = 2,
    .infer = InferDropout,
    .aliases = rules::ViewOfFirstInput,
    .lower = LowerDropout,
    .gradient = DropoutGradient,
};

}  // namespace onnx_memplan
