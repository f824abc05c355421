// Operators that pick elements by index or condition.
#include "ops/host_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/gather.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
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

absl::StatusOr<Lowering> LowerGather(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  if (const auto spec = GatherSpec(node)) return LowerStridedCopy(node, *spec);
  const Shape& shape = node.InputShape(0);
  const size_t axis = CheckedAxis(node);
  ASSIGN_OR_RETURN(const int64_t outer, CheckedProduct(node, shape, 0, axis));
  ASSIGN_OR_RETURN(const int64_t inner, CheckedProduct(node, shape, axis + 1, shape.size()));
  kernels::GatherParams params = {};
  ASSIGN_OR_RETURN(params.outer, ToInt32(node, outer, "a product of dimensions"));
  ASSIGN_OR_RETURN(params.axis, ToInt32(node, shape[axis], "a dimension"));
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(1).NumElements(), "the number of indices"));
  ASSIGN_OR_RETURN(params.inner, ToInt32(node, inner, "a product of dimensions"));
  ASSIGN_OR_RETURN(KernelCall call,
                   WidthIndexCall(node, node.InputDType(0), node.InputDType(1), "kernels/gather.h",
                                  "kernels::Gather<{T}, {I}>", []<class T, class I>() {
                                    return FunctionOf<&kernels::Gather<T, I>>();
                                  }));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
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

// ---- GatherND

absl::StatusOr<std::vector<TensorType>> InferGatherNd(const NodeContext& node) {
  const Shape& data = node.InputShape(0);
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
  RETURN_IF_ERROR(CheckTuples(node, static_cast<size_t>(batch)));
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + batch + depth, data.end());
  return std::vector<TensorType>{{node.InputDType(0), shape}};
}

absl::StatusOr<Lowering> LowerGatherNd(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  const Shape& data = node.InputShape(0);
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
  RETURN_IF_ERROR(IndexedDims(node, batch, depth, params.dims, params.strides));
  params.depth = static_cast<int32_t>(depth);
  KernelCall call = WidthCall(node.InputDType(0), "kernels/gather.h", "kernels::GatherNd<{T}>",
                              []<class T>() { return FunctionOf<&kernels::GatherNd<T>>(); });
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
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

}  // namespace

extern const OpDef kGather = {
    .type = "Gather",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferGather,
    .aliases = GatherAliases,
    .lower = LowerGather,
};

extern const OpDef kGatherElements = {
    .type = "GatherElements",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferGatherElements,
    .lower = LowerGatherElements,
};

extern const OpDef kGatherNd = {
    .type = "GatherND",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferGatherNd,
    .lower = LowerGatherNd,
};

extern const OpDef kCompress = {
    .type = "Compress",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferCompress,
    .lower = LowerCompress,
};

extern const OpDef kReverseSequence = {
    .type = "ReverseSequence",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferReverseSequence,
    .lower = LowerReverseSequence,
};

}  // namespace onnx_memplan
