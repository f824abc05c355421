// What the benchmarks of kernels share. Include it inside their anonymous namespace, after
// <benchmark/benchmark.h>: each is compiled for several targets that are linked together.
#ifndef ONNX_MEMPLAN_TOOLS_BENCH_KERNEL_BENCH_H_
#define ONNX_MEMPLAN_TOOLS_BENCH_KERNEL_BENCH_H_

// Whether this CPU runs what the file is compiled for.
inline bool CpuRuns() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512f");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("avx2");
#else
  return true;
#endif
}

// Numbers in [-1, 1].
inline std::vector<float> Filled(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 17) * 0.125F - 1.0F;
  }
  return values;
}

#endif  // ONNX_MEMPLAN_TOOLS_BENCH_KERNEL_BENCH_H_
