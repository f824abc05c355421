// The deepest stack of a compiled file, from GCC's -fcallgraph-info=su.
#ifndef ONNX_MEMPLAN_TESTS_TESTING_STACK_BOUND_H_
#define ONNX_MEMPLAN_TESTS_TESTING_STACK_BOUND_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace onnx_memplan::testing {

// The bytes of the frames on the deepest chain of calls that starts at `root` (a function with C
// linkage). `call_graph` is the content of the .ci file. A call through a pointer counts as the
// deepest function that makes no such call itself; functions of other files (libm, memset) count
// as nothing. Internal error for recursion, and for a frame without a bound.
absl::StatusOr<int64_t> StackBound(const std::string& call_graph, const std::string& root);

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_TESTING_STACK_BOUND_H_
