#include "plan/offset_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "plan/deep_stack.h"
#include "plan/pack_fit.h"
#include "plan/search_blocks.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t i) { return static_cast<size_t>(i); }

// T: of SearchBlocks.
template <typename T>
class Search : public OffsetSearch {
 public:
  Search(const Blocks& blocks, int64_t unit) : data_(blocks, unit) {}
  SearchResult Run(int64_t capacity_bytes, int64_t node_limit, const Deadline& deadline) override;
  void SetRanking(const Ranking& ranking) override;
  int64_t NextCapacity(int64_t capacity_bytes) const override {
    return (capacity_bytes / data_.unit + 1) * data_.unit;
  }

 private:
  enum class Outcome : uint8_t { kFound, kFailed, kStopped };

  struct Candidate {
    T offset;
    int32_t block;
  };
  struct Change {  // of low_[block]
    int32_t block;
    T old_low;
  };
  struct Mark {
    size_t changes, ranks, witnesses, placed;
  };
  // A set of unplaced blocks, queue_[begin, end), which no step connects to others, all to stand at
  // (offset, after rank `last_rank`) or later; sections [first_section, end_section).
  struct Part {
    int32_t begin, end;
    int32_t first_section, end_section;
    T offset;
    int32_t last_rank;
  };

  void Rank(int32_t begin, int32_t end);

  Outcome SolveSplit(const Part& part);
  Outcome Solve(const Part& part);
  void CollectCandidates(const Part& part);
  bool Place(const Candidate& candidate, bool& left_trace);
  bool FindWitness(int32_t section);
  void SetWitness(int32_t section, int32_t block);
  void AddToTotals(int32_t block, int sign);
  void Undo(const Mark& mark);
  void Dequeue(int32_t block, int32_t front);

  const SearchBlocks<T> data_;

  Ranking ranking_;
  std::vector<double> keys_;        // by block and key of ranking_
  std::vector<int32_t> sorted_;     // scratch of Rank
  std::vector<double> scores_;      // scratch of Rank
  std::vector<double> noise_;       // by block
  std::vector<int32_t> conflicts_;  // by block

  // State.
  T capacity_ = 0;
  std::vector<T> low_;  // of unplaced blocks: the lowest place; of placed ones: the offset
  std::vector<uint8_t> placed_;
  std::vector<T> total_;  // by section: bytes unplaced
  // By section: an unplaced block that can stand so low that all that is unplaced in the section
  // fits from there on; and the sections that each block is the witness of, as linked lists.
  std::vector<int32_t> witness_, next_watched_, previous_watched_, first_watched_;
  std::vector<std::pair<int32_t, int32_t>> old_witnesses_;  // (section, block)
  std::vector<int32_t> raised_;                             // blocks raised by the last Place
  std::vector<int32_t> crossing_;  // by section s > 0: unplaced blocks live in s - 1 and s
  std::vector<int32_t> queue_, queue_position_;
  std::vector<int32_t> rank_;                           // among the blocks of the same part
  std::vector<std::pair<int32_t, int32_t>> old_ranks_;  // (block, rank) before splits
  std::vector<Change> changes_;
  std::vector<int32_t> stack_;  // placed blocks, in order
  std::vector<Candidate> candidates_;
  int64_t nodes_ = 0, node_limit_ = 0;
  const Deadline* deadline_ = nullptr;
};

template <typename T>
void Search<T>::SetRanking(const Ranking& ranking) {
  ranking_ = ranking;
  keys_.clear();
  noise_.clear();
  if (conflicts_.empty()) conflicts_ = ConflictCounts(data_.source);
  const bool weighted = !ranking.weights.empty();
  std::mt19937_64 random(ranking.seed);
  for (int32_t b = 0; b < data_.count; ++b) {
    const Block& block = data_.source.blocks[Index(b)];
    const auto lifetime = static_cast<double>(block.lifetime_or_duration());
    for (const RankKey key : ranking_.keys) {
      double value = 0;  // kSectionTotal: changes as blocks are placed
      if (key == RankKey::kDuration) value = lifetime;
      if (key == RankKey::kSize) value = static_cast<double>(block.bytes);
      if (key == RankKey::kConflicts) value = conflicts_[Index(b)];
      if (key == RankKey::kArea) value = static_cast<double>(block.bytes) * lifetime;
      if (key == RankKey::kSections)
        value = data_.end_section[Index(b)] - data_.first_section[Index(b)];
      keys_.push_back(weighted ? std::log1p(value) : value);
    }
    // 53 random bits, the same on every machine.
    noise_.push_back(ranking.noise * static_cast<double>(random() >> 11) * 0x1p-53);
  }
}

// Ranks the blocks of queue_[begin, end) among each other.
template <typename T>
void Search<T>::Rank(int32_t begin, int32_t end) {
  const size_t width = ranking_.keys.size();
  const bool weighted = !ranking_.weights.empty();
  const auto total_key =
      std::find(ranking_.keys.begin(), ranking_.keys.end(), RankKey::kSectionTotal);
  if (total_key != ranking_.keys.end()) {
    const auto key = static_cast<size_t>(total_key - ranking_.keys.begin());
    for (int32_t q = begin; q < end; ++q) {
      const size_t b = Index(queue_[Index(q)]);
      const auto most = static_cast<double>(*std::max_element(
          total_.begin() + data_.first_section[b], total_.begin() + data_.end_section[b]));
      keys_[b * width + key] = weighted ? std::log1p(most) : most;
    }
  }
  sorted_.assign(queue_.begin() + begin, queue_.begin() + end);
  if (weighted) {
    scores_.resize(Index(data_.count));
    for (int32_t b : sorted_) {
      double score = noise_[Index(b)];
      for (size_t k = 0; k < width; ++k) score += ranking_.weights[k] * keys_[Index(b) * width + k];
      scores_[Index(b)] = score;
    }
    std::sort(sorted_.begin(), sorted_.end(), [&](int32_t a, int32_t b) {
      return scores_[Index(a)] != scores_[Index(b)] ? scores_[Index(a)] > scores_[Index(b)] : a < b;
    });
  } else {
    std::sort(sorted_.begin(), sorted_.end(), [&](int32_t a, int32_t b) {
      const double* x = keys_.data() + Index(a) * width;
      const double* y = keys_.data() + Index(b) * width;
      for (size_t k = 0; k < width; ++k) {
        if (x[k] != y[k]) return x[k] > y[k];
      }
      return a < b;
    });
  }
  for (size_t i = 0; i < sorted_.size(); ++i) {
    old_ranks_.emplace_back(sorted_[i], rank_[Index(sorted_[i])]);
    rank_[Index(sorted_[i])] = static_cast<int32_t>(i);
  }
}

template <typename T>
SearchResult Search<T>::Run(int64_t capacity_bytes, int64_t node_limit, const Deadline& deadline) {
  capacity_ = static_cast<T>(
      std::min<int64_t>(capacity_bytes / data_.unit, std::numeric_limits<T>::max() / 4));
  node_limit_ = node_limit;
  nodes_ = 0;
  deadline_ = &deadline;
  low_.assign(Index(data_.count), 0);
  placed_.assign(Index(data_.count), 0);
  total_.assign(Index(data_.sections.count()), 0);
  witness_.assign(Index(data_.sections.count()), -1);
  next_watched_.assign(Index(data_.sections.count()), -1);
  previous_watched_.assign(Index(data_.sections.count()), -1);
  first_watched_.assign(Index(data_.count), -1);
  crossing_.assign(Index(data_.sections.count()) + 1, 0);
  changes_.clear();
  stack_.clear();
  candidates_.clear();
  queue_.resize(Index(data_.count));
  std::iota(queue_.begin(), queue_.end(), 0);
  queue_position_ = queue_;
  rank_.assign(Index(data_.count), 0);
  old_ranks_.clear();
  old_witnesses_.clear();
  for (int32_t b = 0; b < data_.count; ++b) {
    if (data_.fixed[Index(b)] >= 0) low_[Index(b)] = data_.fixed[Index(b)];
    AddToTotals(b, 1);
  }
  SearchResult result;
  Outcome outcome = Outcome::kFailed;
  bool fits = true;
  for (int32_t s = 0; s < data_.sections.count() && fits; ++s) fits = FindWitness(s);
  for (int32_t b = 0; b < data_.count && fits; ++b)
    fits = low_[Index(b)] + data_.bytes[Index(b)] <= capacity_;
  if (fits) {
    Rank(0, data_.count);
    const Part all{.begin = 0,
                   .end = data_.count,
                   .first_section = 0,
                   .end_section = data_.sections.count(),
                   .offset = 0,
                   .last_rank = -1};
    // Two frames for each block on the way down: about 0.5 KiB, with sanitizers some KiB.
    constexpr size_t kFrameBytes = 8192;
    if (!RunOnDeepStack(kFrameBytes * Index(data_.count), [&] { outcome = SolveSplit(all); })) {
      outcome = Outcome::kStopped;
    }
  }
  result.nodes = nodes_;
  switch (outcome) {
    case Outcome::kStopped:
      break;
    case Outcome::kFailed:
      if (data_.exact_model) result.status = SearchStatus::kInfeasible;
      break;
    case Outcome::kFound:
      result.status = SearchStatus::kFound;
      result.offsets.resize(Index(data_.count));
      for (int32_t b = 0; b < data_.count; ++b) {
        result.offsets[Index(b)] = int64_t{low_[Index(b)]} * data_.unit;
      }
  }
  return result;
}

// Solves the parts that are no longer connected one after the other. A part that is solved stays
// so: whatever fails in another part cannot be its fault.
template <typename T>
typename Search<T>::Outcome Search<T>::SolveSplit(const Part& part) {
  if (part.begin == part.end) return Outcome::kFound;
  int32_t first = part.first_section;
  bool split = false;
  for (int32_t s = part.first_section + 1; s < part.end_section && !split; ++s) {
    split = crossing_[Index(s)] == 0;
  }
  if (!split) return Solve(part);
  std::sort(queue_.begin() + part.begin, queue_.begin() + part.end, [&](int32_t a, int32_t b) {
    return std::pair(data_.first_section[Index(a)], a) <
           std::pair(data_.first_section[Index(b)], b);
  });
  for (int32_t q = part.begin; q < part.end; ++q) queue_position_[Index(queue_[Index(q)])] = q;
  int32_t begin = part.begin;
  for (int32_t s = first + 1; s <= part.end_section; ++s) {
    if (s < part.end_section && crossing_[Index(s)] != 0) continue;
    int32_t end = begin;
    while (end < part.end && data_.first_section[Index(queue_[Index(end)])] < s) ++end;
    if (end > begin) {
      Rank(begin, end);
      const Outcome outcome = Solve({.begin = begin,
                                     .end = end,
                                     .first_section = first,
                                     .end_section = s,
                                     .offset = part.offset,
                                     .last_rank = -1});
      if (outcome != Outcome::kFound) return outcome;
    }
    begin = end;
    first = s;
  }
  return Outcome::kFound;
}

template <typename T>
typename Search<T>::Outcome Search<T>::Solve(const Part& part) {
  const size_t begin = candidates_.size();
  CollectCandidates(part);
  const size_t end = candidates_.size();
  Outcome outcome = Outcome::kFailed;
  for (size_t c = begin; c < end; ++c) {
    if (++nodes_ > node_limit_ || (nodes_ % 4096 == 0 && deadline_->expired())) {
      outcome = Outcome::kStopped;
      break;
    }
    const Candidate candidate = candidates_[c];
    const Mark mark{changes_.size(), old_ranks_.size(), old_witnesses_.size(), stack_.size()};
    const int32_t b = candidate.block;
    bool left_trace = false;
    bool ok = Place(candidate, left_trace);
    if (ok) {
      Dequeue(b, part.begin);
      const Outcome below = SolveSplit({.begin = part.begin + 1,
                                        .end = part.end,
                                        .first_section = part.first_section,
                                        .end_section = part.end_section,
                                        .offset = candidate.offset,
                                        .last_rank = rank_[Index(b)]});
      if (below != Outcome::kFailed) {
        outcome = below;
        break;
      }
    }
    Undo(mark);
    if (ok && !left_trace) break;
  }
  candidates_.resize(begin);
  return outcome;
}

template <typename T>
void Search<T>::CollectCandidates(const Part& part) {
  // All that is unplaced in the fullest section must fit above the candidate's offset.
  const T fullest =
      *std::max_element(total_.begin() + part.first_section, total_.begin() + part.end_section);
  T limit = static_cast<T>(capacity_ - fullest + 1);
  if (!data_.has_fixed) {  // else the hole may not be free
    for (int32_t q = part.begin; q < part.end; ++q) {
      const int32_t b = queue_[Index(q)];
      limit = std::min(limit, static_cast<T>(low_[Index(b)] + data_.bytes[Index(b)]));
    }
  }
  const size_t begin = candidates_.size();
  for (int32_t q = part.begin; q < part.end; ++q) {
    const int32_t b = queue_[Index(q)];
    const T offset = low_[Index(b)];
    if (offset >= limit || offset < part.offset) continue;
    if (offset == part.offset && rank_[Index(b)] < part.last_rank) continue;
    if (data_.twin[Index(b)] >= 0 && !placed_[Index(data_.twin[Index(b)])]) continue;
    candidates_.push_back({offset, b});
  }
  std::sort(candidates_.begin() + static_cast<std::ptrdiff_t>(begin), candidates_.end(),
            [&](const Candidate& x, const Candidate& y) {
              return x.offset != y.offset ? x.offset < y.offset
                                          : rank_[Index(x.block)] < rank_[Index(y.block)];
            });
}

// Adds the block's bytes to the totals of its sections (sign 1), or takes them away (sign -1).
template <typename T>
void Search<T>::AddToTotals(int32_t block, int sign) {
  const int32_t first = data_.first_section[Index(block)];
  const int32_t end = data_.end_section[Index(block)];
  if (data_.height_begin[Index(block)] < 0) {
    const T change = static_cast<T>(sign * data_.bytes[Index(block)]);
    for (int32_t s = first; s < end; ++s)
      total_[Index(s)] = static_cast<T>(total_[Index(s)] + change);
  } else {
    for (int32_t s = first; s < end; ++s) {
      total_[Index(s)] = static_cast<T>(total_[Index(s)] + sign * data_.Height(block, s));
    }
  }
  for (int32_t s = first + 1; s < end; ++s) crossing_[Index(s)] += sign;
}

// Places the candidate and raises what must lie above it. Returns false when something cannot fit
// any more; the caller undoes the placement in any case. left_trace: some block was raised.
template <typename T>
bool Search<T>::Place(const Candidate& candidate, bool& left_trace) {
  const int32_t b = candidate.block;
  const T offset = candidate.offset;
  placed_[Index(b)] = 1;
  stack_.push_back(b);
  AddToTotals(b, -1);
  raised_.clear();
  const bool varies = !data_.rises.empty();
  const T top = static_cast<T>(offset + data_.bytes[Index(b)]);
  const auto end = static_cast<size_t>(data_.neighbour_end[Index(b)]);
  for (auto n = static_cast<size_t>(data_.neighbour_begin[Index(b)]); n < end; ++n) {
    const int32_t other = data_.neighbours[n];
    T low = varies ? static_cast<T>(offset + data_.rises[n]) : top;
    if (low <= low_[Index(other)] || placed_[Index(other)]) continue;
    if (data_.has_alignment) {
      low = static_cast<T>((low + data_.alignment[Index(other)] - 1) &
                           ~(data_.alignment[Index(other)] - 1));
    }
    changes_.push_back({other, low_[Index(other)]});
    low_[Index(other)] = low;
    left_trace = true;
    if (low + data_.bytes[Index(other)] > capacity_ || data_.fixed[Index(other)] >= 0) return false;
    if (first_watched_[Index(other)] >= 0) raised_.push_back(other);
  }
  for (int32_t s = first_watched_[Index(b)]; s >= 0;) {
    const int32_t next = next_watched_[Index(s)];
    if (total_[Index(s)] > 0 && !FindWitness(s)) return false;
    s = next;
  }
  for (int32_t other : raised_) {
    for (int32_t s = first_watched_[Index(other)]; s >= 0;) {
      const int32_t next = next_watched_[Index(s)];
      if (low_[Index(other)] + total_[Index(s)] > capacity_ && !FindWitness(s)) return false;
      s = next;
    }
  }
  return true;
}

// Looks for the unplaced block of the section that can stand lowest. Returns false when even from
// there on the section's unplaced blocks do not fit.
template <typename T>
bool Search<T>::FindWitness(int32_t section) {
  T lowest = std::numeric_limits<T>::max();
  int32_t lowest_block = -1;
  const int32_t* const end = data_.section_blocks.data() + data_.section_begin[Index(section) + 1];
  for (const int32_t* b = data_.section_blocks.data() + data_.section_begin[Index(section)];
       b != end; ++b) {
    if (low_[Index(*b)] >= lowest || placed_[Index(*b)]) continue;
    lowest = low_[Index(*b)];
    lowest_block = *b;
  }
  if (lowest_block < 0) return true;
  if (lowest + total_[Index(section)] > capacity_) return false;
  old_witnesses_.emplace_back(section, witness_[Index(section)]);
  SetWitness(section, lowest_block);
  return true;
}

template <typename T>
void Search<T>::SetWitness(int32_t section, int32_t block) {
  const int32_t next = next_watched_[Index(section)];
  const int32_t previous = previous_watched_[Index(section)];
  if (next >= 0) previous_watched_[Index(next)] = previous;
  if (previous >= 0) {
    next_watched_[Index(previous)] = next;
  } else if (witness_[Index(section)] >= 0) {
    first_watched_[Index(witness_[Index(section)])] = next;
  }
  witness_[Index(section)] = block;
  previous_watched_[Index(section)] = -1;
  next_watched_[Index(section)] = -1;
  if (block < 0) return;
  const int32_t head = first_watched_[Index(block)];
  next_watched_[Index(section)] = head;
  if (head >= 0) previous_watched_[Index(head)] = section;
  first_watched_[Index(block)] = section;
}

template <typename T>
void Search<T>::Undo(const Mark& mark) {
  for (; changes_.size() > mark.changes; changes_.pop_back()) {
    low_[Index(changes_.back().block)] = changes_.back().old_low;
  }
  for (; old_ranks_.size() > mark.ranks; old_ranks_.pop_back()) {
    rank_[Index(old_ranks_.back().first)] = old_ranks_.back().second;
  }
  for (; old_witnesses_.size() > mark.witnesses; old_witnesses_.pop_back()) {
    SetWitness(old_witnesses_.back().first, old_witnesses_.back().second);
  }
  for (; stack_.size() > mark.placed; stack_.pop_back()) {
    placed_[Index(stack_.back())] = 0;
    AddToTotals(stack_.back(), 1);
  }
}

// Moves `block` to the front of its part's queue, so that the rest of the queue is unplaced.
template <typename T>
void Search<T>::Dequeue(int32_t block, int32_t front) {
  const int32_t position = queue_position_[Index(block)];
  const int32_t other = queue_[Index(front)];
  std::swap(queue_[Index(front)], queue_[Index(position)]);
  queue_position_[Index(block)] = front;
  queue_position_[Index(other)] = position;
}

}  // namespace

std::unique_ptr<OffsetSearch> MakeOffsetSearch(const Blocks& blocks, const Ranking& ranking) {
  int64_t unit = 0, total = 0;
  for (const Window& window : blocks.windows) unit = std::gcd(unit, window.high);
  for (const Block& block : blocks.blocks) {
    total += block.bytes;
    if (block.is_fixed()) unit = std::gcd(unit, block.fixed_offset);
    // An alignment that divides all sizes and offsets is kept for nothing; others bound the unit.
    if (unit % block.alignment != 0) unit = std::gcd(unit, block.alignment);
  }
  unit = std::max<int64_t>(unit, 1);
  if (total / unit < std::numeric_limits<int32_t>::max() / 4) {
    auto search = std::make_unique<Search<int32_t>>(blocks, unit);
    search->SetRanking(ranking);
    return search;
  }
  auto search = std::make_unique<Search<int64_t>>(blocks, unit);
  search->SetRanking(ranking);
  return search;
}

}  // namespace onnx_memplan
