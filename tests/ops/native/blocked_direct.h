// Direct convolution as generated code has it: compiled with the flags of a target.
#ifndef ONNX_MEMPLAN_TESTS_OPS_NATIVE_BLOCKED_DIRECT_H_
#define ONNX_MEMPLAN_TESTS_OPS_NATIVE_BLOCKED_DIRECT_H_

#include <cstdint>

namespace onnx_memplan {

// kernels::BlockedDirect with these template arguments for arguments x, weights, bias, residual, y;
// nullptr where there is none for the test, or the CPU cannot run it. params: BlockedDirectParams.
using NativeDirect = void (*)(const void* params, const float* x, const float* weights,
                              const float* bias, const float* residual, float* y);
NativeDirect FindNativeDirectV3(int32_t width, int32_t vectors, int32_t pixels, int32_t step,
                                int32_t kind);
NativeDirect FindNativeDirectV4(int32_t width, int32_t vectors, int32_t pixels, int32_t step,
                                int32_t kind);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_TESTS_OPS_NATIVE_BLOCKED_DIRECT_H_
