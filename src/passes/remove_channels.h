// Channels that need not be computed.
#ifndef ONNX_MEMPLAN_PASSES_REMOVE_CHANNELS_H_
#define ONNX_MEMPLAN_PASSES_REMOVE_CHANNELS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// Removes the channels of Conv and Gemm that have the same known value in every element, whatever
// the inputs are (all their weights are zero, as pruning leaves them, or so near to it that they
// can never change the bias, as weight decay does), and those that nothing reads with a weight
// other than zero. A known value goes into the consumers' biases where that is exact: it is 0, or
// nothing is padded. Both are followed through activations, pools, depthwise Conv,
// BatchNormalization, Concat, flattening, and arithmetic of two tensors.
//
// Images keep a multiple of `channel_multiple` channels where they had one. Graph inputs and
// outputs stay as they are. The number of channels that went, each counted once for all the values
// that it goes through.
absl::StatusOr<int64_t> RemoveChannels(int32_t channel_multiple, Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_REMOVE_CHANNELS_H_
