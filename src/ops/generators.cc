// Operators that make tensors out of a few numbers, or out of where numbers are.
#include "ops/host_kernels.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/generate.h"
#include "kernels/strided_copy.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/index_rules.h"
#include "ops/onnx_dtype.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// The element type that attribute `name` numbers; `otherwise` without it.
absl::StatusOr<DType> DTypeAttribute(const NodeContext& node, std::string_view name,
                                     DType otherwise) {
  if (!node.HasAttribute(name)) return otherwise;
  const std::optional<DType> dtype = DTypeOfOnnxNumber(node.Int(name, 0));
  if (!dtype) {
    return node.Unsupported(
        absl::StrCat("the element type numbered ", node.Int(name, 0), " is not supported"));
  }
  return *dtype;
}

// ---- Range

constexpr std::string_view kRangeRoles[] = {"start", "limit", "delta"};

absl::Status CheckRangeInputs(const NodeContext& node) {
  for (int32_t i = 0; i < 3; ++i) {
    if (node.InputType(i).NumElements() != 1 || node.InputDType(i) != node.InputDType(0)) {
      return node.Invalid("start, limit and delta must be scalars of one type");
    }
  }
  return absl::OkStatus();
}

// max(0, ceil((limit - start) / delta)); integers exactly.
absl::StatusOr<int64_t> RangeLength(const NodeContext& node) {
  if (IsFloatingPoint(node.InputDType(0))) {
    double v[3] = {};
    for (int32_t i = 0; i < 3; ++i) {
      ASSIGN_OR_RETURN(const std::vector<double> value, node.ConstantDoubles(i, kRangeRoles[i]));
      v[i] = value[0];
    }
    const double length = std::ceil((v[1] - v[0]) / v[2]);
    if (v[2] == 0 || !(length < 9e18)) return node.Invalid("the range does not end");
    return length > 0 ? static_cast<int64_t>(length) : 0;
  }
  int64_t v[3] = {};
  for (int32_t i = 0; i < 3; ++i) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> value, node.ConstantInts(i, kRangeRoles[i]));
    v[i] = value[0];
  }
  int64_t span = 0;
  if (v[2] == 0 || v[2] == INT64_MIN || __builtin_sub_overflow(v[1], v[0], &span) ||
      span == INT64_MIN) {
    return node.Invalid("the range does not end");
  }
  const int64_t step = v[2] < 0 ? -v[2] : v[2];
  const int64_t distance = v[2] < 0 ? -span : span;
  return distance <= 0 ? 0 : 1 + (distance - 1) / step;
}

absl::StatusOr<std::vector<TensorType>> InferRange(const NodeContext& node) {
  RETURN_IF_ERROR(CheckRangeInputs(node));
  ASSIGN_OR_RETURN(const int64_t length, RangeLength(node));
  return std::vector<TensorType>{{node.InputDType(0), {length}}};
}

absl::StatusOr<Lowering> LowerRange(const NodeContext& node, const Target&) {
  kernels::RangeParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.OutputType(0).NumElements(), "the number of elements"));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double, int16_t, int32_t, int64_t>(
                       node, node.InputDType(0), "kernels/generate.h", "kernels::Range<{T}>",
                       []<class T>() { return FunctionOf<&kernels::Range<T>>(); })));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(2), KernelArg::Output(0)});
}

// ---- ConstantOfShape

absl::StatusOr<std::vector<TensorType>> InferConstantOfShape(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Shape shape, node.ConstantInts(0, "input"));
  if (std::any_of(shape.begin(), shape.end(), [](int64_t dim) { return dim < 0; })) {
    return node.Invalid(absl::StrCat("the shape [", absl::StrJoin(shape, ","), "] is negative"));
  }
  const Tensor* value = node.TensorAttribute("value");
  if (value != nullptr && value->NumElements() != 1) {
    return node.Invalid("attribute 'value' must have one element");
  }
  return std::vector<TensorType>{{value == nullptr ? DType::kFloat : value->dtype(), shape}};
}

absl::StatusOr<Lowering> LowerConstantOfShape(const NodeContext& node, const Target&) {
  const TensorType& output = node.OutputType(0);
  kernels::FillParams params = {};
  ASSIGN_OR_RETURN(params.count, ToInt32(node, output.NumElements(), "the number of elements"));
  KernelCall call = WidthCall(output.dtype, "kernels/strided_copy.h", "kernels::Fill<{T}>",
                              []<class T>() { return FunctionOf<&kernels::Fill<T>>(); });
  KernelArg value = KernelArg::Null();
  if (const Tensor* given = node.TensorAttribute("value")) {
    value = KernelArg::Constant(0);
    call.constants.push_back(*given);
  }
  return OneCall(std::move(call), params, {value, KernelArg::Output(0)});
}

// ---- OneHot

absl::StatusOr<std::vector<TensorType>> InferOneHot(const NodeContext& node) {
  const Shape& indices = node.InputShape(0);
  ASSIGN_OR_RETURN(const std::vector<double> depth, node.ConstantDoubles(1, "depth"));
  if (depth.size() != 1 || !(depth[0] >= 0) || depth[0] > INT32_MAX) {
    return node.Invalid("depth must be one number, 0 or more");
  }
  if (node.InputShape(2) != Shape{2}) return node.Invalid("values must be an (off, on) pair");
  const int64_t rank = static_cast<int64_t>(indices.size()) + 1;
  ASSIGN_OR_RETURN(const int64_t axis, node.NormalizeAxis(node.Int("axis", -1), rank));
  Shape shape = indices;
  shape.insert(shape.begin() + axis, static_cast<int64_t>(depth[0]));
  return std::vector<TensorType>{{node.InputDType(2), shape}};
}

template <class I>
KernelCall OneHotCall(DType dtype, std::string_view index_type) {
  return WidthCall(dtype, "kernels/generate.h",
                   Substitute("kernels::OneHot<{T}, {I}>", "{I}", index_type),
                   []<class T>() { return FunctionOf<&kernels::OneHot<T, I>>(); });
}

absl::StatusOr<KernelCall> OneHotCallFor(const NodeContext& node) {
  const DType dtype = node.InputDType(2);
  switch (node.InputDType(0)) {
    case DType::kInt64:
      return OneHotCall<int64_t>(dtype, "int64_t");
    case DType::kInt32:
      return OneHotCall<int32_t>(dtype, "int32_t");
    case DType::kUint8:
      return OneHotCall<uint8_t>(dtype, "uint8_t");
    case DType::kFloat:
      return OneHotCall<float>(dtype, "float");
    default:
      return node.Unsupported("indices must be int64, int32, uint8 or float");
  }
}

absl::StatusOr<Lowering> LowerOneHot(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  const Shape& shape = node.OutputShape(0);
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  const int64_t given = node.Int("axis", -1);
  const auto axis = static_cast<size_t>(given < 0 ? given + node.OutputType(0).rank() : given);
  ASSIGN_OR_RETURN(const int64_t outer, CheckedProduct(node, shape, 0, axis));
  ASSIGN_OR_RETURN(const int64_t inner, CheckedProduct(node, shape, axis + 1, shape.size()));
  kernels::OneHotParams params = {};
  ASSIGN_OR_RETURN(params.outer, ToInt32(node, outer, "a product of dimensions"));
  ASSIGN_OR_RETURN(params.depth, ToInt32(node, shape[axis], "depth"));
  ASSIGN_OR_RETURN(params.inner, ToInt32(node, inner, "a product of dimensions"));
  ASSIGN_OR_RETURN(KernelCall call, OneHotCallFor(node));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(2), KernelArg::Output(0)});
}

// Of the (off, on) pair: sums of the gradients of the elements that are each.
absl::Status OneHotGradient(GradientContext& g) {
  if (!g.Wants(2)) return absl::OkStatus();
  const ValueId dy = g.OutputGradient(0);
  const DType dtype = g.Type(dy).dtype;
  const int64_t axis = g.context().Int("axis", -1);
  const auto sum = [&](ValueId value) {
    return g.ReshapeTo(g.Add("ReduceSum", {value}, {{"keepdims", int64_t{0}}}), {1});
  };
  const ValueId zero_one = dtype == DType::kDouble
                               ? g.Constant(Tensor::FromVector<double>({2}, {0, 1}))
                               : g.Constant(Tensor::FromVector<float>({2}, {0, 1}));
  const ValueId is_on = g.Add("OneHot", {g.Input(0), g.Input(1), zero_one}, {{"axis", axis}});
  const ValueId on = sum(g.Add("Mul", {dy, is_on}));
  const ValueId off = g.Add("Sub", {sum(dy), on});
  g.SetInputGradient(2, g.Add("Concat", {off, on}, {{"axis", int64_t{0}}}));
  return g.status();
}

// ---- Trilu, EyeLike

absl::StatusOr<std::vector<TensorType>> InferTrilu(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  if (input.rank() < 2) return node.Invalid("the input must have rank 2 or more");
  if (node.HasInput(1) &&
      (node.InputDType(1) != DType::kInt64 || node.InputType(1).NumElements() != 1)) {
    return node.Invalid("k must be one int64");
  }
  return std::vector<TensorType>{input};
}

absl::StatusOr<Lowering> LowerTrilu(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  const Shape& shape = node.InputShape(0);
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const int64_t matrices, CheckedProduct(node, shape, 0, shape.size() - 2));
  kernels::TriluParams params = {};
  ASSIGN_OR_RETURN(params.matrices, ToInt32(node, matrices, "the number of matrices"));
  ASSIGN_OR_RETURN(params.rows, ToInt32(node, shape[shape.size() - 2], "a dimension"));
  ASSIGN_OR_RETURN(params.columns, ToInt32(node, shape.back(), "a dimension"));
  params.upper = node.Int("upper", 1) != 0 ? 1 : 0;
  KernelCall call = WidthCall(node.InputDType(0), "kernels/generate.h", "kernels::Trilu<{T}>",
                              []<class T>() { return FunctionOf<&kernels::Trilu<T>>(); });
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), node.HasInput(1) ? KernelArg::Input(1) : KernelArg::Null(),
                  KernelArg::Output(0)});
}

absl::Status TriluGradient(GradientContext& g) {
  const int64_t upper = g.context().Int("upper", 1);
  std::vector<ValueId> operands = {g.OutputGradient(0)};
  if (g.Input(1) != kNoValue) operands.push_back(g.Input(1));
  g.SetInputGradient(0, g.Add("Trilu", operands, {{"upper", upper}}));
  return g.status();
}

absl::StatusOr<std::vector<TensorType>> InferEyeLike(const NodeContext& node) {
  TensorType type = node.InputType(0);
  if (type.rank() != 2) return node.Invalid("the input must have rank 2");
  ASSIGN_OR_RETURN(type.dtype, DTypeAttribute(node, "dtype", type.dtype));
  return std::vector<TensorType>{type};
}

absl::StatusOr<Lowering> LowerEyeLike(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  const TensorType& output = node.OutputType(0);
  if (output.NumElements() == 0) return Lowering();
  kernels::EyeParams params = {};
  ASSIGN_OR_RETURN(params.rows, ToInt32(node, output.shape[0], "a dimension"));
  ASSIGN_OR_RETURN(params.columns, ToInt32(node, output.shape[1], "a dimension"));
  // A diagonal outside of the matrix stays outside of it.
  params.diagonal =
      static_cast<int32_t>(std::clamp(node.Int("k", 0), -output.shape[0], output.shape[1]));
  ASSIGN_OR_RETURN(
      KernelCall call,
      (TypedCall<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                 uint64_t, bool>(node, output.dtype, "kernels/generate.h", "kernels::Eye<{T}>",
                                 []<class T>() { return FunctionOf<&kernels::Eye<T>>(); })));
  return OneCall(std::move(call), params, {KernelArg::Output(0)});
}

// ---- BlackmanWindow, HammingWindow, HannWindow

absl::StatusOr<std::vector<TensorType>> InferWindow(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> size, node.ConstantInts(0, "size"));
  if (size.size() != 1 || size[0] < 0) return node.Invalid("size must be one number, 0 or more");
  ASSIGN_OR_RETURN(const DType dtype, DTypeAttribute(node, "output_datatype", DType::kFloat));
  return std::vector<TensorType>{{dtype, {size[0]}}};
}

// The coefficients are those of ONNX's operator definitions.
absl::StatusOr<Lowering> LowerWindow(const NodeContext& node, double a0, double a1, double a2) {
  const TensorType& output = node.OutputType(0);
  kernels::CosineWindowParams params = {};
  ASSIGN_OR_RETURN(params.count, ToInt32(node, output.NumElements(), "the number of elements"));
  const int32_t period = node.Int("periodic", 1) != 0 ? params.count : params.count - 1;
  params.step = period > 0 ? 2.0 * M_PI / period : 0.0;
  params.a0 = a0;
  params.a1 = a1;
  params.a2 = a2;
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(
                       node, output.dtype, "kernels/generate.h", "kernels::CosineWindow<{T}>",
                       []<class T>() { return FunctionOf<&kernels::CosineWindow<T>>(); })));
  return OneCall(std::move(call), params, {KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerBlackman(const NodeContext& node, const Target&) {
  return LowerWindow(node, 0.42, 0.5, 0.08);
}

absl::StatusOr<Lowering> LowerHamming(const NodeContext& node, const Target&) {
  return LowerWindow(node, 25.0 / 46.0, 21.0 / 46.0, 0);
}

absl::StatusOr<Lowering> LowerHann(const NodeContext& node, const Target&) {
  return LowerWindow(node, 0.5, 0.5, 0);
}

// ---- NonZero

template <class T>
int64_t CountNonZero(const Tensor& tensor) {
  const std::span<const T> values = tensor.As<T>();
  return std::count_if(values.begin(), values.end(),
                       [](T value) { return value != static_cast<T>(0); });
}

absl::StatusOr<int64_t> CountNonZero(const NodeContext& node) {
  const Tensor* tensor = node.InputConstant(0);
  if (tensor == nullptr) {
    return node.Unsupported(
        "how many elements are not zero must be known while planning: the input must be constant");
  }
  if (tensor->dtype() == DType::kFloat) return CountNonZero<float>(*tensor);
  if (tensor->dtype() == DType::kDouble) return CountNonZero<double>(*tensor);
  const std::optional<std::vector<int64_t>> values = tensor->ToInt64s();
  if (!values) return node.Unsupported("half precision is not supported");
  return static_cast<int64_t>(values->size()) - std::count(values->begin(), values->end(), 0);
}

absl::StatusOr<std::vector<TensorType>> InferNonZero(const NodeContext& node) {
  ASSIGN_OR_RETURN(const int64_t found, CountNonZero(node));
  return std::vector<TensorType>{{DType::kInt64, {node.InputType(0).rank(), found}}};
}

absl::StatusOr<Lowering> LowerNonZero(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  const TensorType& input = node.InputType(0);
  kernels::NonZeroParams params = {};
  ASSIGN_OR_RETURN(params.count, ToInt32(node, input.NumElements(), "the number of elements"));
  ASSIGN_OR_RETURN(params.found, ToInt32(node, node.OutputShape(0)[1], "the number of elements"));
  RETURN_IF_ERROR(ToKernelArray(node, input.shape, 1, params.dims));
  params.rank = static_cast<int32_t>(input.rank());
  ASSIGN_OR_RETURN(
      KernelCall call,
      (TypedCall<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                 uint64_t, bool>(node, input.dtype, "kernels/generate.h", "kernels::NonZero<{T}>",
                                 []<class T>() { return FunctionOf<&kernels::NonZero<T>>(); })));
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

}  // namespace

extern const OpDef kRange = {
    .type = "Range",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferRange,
    .lower = LowerRange,
    .gradient = rules::ZeroGradient,
};

extern const OpDef kConstantOfShape = {
    .type = "ConstantOfShape",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferConstantOfShape,
    .lower = LowerConstantOfShape,
    .gradient = rules::ZeroGradient,
};

extern const OpDef kOneHot = {
    .type = "OneHot",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferOneHot,
    .lower = LowerOneHot,
    .gradient = OneHotGradient,
};

extern const OpDef kTrilu = {
    .type = "Trilu",
    .min_inputs = 1,
    .max_inputs = 2,
    .infer = InferTrilu,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerTrilu,
    .gradient = TriluGradient,
};

extern const OpDef kEyeLike = {
    .type = "EyeLike",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferEyeLike,
    .lower = LowerEyeLike,
    .gradient = rules::ZeroGradient,
};

extern const OpDef kBlackmanWindow = {
    .type = "BlackmanWindow",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferWindow,
    .lower = LowerBlackman,
    .gradient = rules::ZeroGradient,
};

extern const OpDef kHammingWindow = {
    .type = "HammingWindow",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferWindow,
    .lower = LowerHamming,
    .gradient = rules::ZeroGradient,
};

extern const OpDef kHannWindow = {
    .type = "HannWindow",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferWindow,
    .lower = LowerHann,
    .gradient = rules::ZeroGradient,
};

extern const OpDef kNonZero = {
    .type = "NonZero",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferNonZero,
    .lower = LowerNonZero,
    .gradient = rules::ZeroGradient,
};

}  // namespace onnx_memplan
