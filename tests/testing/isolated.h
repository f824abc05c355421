// Work that may crash or hang, in a process of its own.
#ifndef ONNX_MEMPLAN_TESTS_TESTING_ISOLATED_H_
#define ONNX_MEMPLAN_TESTS_TESTING_ISOLATED_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace onnx_memplan::testing {

// What `work` returns, run in a child process. Internal error, with the signal, when the child dies
// of one; a child that runs longer than `seconds` does (SIGALRM).
absl::StatusOr<std::string> RunIsolated(const std::function<std::string()>& work, unsigned seconds);

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_TESTING_ISOLATED_H_
