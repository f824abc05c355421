// Helpers for operators that move elements without looking at them: kernels are chosen by the width
// of an element, so that every element type has them.
#ifndef ONNX_MEMPLAN_OPS_DATA_MOVEMENT_H_
#define ONNX_MEMPLAN_OPS_DATA_MOVEMENT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/dispatch.h"
#include "ops/kernel_call.h"
#include "ops/node_context.h"
#include "ops/op_def.h"

namespace onnx_memplan {

// A call of the kernel template in `header` for elements as wide as `dtype`'s; {T} in `pattern` is
// uint8_t, uint16_t, uint32_t or uint64_t. See TypedCall.
template <class Pick>
KernelCall WidthCall(DType dtype, std::string_view header, std::string_view pattern, Pick pick);

// The same for a kernel that also reads indices: {I} is int32_t or int64_t. Unimplemented for
// another `index_dtype`.
template <class Pick>
absl::StatusOr<KernelCall> WidthIndexCall(const NodeContext& node, DType dtype, DType index_dtype,
                                          std::string_view header, std::string_view pattern,
                                          Pick pick);

// A copy of dims elements between two strided views. Offsets and strides in elements.
struct StridedCopySpec {
  Shape dims;
  std::vector<int64_t> src_strides;
  std::vector<int64_t> dst_strides;
  int64_t src_offset = 0;
  int64_t dst_offset = 0;
};

// Strides in elements of a tensor in C order; 0 where one does not fit (only empty tensors).
std::vector<int64_t> RowMajorStrides(const Shape& shape);
// `dims` as the shape of the output, in C order; strides of the source as given.
StridedCopySpec GatheringCopy(const Shape& dims, std::vector<int64_t> src_strides,
                              int64_t src_offset);
// The element of the source from which the copy is one contiguous run to the destination's start;
// nullopt if it is none.
std::optional<int64_t> ContiguousOffset(const StridedCopySpec& spec);
// A view of input `input` as output `output` if the copy is contiguous; empty otherwise.
std::vector<Alias> ViewIfContiguous(const NodeContext& node, const StridedCopySpec& spec,
                                    int32_t input = 0, int32_t output = 0);
// Appends the copy to `lowering`; nothing for an empty one. Unimplemented if it has more dimensions
// than kernels::kMaxRank after merging, or does not fit in 32 bits.
absl::Status AppendStridedCopy(const NodeContext& node, DType dtype, const StridedCopySpec& spec,
                               KernelArg src, KernelArg dst, Lowering* lowering);
// The lowering with the one copy of input 0 to output 0.
absl::StatusOr<Lowering> LowerStridedCopy(const NodeContext& node, const StridedCopySpec& spec);

// Appends the write of output `i`, which is known while planning, to `lowering`.
absl::Status AppendKnownOutput(const NodeContext& node, int32_t i, Tensor value,
                               Lowering* lowering);
// The lowering of an operator whose only output is known while planning.
absl::StatusOr<Lowering> LowerKnownOutput(const NodeContext& node, Tensor value);

// Product of shape[begin, end); InvalidArgument when it does not fit.
absl::StatusOr<int64_t> CheckedProduct(const NodeContext& node, const Shape& shape, size_t begin,
                                       size_t end);

// Row-major `shape` as kernels count it: the last kernels::kMaxRank entries of `out` are `values`,
// those before are `fill`. Unimplemented for more, or for what does not fit in 32 bits.
absl::Status ToKernelArray(const NodeContext& node, const std::vector<int64_t>& values,
                           int32_t fill, int32_t (&out)[8]);

// ---- implementation

template <class Pick>
KernelCall WidthCall(DType dtype, std::string_view header, std::string_view pattern, Pick pick) {
  KernelCall call;
  call.header = std::string(header);
  switch (DTypeBytes(dtype)) {
    case 1:
      call.name = Substitute(pattern, "{T}", "uint8_t");
      call.function = pick.template operator()<uint8_t>();
      break;
    case 2:
      call.name = Substitute(pattern, "{T}", "uint16_t");
      call.function = pick.template operator()<uint16_t>();
      break;
    case 4:
      call.name = Substitute(pattern, "{T}", "uint32_t");
      call.function = pick.template operator()<uint32_t>();
      break;
    default:
      call.name = Substitute(pattern, "{T}", "uint64_t");
      call.function = pick.template operator()<uint64_t>();
      break;
  }
  return call;
}

template <class Pick>
absl::StatusOr<KernelCall> WidthIndexCall(const NodeContext& node, DType dtype, DType index_dtype,
                                          std::string_view header, std::string_view pattern,
                                          Pick pick) {
  if (index_dtype == DType::kInt32) {
    return WidthCall(dtype, header, Substitute(pattern, "{I}", "int32_t"),
                     [&]<class T>() { return pick.template operator()<T, int32_t>(); });
  }
  if (index_dtype == DType::kInt64) {
    return WidthCall(dtype, header, Substitute(pattern, "{I}", "int64_t"),
                     [&]<class T>() { return pick.template operator()<T, int64_t>(); });
  }
  return node.Unsupported("indices must be int32 or int64");
}

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_DATA_MOVEMENT_H_
