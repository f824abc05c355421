// Checks that gathering and scattering operators share.
#ifndef ONNX_MEMPLAN_OPS_INDEX_RULES_H_
#define ONNX_MEMPLAN_OPS_INDEX_RULES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "ops/node_context.h"

namespace onnx_memplan {

// Input `i` holds int32 or int64 indices of a dimension of `dim` elements. When its data is known,
// they are in [-dim, dim).
absl::Status CheckIndices(const NodeContext& node, int32_t i, int64_t dim);

// Inputs 0 and 1 are data and indices of GatherElements or ScatterElements: equal rank, attribute
// `axis` in range, no index dimension but that of the axis beyond the data's, indices in range.
absl::Status CheckElementIndices(const NodeContext& node);

// Input 1 is the index tuples of GatherND or ScatterND into data of shape `data`, behind `batch`
// common dimensions: int64, and in range where they are known.
absl::Status CheckTuples(const NodeContext& node, const Shape& data, size_t batch);

// The dimensions of `data` that tuples of `depth` indices behind `batch` dimensions name, and their
// strides. Unimplemented for more than the kernels take.
absl::Status IndexedDims(const NodeContext& node, const Shape& data, size_t batch, size_t depth,
                         int32_t (&dims)[8], int32_t (&strides)[8]);

// Constant input `i` as a shape, that of an operand that a gradient operator does not see;
// InvalidArgument for negative dimensions.
absl::StatusOr<Shape> ConstantShape(const NodeContext& node, int32_t i);

// Every input and output has a number of elements that kernels can count.
absl::Status CheckCounts(const NodeContext& node);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_INDEX_RULES_H_
