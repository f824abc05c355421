// The taps of Winograd convolutions, transformed while generating.
#ifndef ONNX_MEMPLAN_OPS_WINOGRAD_WEIGHTS_H_
#define ONNX_MEMPLAN_OPS_WINOGRAD_WEIGHTS_H_

#include <cstdint>
#include <span>

#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

// Weights [out_channels][in_channels][3][3] as G g G^T, computed in double, in the order in which
// kernels::BlockedWinograd with tiles of `tile` (2 or 4) outputs squared reads them:
// [panels][(tile + 2)^2][in_channels, padded to blocks][panel_channels]. The last panel has as many
// vectors of `lanes` output channels as it needs; padding is zero.
Tensor PackWinogradWeights(std::span<const float> weights, int64_t out_channels,
                           int64_t in_channels, int32_t tile, int32_t lanes,
                           int32_t panel_channels);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_WINOGRAD_WEIGHTS_H_
