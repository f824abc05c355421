// Early return for absl::Status and absl::StatusOr.
#ifndef ONNX_MEMPLAN_SUPPORT_STATUS_MACROS_H_
#define ONNX_MEMPLAN_SUPPORT_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expr)                           \
  do {                                                  \
    if (absl::Status status_ = (expr); !status_.ok()) { \
      return status_;                                   \
    }                                                   \
  } while (false)

#define MEMPLAN_CONCAT_INNER_(a, b) a##b
#define MEMPLAN_CONCAT_(a, b) MEMPLAN_CONCAT_INNER_(a, b)

// ASSIGN_OR_RETURN(auto x, F()); declares x or returns F's error.
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL_(MEMPLAN_CONCAT_(status_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                           \
  if (!tmp.ok()) return tmp.status();          \
  lhs = *std::move(tmp)

#endif  // ONNX_MEMPLAN_SUPPORT_STATUS_MACROS_H_
