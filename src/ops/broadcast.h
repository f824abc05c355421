// Loop nests over operands with numpy broadcasting.
#ifndef ONNX_MEMPLAN_OPS_BROADCAST_H_
#define ONNX_MEMPLAN_OPS_BROADCAST_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/kernel_call.h"
#include "ops/node_context.h"
#include "ops/op_def.h"
#include "ops/type_lists.h"

namespace onnx_memplan {

// A loop nest over a contiguous tensor, outermost dimension first, that steps operands along.
// Strides in elements, 0 where the operand is broadcast; those of the last dimension are 0 or 1.
struct BroadcastLoops {
  std::vector<int64_t> dims;                  // at least one
  std::vector<std::vector<int64_t>> strides;  // by operand, then dimension
};

// The loops over `output` with operands of shapes `operands`, each of which broadcasts to it.
// Dimensions of extent 1 are dropped, neighbours that all operands step through alike are merged.
BroadcastLoops CollapseBroadcast(const Shape& output, std::span<const Shape> operands);

// `values` as a kernel's array; the rest of `out` is 0. Unimplemented for more than
// kernels::kMaxRank values, or for one that does not fit in 32 bits.
absl::Status ToKernelDims(const NodeContext& node, const std::vector<int64_t>& values,
                          int32_t (&out)[8]);

// The broadcast of all the node's input shapes; InvalidArgument when they do not agree.
absl::StatusOr<Shape> BroadcastInputs(const NodeContext& node);

// A broadcast of inputs that all have one element type.
absl::StatusOr<std::vector<TensorType>> InferSameTypeBroadcast(const NodeContext& node);
// The same with bool as the result's type.
absl::StatusOr<std::vector<TensorType>> InferComparison(const NodeContext& node);

// In-place offers of each input as large as the output: broadcast kernels read an element of every
// operand before they write it. Not for kernels that read an operand after the first pass.
std::vector<Alias> InPlaceUnbroadcast(const NodeContext& node);

// `call`, of a Binary kernel, over operands `a` and `b` of these shapes, into `y` of shape
// `output`.
absl::StatusOr<KernelCall> BinaryCall(const NodeContext& node, KernelCall call, const Shape& output,
                                      KernelArg a, const Shape& a_shape, KernelArg b,
                                      const Shape& b_shape, KernelArg y);

// The lowering of a node that is one such call over its inputs 0 and 1.
absl::StatusOr<Lowering> OneBinaryCall(const NodeContext& node, absl::StatusOr<KernelCall> call);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_BROADCAST_H_
