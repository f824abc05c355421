// What the lowerings of windows fused into convolutions share.
#ifndef ONNX_MEMPLAN_OPS_BLOCKED_CONV_WINDOW_H_
#define ONNX_MEMPLAN_OPS_BLOCKED_CONV_WINDOW_H_

#include "ops/host_kernels.h"

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/blocked_conv_window.h"
#include "ops/blocked_direct.h"
#include "ops/epilogue.h"
#include "ops/node_context.h"
#include "ops/spatial.h"

namespace onnx_memplan {

// The image that the windows see, blocked, and the windows.
struct ConvWindowShape {
  Shape conv;
  SlidingWindow window;
};

// Windows of `taps` (empty: attribute window_kernel_shape) over an image of blocked shape `conv`,
// by the node's attributes that begin with "window_".
absl::StatusOr<ConvWindowShape> ReadWindowOver(const NodeContext& node, Shape conv,
                                               std::vector<int64_t> taps);
// The same over the result of the convolution that inputs 0 to 2 and attributes make.
absl::StatusOr<ConvWindowShape> ReadConvWindow(const NodeContext& node, std::vector<int64_t> taps);
// Taps of the depthwise weights that are input `i`, of `channels`, with an optional bias behind.
absl::StatusOr<std::vector<int64_t>> ReadDepthwiseTaps(const NodeContext& node, int32_t i,
                                                       int64_t channels);

absl::StatusOr<kernels::BlockedConvWindowParams> MakeWindowParams(
    const NodeContext& node, const kernels::BlockedConvParams& conv, const ConvWindowShape& shape);
void SetWindowActivation(const Epilogue& epilogue, kernels::BlockedConvWindowParams* p);

// The epilogue in the attributes PREFIX_activation, PREFIX_alpha, PREFIX_beta.
Epilogue EpilogueOf(const NodeContext& node, const std::string& prefix);

// The constants of the depthwise kernel that is input `i`, with an optional bias behind.
// Unimplemented unless both are constant.
absl::StatusOr<Tensor> PackDepthwiseInput(const NodeContext& node, int32_t i);

// The template arguments for convolutions of plain images, and of blocked ones of one tap.
inline constexpr DirectAccess kWindowAccesses[] = {
    {8, kernels::kDirectPointwise},
    {0, kernels::kDirectPlanes},
    {1, kernels::kDirectPlanes},
    {2, kernels::kDirectPlanes},
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_BLOCKED_CONV_WINDOW_H_
