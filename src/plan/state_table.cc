#include "plan/state_table.h"

#include <algorithm>
#include <utility>

namespace onnx_memplan {
namespace {
constexpr size_t kFirstSlots = 1024;
// 0 marks an empty slot.
uint64_t Tag(uint64_t hash) { return hash == 0 ? 1 : hash; }
}  // namespace

StateTable::StateTable(size_t words, int64_t max_bytes) : words_(words) {
  const size_t slot_bytes = sizeof(uint64_t) * (words + 1);
  max_slots_ = kFirstSlots;
  while (2 * max_slots_ * slot_bytes <= static_cast<size_t>(std::max<int64_t>(0, max_bytes))) {
    max_slots_ *= 2;
  }
  Clear();
}

void StateTable::Clear() {
  size_ = 0;
  mask_ = kFirstSlots - 1;
  hashes_.assign(kFirstSlots, 0);
  keys_.assign(kFirstSlots * words_, 0);
}

bool StateTable::Equal(size_t slot, uint64_t hash, std::span<const uint64_t> key) const {
  return hashes_[slot] == hash &&
         std::equal(key.begin(), key.end(), keys_.begin() + static_cast<int64_t>(slot * words_));
}

bool StateTable::Contains(uint64_t hash, std::span<const uint64_t> key) const {
  hash = Tag(hash);
  for (size_t probe = 0; probe < kProbes; ++probe) {
    const size_t slot = Slot(hash, probe);
    if (hashes_[slot] == 0) return false;
    if (Equal(slot, hash, key)) return true;
  }
  return false;
}

void StateTable::Insert(uint64_t hash, std::span<const uint64_t> key) {
  hash = Tag(hash);
  if (2 * static_cast<size_t>(size_) > mask_ && mask_ + 1 < max_slots_) Grow();
  size_t target = Slot(hash, static_cast<size_t>(hash >> 60) % kProbes);
  for (size_t probe = 0; probe < kProbes; ++probe) {
    const size_t slot = Slot(hash, probe);
    if (hashes_[slot] == 0) {
      target = slot;
      ++size_;
      break;
    }
    if (Equal(slot, hash, key)) return;
  }
  hashes_[target] = hash;
  std::copy(key.begin(), key.end(), keys_.begin() + static_cast<int64_t>(target * words_));
}

void StateTable::Grow() {
  const std::vector<uint64_t> hashes = std::move(hashes_);
  const std::vector<uint64_t> keys = std::move(keys_);
  const size_t slots = 2 * (mask_ + 1);
  mask_ = slots - 1;
  size_ = 0;
  hashes_.assign(slots, 0);
  keys_.assign(slots * words_, 0);
  for (size_t slot = 0; slot < hashes.size(); ++slot) {
    if (hashes[slot] != 0) Insert(hashes[slot], {keys.data() + slot * words_, words_});
  }
}

}  // namespace onnx_memplan
