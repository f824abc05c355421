#include "support/check.h"

#include <cstdio>
#include <cstdlib>

namespace onnx_memplan::internal {

void CheckFailed(const char* file, int line, const char* condition, std::string_view detail) {
  std::fprintf(stderr, "%s:%d: internal error: %s is false%s%.*s\n", file, line, condition,
               detail.empty() ? "" : ": ", static_cast<int>(detail.size()), detail.data());
  std::abort();
}

}  // namespace onnx_memplan::internal
