// Skyline packers: offsets from the bottom up, no block ever under a placed one.
#ifndef ONNX_MEMPLAN_PLAN_PACK_SKYLINE_H_
#define ONNX_MEMPLAN_PLAN_PACK_SKYLINE_H_

#include <cstdint>
#include <vector>

#include "plan/liveness.h"
#include "plan/packer.h"

namespace onnx_memplan {

// Which of the blocks that fit a line is placed on it.
enum class SkylineKey { kDuration, kSize, kArea };

// The best-fit heuristic of Sekiyama et al. (arXiv 1804.10001, after Burke et al. 2004): take the
// lowest, leftmost line of the skyline; place on it the block of the largest key whose lifetime
// fits into the line; when none fits, lift the line to its lower neighbour. Blocks that are no
// rectangles count as their bounding boxes. O(n^2) in the worst case. Empty when blocks are fixed,
// or when `deadline` expires.
std::vector<int64_t> SkylineOffsets(const Blocks& blocks, SkylineKey key, const Deadline& deadline);

// OLLA's pre-placement (arXiv 2210.12924): stack the block of the longest lifetime, on it the one
// of the longest lifetime within the lifetime of that, and so on; the remaining blocks follow by
// size, first-fit. Good for training, where what is born first dies last. The order of placement.
std::vector<int32_t> PyramidOrder(const Blocks& blocks);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_PACK_SKYLINE_H_
