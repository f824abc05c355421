// CHECK: for faults of our own. It prints where and why, and aborts, in release builds too. A fault
// of the user is an absl::Status.
#ifndef ONNX_MEMPLAN_SUPPORT_CHECK_H_
#define ONNX_MEMPLAN_SUPPORT_CHECK_H_

#include <string_view>

namespace onnx_memplan::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view detail);
}  // namespace onnx_memplan::internal

#define MEMPLAN_CHECK(condition)                                                 \
  do {                                                                           \
    if (!(condition)) [[unlikely]]                                               \
      ::onnx_memplan::internal::CheckFailed(__FILE__, __LINE__, #condition, {}); \
  } while (false)

// `detail` is evaluated only on failure.
#define MEMPLAN_CHECK_MSG(condition, detail)                                           \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      ::onnx_memplan::internal::CheckFailed(__FILE__, __LINE__, #condition, (detail)); \
  } while (false)

#endif  // ONNX_MEMPLAN_SUPPORT_CHECK_H_
