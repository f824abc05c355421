// Values seen through the nodes that only move or choose elements.
#ifndef ONNX_MEMPLAN_PASSES_STRIDED_VIEW_H_
#define ONNX_MEMPLAN_PASSES_STRIDED_VIEW_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "passes/editor.h"

namespace onnx_memplan {

// A tensor of `sizes` whose element (i, j, ...) is element offset + i * strides[0] + j * strides[1]
// + ... of `value`.
struct StridedView {
  ValueId value = kNoValue;
  int64_t offset = 0;
  Shape sizes = {};
  std::vector<int64_t> strides = {};
};

// `v` as elements of the value that Reshape, Transpose, Slice, Split, and Gather of one index made
// it from, through as many of them as one view can express.
StridedView ViewOf(const GraphEditor& editor, ValueId v);

// All of `v` in its order.
StridedView WholeView(const GraphEditor& editor, ValueId v);

// The same elements in the same order in another shape; nullopt where strides cannot say that.
std::optional<StridedView> Reshaped(const StridedView& view, const Shape& sizes);

// Dimension i of the result is dimension perm[i] of `view`.
StridedView Permuted(const StridedView& view, const std::vector<int64_t>& perm);

// `view` repeated along new first dimensions, and along those of one element, as numpy broadcasts
// it; nullopt where `sizes` is no broadcast of its sizes.
std::optional<StridedView> BroadcastTo(const StridedView& view, const Shape& sizes);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_STRIDED_VIEW_H_
