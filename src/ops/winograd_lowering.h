// The variants of the Winograd convolution, and the choice among them.
#ifndef ONNX_MEMPLAN_OPS_WINOGRAD_LOWERING_H_
#define ONNX_MEMPLAN_OPS_WINOGRAD_LOWERING_H_

#include "ops/host_kernels.h"

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/blocked.h"
#include "ops/kernel_call.h"
#include "ops/node_context.h"
#include "ops/target.h"

namespace onnx_memplan {

// A kernel and how it is called: the template arguments of kernels::BlockedWinograd, and its
// group_tiles.
struct WinogradVariant {
  int32_t lanes = 0;
  int32_t rows = 0;
  int32_t columns = 0;
  int32_t tile = 0;
  int32_t group_tiles = 0;  // a multiple of rows

  int32_t panel_channels() const { return lanes * columns; }
};

// All kernels; group_tiles 0.
std::span<const WinogradVariant> WinogradVariants();

// Whether `p` is a convolution that these kernels can do on `target`.
bool IsWinogradConv(const Target& target, const kernels::BlockedConvParams& p);

// The variant for `p` that costs least within `budget_bytes` of scratch; nullopt where a direct
// convolution is better, or there is no room.
std::optional<WinogradVariant> ChooseWinograd(const Target& target,
                                              const kernels::BlockedConvParams& p,
                                              int64_t budget_bytes);

// BlockedConv `node` by `variant`. Its weights are constant, and IsWinogradConv(p).
Lowering LowerWinogradVariant(const NodeContext& node, const kernels::BlockedConvParams& p,
                              const WinogradVariant& variant);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_WINOGRAD_LOWERING_H_
