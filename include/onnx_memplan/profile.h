// Recorded and planned allocation requests, as data. See profile_allocator.h and docs/profile.md.
#ifndef ONNX_MEMPLAN_PROFILE_H_
#define ONNX_MEMPLAN_PROFILE_H_

#include <cstddef>
#include <cstdint>

namespace onnx_memplan {

// All blocks are aligned to this at least, when recording and in a plan.
inline constexpr size_t kProfileAlignment = 64;

// One request of a recorded run. Times count events (requests, releases, ends of steps).
struct RecordedBlock {
  int64_t lower = 0;
  int64_t upper = 0;  // one past the last time at which the block is alive
  // Not alive in [gap_lower, gap_upper); empty when they are equal. Only blocks of a loop that live
  // from one iteration into the next have a gap.
  int64_t gap_lower = 0;
  int64_t gap_upper = 0;
  int64_t bytes = 0;
  int64_t alignment = 0;
  int32_t step = 0;   // how many steps had ended before
  bool loop = false;  // of the steps that are to be repeated

  friend bool operator==(const RecordedBlock&, const RecordedBlock&) = default;
};

// A recorded request with its place, in the order of the requests.
struct PlannedBlock {
  int64_t bytes = 0;
  int64_t alignment = 0;
  int64_t offset = 0;
  int32_t step = 0;
  bool loop = false;

  friend bool operator==(const PlannedBlock&, const PlannedBlock&) = default;
};

// What a replay has done so far. Requests are those of at least the smallest size of the plan.
struct ProfileStatistics {
  int64_t requests = 0;
  int64_t planned = 0;  // got the place of the plan
  // The other requests were served by malloc:
  int64_t unknown = 0;  // the plan has no request of this size and alignment
  int64_t missing = 0;  // the plan has some, but none is left, or none near this point of the run
  int64_t conflict =
      0;  // the place was still taken, since a release came later than in the profile
  int64_t arena_bytes = 0;
  // Bytes of the arena that are in memory now. They are never given back, so this is also the peak.
  int64_t resident_bytes = 0;
  int64_t fallback_bytes = 0;       // alive now, of requests served by malloc
  int64_t peak_fallback_bytes = 0;  // the most that fallback_bytes has been
  int64_t peak_planned_bytes = 0;   // the most bytes alive in the arena
  int64_t table_bytes = 0;          // of the plan in memory

  int64_t Fallbacks() const { return unknown + missing + conflict; }
  friend bool operator==(const ProfileStatistics&, const ProfileStatistics&) = default;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PROFILE_H_
