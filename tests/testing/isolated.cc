#include "testing/isolated.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "support/check.h"

namespace onnx_memplan::testing {

absl::StatusOr<std::string> RunIsolated(const std::function<std::string()>& work,
                                        unsigned seconds) {
  int ends[2];
  MEMPLAN_CHECK(::pipe(ends) == 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  MEMPLAN_CHECK(child >= 0);
  if (child == 0) {
    ::alarm(seconds);
    const std::string result = work();
    size_t written = 0;
    while (written < result.size()) {
      const ssize_t n = ::write(ends[1], result.data() + written, result.size() - written);
      if (n <= 0) ::_exit(1);
      written += static_cast<size_t>(n);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string result;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    result.append(buffer, static_cast<size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    return absl::InternalError(absl::StrCat("died of signal ", WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) != 0) {
    return absl::InternalError(absl::StrCat("exit status ", WEXITSTATUS(status)));
  }
  return result;
}

}  // namespace onnx_memplan::testing
