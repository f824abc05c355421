// Winograd convolution over images in blocks of channels.
#include "ops/host_kernels.h"

#include "ops/blocked.h"

namespace onnx_memplan {

std::optional<Lowering> LowerBlockedWinograd(const NodeContext&, const Target&,
                                             const kernels::BlockedConvParams&) {
  return std::nullopt;
}

}  // namespace onnx_memplan
