// Chooses where images are kept in blocks of channels.
#ifndef ONNX_MEMPLAN_PASSES_BLOCK_CHANNELS_H_
#define ONNX_MEMPLAN_PASSES_BLOCK_CHANNELS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "passes/editor.h"

namespace onnx_memplan {

// Convolutions with known weights, and what lies between them, work on images in blocks of eight
// channels (ops/blocked.h) where that saves more than the conversions at the borders cost. The
// number of nodes that do.
absl::StatusOr<int64_t> BlockChannels(GraphEditor& editor);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_BLOCK_CHANNELS_H_
