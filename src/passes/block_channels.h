// Chooses where images are kept in blocks of channels.
#ifndef ONNX_MEMPLAN_PASSES_BLOCK_CHANNELS_H_
#define ONNX_MEMPLAN_PASSES_BLOCK_CHANNELS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "passes/editor.h"

namespace onnx_memplan {

// A multiply-accumulate is some hundredth of a nanosecond, and blocks save a fraction of it; to
// convert an element takes about as long as this many of them.
inline constexpr int64_t kMacsPerConvertedElement = 64;

// Convolutions with known weights, and what lies between them, work on images in blocks of eight
// channels (ops/blocked.h) where that saves more than the conversions at the borders cost. The
// number of nodes that do.
absl::StatusOr<int64_t> BlockChannels(
    GraphEditor& editor, int64_t macs_per_converted_element = kMacsPerConvertedElement);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_BLOCK_CHANNELS_H_
