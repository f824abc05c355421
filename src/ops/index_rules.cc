#include "ops/index_rules.h"

#include "absl/strings/str_cat.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::Status CheckIndex(const NodeContext& node, int64_t index, int64_t dim) {
  if (index >= -dim && index < dim) return absl::OkStatus();
  return node.Invalid(
      absl::StrCat("index ", index, " is outside of a dimension of ", dim, " elements"));
}

}  // namespace

absl::Status CheckIndices(const NodeContext& node, int32_t i, int64_t dim) {
  const TensorType& type = node.InputType(i);
  if (type.dtype != DType::kInt32 && type.dtype != DType::kInt64) {
    return node.Invalid("indices must be int32 or int64");
  }
  if (dim == 0 && type.NumElements() != 0) {
    return node.Invalid("there is no element that an index could name");
  }
  const Tensor* constant = node.InputConstant(i);
  if (constant == nullptr) return absl::OkStatus();
  const std::optional<std::vector<int64_t>> indices = constant->ToInt64s();
  MEMPLAN_CHECK(indices.has_value());
  for (int64_t index : *indices) RETURN_IF_ERROR(CheckIndex(node, index, dim));
  return absl::OkStatus();
}

absl::Status CheckElementIndices(const NodeContext& node) {
  const Shape& data = node.InputShape(0);
  const Shape& indices = node.InputShape(1);
  if (data.size() != indices.size()) return node.Invalid("data and indices differ in rank");
  ASSIGN_OR_RETURN(const int64_t axis,
                   node.NormalizeAxis(node.Int("axis", 0), static_cast<int64_t>(data.size())));
  for (size_t i = 0; i < data.size(); ++i) {
    if (static_cast<int64_t>(i) != axis && indices[i] > data[i]) {
      return node.Invalid(absl::StrCat("the indices are larger than the data in dimension ", i));
    }
  }
  return CheckIndices(node, 1, data[static_cast<size_t>(axis)]);
}

absl::Status CheckTuples(const NodeContext& node, const Shape& data, size_t batch) {
  const TensorType& type = node.InputType(1);
  if (type.dtype != DType::kInt64) return node.Invalid("indices must be int64");
  const auto depth = static_cast<size_t>(type.shape.back());
  for (size_t d = 0; d < depth; ++d) {
    if (data[batch + d] == 0 && type.NumElements() != 0) {
      return node.Invalid("there is no element that an index could name");
    }
  }
  const Tensor* constant = node.InputConstant(1);
  if (constant == nullptr) return absl::OkStatus();
  size_t at = 0;
  for (int64_t index : constant->As<int64_t>()) {
    RETURN_IF_ERROR(CheckIndex(node, index, data[batch + at++ % depth]));
  }
  return absl::OkStatus();
}

absl::Status IndexedDims(const NodeContext& node, const Shape& data, size_t batch, size_t depth,
                         int32_t (&dims)[8], int32_t (&strides)[8]) {
  if (depth > 8) {
    return node.Unsupported(absl::StrCat("index tuples of ", depth, "; kernels take 8 at most"));
  }
  const std::vector<int64_t> data_strides = RowMajorStrides(data);
  for (size_t d = 0; d < depth; ++d) {
    ASSIGN_OR_RETURN(dims[d], ToInt32(node, data[batch + d], "a dimension"));
    ASSIGN_OR_RETURN(strides[d], ToInt32(node, data_strides[batch + d], "a stride"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> ConstantShape(const NodeContext& node, int32_t i) {
  ASSIGN_OR_RETURN(Shape shape, node.ConstantInts(i, "shape"));
  for (int64_t dim : shape) {
    if (dim < 0) return node.Invalid(absl::StrCat("a dimension of input 'shape' is ", dim));
  }
  return shape;
}

absl::Status CheckCounts(const NodeContext& node) {
  for (int32_t i = 0; i < node.num_inputs(); ++i) {
    if (!node.HasInput(i)) continue;
    RETURN_IF_ERROR(
        ToInt32(node, node.InputType(i).NumElements(), "the number of input elements").status());
  }
  for (int32_t i = 0; i < node.num_outputs(); ++i) {
    if (!node.HasOutput(i)) continue;
    RETURN_IF_ERROR(
        ToInt32(node, node.OutputType(i).NumElements(), "the number of output elements").status());
  }
  return absl::OkStatus();
}

}  // namespace onnx_memplan
