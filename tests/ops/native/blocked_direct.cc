// Compiled once for each target. Includes nothing of the library, and kernels in a namespace of its
// own: inline functions in common would be linked in for CPUs that cannot run them.
#include "ops/native/blocked_direct.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace {
#include "kernels/blocked_direct.h"

bool CpuRuns() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
}

template <int Width, int Vectors, int Pixels, int Step, int Kind>
void Run(const void* params, const float* x, const float* weights, const float* bias,
         const float* residual, float* y) {
  kernels::BlockedDirect<Width, Vectors, Pixels, Step, Kind>(
      *static_cast<const kernels::BlockedDirectParams*>(params), x, weights, bias, residual, y);
}

using onnx_memplan::NativeDirect;

template <int Width, int Vectors, int Pixels>
NativeDirect FindAccess(int32_t step, int32_t kind) {
  if (kind == kernels::kDirectPointwise && step == 8) {
    return &Run<Width, Vectors, Pixels, 8, kernels::kDirectPointwise>;
  }
  if (kind == kernels::kDirectBlocked && step == 8) {
    return &Run<Width, Vectors, Pixels, 8, kernels::kDirectBlocked>;
  }
  if (kind == kernels::kDirectBlocked && step == 0) {
    return &Run<Width, Vectors, Pixels, 0, kernels::kDirectBlocked>;
  }
  if (kind == kernels::kDirectPlanes && step == 2) {
    return &Run<Width, Vectors, Pixels, 2, kernels::kDirectPlanes>;
  }
  return nullptr;
}

}  // namespace

namespace onnx_memplan {

// Few vectors and many, fewer than there are pixels and more.
NativeDirect MEMPLAN_TEST_FUNCTION(int32_t width, int32_t vectors, int32_t pixels, int32_t step,
                                   int32_t kind) {
  if (!CpuRuns()) return nullptr;
#define MEMPLAN_TEST_SHAPE(w, v, p) \
  if (width == w && vectors == v && pixels == p) return FindAccess<w, v, p>(step, kind)
#if defined(__AVX512F__)
  MEMPLAN_TEST_SHAPE(16, 1, 4);
  MEMPLAN_TEST_SHAPE(16, 1, 8);
  MEMPLAN_TEST_SHAPE(16, 2, 5);
  MEMPLAN_TEST_SHAPE(8, 3, 8);
#else
  MEMPLAN_TEST_SHAPE(8, 1, 4);
  MEMPLAN_TEST_SHAPE(8, 2, 5);
  MEMPLAN_TEST_SHAPE(8, 3, 4);
  MEMPLAN_TEST_SHAPE(8, 4, 3);
#endif
#undef MEMPLAN_TEST_SHAPE
  return nullptr;
}

}  // namespace onnx_memplan
