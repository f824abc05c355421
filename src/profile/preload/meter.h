// How often the allocator was called and how long that took, in all and at the end of each step.
#ifndef ONNX_MEMPLAN_SRC_PROFILE_PRELOAD_METER_H_
#define ONNX_MEMPLAN_SRC_PROFILE_PRELOAD_METER_H_

#include <atomic>
#include <cstdint>

#include "onnx_memplan/profile.h"
#include "profile/lock.h"
#include "profile/mapped_array.h"

namespace onnx_memplan::profile {

// A clock that costs a few nanoseconds: the cycle counter where there is one.
uint64_t Ticks();

class Meter {
 public:
  // Nothing is measured before.
  void Start();
  bool on() const { return on_; }

  void Add(uint64_t ticks) {
    ticks_.fetch_add(ticks, std::memory_order_relaxed);
    calls_.fetch_add(1, std::memory_order_relaxed);
  }
  // `replay`: zero for a process that does not replay.
  void EndStep(const ProfileStatistics& replay);

  // Writes JSON. False when the file cannot be written.
  bool Write(const char* path, const char* mode, const ProfileStatistics& replay) const;

 private:
  struct Sample {
    uint64_t calls, ticks;
    int64_t planned, fallbacks;
  };

  Sample Now(const ProfileStatistics& replay) const;

  bool on_ = false;
  uint64_t start_ticks_ = 0;
  int64_t start_nanoseconds_ = 0;
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> ticks_{0};
  Lock lock_;
  MappedArray<Sample> steps_;  // since the start, by step
};

// Adds the time of its life to the meter.
class MeterScope {
 public:
  explicit MeterScope(Meter& meter) : meter_(meter), start_(meter.on() ? Ticks() : 0) {}
  ~MeterScope() {
    if (meter_.on()) meter_.Add(Ticks() - start_);
  }
  MeterScope(const MeterScope&) = delete;
  MeterScope& operator=(const MeterScope&) = delete;

 private:
  Meter& meter_;
  const uint64_t start_;
};

}  // namespace onnx_memplan::profile

#endif  // ONNX_MEMPLAN_SRC_PROFILE_PRELOAD_METER_H_
