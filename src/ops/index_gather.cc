// Operators that pick elements by index or condition.
#include "ops/host_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/gather.h"
#include "kernels/scatter_gradient.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/index_rules.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

size_t CheckedAxis(const NodeContext& node) {
  const int64_t axis = node.Int("axis", 0);
  return static_cast<size_t>(axis < 0 ? axis + node.InputType(0).rank() : axis);
}

// ---- Gather

absl::StatusOr<std::vector<TensorType>> InferGather(const NodeContext& node) {
  const TensorType& data = node.InputType(0);
  const Shape& indices = node.InputShape(1);
  ASSIGN_OR_RETURN(const int64_t axis, node.NormalizeAxis(node.Int("axis", 0), data.rank()));
  RETURN_IF_ERROR(CheckIndices(node, 1, data.shape[static_cast<size_t>(axis)]));
  Shape shape(data.shape.begin(), data.shape.begin() + axis);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), data.shape.begin() + axis + 1, data.shape.end());
  return std::vector<TensorType>{{data.dtype, shape}};
}

// The copy that a Gather of known indices is, when these are evenly spaced.
std::optional<StridedCopySpec> GatherSpec(const NodeContext& node) {
  const Tensor* constant = node.InputConstant(1);
  if (constant == nullptr || constant->NumElements() == 0) return std::nullopt;
  const std::optional<std::vector<int64_t>> indices = constant->ToInt64s();
  if (!indices) return std::nullopt;
  const Shape& shape = node.InputShape(0);
  const size_t axis = CheckedAxis(node);
  const auto at = [&](size_t i) {
    return (*indices)[i] < 0 ? (*indices)[i] + shape[axis] : (*indices)[i];
  };
  const int64_t step = indices->size() > 1 ? at(1) - at(0) : 1;
  for (size_t i = 2; i < indices->size(); ++i) {
    if (at(i) - at(i - 1) != step) return std::nullopt;
  }
  const std::vector<int64_t> strides = RowMajorStrides(shape);
  Shape dims = shape;
  std::vector<int64_t> src_strides = strides;
  dims[axis] = static_cast<int64_t>(indices->size());
  src_strides[axis] = strides[axis] * step;
  return GatheringCopy(dims, src_strides, at(0) * strides[axis]);
}

std::vector<Alias> GatherAliases(const NodeContext& node) {
  const std::optional<StridedCopySpec> spec = GatherSpec(node);
  return spec ? ViewIfContiguous(node, *spec) : std::vector<Alias>();
}

// Of a Gather along attribute `axis` of data of `shape`, with the indices of input 1.
absl::StatusOr<kernels::GatherParams> MakeGatherParams(const NodeContext& node,
                                                       const Shape& shape) {
  ASSIGN_OR_RETURN(const int64_t normal,
                   node.NormalizeAxis(node.Int("axis", 0), static_cast<int64_t>(shape.size())));
  const auto axis = static_cast<size_t>(normal);
  ASSIGN_OR_RETURN(const int64_t outer, CheckedProduct(node, shape, 0, axis));
  ASSIGN_OR_RETURN(const int64_t inner, CheckedProduct(node, shape, axis + 1, shape.size()));
  kernels::GatherParams params = {};
  ASSIGN_OR_RETURN(params.outer, ToInt32(node, outer, "a product of dimensions"));
  ASSIGN_OR_RETURN(params.axis, ToInt32(node, shape[axis], "a dimension"));
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(1).NumElements(), "the number of indices"));
  ASSIGN_OR_RETURN(params.inner, ToInt32(node, inner, "a product of dimensions"));
  return params;
}

absl::StatusOr<Lowering> LowerGather(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  if (const auto spec = GatherSpec(node)) return LowerStridedCopy(node, *spec);
  ASSIGN_OR_RETURN(const kernels::GatherParams params, MakeGatherParams(node, node.InputShape(0)));
  ASSIGN_OR_RETURN(KernelCall call,
                   WidthIndexCall(node, node.InputDType(0), node.InputDType(1), "kernels/gather.h",
                                  "kernels::Gather<{T}, {I}>", []<class T, class I>() {
                                    return FunctionOf<&kernels::Gather<T, I>>();
                                  }));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

// Neighbours that are known are a Slice: their gradient is a Pad. All else is added to zeros.
absl::Status GatherGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  const ValueId dy = g.OutputGradient(0);
  const Shape shape = g.ShapeOf(g.Input(0));
  const size_t axis = CheckedAxis(g.context());
  const std::optional<StridedCopySpec> spec = GatherSpec(g.context());
  const int64_t stride = RowMajorStrides(shape)[axis];
  if (spec && spec->src_strides[axis] == stride && stride != 0) {
    std::vector<int64_t> pads(2 * shape.size(), 0);
    pads[axis] = spec->src_offset / stride;
    pads[shape.size() + axis] = shape[axis] - pads[axis] - spec->dims[axis];
    g.SetInputGradient(0, g.Add("Pad", {g.ReshapeTo(dy, spec->dims), g.Ints(pads)}));
    return g.status();
  }
  g.SetInputGradient(0, g.Add("GatherGrad", {g.Ints(shape), g.Input(1), dy},
                              {{"axis", static_cast<int64_t>(axis)}}, kMicrosoft));
  return g.status();
}

// com.microsoft GatherGrad: the shape of the data, indices, dY.
absl::StatusOr<std::vector<TensorType>> InferGatherGrad(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Shape shape, ConstantShape(node, 0));
  ASSIGN_OR_RETURN(const int64_t axis,
                   node.NormalizeAxis(node.Int("axis", 0), static_cast<int64_t>(shape.size())));
  RETURN_IF_ERROR(CheckIndices(node, 1, shape[static_cast<size_t>(axis)]));
  Shape gathered(shape.begin(), shape.begin() + axis);
  const Shape& indices = node.InputShape(1);
  gathered.insert(gathered.end(), indices.begin(), indices.end());
  gathered.insert(gathered.end(), shape.begin() + axis + 1, shape.end());
  if (gathered != node.InputShape(2)) {
    return node.Invalid("the gradient does not have the shape that the indices gather");
  }
  return std::vector<TensorType>{{node.InputDType(2), shape}};
}

// A call of a kernel of scatter_gradient.h for elements of `dtype` and indices of `index_dtype`,
// {I} in `pattern`.
template <class Pick>
absl::StatusOr<KernelCall> ScatterGradientCall(const NodeContext& node, DType dtype,
                                               DType index_dtype, std::string_view pattern,
                                               Pick pick) {
  constexpr std::string_view kHeader = "kernels/scatter_gradient.h";
  if (index_dtype == DType::kInt32) {
    return TypedCall<float, double>(
        node, dtype, kHeader, Substitute(pattern, "{I}", "int32_t"),
        [&]<class T>() { return pick.template operator()<T, int32_t>(); });
  }
  return TypedCall<float, double>(
      node, dtype, kHeader, Substitute(pattern, "{I}", "int64_t"),
      [&]<class T>() { return pick.template operator()<T, int64_t>(); });
}

absl::StatusOr<Lowering> LowerGatherGrad(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  const Shape& shape = node.OutputShape(0);
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const kernels::GatherParams params, MakeGatherParams(node, shape));
  ASSIGN_OR_RETURN(KernelCall call,
                   ScatterGradientCall(node, node.InputDType(2), node.InputDType(1),
                                       "kernels::GatherGrad<{T}, {I}>", []<class T, class I>() {
                                         return FunctionOf<&kernels::GatherGrad<T, I>>();
                                       }));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(1), KernelArg::Input(2), KernelArg::Output(0)});
}

// ---- GatherElements

absl::StatusOr<std::vector<TensorType>> InferGatherElements(const NodeContext& node) {
  RETURN_IF_ERROR(CheckElementIndices(node));
  return std::vector<TensorType>{{node.InputDType(0), node.InputShape(1)}};
}

absl::StatusOr<Lowering> LowerGatherElements(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  const Shape& shape = node.InputShape(0);
  const size_t axis = CheckedAxis(node);
  std::vector<int64_t> strides = RowMajorStrides(shape);
  kernels::GatherElementsParams params = {};
  ASSIGN_OR_RETURN(params.axis, ToInt32(node, shape[axis], "a dimension"));
  ASSIGN_OR_RETURN(params.axis_stride, ToInt32(node, strides[axis], "a stride"));
  strides[axis] = 0;
  RETURN_IF_ERROR(ToKernelArray(node, node.InputShape(1), 1, params.dims));
  RETURN_IF_ERROR(ToKernelArray(node, strides, 0, params.x_strides));
  ASSIGN_OR_RETURN(KernelCall call,
                   WidthIndexCall(node, node.InputDType(0), node.InputDType(1), "kernels/gather.h",
                                  "kernels::GatherElements<{T}, {I}>", []<class T, class I>() {
                                    return FunctionOf<&kernels::GatherElements<T, I>>();
                                  }));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

absl::Status GatherElementsGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  const Shape shape = g.ShapeOf(g.Input(0));
  const auto axis = static_cast<int64_t>(CheckedAxis(g.context()));
  g.SetInputGradient(0,
                     g.Add("GatherElementsGrad", {g.OutputGradient(0), g.Ints(shape), g.Input(1)},
                           {{"axis", axis}}, kMicrosoft));
  return g.status();
}

// com.microsoft GatherElementsGrad: dY, the shape of the data, indices.
absl::StatusOr<std::vector<TensorType>> InferGatherElementsGrad(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Shape shape, ConstantShape(node, 1));
  const Shape& indices = node.InputShape(2);
  const auto rank = static_cast<int64_t>(shape.size());
  ASSIGN_OR_RETURN(const int64_t axis, node.NormalizeAxis(node.Int("axis", 0), rank));
  bool fits = indices.size() == shape.size() && indices == node.InputShape(0);
  for (size_t i = 0; i < shape.size() && fits; ++i) {
    fits = static_cast<int64_t>(i) == axis || indices[i] <= shape[i];
  }
  if (!fits) return node.Invalid("the gradient and the indices do not fit the shape");
  RETURN_IF_ERROR(CheckIndices(node, 2, shape[static_cast<size_t>(axis)]));
  return std::vector<TensorType>{{node.InputDType(0), shape}};
}

absl::StatusOr<Lowering> LowerGatherElementsGrad(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  const Shape& shape = node.OutputShape(0);
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  int64_t axis = node.Int("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(shape.size());
  std::vector<int64_t> strides = RowMajorStrides(shape);
  int64_t& axis_stride = strides[static_cast<size_t>(axis)];
  kernels::GatherElementsGradParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.OutputType(0).NumElements(), "the number of elements"));
  ASSIGN_OR_RETURN(params.axis, ToInt32(node, shape[static_cast<size_t>(axis)], "a dimension"));
  ASSIGN_OR_RETURN(params.axis_stride, ToInt32(node, std::exchange(axis_stride, 0), "a stride"));
  RETURN_IF_ERROR(ToKernelArray(node, node.InputShape(2), 1, params.dims));
  RETURN_IF_ERROR(ToKernelArray(node, strides, 0, params.x_strides));
  ASSIGN_OR_RETURN(
      KernelCall call,
      ScatterGradientCall(
          node, node.InputDType(0), node.InputDType(2), "kernels::GatherElementsGrad<{T}, {I}>",
          []<class T, class I>() { return FunctionOf<&kernels::GatherElementsGrad<T, I>>(); }));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(2), KernelArg::Output(0)});
}

// ---- GatherND

// What the index tuples of input 1 gather from data of shape `data`.
absl::StatusOr<Shape> GatheredNdShape(const NodeContext& node, const Shape& data) {
  const Shape& indices = node.InputShape(1);
  const int64_t batch = node.Int("batch_dims", 0);
  if (batch < 0 || indices.empty() || batch >= static_cast<int64_t>(indices.size()) ||
      batch > static_cast<int64_t>(data.size()) ||
      !std::equal(data.begin(), data.begin() + batch, indices.begin())) {
    return node.Invalid(
        absl::StrCat("batch_dims ", batch, " is no common prefix of the data and the indices"));
  }
  const int64_t depth = indices.back();
  if (depth > static_cast<int64_t>(data.size()) - batch) {
    return node.Invalid(absl::StrCat("index tuples of ", depth, " for data of rank ", data.size()));
  }
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + batch + depth, data.end());
  return shape;
}

absl::StatusOr<std::vector<TensorType>> InferGatherNd(const NodeContext& node) {
  const Shape& data = node.InputShape(0);
  ASSIGN_OR_RETURN(Shape shape, GatheredNdShape(node, data));
  RETURN_IF_ERROR(CheckTuples(node, data, static_cast<size_t>(node.Int("batch_dims", 0))));
  return std::vector<TensorType>{{node.InputDType(0), std::move(shape)}};
}

absl::StatusOr<kernels::GatherNdParams> MakeGatherNdParams(const NodeContext& node,
                                                           const Shape& data) {
  const Shape& indices = node.InputShape(1);
  const auto batch = static_cast<size_t>(node.Int("batch_dims", 0));
  const auto depth = static_cast<size_t>(indices.back());
  kernels::GatherNdParams params = {};
  ASSIGN_OR_RETURN(const int64_t batches, CheckedProduct(node, data, 0, batch));
  ASSIGN_OR_RETURN(const int64_t tuples, CheckedProduct(node, indices, batch, indices.size() - 1));
  ASSIGN_OR_RETURN(const int64_t inner, CheckedProduct(node, data, batch + depth, data.size()));
  ASSIGN_OR_RETURN(const int64_t batch_elements, CheckedProduct(node, data, batch, data.size()));
  ASSIGN_OR_RETURN(params.batches, ToInt32(node, batches, "the number of batches"));
  ASSIGN_OR_RETURN(params.tuples, ToInt32(node, tuples, "the number of index tuples"));
  ASSIGN_OR_RETURN(params.inner, ToInt32(node, inner, "a product of dimensions"));
  ASSIGN_OR_RETURN(params.batch_elements, ToInt32(node, batch_elements, "a batch"));
  RETURN_IF_ERROR(IndexedDims(node, data, batch, depth, params.dims, params.strides));
  params.depth = static_cast<int32_t>(depth);
  return params;
}

absl::StatusOr<Lowering> LowerGatherNd(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const kernels::GatherNdParams params,
                   MakeGatherNdParams(node, node.InputShape(0)));
  KernelCall call = WidthCall(node.InputDType(0), "kernels/gather.h", "kernels::GatherNd<{T}>",
                              []<class T>() { return FunctionOf<&kernels::GatherNd<T>>(); });
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

absl::Status GatherNdGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  const Shape shape = g.ShapeOf(g.Input(0));
  const int64_t batch = g.context().Int("batch_dims", 0);
  g.SetInputGradient(0, g.Add("GatherNDGrad", {g.Ints(shape), g.Input(1), g.OutputGradient(0)},
                              {{"batch_dims", batch}}, kMicrosoft));
  return g.status();
}

// com.microsoft GatherNDGrad: the shape of the data, indices, dY.
absl::StatusOr<std::vector<TensorType>> InferGatherNdGrad(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Shape shape, ConstantShape(node, 0));
  ASSIGN_OR_RETURN(const Shape gathered, GatheredNdShape(node, shape));
  RETURN_IF_ERROR(CheckTuples(node, shape, static_cast<size_t>(node.Int("batch_dims", 0))));
  if (gathered != node.InputShape(2)) {
    return node.Invalid("the gradient does not have the shape that the indices gather");
  }
  return std::vector<TensorType>{{node.InputDType(2), shape}};
}

absl::StatusOr<Lowering> LowerGatherNdGrad(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const kernels::GatherNdParams params,
                   MakeGatherNdParams(node, node.OutputShape(0)));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(node, node.InputDType(2), "kernels/scatter_gradient.h",
                                             "kernels::GatherNdGrad<{T}>", []<class T>() {
                                               return FunctionOf<&kernels::GatherNdGrad<T>>();
                                             })));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(1), KernelArg::Input(2), KernelArg::Output(0)});
}

// ---- Compress

// Without an axis the data counts as flat.
absl::StatusOr<std::vector<TensorType>> InferCompress(const NodeContext& node) {
  TensorType type = node.InputType(0);
  if (node.InputDType(1) != DType::kBool || node.InputType(1).rank() != 1) {
    return node.Invalid("condition must be a vector of bool");
  }
  if (!node.HasAttribute("axis")) type.shape = {type.NumElements()};
  ASSIGN_OR_RETURN(const int64_t axis, node.NormalizeAxis(node.Int("axis", 0), type.rank()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> condition, node.ConstantInts(1, "condition"));
  int64_t& length = type.shape[static_cast<size_t>(axis)];
  if (static_cast<int64_t>(condition.size()) > length) {
    return node.Invalid(absl::StrCat(condition.size(), " conditions for ", length, " slices"));
  }
  length = std::count_if(condition.begin(), condition.end(), [](int64_t c) { return c != 0; });
  return std::vector<TensorType>{type};
}

absl::StatusOr<Lowering> LowerCompress(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  Shape shape = node.InputShape(0);
  if (!node.HasAttribute("axis")) shape = {node.InputType(0).NumElements()};
  int64_t axis = node.Int("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(shape.size());
  const auto at = static_cast<size_t>(axis);
  ASSIGN_OR_RETURN(const int64_t outer, CheckedProduct(node, shape, 0, at));
  ASSIGN_OR_RETURN(const int64_t inner, CheckedProduct(node, shape, at + 1, shape.size()));
  kernels::CompressParams params = {};
  ASSIGN_OR_RETURN(params.outer, ToInt32(node, outer, "a product of dimensions"));
  ASSIGN_OR_RETURN(params.axis, ToInt32(node, shape[at], "a dimension"));
  ASSIGN_OR_RETURN(params.conditions,
                   ToInt32(node, node.InputShape(1)[0], "the number of conditions"));
  ASSIGN_OR_RETURN(params.inner, ToInt32(node, inner, "a product of dimensions"));
  KernelCall call = WidthCall(node.InputDType(0), "kernels/gather.h", "kernels::Compress<{T}>",
                              []<class T>() { return FunctionOf<&kernels::Compress<T>>(); });
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

// ---- ReverseSequence

absl::StatusOr<std::vector<TensorType>> InferReverseSequence(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  const int64_t batch_axis = node.Int("batch_axis", 1);
  const int64_t time_axis = node.Int("time_axis", 0);
  if (input.rank() < 2 || batch_axis < 0 || batch_axis > 1 || time_axis != 1 - batch_axis) {
    return node.Invalid("batch_axis and time_axis must be 0 and 1 or 1 and 0");
  }
  if (node.InputDType(1) != DType::kInt64 ||
      node.InputShape(1) != Shape{input.shape[static_cast<size_t>(batch_axis)]}) {
    return node.Invalid("sequence_lens must be int64, one for each batch");
  }
  return std::vector<TensorType>{input};
}

absl::StatusOr<Lowering> LowerReverseSequence(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  const Shape& shape = node.InputShape(0);
  ASSIGN_OR_RETURN(const int64_t inner, CheckedProduct(node, shape, 2, shape.size()));
  kernels::ReverseSequenceParams params = {};
  params.outer_is_time = node.Int("time_axis", 0) == 0 ? 1 : 0;
  ASSIGN_OR_RETURN(params.outer, ToInt32(node, shape[0], "a dimension"));
  ASSIGN_OR_RETURN(params.dim1, ToInt32(node, shape[1], "a dimension"));
  ASSIGN_OR_RETURN(params.inner, ToInt32(node, inner, "a product of dimensions"));
  KernelCall call =
      WidthCall(node.InputDType(0), "kernels/gather.h", "kernels::ReverseSequence<{T}>",
                []<class T>() { return FunctionOf<&kernels::ReverseSequence<T>>(); });
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

// The chosen elements are those of a Gather whose indices are known.
absl::Status CompressGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int64_t> condition, g.context().ConstantInts(1, "condition"));
  std::vector<int64_t> indices;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) indices.push_back(static_cast<int64_t>(i));
  }
  const Shape shape = g.ShapeOf(g.Input(0));
  const bool is_flat = !g.context().HasAttribute("axis");
  const Shape read = is_flat ? Shape{g.Type(g.Input(0)).NumElements()} : shape;
  const int64_t axis = g.context().Int("axis", 0);
  const ValueId dx = g.Add("GatherGrad", {g.Ints(read), g.Ints(indices), g.OutputGradient(0)},
                           {{"axis", axis}}, kMicrosoft);
  g.SetInputGradient(0, g.ReshapeTo(dx, shape));
  return g.status();
}

// Reversing twice restores the order.
absl::Status ReverseSequenceGradient(GradientContext& g) {
  const NodeContext node = g.context();
  GradientContext::Attributes attributes = {{"batch_axis", node.Int("batch_axis", 1)},
                                            {"time_axis", node.Int("time_axis", 0)}};
  g.SetInputGradient(
      0, g.Add("ReverseSequence", {g.OutputGradient(0), g.Input(1)}, std::move(attributes)));
  return g.status();
}

}  // namespace

extern const OpDef kGatherGrad = {
    .type = "GatherGrad",
    .domain = kMicrosoft,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferGatherGrad,
    .lower = LowerGatherGrad,
};

extern const OpDef kGatherElementsGrad = {
    .type = "GatherElementsGrad",
    .domain = kMicrosoft,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferGatherElementsGrad,
    .lower = LowerGatherElementsGrad,
};

extern const OpDef kGatherNdGrad = {
    .type = "GatherNDGrad",
    .domain = kMicrosoft,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferGatherNdGrad,
    .lower = LowerGatherNdGrad,
};

extern const OpDef kGather = {
    .type = "Gather",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferGather,
    .aliases = GatherAliases,
    .lower = LowerGather,
    .gradient = GatherGradient,
};

extern const OpDef kGatherElements = {
    .type = "GatherElements",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferGatherElements,
    .lower = LowerGatherElements,
    .gradient = GatherElementsGradient,
};

extern const OpDef kGatherNd = {
    .type = "GatherND",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferGatherNd,
    .lower = LowerGatherNd,
    .gradient = GatherNdGradient,
};

extern const OpDef kCompress = {
    .type = "Compress",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferCompress,
    .lower = LowerCompress,
    .gradient = CompressGradient,
};

extern const OpDef kReverseSequence = {
    .type = "ReverseSequence",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferReverseSequence,
    .lower = LowerReverseSequence,
    .gradient = ReverseSequenceGradient,
};

}  // namespace onnx_memplan
