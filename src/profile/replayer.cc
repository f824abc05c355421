#include "profile/replayer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace onnx_memplan::profile {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 56;
constexpr size_t kMaxAlignment = size_t{1} << 30;
constexpr int32_t kMaxStep = 1 << 24;

[[noreturn]] void Die(const char* message, size_t length) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message, length);
  std::abort();
}

size_t HashOf(uint64_t key) { return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> 24); }

// Pages of [begin, begin + bytes) that are in memory, in bytes. `begin` is a page's first byte.
int64_t ResidentBytes(char* begin, size_t bytes) {
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  constexpr size_t kPagesAtOnce = 1024;
  unsigned char present[kPagesAtOnce];
  int64_t pages = 0;
  for (size_t at = 0; at < bytes; at += kPagesAtOnce * page_bytes) {
    const size_t length = std::min(bytes - at, kPagesAtOnce * page_bytes);
    if (mincore(begin + at, length, present) != 0) return -1;
    for (size_t i = 0; i < (length + page_bytes - 1) / page_bytes; ++i) pages += present[i] & 1;
  }
  return pages * static_cast<int64_t>(page_bytes);
}

}  // namespace

Replayer::~Replayer() {
  if (arena_ != nullptr) munmap(arena_, arena_bytes_);
}

// One number for both: bytes < 2^56, and the alignment's logarithm. Never 0.
uint64_t Replayer::KeyOf(size_t bytes, size_t alignment) {
  const size_t planned = std::max(alignment, kProfileAlignment);
  return uint64_t{bytes} << 6 | static_cast<uint64_t>(std::countr_zero(planned));
}

const char* Replayer::CheckPlan(const MappedArray<PlannedBlock>& plan) {
  if (plan.empty()) return "the plan has no blocks";
  if (plan.size() >= size_t{1} << 30) return "the plan has too many blocks";
  int32_t last_step = 0;
  bool in_loop = false;
  min_bytes_ = SIZE_MAX;
  for (const PlannedBlock& block : plan) {
    const auto bytes = static_cast<uint64_t>(block.bytes);
    const auto offset = static_cast<uint64_t>(block.offset);
    const auto alignment = static_cast<uint64_t>(block.alignment);
    if (bytes >= kMaxBytes || offset >= kMaxBytes) {
      return "a size or an offset is negative or too large";
    }
    if (alignment < kProfileAlignment || alignment > kMaxAlignment ||
        !std::has_single_bit(alignment)) {
      return "an alignment is not a power of two from 64 to 2^30";
    }
    if (offset % alignment != 0) return "an offset is not a multiple of its alignment";
    if (block.step > kMaxStep) return "the number of a step is too large";
    if (block.step < last_step || (in_loop && !block.loop)) {
      return "the blocks are not in the order of the requests";
    }
    last_step = block.step;
    in_loop = block.loop;
    min_bytes_ = std::min(min_bytes_, static_cast<size_t>(bytes));
    arena_bytes_ = std::max(arena_bytes_, static_cast<size_t>(offset + bytes));
  }
  return nullptr;
}

const char* Replayer::Init(const MappedArray<PlannedBlock>& plan) {
  const char* fault = CheckPlan(plan);
  if (fault == nullptr && !(BuildSlots(plan) && BuildEntries(plan))) {
    fault = "there is no memory for the plan";
  }
  if (fault != nullptr) {
    arena_bytes_ = 0;
    return fault;
  }
  size_t alignment = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  arena_bytes_ = (std::max<size_t>(arena_bytes_, 1) + alignment - 1) / alignment * alignment;
  for (const PlannedBlock& block : plan) {
    alignment = std::max(alignment, static_cast<size_t>(block.alignment));
  }
  // Pages come into memory when they are first written.
  void* mapped = mmap(nullptr, arena_bytes_ + alignment, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    arena_bytes_ = 0;
    return "the arena cannot be mapped";
  }
  char* const begin = static_cast<char*>(mapped);
  const size_t misfit = reinterpret_cast<uintptr_t>(begin) % alignment;
  const size_t before = misfit == 0 ? 0 : alignment - misfit;
  if (before > 0) munmap(begin, before);
  if (alignment > before) munmap(begin + before + arena_bytes_, alignment - before);
  arena_ = begin + before;
  return nullptr;
}

bool Replayer::BuildSlots(const MappedArray<PlannedBlock>& plan) {
  MappedArray<uint64_t> offsets;
  if (!offsets.Resize(plan.size())) return false;
  for (size_t i = 0; i < plan.size(); ++i) offsets[i] = static_cast<uint64_t>(plan[i].offset);
  std::sort(offsets.begin(), offsets.end());
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (i > 0 && offsets[i] == offsets[i - 1]) continue;
    if (!slots_.PushBack({.offset = offsets[i], .end = offsets[i]})) return false;
  }
  if (!slot_of_hash_.Resize(std::bit_ceil(slots_.size() * 2)) || !alive_.Init(slots_.size())) {
    return false;
  }
  const size_t mask = slot_of_hash_.size() - 1;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    size_t at = HashOf(slots_[slot].offset) & mask;
    while (slot_of_hash_[at] != 0) at = (at + 1) & mask;
    slot_of_hash_[at] = slot + 1;
  }
  return true;
}

bool Replayer::BuildEntries(const MappedArray<PlannedBlock>& plan) {
  const size_t count = plan.size();
  if (!entries_.Resize(count) || !taken_.Resize(count)) return false;
  MappedArray<uint64_t> keys;
  if (!keys.Resize(count)) return false;
  for (size_t i = 0; i < count; ++i) {
    keys[i] = KeyOf(static_cast<size_t>(plan[i].bytes), static_cast<size_t>(plan[i].alignment));
  }
  if (!BuildClasses(keys)) return false;
  for (size_t i = 0; i < count; ++i) {
    const PlannedBlock& block = plan[i];
    const auto offset = static_cast<uint64_t>(block.offset);
    const uint64_t end = offset + static_cast<uint64_t>(block.bytes);
    const Slot* above =
        std::lower_bound(slots_.begin(), slots_.end(), std::max(end, offset + 1),
                         [](const Slot& slot, uint64_t bound) { return slot.offset < bound; });
    entries_[i] = {.offset = offset,
                   .end = end,
                   .slot = SlotOf(offset),
                   .last_slot = static_cast<uint32_t>(above - slots_.begin()) - 1,
                   .size_class = 0,
                   .next_in_size = kNone};
    if (block.loop && loop_begin_ == kNone) {
      loop_begin_ = static_cast<uint32_t>(i);
      loop_step_ = static_cast<uint32_t>(block.step);
    }
    while (step_begins_.size() <= static_cast<size_t>(block.step)) {
      if (!step_begins_.PushBack(static_cast<uint32_t>(i))) return false;
    }
  }
  for (size_t i = count; i-- > 0;) {  // backwards: each head ends as the first of all
    const size_t index = FindClass(keys[i]);
    SizeClass& size_class = classes_[index];
    entries_[i].size_class = static_cast<uint32_t>(index);
    entries_[i].next_in_size = size_class.head;
    size_class.head = static_cast<uint32_t>(i);
  }
  return true;
}

bool Replayer::BuildClasses(const MappedArray<uint64_t>& keys) {
  MappedArray<uint64_t> distinct;
  if (!distinct.Append(keys.data(), keys.size())) return false;
  std::sort(distinct.begin(), distinct.end());
  const auto count =
      static_cast<size_t>(std::unique(distinct.begin(), distinct.end()) - distinct.begin());
  if (!classes_.Resize(std::bit_ceil(count * 2))) return false;
  for (size_t i = 0; i < count; ++i) {
    classes_[FindClass(distinct[i])] = {.key = distinct[i], .head = kNone};
  }
  return true;
}

size_t Replayer::FindClass(uint64_t key) const {
  const size_t mask = classes_.size() - 1;
  size_t at = HashOf(key) & mask;
  while (classes_[at].key != 0 && classes_[at].key != key) at = (at + 1) & mask;
  return at;
}

uint32_t Replayer::SlotOf(uint64_t offset) const {
  const size_t mask = slot_of_hash_.size() - 1;
  size_t at = HashOf(offset) & mask;
  while (slot_of_hash_[at] != 0) {
    const uint32_t slot = slot_of_hash_[at] - 1;
    if (slots_[slot].offset == offset) return slot;
    at = (at + 1) & mask;
  }
  return kNone;
}

// The entry that a request takes, or kNone.
uint32_t Replayer::Match(SizeClass& size_class) {
  uint32_t entry = size_class.head;
  while (entry != kNone && (entry < base_ || taken_[entry] != 0)) {
    entry = entries_[entry].next_in_size;
  }
  size_class.head = entry;
  if (entry == base_) {
    guess_length_ = 0;
  } else if (GuessFits(size_class)) {
    ++guess_length_;
  } else if (entry == kNone || entry - base_ <= kNear) {
    guess_length_ = 0;
  } else {
    guess_begin_ = entry;
    guess_length_ = 1;
  }
  if (guess_length_ == kConvincing) {
    entry = guess_begin_ + guess_length_ - 1;
    guess_length_ = 0;
    taken_[entry] = 1;
    Goto(entry);
    return entry;
  }
  if (entry == kNone || entry - base_ > kNear) return kNone;
  taken_[entry] = 1;
  if (entry == base_ || ++out_of_turn_ >= kNear) Goto(base_ + 1);
  return entry;
}

// Whether the request is the next one of the guess.
bool Replayer::GuessFits(const SizeClass& size_class) const {
  const uint32_t next = guess_begin_ + guess_length_;
  return guess_length_ > 0 && next < entries_.size() && next >= base_ && taken_[next] == 0 &&
         &classes_[entries_[next].size_class] == &size_class;
}

// The run has passed all entries before `entry`.
void Replayer::Goto(uint32_t entry) {
  base_ = entry;
  while (base_ < entries_.size() && taken_[base_] != 0) ++base_;
  out_of_turn_ = 0;
}

void* Replayer::Allocate(size_t bytes, size_t alignment, bool* fresh) {
  SizeClass* size_class = nullptr;
  if (bytes < kMaxBytes && alignment <= kMaxAlignment) {
    size_class = &classes_[FindClass(KeyOf(bytes, alignment))];  // keys do not change: no lock
  }
  if (size_class == nullptr || size_class->key == 0) {
    unknown_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  LockGuard guard(lock_);
  if (base_ == entries_.size() && loop_begin_ != kNone && !has_steps_) Rewind(loop_begin_);
  const uint32_t index = Match(*size_class);
  if (index == kNone) {
    ++counts_.missing;
    return nullptr;
  }
  const Entry& entry = entries_[index];
  const int64_t below = alive_.GreatestUpTo(entry.last_slot);
  if (below >= 0) {
    const Slot& slot = slots_[static_cast<size_t>(below)];
    // A block of no bytes also keeps its own start.
    if (slot.end > entry.offset || slot.offset == entry.offset) {
      ++counts_.conflict;
      return nullptr;
    }
  }
  alive_.Insert(entry.slot);
  slots_[entry.slot].end = entry.end;
  *fresh = entry.offset >= high_water_;
  high_water_ = std::max(high_water_, entry.end);
  ++counts_.planned;
  planned_bytes_ += static_cast<int64_t>(bytes);
  counts_.peak_planned_bytes = std::max(counts_.peak_planned_bytes, planned_bytes_);
  return arena_ + entry.offset;
}

void Replayer::Release(void* pointer) {
  const uint32_t slot = SlotOf(static_cast<uint64_t>(static_cast<char*>(pointer) - arena_));
  LockGuard guard(lock_);
  if (slot == kNone || !alive_.Contains(slot)) {
    constexpr char kMessage[] =
        "onnx_memplan profile: a planned block is released twice or never was\n";
    Die(kMessage, sizeof kMessage - 1);
  }
  planned_bytes_ -= static_cast<int64_t>(slots_[slot].end - slots_[slot].offset);
  alive_.Erase(slot);
}

size_t Replayer::BytesOf(const void* pointer) const {
  const uint32_t slot = SlotOf(static_cast<uint64_t>(static_cast<const char*>(pointer) - arena_));
  if (slot == kNone) return 0;
  return static_cast<size_t>(slots_[slot].end - slots_[slot].offset);
}

void Replayer::NoteFallback(const void* pointer, size_t bytes) {
  if (pointer == nullptr) return;
  LockGuard guard(lock_);
  if (!fallbacks_.Insert(pointer, bytes)) return;
  fallback_count_.store(fallbacks_.size(), std::memory_order_relaxed);
  counts_.fallback_bytes += static_cast<int64_t>(bytes);
  counts_.peak_fallback_bytes = std::max(counts_.peak_fallback_bytes, counts_.fallback_bytes);
}

void Replayer::NoteForeignRelease(const void* pointer) {
  uint64_t bytes;
  LockGuard guard(lock_);
  if (!fallbacks_.Take(pointer, &bytes)) return;
  fallback_count_.store(fallbacks_.size(), std::memory_order_relaxed);
  counts_.fallback_bytes -= static_cast<int64_t>(bytes);
}

// All entries from the target on can be taken again. In proportion to the entries that the run has
// passed since, so constant for each request.
void Replayer::Rewind(uint32_t target) {
  for (auto i = static_cast<uint32_t>(entries_.size()); i-- > target;) {
    taken_[i] = 0;
    classes_[entries_[i].size_class].head = i;
  }
  guess_length_ = 0;
  Goto(target);
}

void Replayer::EndStep() {
  LockGuard guard(lock_);
  has_steps_ = true;
  guess_length_ = 0;
  if (++step_ < step_begins_.size()) {
    Goto(step_begins_[step_]);
  } else if (loop_begin_ != kNone) {
    step_ = loop_step_;
    Rewind(loop_begin_);
  } else {
    Goto(static_cast<uint32_t>(entries_.size()));
  }
}

void Replayer::Restart() {
  LockGuard guard(lock_);
  step_ = 0;
  Rewind(0);
}

ProfileStatistics Replayer::Counts() const {
  LockGuard guard(lock_);
  ProfileStatistics result = counts_;
  result.unknown = unknown_.load(std::memory_order_relaxed);
  result.requests = result.planned + result.Fallbacks();
  result.arena_bytes = static_cast<int64_t>(arena_bytes_);
  result.table_bytes = static_cast<int64_t>(
      entries_.bytes() + step_begins_.bytes() + classes_.bytes() + slot_of_hash_.bytes() +
      slots_.bytes() + alive_.bytes() + taken_.bytes() + fallbacks_.bytes());
  return result;
}

ProfileStatistics Replayer::Statistics() const {
  ProfileStatistics result = Counts();
  result.resident_bytes = ResidentBytes(arena_, arena_bytes_);
  return result;
}

}  // namespace onnx_memplan::profile
