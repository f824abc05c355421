// Serves requests from planned offsets, in constant time, and only where that is safe.
//
// Matching. A request takes the first entry of the profile of its size and alignment that none has
// taken, at or after `base_`: the first entry that the run has not passed. Runs that repeat the
// profile always find the entry at base_ itself. Where they do not:
// - Entries up to kNear ahead are taken at once (threads change order). After kNear such requests
// the
//   run has passed the entry at base_, which it seems not to ask for this time.
// - Entries farther ahead are declined, since the request is likely to be one that the profile did
// not
//   have. The first of them starts a guess of where the run is; when the requests that follow
//   repeat the profile from there, kConvincing in all and none at base_ in between, the run has
//   skipped a part, and base_ moves there.
// Lists of the entries of each size make that constant time in the mean: heads and base_ only move
// forward.
//
// Safety does not depend on the matching, nor on the plan. The arena's blocks that are alive are a
// set of disjoint ranges, kept by their first byte. A planned range [a, b) is free if and only if
// the block with the greatest start below b ends at or before a: all others start below it, and end
// at or before its start. The starts that exist are known in advance (the offsets of the plan), so
// that SlotSet finds that block in a few word operations. Only then the range is handed out.
#ifndef ONNX_MEMPLAN_SRC_PROFILE_REPLAYER_H_
#define ONNX_MEMPLAN_SRC_PROFILE_REPLAYER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "onnx_memplan/profile.h"
#include "profile/lock.h"
#include "profile/mapped_array.h"
#include "profile/pointer_table.h"
#include "profile/slot_set.h"

namespace onnx_memplan::profile {

// Thread-safe after Init. Never uses the heap.
class Replayer {
 public:
  constexpr Replayer() = default;
  ~Replayer();
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  // Once. Null, or what is wrong: a string that lives forever. See ProfileHeap::Replay.
  const char* Init(const MappedArray<PlannedBlock>& plan);

  // The smallest size of the plan; smaller requests need not be shown to Allocate.
  size_t min_bytes() const { return min_bytes_; }

  // Null: not planned, the caller serves the request itself (and may call NoteFallback). `bytes` >=
  // min_bytes(); `alignment` is a power of two. *fresh: all bytes are zero.
  void* Allocate(size_t bytes, size_t alignment, bool* fresh);

  bool Owns(const void* pointer) const {
    return reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(arena_) <
           arena_bytes_;
  }
  // `pointer` came from Allocate and has not been released; aborts otherwise.
  void Release(void* pointer);
  // The size that was asked for. Reads nothing that other blocks' calls write.
  size_t BytesOf(const void* pointer) const;

  // For the statistics only: blocks that Allocate has declined.
  void NoteFallback(const void* pointer, size_t bytes);
  void NoteForeignRelease(const void* pointer);
  bool HasFallbacks() const { return fallback_count_.load(std::memory_order_relaxed) != 0; }

  void EndStep();
  void Restart();

  ProfileStatistics Statistics() const;
  // The same without resident_bytes, which takes time in proportion to the arena.
  ProfileStatistics Counts() const;

 private:
  // Entries in the run's future that a request may take out of turn.
  static constexpr uint32_t kNear = 8;
  // Requests in a row that must fit before the run is believed to have skipped a part.
  static constexpr uint32_t kConvincing = 8;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Entry {
    uint64_t offset;
    uint64_t end;           // one past the last byte
    uint32_t slot;          // the index of `offset` among the plan's offsets in order
    uint32_t last_slot;     // the last one that is below `end`
    uint32_t size_class;    // index
    uint32_t next_in_size;  // kNone: the last entry of its size and alignment
  };
  struct Slot {
    uint64_t offset;
    uint64_t end;  // of the block there that is alive, or that was last
  };
  // The entries of one size and alignment.
  struct SizeClass {
    uint64_t key;
    uint32_t head;  // none before it can be taken; kNone: none at all
  };

  static uint64_t KeyOf(size_t bytes, size_t alignment);
  const char* CheckPlan(const MappedArray<PlannedBlock>& plan);
  bool BuildSlots(const MappedArray<PlannedBlock>& plan);
  bool BuildEntries(const MappedArray<PlannedBlock>& plan);
  bool BuildClasses(const MappedArray<uint64_t>& keys);
  // The place of the key in classes_: its class, or an empty one.
  size_t FindClass(uint64_t key) const;
  uint32_t SlotOf(uint64_t offset) const;
  uint32_t Match(SizeClass& size_class);
  bool GuessFits(const SizeClass& size_class) const;
  void Goto(uint32_t entry);
  void Rewind(uint32_t target);

  char* arena_ = nullptr;
  size_t arena_bytes_ = 0;
  size_t min_bytes_ = 0;
  MappedArray<Entry> entries_;
  MappedArray<uint32_t> step_begins_;  // the first entry of each step or a later one
  uint32_t loop_begin_ = kNone;
  uint32_t loop_step_ = 0;              // the loop's first
  MappedArray<SizeClass> classes_;      // open addressing; key 0: empty
  MappedArray<uint32_t> slot_of_hash_;  // open addressing; slot + 1, or 0
  MappedArray<Slot> slots_;

  mutable Lock lock_;  // for all that follows
  SlotSet alive_;
  MappedArray<uint8_t> taken_;  // by entry
  uint32_t base_ = 0;
  uint32_t out_of_turn_ = 0;  // requests that took a near entry since base_ has moved
  // The last requests were those of the entries from guess_begin_ on, as far as sizes tell.
  uint32_t guess_begin_ = 0;
  uint32_t guess_length_ = 0;
  uint32_t step_ = 0;
  bool has_steps_ = false;   // EndStep has been called
  uint64_t high_water_ = 0;  // no byte at or above it has been handed out
  int64_t planned_bytes_ = 0;
  ProfileStatistics counts_;
  PointerTable fallbacks_;
  std::atomic<size_t> fallback_count_{0};
  std::atomic<int64_t> unknown_{0};
};

}  // namespace onnx_memplan::profile

#endif  // ONNX_MEMPLAN_SRC_PROFILE_REPLAYER_H_
