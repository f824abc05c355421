// malloc and its family for LD_PRELOAD: records the large requests of a program, or serves them
// from a plan. docs/profile.md says how to use it.
//
// Requests below the smallest size, and all requests before the constructor below has run, go to
// the real functions after one comparison. A pointer belongs to the plan if and only if it lies in
// the arena, so that every pointer finds back to who made it. Nothing here uses the heap or holds a
// lock while it calls the real functions. The objects are never destroyed, since programs allocate
// until their last moment.
//
// After fork() the child cannot know whether another thread was in the middle of a change. It
// changes nothing any more: the parent's blocks keep their places and are never given back, new
// ones come from malloc. So no lock is needed, and none has to be taken around fork().
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include "profile/csv.h"
#include "profile/preload/environment.h"
#include "profile/preload/meter.h"
#include "profile/preload/real_malloc.h"
#include "profile/recorder.h"
#include "profile/replayer.h"

#define ONNX_MEMPLAN_EXPORT extern "C" __attribute__((visibility("default")))

namespace onnx_memplan::profile {
namespace {

template <typename T>
union Immortal {
  T value;
  constexpr Immortal() : value() {}
  constexpr ~Immortal() {}
};

constinit std::atomic<Mode> current_mode{Mode::kOff};
constinit size_t min_bytes = 0;
constinit Immortal<Recorder> recorder_storage;
constinit Immortal<Replayer> replayer_storage;
constinit Immortal<Meter> meter_storage;
constinit Environment environment;
constinit pid_t owner = 0;

Recorder& recorder = recorder_storage.value;
Replayer& replayer = replayer_storage.value;
Meter& meter = meter_storage.value;

Mode CurrentMode() { return current_mode.load(std::memory_order_acquire); }

// Whether a pointer of the real malloc can be that of a request we look at.
bool MayBeLarge(void* pointer) { return real::UsableSize(pointer) >= min_bytes; }

// The planned block for a request, or null.
void* Planned(size_t bytes, size_t alignment, bool zero) {
  bool fresh = false;
  void* pointer = replayer.Allocate(bytes, alignment, &fresh);
  if (pointer != nullptr && zero && !fresh) std::memset(pointer, 0, bytes);
  return pointer;
}

// `serve` is the real function.
template <typename Serve>
void* AllocateLarge(Mode mode, size_t bytes, size_t alignment, bool zero, Serve serve) {
  if (mode == Mode::kRecord) {
    void* pointer = serve();
    recorder.Begin(pointer, bytes, alignment);
    return pointer;
  }
  if (mode != Mode::kReplay && mode != Mode::kMeasure) return serve();
  MeterScope scope(meter);
  void* pointer = mode == Mode::kReplay ? Planned(bytes, alignment, zero) : nullptr;
  if (pointer != nullptr) return pointer;
  pointer = serve();
  if (mode == Mode::kReplay) replayer.NoteFallback(pointer, bytes);
  return pointer;
}

template <typename Serve>
void* Allocate(size_t bytes, size_t alignment, bool zero, Serve serve) {
  const Mode mode = CurrentMode();
  if (mode == Mode::kOff || bytes < min_bytes) [[likely]]
    return serve();
  return AllocateLarge(mode, bytes, alignment, zero, serve);
}

void FreeForeign(Mode mode, void* pointer) {
  if (mode == Mode::kRecord) {
    if (MayBeLarge(pointer)) recorder.End(pointer);
  } else if ((meter.on() || replayer.HasFallbacks()) && MayBeLarge(pointer)) {
    MeterScope scope(meter);
    if (replayer.HasFallbacks()) replayer.NoteForeignRelease(pointer);
    real::Free(pointer);
    return;
  }
  real::Free(pointer);
}

void Free(void* pointer) {
  const Mode mode = CurrentMode();
  if (mode == Mode::kOff || pointer == nullptr) {
    real::Free(pointer);
  } else if (!replayer.Owns(pointer)) {
    mode == Mode::kReplayChild ? real::Free(pointer) : FreeForeign(mode, pointer);
  } else if (mode == Mode::kReplay) {
    MeterScope scope(meter);
    replayer.Release(pointer);
  }
}

void* ReallocRecorded(void* pointer, size_t bytes) {
  uint64_t request = 0;
  const bool recorded = MayBeLarge(pointer) && recorder.Detach(pointer, &request);
  void* moved = real::Realloc(pointer, bytes);
  if (moved == nullptr) {
    if (recorded) recorder.Reattach(pointer, request);
    return nullptr;
  }
  if (bytes >= min_bytes) recorder.Begin(moved, bytes, 1);
  if (recorded) recorder.Close(request);
  return moved;
}

// A block of the arena to a new one, as the recorded run did: both are alive at once.
void* ReallocPlanned(Mode mode, void* pointer, size_t bytes) {
  void* moved = nullptr;
  const bool large = mode == Mode::kReplay && bytes >= min_bytes;
  if (large) moved = Planned(bytes, 1, false);
  if (moved == nullptr) {
    moved = real::Malloc(bytes);
    if (large) replayer.NoteFallback(moved, bytes);
  }
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, pointer, std::min(bytes, replayer.BytesOf(pointer)));
  if (mode == Mode::kReplay) replayer.Release(pointer);
  return moved;
}

void* ReallocForeign(void* pointer, size_t bytes) {
  const size_t old_bytes = real::UsableSize(pointer);
  void* moved = bytes >= min_bytes ? Planned(bytes, 1, false) : nullptr;
  if (old_bytes >= min_bytes && replayer.HasFallbacks()) replayer.NoteForeignRelease(pointer);
  if (moved == nullptr) {
    moved = real::Realloc(pointer, bytes);
    if (bytes >= min_bytes) replayer.NoteFallback(moved, bytes);
    return moved;
  }
  std::memcpy(moved, pointer, std::min(bytes, old_bytes));
  real::Free(pointer);
  return moved;
}

void* Realloc(void* pointer, size_t bytes) {
  const Mode mode = CurrentMode();
  if (mode == Mode::kOff) return real::Realloc(pointer, bytes);
  if (pointer == nullptr) {
    return Allocate(bytes, 1, false, [&] { return real::Malloc(bytes); });
  }
  if (bytes == 0) {  // as glibc
    Free(pointer);
    return nullptr;
  }
  if (mode == Mode::kRecord) return ReallocRecorded(pointer, bytes);
  const bool planned = replayer.Owns(pointer);
  if (!planned && (mode == Mode::kReplayChild || (bytes < min_bytes && !MayBeLarge(pointer)))) {
    return real::Realloc(pointer, bytes);
  }
  MeterScope scope(meter);
  if (planned) return ReallocPlanned(mode, pointer, bytes);
  return mode == Mode::kReplay ? ReallocForeign(pointer, bytes) : real::Realloc(pointer, bytes);
}

void InChild() {
  Mode mode = CurrentMode();
  mode = mode == Mode::kReplay || mode == Mode::kReplayChild ? Mode::kReplayChild : Mode::kOff;
  current_mode.store(mode, std::memory_order_release);
}

bool LoadPlan() {
  MappedArray<PlannedBlock> plan;
  FileFault fault = ReadPlan(environment.profile_path, &plan);
  if (fault.what == nullptr) fault.what = replayer.Init(plan);
  if (fault.what == nullptr) return true;
  Complain(fault.what, environment.profile_path);
  Complain("malloc serves this run", "");
  return false;
}

// The first event of every run: what is before it is neither recorded nor planned.
__attribute__((constructor)) void Start() {
  environment = ReadEnvironment();
  if (environment.mode == Mode::kOff) return;
  min_bytes = environment.min_bytes;
  if (environment.mode == Mode::kReplay) {
    if (!LoadPlan()) return;
    min_bytes = std::max<size_t>(replayer.min_bytes(), 1);
  }
  if (environment.statistics_path != nullptr) meter.Start();
  owner = getpid();
  pthread_atfork(nullptr, nullptr, InChild);
  current_mode.store(environment.mode, std::memory_order_release);
}

__attribute__((destructor)) void Finish() {
  const Mode mode = CurrentMode();
  if (mode == Mode::kOff || mode == Mode::kReplayChild || getpid() != owner) return;
  if (mode == Mode::kRecord) {
    current_mode.store(Mode::kOff, std::memory_order_release);
    if (environment.loop_steps > 0 && !recorder.HasLoop(environment.loop_steps)) {
      Complain("too few steps have ended for a loop; the trace is that of the whole run", "");
    }
    if (!WriteTrace(environment.profile_path, recorder, environment.loop_steps)) {
      Complain("the trace cannot be written", environment.profile_path);
    }
  }
  if (environment.statistics_path == nullptr) return;
  const char* name = mode == Mode::kRecord   ? "record"
                     : mode == Mode::kReplay ? "replay"
                                             : "measure";
  const ProfileStatistics replay =
      mode == Mode::kReplay ? replayer.Statistics() : ProfileStatistics{};
  if (!meter.Write(environment.statistics_path, name, replay)) {
    Complain("the statistics cannot be written", environment.statistics_path);
  }
}

void EndStep() {
  const Mode mode = CurrentMode();
  if (mode == Mode::kRecord) recorder.EndStep();
  if (mode == Mode::kReplay) {
    replayer.EndStep();
    if (meter.on()) meter.EndStep(replayer.Counts());
  }
  if (mode == Mode::kMeasure) meter.EndStep({});
}

}  // namespace
}  // namespace onnx_memplan::profile

namespace profile = onnx_memplan::profile;

ONNX_MEMPLAN_EXPORT void onnx_memplan_profile_step() { profile::EndStep(); }

ONNX_MEMPLAN_EXPORT void* malloc(size_t bytes) noexcept {
  return profile::Allocate(bytes, 1, false, [&] { return profile::real::Malloc(bytes); });
}

ONNX_MEMPLAN_EXPORT void* calloc(size_t count, size_t bytes) noexcept {
  size_t total = 0;
  if (__builtin_mul_overflow(count, bytes, &total)) total = 0;  // the real one fails
  return profile::Allocate(total, 1, true, [&] { return profile::real::Calloc(count, bytes); });
}

ONNX_MEMPLAN_EXPORT void* realloc(void* pointer, size_t bytes) noexcept {
  return profile::Realloc(pointer, bytes);
}

ONNX_MEMPLAN_EXPORT void* reallocarray(void* pointer, size_t count, size_t bytes) noexcept {
  size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) {
    errno = ENOMEM;
    return nullptr;
  }
  return profile::Realloc(pointer, total);
}

ONNX_MEMPLAN_EXPORT void* memalign(size_t alignment, size_t bytes) noexcept {
  const auto serve = [&] { return profile::real::Memalign(alignment, bytes); };
  if (!std::has_single_bit(alignment)) return serve();
  return profile::Allocate(bytes, alignment, false, serve);
}

ONNX_MEMPLAN_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  const auto serve = [&] { return profile::real::AlignedAlloc(alignment, bytes); };
  if (!std::has_single_bit(alignment)) return serve();
  return profile::Allocate(bytes, alignment, false, serve);
}

ONNX_MEMPLAN_EXPORT int posix_memalign(void** pointer, size_t alignment, size_t bytes) noexcept {
  if (!std::has_single_bit(alignment) || alignment < sizeof(void*)) return EINVAL;
  int status = 0;
  void* block = profile::Allocate(bytes, alignment, false, [&]() -> void* {
    void* served = nullptr;
    status = profile::real::PosixMemalign(&served, alignment, bytes);
    return status == 0 ? served : nullptr;
  });
  if (status == 0) *pointer = block;
  return status;
}

ONNX_MEMPLAN_EXPORT void free(void* pointer) noexcept { profile::Free(pointer); }

ONNX_MEMPLAN_EXPORT size_t malloc_usable_size(void* pointer) noexcept {
  return profile::replayer.Owns(pointer) ? profile::replayer.BytesOf(pointer)
                                         : profile::real::UsableSize(pointer);
}
