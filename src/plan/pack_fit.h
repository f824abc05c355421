// First-fit and best-fit: blocks are placed one after the other, each into a gap between those that
// already stand in its steps. All the skill is in the order of placement.
#ifndef ONNX_MEMPLAN_PLAN_PACK_FIT_H_
#define ONNX_MEMPLAN_PLAN_PACK_FIT_H_

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "plan/liveness.h"
#include "plan/packer.h"

namespace onnx_memplan {

// What sorts blocks for placement, largest first; ties by the other measures, then by index.
enum class FitKey {
  kSize,           // bytes, then duration
  kArea,           // bytes x duration
  kDuration,       // duration, then bytes
  kConflicts,      // number of blocks that share a step, then bytes
  kSizeConflicts,  // bytes, then number of conflicts
  kStart,          // first step: online allocation, earliest first
  kPeak,           // most bytes live in any of its steps, then bytes x duration
};

enum class FitRule {
  kFirst,  // the lowest gap
  kBest,   // the gap that leaves the least room; the open top only when no gap fits
};

// Block indices in the order of `key`.
std::vector<int32_t> PlacementOrder(const Blocks& blocks, FitKey key);

// For each block, the most bytes live in any of its steps.
std::vector<int64_t> PeakAlongBlocks(const Blocks& blocks);

// For each block, the number of other blocks whose [first_step, end_step) meets its own.
std::vector<int32_t> ConflictCounts(const Blocks& blocks);

// Places blocks one by one. Finds the placed blocks that share a step through a tree over the
// blocks sorted by first step, so that memory is linear in the number of blocks, or, when they have
// few overlapping pairs, through lists of neighbours.
class FitPlacer {
 public:
  explicit FitPlacer(const Blocks& blocks);

  // Offsets of all blocks when placed in `order` (a permutation; fixed blocks are placed first in
  // any case). Gives up and returns an empty vector as soon as a block passes `limit_bytes`, or
  // when `deadline` (may be null) expires.
  std::vector<int64_t> Place(std::span<const int32_t> order, FitRule rule,
                             const Deadline* deadline = nullptr,
                             int64_t limit_bytes = std::numeric_limits<int64_t>::max());
  // The blocks that share a step with `block`, in no particular order; only with neighbour lists.
  std::span<const int32_t> Neighbours(int32_t block) const;
  bool has_neighbour_lists() const { return has_lists_; }

 private:
  void BuildLists();
  void Mark(int32_t block);
  void ForbidTree(int32_t block, size_t node, size_t begin, size_t end);
  void Forbid(int32_t placed, int32_t block);
  int64_t LowestFit(const Block& block, FitRule rule);

  const Blocks& blocks_;
  std::vector<int32_t> by_start_;    // block indices sorted by first_step
  std::vector<int32_t> position_;    // inverse of by_start_
  size_t leaf_count_ = 1;            // power of two
  std::vector<int32_t> placed_end_;  // tree: largest end_step of placed blocks below; 0: none
  bool has_lists_ = false;
  std::vector<int64_t> list_begin_;
  std::vector<int32_t> lists_;
  std::vector<int64_t> offsets_;  // -1: not placed
  // Open intervals that the offset of the block at hand must not lie in.
  std::vector<std::pair<int64_t, int64_t>> forbidden_;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_PACK_FIT_H_
