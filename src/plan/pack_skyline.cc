#include "plan/pack_skyline.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "plan/pack_fit.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t i) { return static_cast<size_t>(i); }

// The skyline: lines [first_step, end_step) at an offset, ordered by step and by (offset, step).
class Skyline {
 public:
  explicit Skyline(int32_t step_count) { Add(0, step_count, 0); }

  struct Line {
    int32_t first_step, end_step;
    int64_t offset;
  };

  Line Lowest() const {
    const auto& [offset, first] = *by_offset_.begin();
    return {first, lines_.at(first).end_step, offset};
  }

  // The line becomes as high as its lower neighbour and merges with it.
  void Lift(const Line& line) {
    const auto here = lines_.find(line.first_step);
    const auto right = std::next(here);
    const bool has_left = here != lines_.begin();
    const bool has_right = right != lines_.end();
    int64_t offset = std::numeric_limits<int64_t>::max();
    if (has_left) offset = std::min(offset, std::prev(here)->second.offset);
    if (has_right) offset = std::min(offset, right->second.offset);
    int32_t first = line.first_step, end = line.end_step;
    if (has_left && std::prev(here)->second.offset == offset) first = std::prev(here)->first;
    if (has_right && right->second.offset == offset) end = right->second.end_step;
    Remove(first, end);
    Add(first, end, offset);
  }

  // Raises [first_step, end_step), a part of `line`, to `top`; merges equal neighbours.
  void Raise(const Line& line, int32_t first_step, int32_t end_step, int64_t top) {
    Remove(line.first_step, line.end_step);
    if (line.first_step < first_step) Add(line.first_step, first_step, line.offset);
    if (end_step < line.end_step) Add(end_step, line.end_step, line.offset);
    const auto right = lines_.lower_bound(first_step);
    int32_t first = first_step, end = end_step;
    if (right != lines_.begin() && std::prev(right)->second.offset == top) {
      first = std::prev(right)->first;
    }
    if (right != lines_.end() && right->second.offset == top) end = right->second.end_step;
    Remove(first, first_step);
    Remove(end_step, end);
    Add(first, end, top);
  }

 private:
  struct Rest {
    int32_t end_step;
    int64_t offset;
  };
  void Add(int32_t first, int32_t end, int64_t offset) {
    lines_[first] = {end, offset};
    by_offset_.emplace(offset, first);
  }
  // Removes all lines that begin in [first, end).
  void Remove(int32_t first, int32_t end) {
    for (auto it = lines_.lower_bound(first); it != lines_.end() && it->first < end;) {
      by_offset_.erase({it->second.offset, it->first});
      it = lines_.erase(it);
    }
  }

  std::map<int32_t, Rest> lines_;  // by first step
  std::set<std::pair<int64_t, int32_t>> by_offset_;
};

// Unplaced blocks by first step: answers which of those inside [first, end) ranks highest. A tree
// over the blocks sorted by first step keeps the best rank and the smallest end of each subtree.
class Unplaced {
 public:
  Unplaced(const Blocks& blocks, const std::vector<int32_t>& rank_of) : blocks_(blocks) {
    sorted_.resize(blocks.blocks.size());
    std::iota(sorted_.begin(), sorted_.end(), 0);
    std::stable_sort(sorted_.begin(), sorted_.end(), [&](int32_t a, int32_t b) {
      return blocks.blocks[Index(a)].first_step < blocks.blocks[Index(b)].first_step;
    });
    while (leaves_ < sorted_.size()) leaves_ *= 2;
    nodes_.assign(2 * leaves_, kEmpty);
    for (size_t i = 0; i < sorted_.size(); ++i) {
      nodes_[leaves_ + i] = {rank_of[Index(sorted_[i])], blocks.blocks[Index(sorted_[i])].end_step};
    }
    for (size_t n = leaves_ - 1; n > 0; --n) Pull(n);
  }

  bool empty() const { return nodes_[1].rank == kEmpty.rank; }

  // Position of the block of the smallest rank number inside [first, end); -1 if there is none.
  int32_t Find(int32_t first, int32_t end) const {
    const auto begin = std::lower_bound(sorted_.begin(), sorted_.end(), first,
                                        [&](int32_t b, int32_t step) {
                                          return blocks_.blocks[Index(b)].first_step < step;
                                        }) -
                       sorted_.begin();
    const auto stop = std::lower_bound(sorted_.begin(), sorted_.end(), end,
                                       [&](int32_t b, int32_t step) {
                                         return blocks_.blocks[Index(b)].first_step < step;
                                       }) -
                      sorted_.begin();
    Best best;
    Search(1, 0, leaves_, static_cast<size_t>(begin), static_cast<size_t>(stop), end, best);
    return best.position;
  }
  int32_t block(int32_t position) const { return sorted_[Index(position)]; }
  void Remove(int32_t position) {
    size_t node = leaves_ + Index(position);
    nodes_[node] = kEmpty;
    for (node /= 2; node > 0; node /= 2) Pull(node);
  }

 private:
  struct Node {
    int32_t rank;     // smallest of the subtree
    int32_t min_end;  // smallest end_step of the subtree
  };
  struct Best {
    int32_t rank = std::numeric_limits<int32_t>::max();
    int32_t position = -1;
  };
  static constexpr Node kEmpty{std::numeric_limits<int32_t>::max(),
                               std::numeric_limits<int32_t>::max()};

  void Pull(size_t n) {
    nodes_[n] = {std::min(nodes_[2 * n].rank, nodes_[2 * n + 1].rank),
                 std::min(nodes_[2 * n].min_end, nodes_[2 * n + 1].min_end)};
  }
  void Search(size_t node, size_t begin, size_t end, size_t from, size_t to, int32_t end_step,
              Best& best) const {
    if (end <= from || to <= begin || nodes_[node].rank >= best.rank ||
        nodes_[node].min_end > end_step) {
      return;
    }
    if (end - begin == 1) {
      best = {nodes_[node].rank, static_cast<int32_t>(begin)};
      return;
    }
    const size_t middle = (begin + end) / 2;
    const bool left_first = nodes_[2 * node].rank <= nodes_[2 * node + 1].rank;
    if (left_first) Search(2 * node, begin, middle, from, to, end_step, best);
    Search(2 * node + 1, middle, end, from, to, end_step, best);
    if (!left_first) Search(2 * node, begin, middle, from, to, end_step, best);
  }

  const Blocks& blocks_;
  std::vector<int32_t> sorted_;
  size_t leaves_ = 1;
  std::vector<Node> nodes_;
};

std::vector<int32_t> OrderOf(const Blocks& blocks, SkylineKey key) {
  std::vector<int32_t> order =
      PlacementOrder(blocks, key == SkylineKey::kSize
                                 ? FitKey::kSize
                                 : (key == SkylineKey::kArea ? FitKey::kArea : FitKey::kDuration));
  return order;
}

}  // namespace

std::vector<int64_t> SkylineOffsets(const Blocks& blocks, SkylineKey key,
                                    const Deadline& deadline) {
  for (const Block& block : blocks.blocks) {
    if (block.is_fixed()) return {};
  }
  const std::vector<int32_t> order = OrderOf(blocks, key);
  std::vector<int32_t> rank_of(order.size());
  for (size_t i = 0; i < order.size(); ++i) rank_of[Index(order[i])] = static_cast<int32_t>(i);
  std::vector<int64_t> offsets(blocks.blocks.size(), 0);
  Unplaced unplaced(blocks, rank_of);
  Skyline skyline(blocks.step_count);
  for (int64_t rounds = 0; !unplaced.empty(); ++rounds) {
    if (rounds % 1024 == 0 && deadline.expired()) return {};
    const Skyline::Line line = skyline.Lowest();
    const int32_t position = unplaced.Find(line.first_step, line.end_step);
    if (position < 0) {
      skyline.Lift(line);
      continue;
    }
    const int32_t b = unplaced.block(position);
    const Block& block = blocks.blocks[Index(b)];
    const int64_t offset = (line.offset + block.alignment - 1) & ~(block.alignment - 1);
    offsets[Index(b)] = offset;
    skyline.Raise(line, block.first_step, block.end_step, offset + block.bytes);
    unplaced.Remove(position);
  }
  return offsets;
}

std::vector<int32_t> PyramidOrder(const Blocks& blocks) {
  std::vector<bool> stacked(blocks.blocks.size(), false);
  std::vector<int32_t> order;
  int32_t first = 0, end = blocks.step_count;
  for (int32_t b : PlacementOrder(blocks, FitKey::kDuration)) {
    // Sorted by duration, each block that fits is the longest that does.
    const Block& block = blocks.blocks[Index(b)];
    if (block.first_step < first || block.end_step > end) continue;
    first = block.first_step;
    end = block.end_step;
    stacked[Index(b)] = true;
    order.push_back(b);
  }
  for (int32_t b : PlacementOrder(blocks, FitKey::kSize)) {
    if (!stacked[Index(b)]) order.push_back(b);
  }
  return order;
}

}  // namespace onnx_memplan
