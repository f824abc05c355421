// What the machine that runs the tests can execute.
#ifndef ONNX_MEMPLAN_TESTS_TESTING_NATIVE_H_
#define ONNX_MEMPLAN_TESTS_TESTING_NATIVE_H_

#include <string_view>

namespace onnx_memplan::testing {

// Code for this target of the tool runs here.
inline bool ThisCpuRuns(std::string_view target) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                  __builtin_cpu_supports("bmi2") != 0;
  if (target == "x86-64-v3") return v3;
  if (target == "x86-64-v4") {
    return v3 && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512cd") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  }
  return true;
#else
  return target == "generic";
#endif
}

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_TESTING_NATIVE_H_
