// A set of small integers that finds its greatest member up to a limit in a few word operations.
//
// A tree of bits, 64 children to a word: bit i of a level says whether word i of the level below
// has a member. Every operation touches at most one word in each level on the way up and one on
// the way down: 3 levels hold 262,144 slots, 5 hold a billion.
#ifndef ONNX_MEMPLAN_SRC_PROFILE_SLOT_SET_H_
#define ONNX_MEMPLAN_SRC_PROFILE_SLOT_SET_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "profile/mapped_array.h"

namespace onnx_memplan::profile {

class SlotSet {
 public:
  // An empty set for the members [0, capacity); capacity < 2^31. False when there is no memory.
  bool Init(size_t capacity) {
    size_t words = 0;
    level_count_ = 0;
    do {
      capacity = (capacity + 63) / 64;
      level_start_[level_count_++] = words;
      words += capacity;
    } while (capacity > 1);
    return words_.Resize(words);
  }

  bool Contains(size_t i) const { return (words_[i >> 6] >> (i & 63) & 1) != 0; }

  void Insert(size_t i) {
    for (int level = 0; level < level_count_; ++level, i >>= 6) {
      uint64_t& word = words_[level_start_[level] + (i >> 6)];
      const bool was_empty = word == 0;
      word |= uint64_t{1} << (i & 63);
      if (!was_empty) return;
    }
  }

  void Erase(size_t i) {
    for (int level = 0; level < level_count_; ++level, i >>= 6) {
      uint64_t& word = words_[level_start_[level] + (i >> 6)];
      word &= ~(uint64_t{1} << (i & 63));
      if (word != 0) return;
    }
  }

  // The greatest member <= limit, or -1.
  int64_t GreatestUpTo(int64_t limit) const {
    int64_t i = limit;
    for (int level = 0; level < level_count_ && i >= 0; ++level, i = (i >> 6) - 1) {
      const uint64_t up_to = ~uint64_t{0} >> (63 - (i & 63));
      const uint64_t members = Word(level, i >> 6) & up_to;
      if (members == 0) continue;
      i = (i >> 6 << 6) + HighestBit(members);
      while (--level >= 0) i = i * 64 + HighestBit(Word(level, i));
      return i;
    }
    return -1;
  }

  size_t bytes() const { return words_.bytes(); }

 private:
  static constexpr int kMaxLevels = 6;

  uint64_t Word(int level, int64_t i) const {
    return words_[level_start_[level] + static_cast<size_t>(i)];
  }
  static int64_t HighestBit(uint64_t word) { return 63 - std::countl_zero(word); }

  MappedArray<uint64_t> words_;
  size_t level_start_[kMaxLevels] = {};
  int level_count_ = 0;
};

}  // namespace onnx_memplan::profile

#endif  // ONNX_MEMPLAN_SRC_PROFILE_SLOT_SET_H_
