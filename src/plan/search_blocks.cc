#include "plan/search_blocks.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>

#include "plan/pack_fit.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

template <typename T>
SearchBlocks<T>::SearchBlocks(const Blocks& blocks, int64_t unit_bytes)
    : source(blocks),
      sections(blocks),
      unit(unit_bytes),
      count(static_cast<int32_t>(blocks.blocks.size())) {
  AddBlocks();
  AddSectionBlocks();
  AddNeighbours();
  AddTwins();
}

template <typename T>
void SearchBlocks<T>::AddBlocks() {
  for (int32_t b = 0; b < count; ++b) {
    const Block& block = source.blocks[Index(b)];
    bytes.push_back(static_cast<T>(block.bytes / unit));
    alignment.push_back(static_cast<T>(std::max<int64_t>(1, block.alignment / unit)));
    fixed.push_back(block.is_fixed() ? static_cast<T>(block.fixed_offset / unit) : T{-1});
    has_fixed = has_fixed || block.is_fixed();
    has_alignment = has_alignment || alignment.back() > 1;
    first_section.push_back(sections.AtOrAfter(block.first_step));
    end_section.push_back(sections.AtOrAfter(block.end_step));
    AddHeights(b);
  }
}

template <typename T>
void SearchBlocks<T>::AddHeights(int32_t block) {
  const std::span<const Window> windows = source.windows_of(source.blocks[Index(block)]);
  if (windows.size() == 1 && windows[0].low == 0) {
    height_begin.push_back(-1);
    return;
  }
  const size_t begin = heights.size();
  const int32_t first = first_section[Index(block)];
  height_begin.push_back(static_cast<int64_t>(begin));
  heights.resize(begin + Index(end_section[Index(block)] - first), 0);
  for (const Window& window : windows) {
    exact_model = exact_model && window.low == 0;
    const int32_t end = sections.AtOrAfter(window.end_step);
    for (int32_t s = sections.AtOrAfter(window.first_step); s < end; ++s) {
      heights[begin + Index(s - first)] = static_cast<T>(window.high / unit);
    }
  }
}

template <typename T>
void SearchBlocks<T>::AddSectionBlocks() {
  section_begin.assign(Index(sections.count()) + 1, 0);
  for (int32_t b = 0; b < count; ++b) {
    for (int32_t s = first_section[Index(b)]; s < end_section[Index(b)]; ++s) {
      ++section_begin[Index(s) + 1];
    }
  }
  std::partial_sum(section_begin.begin(), section_begin.end(), section_begin.begin());
  section_blocks.resize(static_cast<size_t>(section_begin.back()));
  std::vector<int64_t> next = section_begin;
  for (int32_t b = 0; b < count; ++b) {
    for (int32_t s = first_section[Index(b)]; s < end_section[Index(b)]; ++s) {
      section_blocks[static_cast<size_t>(next[Index(s)]++)] = b;
    }
  }
}

template <typename T>
void SearchBlocks<T>::AddNeighbours() {
  const std::vector<int32_t> counts = ConflictCounts(source);
  neighbour_begin.assign(Index(count) + 1, 0);
  for (size_t b = 0; b < counts.size(); ++b)
    neighbour_begin[b + 1] = neighbour_begin[b] + counts[b];
  neighbours.resize(static_cast<size_t>(neighbour_begin.back()));
  neighbour_end.assign(neighbour_begin.begin(), neighbour_begin.end() - 1);
  const bool all_rectangles = heights.empty();
  if (!all_rectangles) rises.resize(neighbours.size());
  const auto add = [&](int32_t b, int32_t other, T rise) {
    const auto at = static_cast<size_t>(neighbour_end[Index(b)]++);
    neighbours[at] = other;
    if (!all_rectangles) rises[at] = rise;
  };
  std::vector<int32_t> by_start(Index(count));
  std::iota(by_start.begin(), by_start.end(), 0);
  std::stable_sort(by_start.begin(), by_start.end(), [&](int32_t a, int32_t b) {
    return first_section[Index(a)] < first_section[Index(b)];
  });
  std::vector<int32_t> live;
  for (int32_t b : by_start) {
    const int32_t first = first_section[Index(b)];
    std::erase_if(live, [&](int32_t l) { return end_section[Index(l)] <= first; });
    for (int32_t other : live) {
      T rise_b = bytes[Index(b)], rise_other = bytes[Index(other)];  // of the one that lies below
      if (height_begin[Index(b)] >= 0 || height_begin[Index(other)] >= 0) {
        rise_b = rise_other = 0;
        const int32_t end = std::min(end_section[Index(b)], end_section[Index(other)]);
        for (int32_t s = first; s < end; ++s) {
          const T hb = Height(b, s);
          const T ho = Height(other, s);
          if (hb == 0 || ho == 0) continue;
          rise_b = std::max(rise_b, hb);
          rise_other = std::max(rise_other, ho);
        }
        if (rise_b == 0) continue;  // one is in a gap of the other
      }
      add(b, other, rise_b);
      add(other, b, rise_other);
    }
    live.push_back(b);
  }
}

template <typename T>
void SearchBlocks<T>::AddTwins() {
  twin.assign(Index(count), -1);
  const auto shape = [&](int32_t b) {
    return std::tuple(first_section[Index(b)], end_section[Index(b)], bytes[Index(b)],
                      alignment[Index(b)]);
  };
  std::vector<int32_t> order;
  for (int32_t b = 0; b < count; ++b) {
    if (fixed[Index(b)] < 0 && source.blocks[Index(b)].is_rectangle()) {
      order.push_back(b);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return shape(a) < shape(b); });
  for (size_t i = 1; i < order.size(); ++i) {
    if (shape(order[i - 1]) == shape(order[i])) twin[Index(order[i])] = order[i - 1];
  }
}

template struct SearchBlocks<int32_t>;
template struct SearchBlocks<int64_t>;

}  // namespace onnx_memplan
