// Recursion as deep as the problem is large.
#ifndef ONNX_MEMPLAN_PLAN_DEEP_STACK_H_
#define ONNX_MEMPLAN_PLAN_DEEP_STACK_H_

#include <cstddef>
#include <functional>

namespace onnx_memplan {

// Runs `work` on a thread with a stack of at least `stack_bytes` and waits for it; in place when
// that is at most 512 KiB. Returns false, without having run it, when the system
// refuses such a thread.
bool RunOnDeepStack(size_t stack_bytes, const std::function<void()>& work);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_DEEP_STACK_H_
