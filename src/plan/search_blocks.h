// What the exact search for offsets knows of its blocks, once and for all capacities.
#ifndef ONNX_MEMPLAN_PLAN_SEARCH_BLOCKS_H_
#define ONNX_MEMPLAN_PLAN_SEARCH_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/liveness.h"
#include "plan/sections.h"

namespace onnx_memplan {

// Blocks as arrays, one entry for each block, sizes and offsets in units of `unit` bytes. T:
// int32_t when all sizes together fit with room to spare, else int64_t.
template <typename T>
struct SearchBlocks {
  // `blocks` must outlive it.
  SearchBlocks(const Blocks& blocks, int64_t unit_bytes);

  // Bytes in one of the block's sections; 0 in a gap.
  T Height(int32_t block, int32_t section) const {
    const auto b = static_cast<size_t>(block);
    if (height_begin[b] < 0) return bytes[b];
    return heights[static_cast<size_t>(height_begin[b] + (section - first_section[b]))];
  }

  const Blocks& source;
  const Sections sections;
  const int64_t unit;
  int32_t count = 0;
  // False: some window does not begin at 0 and was taken for a larger one that does.
  bool exact_model = true;
  bool has_fixed = false;
  bool has_alignment = false;

  std::vector<T> bytes, alignment;
  std::vector<T> fixed;  // offset, or -1
  std::vector<int32_t> first_section, end_section;
  // Blocks that share a step: of block b, the entries from neighbour_begin[b] to neighbour_end[b].
  std::vector<int64_t> neighbour_begin, neighbour_end;
  std::vector<int32_t> neighbours;
  // How far above the offset of b its neighbour must at least be when it lies above; empty when all
  // blocks are rectangles, which gives the bytes of b.
  std::vector<T> rises;
  std::vector<int32_t> twin;  // the previous block of equal lifetime and size, or -1
  // Height in each section, at height_begin[b] + (section - first_section); only of blocks that are
  // no rectangles, height_begin is -1 for the others.
  std::vector<int64_t> height_begin;
  std::vector<T> heights;
  // The blocks of section s: section_blocks[section_begin[s], section_begin[s + 1]).
  std::vector<int64_t> section_begin;
  std::vector<int32_t> section_blocks;

 private:
  void AddBlocks();
  void AddHeights(int32_t block);
  void AddSectionBlocks();
  void AddNeighbours();
  void AddTwins();
};

extern template struct SearchBlocks<int32_t>;
extern template struct SearchBlocks<int64_t>;

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_SEARCH_BLOCKS_H_
