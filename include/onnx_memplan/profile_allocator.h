// Profile-guided allocation, in the manner of arXiv 1804.10001: record the requests of one run,
// plan their offsets, and replay the offsets in later runs.
//
// This header is for programs that allocate through it on purpose; libonnx_memplan_profile.so does
// the same for malloc and its family under LD_PRELOAD. See docs/profile.md.
//
//   auto recorded = ProfileHeap::Record();
//   Step(*recorded);                        // allocates through ProfileAllocator(*recorded)
//   recorded->WriteTrace("trace.csv");      // onnx-memplan plan trace.csv --output plan.csv
//   ...
//   auto heap = ProfileHeap::ReplayFile("plan.csv", &error);
//   for (...) { Step(*heap); heap->Restart(); }
//
// Only the standard library is needed. Linux.
#ifndef ONNX_MEMPLAN_PROFILE_ALLOCATOR_H_
#define ONNX_MEMPLAN_PROFILE_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "onnx_memplan/profile.h"

namespace onnx_memplan {

// A heap that records, or one that replays. All functions may be called from several threads.
// Blocks of a heap must be released before it is destroyed, in the same heap.
//
// What holds for a replay, whatever the program and the plan are: blocks that are alive at once
// share no byte, and every request is served while there is memory. A request gets its planned
// place when (1) the profile has a request of the same size and alignment near this point of the
// run that no request has taken yet, and (2) no block that is alive has a byte there. All others go
// to malloc.
class ProfileHeap {
 public:
  // Blocks come from malloc and are written down.
  static std::unique_ptr<ProfileHeap> Record();
  // Null, with a message in *error, when the plan is malformed (sizes, offsets or alignments that
  // are negative, not a power of two, or do not go together) or the arena cannot be mapped.
  static std::unique_ptr<ProfileHeap> Replay(const std::vector<PlannedBlock>& plan,
                                             std::string* error);
  // The same with the output of `onnx-memplan plan`; also null when the file cannot be read.
  static std::unique_ptr<ProfileHeap> ReplayFile(const std::string& path, std::string* error);

  ~ProfileHeap();
  ProfileHeap(const ProfileHeap&) = delete;
  ProfileHeap& operator=(const ProfileHeap&) = delete;

  // `alignment` is a power of two; kProfileAlignment is given at least. Null when there is no
  // memory.
  void* Allocate(size_t bytes, size_t alignment) noexcept;
  void Deallocate(void* pointer) noexcept;  // null is allowed

  // Says that a step of the program has ended, in both runs at the same points. A replay goes on
  // with the requests of the next step, so that no deviation lasts longer than its step; after the
  // step of a loop it goes on with the loop's first request.
  void EndStep() noexcept;
  // Goes on with the first request of the profile, which so serves every iteration of a loop.
  void Restart() noexcept;

  // What was recorded until now, in the order of the requests; empty for a replay.
  //
  // With `loop_steps` > 0, that many steps become a loop, which a replay repeats: those before the
  // last one that has ended. Blocks of later steps are left out; those of the loop that live on
  // into the next iteration are alive at both ends of it. Blocks that live for a whole iteration or
  // longer have no place and are left out too; where a program makes a block before it releases
  // that of the step before, a loop of two steps has a place for both. Needs loop_steps + 2 ended
  // steps; with fewer, the result is as without a loop.
  std::vector<RecordedBlock> Trace(int loop_steps = 0) const;
  // The same as CSV for `onnx-memplan plan`. False when the file cannot be written.
  bool WriteTrace(const std::string& path, int loop_steps = 0) const;

  ProfileStatistics Statistics() const;

 private:
  struct State;
  explicit ProfileHeap(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A standard allocator on a ProfileHeap, which must outlive it.
template <typename T>
class ProfileAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  explicit ProfileAllocator(ProfileHeap& heap) noexcept : heap_(&heap) {}
  // Implicit, as containers require.
  template <typename U>
  // NOLINTNEXTLINE(google-explicit-constructor)
  ProfileAllocator(const ProfileAllocator<U>& other) noexcept : heap_(other.heap()) {}

  // Throws std::bad_alloc when there is no memory.
  T* allocate(size_t count) {
    if (count > static_cast<size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    void* pointer = heap_->Allocate(count * sizeof(T), alignof(T));
    if (pointer == nullptr) throw std::bad_alloc();
    return static_cast<T*>(pointer);
  }
  void deallocate(T* pointer, size_t) noexcept { heap_->Deallocate(pointer); }

  ProfileHeap* heap() const noexcept { return heap_; }

  template <typename U>
  friend bool operator==(const ProfileAllocator& a, const ProfileAllocator<U>& b) noexcept {
    return a.heap() == b.heap();
  }
  template <typename U>
  friend bool operator!=(const ProfileAllocator& a, const ProfileAllocator<U>& b) noexcept {
    return a.heap() != b.heap();
  }

 private:
  ProfileHeap* heap_;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PROFILE_ALLOCATOR_H_
