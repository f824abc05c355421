#include "profile/preload/meter.h"

#include <charconv>
#include <ctime>
#include <string_view>

#include "profile/csv.h"

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

namespace onnx_memplan::profile {
namespace {

int64_t Nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class Json {
 public:
  void Text(std::string_view text) { good_ = good_ && bytes_.Append(text.data(), text.size()); }
  void Number(const char* name, int64_t value) {
    Text("\"");
    Text(name);
    Text("\": ");
    char digits[24];
    const auto result = std::to_chars(digits, digits + sizeof digits, value);
    Text({digits, static_cast<size_t>(result.ptr - digits)});
  }
  bool WriteTo(const char* path) const {
    return good_ && WriteFile(path, bytes_.data(), bytes_.size());
  }

 private:
  bool good_ = true;
  MappedArray<char> bytes_;
};

}  // namespace

uint64_t Ticks() {
#if defined(__x86_64__) || defined(__i386__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<uint64_t>(Nanoseconds());
#endif
}

void Meter::Start() {
  start_ticks_ = Ticks();
  start_nanoseconds_ = Nanoseconds();
  on_ = true;
}

Meter::Sample Meter::Now(const ProfileStatistics& replay) const {
  return {.calls = calls_.load(std::memory_order_relaxed),
          .ticks = ticks_.load(std::memory_order_relaxed),
          .planned = replay.planned,
          .fallbacks = replay.Fallbacks()};
}

void Meter::EndStep(const ProfileStatistics& replay) {
  if (!on_) return;
  const Sample sample = Now(replay);
  LockGuard guard(lock_);
  steps_.PushBack(sample);
}

bool Meter::Write(const char* path, const char* mode, const ProfileStatistics& replay) const {
  const double nanoseconds_per_tick = static_cast<double>(Nanoseconds() - start_nanoseconds_) /
                                      static_cast<double>(Ticks() - start_ticks_);
  Json json;
  const auto write_sample = [&](const Sample& sample) {
    json.Number("calls", static_cast<int64_t>(sample.calls));
    json.Text(", ");
    json.Number("nanoseconds",
                static_cast<int64_t>(static_cast<double>(sample.ticks) * nanoseconds_per_tick));
    json.Text(", ");
    json.Number("planned", sample.planned);
    json.Text(", ");
    json.Number("fallbacks", sample.fallbacks);
  };
  json.Text("{\"format_version\": 1, \"mode\": \"");
  json.Text(mode);
  json.Text("\",\n ");
  write_sample(Now(replay));
  const struct {
    const char* name;
    int64_t value;
  } fields[] = {{"requests", replay.requests},
                {"unknown", replay.unknown},
                {"missing", replay.missing},
                {"conflict", replay.conflict},
                {"arena_bytes", replay.arena_bytes},
                {"resident_bytes", replay.resident_bytes},
                {"peak_planned_bytes", replay.peak_planned_bytes},
                {"peak_fallback_bytes", replay.peak_fallback_bytes},
                {"table_bytes", replay.table_bytes}};
  for (const auto& field : fields) {
    json.Text(",\n ");
    json.Number(field.name, field.value);
  }
  json.Text(",\n \"steps\": [");
  for (size_t i = 0; i < steps_.size(); ++i) {
    json.Text(i == 0 ? "\n  {" : ",\n  {");
    write_sample(steps_[i]);
    json.Text("}");
  }
  json.Text("]}\n");
  return json.WriteTo(path);
}

}  // namespace onnx_memplan::profile
