// Depthwise convolutions as kernel calls, for every operator that is one.
#ifndef ONNX_MEMPLAN_OPS_DEPTHWISE_LOWERING_H_
#define ONNX_MEMPLAN_OPS_DEPTHWISE_LOWERING_H_

#include "ops/host_kernels.h"

#include "kernels/depthwise.h"
#include "ops/kernel_call.h"
#include "ops/node_context.h"
#include "ops/target.h"

namespace onnx_memplan {

// Appends the depthwise convolution of input 0 with `weights` to `lowering`, with the node's bias
// (input 2) and residual. Its scratch lies behind what `lowering` has already.
void AppendDepthwise(const NodeContext& node, const Target& target,
                     const kernels::DepthwiseParams& p, KernelArg weights, Lowering* lowering);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_DEPTHWISE_LOWERING_H_
