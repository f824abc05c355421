#include "plan/pack_fit.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "support/check.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t i) { return static_cast<size_t>(i); }

// Neighbour lists of more entries than this would cost more memory than they save time.
constexpr int64_t kMaxListEntries = 48'000'000;

int64_t AlignUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace

std::vector<int32_t> ConflictCounts(const Blocks& blocks) {
  std::vector<int32_t> starts(Index(blocks.step_count) + 2, 0), ends(starts);
  for (const Block& block : blocks.blocks) {
    ++starts[Index(block.first_step) + 1];
    ++ends[Index(block.end_step) + 1];
  }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<int32_t> counts;
  counts.reserve(blocks.blocks.size());
  for (const Block& block : blocks.blocks) {
    // Those that start before this one ends, less those that end before it starts, less itself.
    counts.push_back(starts[Index(block.end_step)] - ends[Index(block.first_step) + 1] - 1);
  }
  return counts;
}

std::vector<int64_t> PeakAlongBlocks(const Blocks& blocks) {
  std::vector<int64_t> live(Index(blocks.step_count) + 1, 0);
  for (const Window& window : blocks.windows) {
    live[Index(window.first_step)] += window.high - window.low;
    live[Index(window.end_step)] -= window.high - window.low;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  // Sparse table of maxima over 2^k steps.
  std::vector<std::vector<int64_t>> maxima{live};
  for (size_t width = 1; 2 * width <= live.size(); width *= 2) {
    const std::vector<int64_t>& last = maxima.back();
    std::vector<int64_t> next(last.size() - width);
    for (size_t i = 0; i < next.size(); ++i) next[i] = std::max(last[i], last[i + width]);
    maxima.push_back(std::move(next));
  }
  std::vector<int64_t> peaks;
  peaks.reserve(blocks.blocks.size());
  for (const Block& block : blocks.blocks) {
    size_t level = 0;
    while ((size_t{2} << level) <= Index(block.duration())) ++level;
    peaks.push_back(std::max(maxima[level][Index(block.first_step)],
                             maxima[level][Index(block.end_step) - (size_t{1} << level)]));
  }
  return peaks;
}

std::vector<int32_t> PlacementOrder(const Blocks& blocks, FitKey key) {
  using Rank = std::array<int64_t, 3>;
  const std::vector<int32_t> conflicts = ConflictCounts(blocks);
  const std::vector<int64_t> peaks =
      key == FitKey::kPeak ? PeakAlongBlocks(blocks) : std::vector<int64_t>();
  std::vector<Rank> ranks;
  ranks.reserve(blocks.blocks.size());
  for (size_t b = 0; b < blocks.blocks.size(); ++b) {
    const Block& block = blocks.blocks[b];
    const int64_t duration = block.lifetime_or_duration();
    const auto area = static_cast<int64_t>(
        std::min(9e18, static_cast<double>(block.bytes) * static_cast<double>(duration)));
    switch (key) {
      case FitKey::kSize:
        ranks.push_back({block.bytes, duration, conflicts[b]});
        break;
      case FitKey::kArea:
        ranks.push_back({area, block.bytes, 0});
        break;
      case FitKey::kDuration:
        ranks.push_back({duration, block.bytes, 0});
        break;
      case FitKey::kConflicts:
        ranks.push_back({conflicts[b], block.bytes, duration});
        break;
      case FitKey::kSizeConflicts:
        ranks.push_back({block.bytes, conflicts[b], duration});
        break;
      case FitKey::kStart:
        ranks.push_back({-block.first_step, 0, 0});
        break;
      case FitKey::kPeak:
        ranks.push_back({peaks[b], area, block.bytes});
        break;
    }
  }
  std::vector<int32_t> order(blocks.blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return ranks[Index(a)] > ranks[Index(b)]; });
  return order;
}

FitPlacer::FitPlacer(const Blocks& blocks) : blocks_(blocks) {
  const size_t count = blocks.blocks.size();
  by_start_.resize(count);
  position_.resize(count);
  std::iota(by_start_.begin(), by_start_.end(), 0);
  std::stable_sort(by_start_.begin(), by_start_.end(), [&](int32_t a, int32_t b) {
    return blocks.blocks[Index(a)].first_step < blocks.blocks[Index(b)].first_step;
  });
  for (size_t i = 0; i < count; ++i) position_[Index(by_start_[i])] = static_cast<int32_t>(i);
  int64_t entries = 0;
  for (int32_t conflicts : ConflictCounts(blocks)) entries += conflicts;
  has_lists_ = entries <= kMaxListEntries;
  if (has_lists_) {
    BuildLists();
  } else {
    while (leaf_count_ < count) leaf_count_ *= 2;
    placed_end_.assign(2 * leaf_count_, 0);
  }
}

void FitPlacer::BuildLists() {
  const size_t count = blocks_.blocks.size();
  const std::vector<int32_t> counts = ConflictCounts(blocks_);
  list_begin_.assign(count + 1, 0);
  for (size_t b = 0; b < count; ++b) list_begin_[b + 1] = list_begin_[b] + counts[b];
  lists_.resize(static_cast<size_t>(list_begin_[count]));
  std::vector<int64_t> fill(list_begin_.begin(), list_begin_.end() - 1);
  // Blocks live at the sweep's step; each new one is a neighbour of all of them.
  std::vector<int32_t> live;
  for (int32_t b : by_start_) {
    const int32_t step = blocks_.blocks[Index(b)].first_step;
    std::erase_if(live, [&](int32_t l) { return blocks_.blocks[Index(l)].end_step <= step; });
    for (int32_t l : live) {
      lists_[static_cast<size_t>(fill[Index(l)]++)] = b;
      lists_[static_cast<size_t>(fill[Index(b)]++)] = l;
    }
    live.push_back(b);
  }
}

std::span<const int32_t> FitPlacer::Neighbours(int32_t block) const {
  return {lists_.data() + list_begin_[Index(block)], lists_.data() + list_begin_[Index(block) + 1]};
}

void FitPlacer::Mark(int32_t block) {
  size_t node = leaf_count_ + Index(position_[Index(block)]);
  placed_end_[node] = blocks_.blocks[Index(block)].end_step;
  for (node /= 2; node > 0; node /= 2) {
    placed_end_[node] = std::max(placed_end_[2 * node], placed_end_[2 * node + 1]);
  }
}

void FitPlacer::Forbid(int32_t placed, int32_t block) {
  const Block& below = blocks_.blocks[Index(placed)];
  const Block& above = blocks_.blocks[Index(block)];
  const int64_t offset = offsets_[Index(placed)];
  if (below.is_rectangle() && above.is_rectangle()) {
    const Window& taken = blocks_.windows[Index(below.window_begin)];
    const Window& wanted = blocks_.windows[Index(above.window_begin)];
    forbidden_.emplace_back(offset + taken.low - wanted.high, offset + taken.high - wanted.low);
    return;
  }
  for (const Window& taken : blocks_.windows_of(below)) {
    for (const Window& wanted : blocks_.windows_of(above)) {
      if (taken.first_step >= wanted.end_step || wanted.first_step >= taken.end_step) continue;
      forbidden_.emplace_back(offset + taken.low - wanted.high, offset + taken.high - wanted.low);
    }
  }
}

void FitPlacer::ForbidTree(int32_t block, size_t node, size_t begin, size_t end) {
  const Block& wanted = blocks_.blocks[Index(block)];
  if (placed_end_[node] <= wanted.first_step || begin >= by_start_.size() ||
      blocks_.blocks[Index(by_start_[begin])].first_step >= wanted.end_step) {
    return;
  }
  if (end - begin == 1) {
    Forbid(by_start_[begin], block);
    return;
  }
  const size_t middle = (begin + end) / 2;
  ForbidTree(block, 2 * node, begin, middle);
  ForbidTree(block, 2 * node + 1, middle, end);
}

// An offset is legal unless it lies inside one of the open intervals. Sorted by their low ends, the
// room between the end of what is passed and the next low end is a gap.
int64_t FitPlacer::LowestFit(const Block& block, FitRule rule) {
  std::sort(forbidden_.begin(), forbidden_.end());
  int64_t candidate = 0;
  int64_t best = -1, best_room = std::numeric_limits<int64_t>::max();
  for (const auto& [low, high] : forbidden_) {
    if (candidate <= low) {
      if (rule == FitRule::kFirst) return candidate;
      if (low - candidate < best_room) best_room = low - candidate, best = candidate;
    }
    if (high > candidate) candidate = AlignUp(high, block.alignment);
  }
  return best >= 0 ? best : candidate;
}

std::vector<int64_t> FitPlacer::Place(std::span<const int32_t> order, FitRule rule,
                                      const Deadline* deadline, int64_t limit_bytes) {
  MEMPLAN_CHECK(order.size() == blocks_.blocks.size());
  offsets_.assign(order.size(), -1);
  std::fill(placed_end_.begin(), placed_end_.end(), 0);
  for (size_t b = 0; b < order.size(); ++b) {
    if (!blocks_.blocks[b].is_fixed()) continue;
    offsets_[b] = blocks_.blocks[b].fixed_offset;
    if (offsets_[b] + blocks_.blocks[b].bytes > limit_bytes) return {};
    if (!has_lists_) Mark(static_cast<int32_t>(b));
  }
  int64_t work = 0;
  for (int32_t b : order) {
    const Block& block = blocks_.blocks[Index(b)];
    if (block.is_fixed()) continue;
    constexpr int64_t kWorkBetweenChecks = 1'000'000;
    work += static_cast<int64_t>(forbidden_.size()) + 100;
    if (deadline != nullptr && work > kWorkBetweenChecks) {
      if (deadline->expired()) return {};
      work = 0;
    }
    forbidden_.clear();
    if (has_lists_) {
      for (int32_t other : Neighbours(b)) {
        if (offsets_[Index(other)] >= 0) Forbid(other, b);
      }
    } else {
      ForbidTree(b, 1, 0, leaf_count_);
    }
    const int64_t offset = LowestFit(block, rule);
    if (offset + block.bytes > limit_bytes) return {};
    offsets_[Index(b)] = offset;
    if (!has_lists_) Mark(b);
  }
  return offsets_;
}

}  // namespace onnx_memplan
