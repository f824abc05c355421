// Random blocks and the minimum extent by brute force, for tests of packers.
#ifndef ONNX_MEMPLAN_TESTS_PLAN_RANDOM_BLOCKS_H_
#define ONNX_MEMPLAN_TESTS_PLAN_RANDOM_BLOCKS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "plan/liveness.h"

namespace onnx_memplan {

struct RandomBlocksOptions {
  int32_t count = 6;
  int32_t steps = 6;
  int64_t max_bytes = 8;
  bool alignments = false;
  bool staircases = false;
  bool fixed = false;
};

inline int64_t Uniform(std::mt19937& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
}

inline Blocks RandomBlocks(std::mt19937& random, const RandomBlocksOptions& options) {
  std::vector<Block> blocks;
  std::vector<Window> windows;
  int64_t fixed_top = 0;
  for (int32_t b = 0; b < options.count; ++b) {
    Block block;
    block.first_step = static_cast<int32_t>(Uniform(random, 0, options.steps - 1));
    block.end_step = static_cast<int32_t>(Uniform(random, block.first_step + 1, options.steps));
    block.bytes = Uniform(random, 1, options.max_bytes);
    if (options.alignments) block.alignment = int64_t{1} << Uniform(random, 0, 3);
    if (options.fixed && Uniform(random, 0, 3) == 0) {
      // Fixed blocks above each other never conflict.
      block.fixed_offset = (fixed_top + block.alignment - 1) / block.alignment * block.alignment +
                           Uniform(random, 0, 1) * block.alignment;
      fixed_top = block.fixed_offset + block.bytes;
    }
    block.window_begin = static_cast<int32_t>(windows.size());
    if (options.staircases && block.duration() > 1 && Uniform(random, 0, 1) == 0) {
      const auto cut =
          static_cast<int32_t>(Uniform(random, block.first_step + 1, block.end_step - 1));
      const int64_t other = Uniform(random, 1, options.max_bytes);
      windows.push_back({block.first_step, cut, 0, block.bytes});
      // Sometimes nothing at all at the step of the cut: a gap.
      const bool gap = cut + 1 < block.end_step && Uniform(random, 0, 2) == 0;
      windows.push_back({cut + (gap ? 1 : 0), block.end_step, 0, other});
      block.bytes = std::max(block.bytes, other);
    } else {
      windows.push_back({block.first_step, block.end_step, 0, block.bytes});
    }
    block.window_end = static_cast<int32_t>(windows.size());
    fixed_top = std::max(fixed_top, block.is_fixed() ? block.fixed_offset + block.bytes : 0);
    blocks.push_back(block);
  }
  return BlocksFromList(options.steps, std::move(blocks), std::move(windows));
}

// Empty when the offsets are legal; else what is wrong. All pairs of windows, no sweep.
inline std::string OffsetsProblem(const Blocks& blocks, const std::vector<int64_t>& offsets) {
  if (offsets.size() != blocks.blocks.size()) return "wrong number of offsets";
  for (size_t a = 0; a < offsets.size(); ++a) {
    const Block& block = blocks.blocks[a];
    if (offsets[a] < 0 || offsets[a] % block.alignment != 0) return "misaligned";
    if (block.is_fixed() && offsets[a] != block.fixed_offset) return "fixed block moved";
    for (size_t b = 0; b < a; ++b) {
      for (const Window& x : blocks.windows_of(block)) {
        for (const Window& y : blocks.windows_of(blocks.blocks[b])) {
          if (x.first_step >= y.end_step || y.first_step >= x.end_step) continue;
          if (offsets[a] + x.low < offsets[b] + y.high &&
              offsets[b] + y.low < offsets[a] + x.high) {
            return "overlap of blocks " + std::to_string(a) + " and " + std::to_string(b);
          }
        }
      }
    }
  }
  return "";
}

// The smallest extent of all legal offsets: tries every byte for every block. Needs few and small
// blocks.
class BruteForcePacking {
 public:
  explicit BruteForcePacking(const Blocks& blocks)
      : blocks_(blocks), offsets_(blocks.blocks.size(), 0) {
    for (const Block& block : blocks.blocks) {
      best_ += block.bytes + block.alignment;
      if (block.is_fixed()) best_ += block.fixed_offset + block.bytes;
    }
    Extend(0, 0);
  }
  int64_t best_bytes() const { return best_; }

 private:
  bool Fits(size_t a) const {
    for (size_t b = 0; b < a; ++b) {
      for (const Window& x : blocks_.windows_of(blocks_.blocks[a])) {
        for (const Window& y : blocks_.windows_of(blocks_.blocks[b])) {
          if (x.first_step >= y.end_step || y.first_step >= x.end_step) continue;
          if (offsets_[a] + x.low < offsets_[b] + y.high &&
              offsets_[b] + y.low < offsets_[a] + x.high) {
            return false;
          }
        }
      }
    }
    return true;
  }
  void Extend(size_t a, int64_t extent) {
    if (extent >= best_) return;
    if (a == offsets_.size()) {
      best_ = extent;
      return;
    }
    const Block& block = blocks_.blocks[a];
    const int64_t first = block.is_fixed() ? block.fixed_offset : 0;
    for (int64_t offset = first; offset + block.bytes < best_; offset += block.alignment) {
      offsets_[a] = offset;
      if (Fits(a)) Extend(a + 1, std::max(extent, offset + block.bytes));
      if (block.is_fixed()) break;
    }
  }

  const Blocks& blocks_;
  std::vector<int64_t> offsets_;
  int64_t best_ = 0;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_TESTS_PLAN_RANDOM_BLOCKS_H_
