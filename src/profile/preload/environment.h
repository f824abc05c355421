// What the environment asks of the preloaded library; docs/profile.md is the reference.
#ifndef ONNX_MEMPLAN_SRC_PROFILE_PRELOAD_ENVIRONMENT_H_
#define ONNX_MEMPLAN_SRC_PROFILE_PRELOAD_ENVIRONMENT_H_

#include <cstddef>

namespace onnx_memplan::profile {

enum class Mode {
  kOff,
  kRecord,
  kReplay,
  kMeasure,      // malloc serves all, and is timed
  kReplayChild,  // after fork(): the parent's planned blocks stay valid, all requests go to malloc
};

struct Environment {
  Mode mode = Mode::kOff;
  const char* profile_path = nullptr;
  const char* statistics_path = nullptr;  // null: none
  size_t min_bytes = 4096;
  int loop_steps = 0;
};

// Mode kOff when the process is not meant, and when a variable is wrong (then with a message).
// Marks the process, so that programs it starts are not meant.
Environment ReadEnvironment();

// One line to standard error.
void Complain(const char* what, const char* detail);

}  // namespace onnx_memplan::profile

#endif  // ONNX_MEMPLAN_SRC_PROFILE_PRELOAD_ENVIRONMENT_H_
