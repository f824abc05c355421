// Operators on images in blocks of channels ([batch][channels / 8][height][width][8], see
// kernels/blocked.h), domain kMemplan: what the layout pass makes of ONNX's.
//
// The shapes are real five-dimensional shapes with the padding of the last block, so elementwise
// operators, Concat and Split along the block axis, and the planner need to know nothing of it.
#ifndef ONNX_MEMPLAN_OPS_BLOCKED_H_
#define ONNX_MEMPLAN_OPS_BLOCKED_H_

#include "ops/host_kernels.h"

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/blocked.h"
#include "ops/gemm_lowering.h"
#include "ops/node_context.h"
#include "ops/op_def.h"

namespace onnx_memplan {

// The blocked shape of an image [batch, channels, height, width].
Shape BlockedShape(const Shape& image);
// Whether `shape` is blocked: rank 5 with a last axis of kChannelBlock.
bool IsBlockedShape(const Shape& shape);

// The parameters of the convolution that `node` does: X, W, bias as inputs 0 to 2, the attributes
// of Conv. Only after inference.
absl::StatusOr<kernels::BlockedConvParams> ReadBlockedConv(const NodeContext& node);

// The variants of BlockedConv. Each gives nullopt where it does not apply or is not the fastest on
// `target`; `p` has the epilogue `fused` set already. Inputs: X, W (OIHW, constant), bias,
// residual.
std::optional<Lowering> LowerBlockedDirect(const NodeContext& node, const Target& target,
                                           const kernels::BlockedConvParams& p);
std::optional<Lowering> LowerBlockedWinograd(const NodeContext& node, const Target& target,
                                             const kernels::BlockedConvParams& p);
std::optional<Lowering> LowerBlockedDepthwise(const NodeContext& node, const Target& target,
                                              const kernels::BlockedConvParams& p);

// Copies what the parameters of convolutions have in common.
template <class Params>
void SetConvolution(const kernels::BlockedConvParams& conv, Params* p) {
  p->batch = conv.batch;
  p->in_channels = conv.in_channels;
  for (int i = 0; i < 2; ++i) {
    p->in_size[i] = conv.in_size[i];
    p->taps[i] = conv.taps[i];
    p->stride[i] = conv.stride[i];
    p->dilation[i] = conv.dilation[i];
    p->padding[i] = conv.padding[i];
  }
}
// The same of their epilogues.
template <class Params>
void SetActivation(const kernels::BlockedConvParams& conv, Params* p) {
  p->clamps = conv.clamps;
  p->activation = conv.activation;
  p->lowest = conv.lowest;
  p->highest = conv.highest;
  p->alpha = conv.alpha;
  p->beta = conv.beta;
}

// The constants of a depthwise kernel of weights [channels][taps]: for each block of channels its
// bias (0: none), then each of its taps.
Tensor PackBlockedDepthwise(int64_t channels, std::span<const float> weights,
                            std::span<const float> bias);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_BLOCKED_H_
