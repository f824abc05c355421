#include "profile/preload/environment.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace onnx_memplan::profile {
namespace {

constexpr char kOwner[] = "ONNX_MEMPLAN_PROFILE_OWNER";

bool IsFor(const char* program) {
  if (program == nullptr || *program == '\0') return true;
  return std::strcmp(program, program_invocation_short_name) == 0;
}

// Whether this process is the first of those that see the variables. The mark survives exec() in
// the same process, and tells programs that it starts that they are not meant.
bool TakeOwnership() {
  char mine[24] = {};
  std::to_chars(mine, mine + sizeof mine - 1, getpid());
  const char* owner = std::getenv(kOwner);
  if (owner != nullptr && std::strcmp(owner, mine) != 0) return false;
  setenv(kOwner, mine, 1);
  return true;
}

bool ReadCount(const char* text, int* count) {
  const char* end = text + std::strlen(text);
  const auto result = std::from_chars(text, end, *count);
  return result.ec == std::errc() && result.ptr == end && *count >= 0;
}

bool ReadBytes(const char* text, size_t* bytes) {
  const char* end = text + std::strlen(text);
  const auto result = std::from_chars(text, end, *bytes);
  if (result.ec != std::errc() || *bytes == 0) return false;
  size_t unit = 1;
  if (result.ptr != end) {
    if (result.ptr + 1 != end) return false;
    unit = *result.ptr == 'K' ? 1024 : *result.ptr == 'M' ? 1024 * 1024 : 0;
  }
  return unit != 0 && !__builtin_mul_overflow(*bytes, unit, bytes);
}

}  // namespace

void Complain(const char* what, const char* detail) {
  char line[512];
  const int length = std::snprintf(line, sizeof line, "onnx_memplan profile: %s%s%s\n", what,
                                   *detail == '\0' ? "" : ": ", detail);
  if (length <= 0) return;
  const size_t count =
      static_cast<size_t>(length) < sizeof line ? static_cast<size_t>(length) : sizeof line - 1;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, count);
}

Environment ReadEnvironment() {
  Environment result;
  const char* mode = std::getenv("ONNX_MEMPLAN_PROFILE");
  if (mode == nullptr || *mode == '\0') return {};
  if (!IsFor(std::getenv("ONNX_MEMPLAN_PROFILE_PROGRAM")) || !TakeOwnership()) return {};
  result.mode = std::strcmp(mode, "record") == 0    ? Mode::kRecord
                : std::strcmp(mode, "replay") == 0  ? Mode::kReplay
                : std::strcmp(mode, "measure") == 0 ? Mode::kMeasure
                                                    : Mode::kOff;
  if (result.mode == Mode::kOff) {
    Complain("ONNX_MEMPLAN_PROFILE must be record, replay or measure", mode);
    return {};
  }
  result.profile_path = std::getenv("ONNX_MEMPLAN_PROFILE_FILE");
  if (result.profile_path == nullptr && result.mode != Mode::kMeasure) {
    Complain("ONNX_MEMPLAN_PROFILE_FILE is not set", "");
    return {};
  }
  result.statistics_path = std::getenv("ONNX_MEMPLAN_PROFILE_STATISTICS");
  const char* min_bytes = std::getenv("ONNX_MEMPLAN_PROFILE_MIN_BYTES");
  if (min_bytes != nullptr && !ReadBytes(min_bytes, &result.min_bytes)) {
    Complain("ONNX_MEMPLAN_PROFILE_MIN_BYTES must be a size such as 4096, 64K or 1M", min_bytes);
    return {};
  }
  const char* loop = std::getenv("ONNX_MEMPLAN_PROFILE_LOOP");
  if (loop != nullptr && !ReadCount(loop, &result.loop_steps)) {
    Complain("ONNX_MEMPLAN_PROFILE_LOOP must be a number of steps", loop);
    return {};
  }
  return result;
}

}  // namespace onnx_memplan::profile
