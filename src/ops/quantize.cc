// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear as plain elementwise operators.
#include "ops/host_kernels.h"

#include "kernels/quantize.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/index_rules.h"
#include "ops/onnx_dtype.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Scale (input 1) and zero point (input 2) are scalars, or vectors along attribute `axis`.
absl::StatusOr<kernels::QuantizeParams> Channels(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  const Shape& scale = node.InputShape(1);
  if (node.Int("block_size", 0) != 0)
    return node.Unsupported("blocked quantisation is not supported");
  // Exporters mix scalars and vectors of one element.
  if (node.HasInput(2) && node.InputShape(2) != scale &&
      (node.InputType(1).NumElements() != 1 || node.InputType(2).NumElements() != 1)) {
    return node.Invalid("scale and zero point differ in shape");
  }
  kernels::QuantizeParams params = {1, 1, 1};
  const std::optional<int64_t> scales = CheckedNumElements(scale);
  if (scales == 1 && scale.size() <= 1) {
    ASSIGN_OR_RETURN(params.inner, ToInt32(node, input.NumElements(), "the number of elements"));
    return params;
  }
  ASSIGN_OR_RETURN(const int64_t axis, node.NormalizeAxis(node.Int("axis", 1), input.rank()));
  const auto at = static_cast<size_t>(axis);
  if (scale != Shape{input.shape[at]}) {
    return node.Invalid(absl::StrCat("the scale must be a scalar or have ", input.shape[at],
                                     " elements, one for each index along axis ", axis));
  }
  ASSIGN_OR_RETURN(const int64_t outer, CheckedProduct(node, input.shape, 0, at));
  ASSIGN_OR_RETURN(const int64_t inner,
                   CheckedProduct(node, input.shape, at + 1, input.shape.size()));
  ASSIGN_OR_RETURN(params.outer, ToInt32(node, outer, "a product of dimensions"));
  ASSIGN_OR_RETURN(params.channels, ToInt32(node, input.shape[at], "a dimension"));
  ASSIGN_OR_RETURN(params.inner, ToInt32(node, inner, "a product of dimensions"));
  return params;
}

// The quantised type: that of the zero point, or of attribute output_dtype, or uint8.
absl::StatusOr<std::vector<TensorType>> InferQuantize(const NodeContext& node) {
  RETURN_IF_ERROR(Channels(node).status());
  DType dtype = DType::kUint8;
  if (node.HasInput(2)) {
    dtype = node.InputDType(2);
  } else if (const int64_t number = node.Int("output_dtype", 0); number != 0) {
    const std::optional<DType> given = DTypeOfOnnxNumber(number);
    if (!given) return node.Unsupported(absl::StrCat("no kernel for ONNX element type ", number));
    dtype = *given;
  }
  return std::vector<TensorType>{{dtype, node.InputShape(0)}};
}

absl::StatusOr<Lowering> LowerQuantize(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.InputDType(0) != DType::kFloat || node.InputDType(1) != DType::kFloat) {
    return node.Unsupported("the input and its scale must be float");
  }
  ASSIGN_OR_RETURN(const kernels::QuantizeParams params, Channels(node));
  ASSIGN_OR_RETURN(
      KernelCall call,
      (TypedCall<int8_t, int16_t, uint8_t, uint16_t>(
          node, node.OutputType(0).dtype, "kernels/quantize.h", "kernels::QuantizeLinear<{T}>",
          []<class T>() { return FunctionOf<&kernels::QuantizeLinear<T>>(); })));
  return OneCall(
      std::move(call), params,
      {KernelArg::Input(0), KernelArg::Input(1),
       node.HasInput(2) ? KernelArg::Input(2) : KernelArg::Null(), KernelArg::Output(0)});
}

absl::StatusOr<std::vector<TensorType>> InferDequantize(const NodeContext& node) {
  RETURN_IF_ERROR(Channels(node).status());
  if (node.HasInput(2) && node.InputDType(2) != node.InputDType(0)) {
    return node.Invalid("the zero point must have the element type of the input");
  }
  return std::vector<TensorType>{{node.InputDType(1), node.InputShape(0)}};
}

absl::StatusOr<Lowering> LowerDequantize(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.InputDType(1) != DType::kFloat) return node.Unsupported("the scale must be float");
  ASSIGN_OR_RETURN(const kernels::QuantizeParams params, Channels(node));
  ASSIGN_OR_RETURN(
      KernelCall call,
      (TypedCall<int8_t, int16_t, int32_t, uint8_t, uint16_t>(
          node, node.InputDType(0), "kernels/quantize.h", "kernels::DequantizeLinear<{T}>",
          []<class T>() { return FunctionOf<&kernels::DequantizeLinear<T>>(); })));
  return OneCall(
      std::move(call), params,
      {KernelArg::Input(0), KernelArg::Input(1),
       node.HasInput(2) ? KernelArg::Input(2) : KernelArg::Null(), KernelArg::Output(0)});
}

absl::StatusOr<std::vector<TensorType>> InferDynamicQuantize(const NodeContext& node) {
  if (node.InputDType(0) != DType::kFloat) return node.Invalid("the input must be float");
  std::vector<TensorType> types = {
      {DType::kUint8, node.InputShape(0)}, {DType::kFloat, {}}, {DType::kUint8, {}}};
  types.resize(static_cast<size_t>(node.num_outputs()));
  return types;
}

absl::StatusOr<Lowering> LowerDynamicQuantize(const NodeContext& node, const Target&) {
  kernels::DynamicQuantizeParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  if (!node.HasOutput(0)) return node.Unsupported("output y must be there");
  const auto optional = [&](int32_t i) {
    return node.HasOutput(i) ? KernelArg::Output(i) : KernelArg::Null();
  };
  KernelCall call;
  call.header = "kernels/quantize.h";
  call.name = "kernels::DynamicQuantizeLinear";
  call.function = FunctionOf<&kernels::DynamicQuantizeLinear>();
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Output(0), optional(1), optional(2)});
}

// The input is of integers.
absl::Status DequantizeGradient(GradientContext& g) {
  if (!g.Wants(1)) return absl::OkStatus();
  return g.context().Unsupported("no gradient for the scale");
}

}  // namespace

extern const OpDef kQuantizeLinear = {
    .type = "QuantizeLinear",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferQuantize,
    .lower = LowerQuantize,
    .gradient = rules::ZeroGradient,
};

extern const OpDef kDequantizeLinear = {
    .type = "DequantizeLinear",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferDequantize,
    .lower = LowerDequantize,
    .gradient = DequantizeGradient,
};

extern const OpDef kDynamicQuantizeLinear = {
    .type = "DynamicQuantizeLinear",
    .min_inputs = 1,
    .max_inputs = 1,
    .max_outputs = 3,
    .infer = InferDynamicQuantize,
    .lower = LowerDynamicQuantize,
    .gradient = rules::ZeroGradient,
};

}  // namespace onnx_memplan
