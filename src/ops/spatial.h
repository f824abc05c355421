// Windows that slide over the spatial axes of a tensor: what convolutions and pools share.
#ifndef ONNX_MEMPLAN_OPS_SPATIAL_H_
#define ONNX_MEMPLAN_OPS_SPATIAL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/node_context.h"

namespace onnx_memplan {

// By spatial axis, outermost first.
struct SlidingWindow {
  std::vector<int64_t> in_size;
  std::vector<int64_t> out_size;
  std::vector<int64_t> taps;  // the kernel's size
  std::vector<int64_t> stride;
  std::vector<int64_t> dilation;
  std::vector<int64_t> padding_begin;
  std::vector<int64_t> padding_end;
};

// The window of `node`, whose input 0 is [batch][channels][in_size...], from the attributes
// strides, dilations, pads, auto_pad and ceil_mode. InvalidArgument for attributes that do not fit,
// and when the window is larger than the padded input.
absl::StatusOr<SlidingWindow> ReadSlidingWindow(const NodeContext& node,
                                                const std::vector<int64_t>& taps);
// The same over a tensor of shape `shape` that is not input 0.
absl::StatusOr<SlidingWindow> ReadSlidingWindow(const NodeContext& node, const Shape& shape,
                                                const std::vector<int64_t>& taps);

// Attribute `name` with one value for each of `axes` spatial axes; all default_value when absent.
// InvalidArgument for another count, or a value below `minimum`.
absl::StatusOr<std::vector<int64_t>> SpatialAttribute(const NodeContext& node,
                                                      std::string_view name, size_t axes,
                                                      int64_t default_value, int64_t minimum);

// The last values of three axes as kernel parameters, missing ones in front filled with `filler`.
// Unimplemented for more than three axes or a value that does not fit.
absl::Status ToThreeAxes(const NodeContext& node, const std::vector<int64_t>& values,
                         int32_t filler, int32_t (&axes)[3]);

// Unimplemented unless every input and output of `node` has fewer than 2^31 elements, which is
// what kernels can count.
absl::Status CheckCountable(const NodeContext& node);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_SPATIAL_H_
