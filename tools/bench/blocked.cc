// Depthwise convolutions, pools and conversions of images in blocks of channels, beside those of
// plain images, over layer shapes of real networks; one build of this file for each target
// (MEMPLAN_BENCH_TARGET).
//
//   onnx_memplan_bench_kernels --benchmark_filter="x86-64-v3/(Blocked|Plain)"
//
// Depthwise in GFLOP/s of multiply-adds, the others in GB/s of what they read and write.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Anonymous: the builds for several targets are linked together.
namespace {
#include "kernel_bench.h"
#include "kernels/blocked_depthwise.h"
#include "kernels/blocked_layout.h"
#include "kernels/blocked_pool.h"
#include "kernels/depthwise_plane.h"

constexpr int kBlockLanes = MEMPLAN_BENCH_LANES < 8 ? 4 : 8;

void Report(benchmark::State& state, const char* unit, double count) {
  state.counters[unit] = benchmark::Counter(count * 1e-9 * static_cast<double>(state.iterations()),
                                            benchmark::Counter::kIsRate);
}

// Square; channels fill blocks.
struct Layer {
  const char* network;
  int32_t channels, size, taps, stride;

  int32_t padding() const { return taps % 2 == 0 ? 0 : taps / 2; }
  int32_t out_size() const { return (size + 2 * padding() - taps) / stride + 1; }
  int64_t in_floats() const { return int64_t{channels} * size * size; }
  int64_t out_floats() const { return int64_t{channels} * out_size() * out_size(); }
  double flops() const { return 2.0 * taps * taps * static_cast<double>(out_floats()); }
  double bytes() const { return 4.0 * static_cast<double>(in_floats() + out_floats()); }
};

// Sets what the parameters of all windows have; axes in front of `first` are not there.
template <class Params>
void SetWindow(const Layer& layer, int first, Params* p) {
  for (int i = 0; i < first + 2; ++i) {
    p->in_size[i] = i < first ? 1 : layer.size;
    p->out_size[i] = i < first ? 1 : layer.out_size();
    p->taps[i] = i < first ? 1 : layer.taps;
    p->stride[i] = i < first ? 1 : layer.stride;
    p->dilation[i] = 1;
    p->padding[i] = i < first ? 0 : layer.padding();
  }
}

// Runs `call` on an image x and for a result y.
template <class Call>
void Run(benchmark::State& state, const Layer& layer, Call call) {
  const std::vector<float> x = Filled(layer.in_floats());
  std::vector<float> y = Filled(layer.out_floats());
  for (auto _ : state) {
    call(x.data(), y.data());
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
}

template <int Taps, int Stride>
void BlockedDepthwise(benchmark::State& state, Layer layer) {
  kernels::BlockedConvParams p = {};
  p.batch = 1;
  p.in_channels = p.out_channels = layer.channels;
  p.depthwise = p.in_blocked = p.clamps = 1;
  p.highest = 6;
  SetWindow(layer, 0, &p);
  const std::vector<float> constants =
      Filled(int64_t{layer.channels / 8} * kernels::BlockedDepthwiseConstants(p));
  Run(state, layer, [&](const float* x, float* y) {
    kernels::BlockedDepthwise<kBlockLanes, Taps, Stride>(p, x, constants.data(), nullptr, y);
  });
  Report(state, "GFLOP/s", layer.flops());
}

template <int Taps>
void PlainDepthwise(benchmark::State& state, Layer layer) {
  kernels::DepthwiseParams p = {};
  p.batch = 1;
  p.channels = layer.channels;
  p.multiplier = p.clamps = 1;
  p.highest = 6;
  SetWindow(layer, 0, &p);
  const std::vector<float> weights = Filled(int64_t{layer.channels} * Taps * Taps);
  std::vector<float> padded = Filled(kernels::DepthwisePlaneScratchBytes(p, kBlockLanes) / 4);
  Run(state, layer, [&](const float* x, float* y) {
    kernels::DepthwisePlane<kBlockLanes, Taps, Taps>(p, x, weights.data(), nullptr, nullptr,
                                                     padded.data(), y);
  });
  Report(state, "GFLOP/s", layer.flops());
}

template <int Taps, int Stride>
void BlockedMaxPool(benchmark::State& state, Layer layer) {
  kernels::BlockedPoolParams p = {};
  p.planes = layer.channels / 8;
  SetWindow(layer, 0, &p);
  Run(state, layer, [&](const float* x, float* y) {
    kernels::BlockedMaxPool<kBlockLanes, Taps, Stride>(p, x, y);
  });
  Report(state, "GB/s", layer.bytes());
}

void PlainMaxPool(benchmark::State& state, Layer layer) {
  kernels::PoolParams p = {};
  p.planes = layer.channels;
  SetWindow(layer, 1, &p);
  Run(state, layer,
      [&](const float* x, float* y) { kernels::MaxPool<float, MEMPLAN_BENCH_LANES>(p, x, y); });
  Report(state, "GB/s", layer.bytes());
}

void BlockedGlobalAveragePool(benchmark::State& state, Layer layer) {
  const kernels::BlockedGlobalPoolParams p = {layer.channels / 8, layer.size * layer.size};
  Run(state, layer,
      [&](const float* x, float* y) { kernels::BlockedGlobalAveragePool<kBlockLanes>(p, x, y); });
  Report(state, "GB/s", 4.0 * static_cast<double>(layer.in_floats()));
}

void BlockChannels(benchmark::State& state, Layer layer) {
  const kernels::BlockLayoutParams p = {1, layer.channels, layer.size * layer.size};
  Run(state, layer,
      [&](const float* x, float* y) { kernels::BlockChannels<kBlockLanes>(p, x, y); });
  Report(state, "GB/s", layer.bytes());
}

void UnblockChannels(benchmark::State& state, Layer layer) {
  const kernels::BlockLayoutParams p = {1, layer.channels, layer.size * layer.size};
  Run(state, layer,
      [&](const float* x, float* y) { kernels::UnblockChannels<kBlockLanes>(p, x, y); });
  Report(state, "GB/s", layer.bytes());
}

constexpr Layer kDepthwise[] = {
    {"mobilenet_v2", 32, 112, 3, 1},    {"mobilenet_v2", 96, 112, 3, 2},
    {"mobilenet_v2", 144, 56, 3, 1},    {"mobilenet_v2", 192, 28, 3, 1},
    {"mobilenet_v2", 384, 14, 3, 1},    {"mobilenet_v2", 576, 14, 3, 2},
    {"mobilenet_v2", 960, 7, 3, 1},     {"efficientnet_b0", 144, 56, 5, 2},
    {"efficientnet_b0", 240, 28, 5, 1}, {"efficientnet_b0", 672, 14, 5, 1},
    {"efficientnet_b0", 1152, 7, 5, 1}, {"mobilenet_v3_small", 96, 28, 5, 2},
    {"mlperf_vww_fp32", 8, 48, 3, 1},   {"mlperf_vww_fp32", 32, 24, 3, 1},
    {"mlperf_vww_fp32", 128, 6, 3, 1},  {"mlperf_vww_fp32", 256, 3, 3, 1},
};
constexpr Layer kPools[] = {
    {"resnet18", 64, 112, 3, 2},
    {"googlenet", 192, 28, 3, 1},
    {"unet_small", 8, 128, 2, 2},
    {"googlenet", 832, 7, 3, 1},
};
constexpr Layer kImages[] = {
    {"mobilenet_v2", 32, 112, 1, 1},
    {"resnet18", 64, 56, 1, 1},
    {"mobilenet_v2", 1280, 7, 1, 1},
};

using Benchmark = void (*)(benchmark::State&, Layer);

Benchmark DepthwiseOf(const Layer& layer) {
  if (layer.taps == 3) return layer.stride == 1 ? BlockedDepthwise<3, 1> : BlockedDepthwise<3, 2>;
  return layer.stride == 1 ? BlockedDepthwise<5, 1> : BlockedDepthwise<5, 2>;
}

Benchmark MaxPoolOf(const Layer& layer) {
  if (layer.taps == 2) return BlockedMaxPool<2, 2>;
  return layer.stride == 1 ? BlockedMaxPool<3, 1> : BlockedMaxPool<3, 2>;
}

// Registers all; the value only makes it run before main.
const bool kRegistered = [] {
  if (!CpuRuns()) return false;
  const auto add = [](const char* kind, const Layer& layer, Benchmark run) {
    const std::string name = std::string(MEMPLAN_BENCH_TARGET "/") + kind + "/" + layer.network +
                             "/" + std::to_string(layer.channels) + "x" +
                             std::to_string(layer.size) + "x" + std::to_string(layer.taps) + "x" +
                             std::to_string(layer.stride);
    benchmark::RegisterBenchmark(name.c_str(), run, layer);
  };
  for (const Layer& layer : kDepthwise) {
    add("BlockedDepthwise", layer, DepthwiseOf(layer));
    add("PlainDepthwise", layer, layer.taps == 3 ? PlainDepthwise<3> : PlainDepthwise<5>);
  }
  for (const Layer& layer : kPools) {
    add("BlockedMaxPool", layer, MaxPoolOf(layer));
    add("PlainMaxPool", layer, PlainMaxPool);
  }
  for (const Layer& layer : kImages) {
    add("BlockedGlobalAveragePool", layer, BlockedGlobalAveragePool);
    add("BlockChannels", layer, BlockChannels);
    add("UnblockChannels", layer, UnblockChannels);
  }
  return true;
}();

}  // namespace
