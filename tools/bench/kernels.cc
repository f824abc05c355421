// GFLOP/s of convolutions and matrix products over layer shapes of real networks, one build of this
// file for each target (MEMPLAN_BENCH_TARGET, _LANES, _ROWS, _COLUMNS: its name and its tile).
//
//   onnx_memplan_bench_kernels --benchmark_filter=x86-64-v3
//
// FmaPeak is what this CPU does with sums in registers alone: the bound for all others. Run nothing
// else meanwhile.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Anonymous: the builds for several targets are linked together.
namespace {
#include "kernels/conv.h"
#include "kernels/depthwise_plane.h"
#include "kernels/matmul.h"

constexpr int kLanes = MEMPLAN_BENCH_LANES;
constexpr int kRows = MEMPLAN_BENCH_ROWS;
constexpr int kColumns = MEMPLAN_BENCH_COLUMNS;

bool CpuRuns() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512f");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("avx2");
#else
  return true;
#endif
}

std::vector<float> Filled(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 17) * 0.125F - 1.0F;
  }
  return values;
}

void Report(benchmark::State& state, int64_t macs) {
  const auto flops = 2.0 * static_cast<double>(macs) * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsRate);
}

void FmaPeak(benchmark::State& state) {
  using V = kernels::Vector<kLanes>::Type;
  constexpr int kChains = 12;
  constexpr int kRounds = 1000;
  V sums[kChains] = {};
  const V a = 0.5F - V{};
  const V b = 0.25F - V{};
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
      for (int i = 0; i < kChains; ++i) {
        sums[i] = sums[i] * a + b;
        asm volatile("" : "+v"(sums[i]));
      }
    }
  }
  Report(state, int64_t{kRounds} * kChains * kLanes);
}

// A square convolution.
struct ConvLayer {
  const char* network;
  int32_t in_channels, out_channels, size, taps, stride;
};

void Conv(benchmark::State& state, ConvLayer layer) {
  const int32_t padding = layer.taps / 2;
  const int32_t out_size = (layer.size + 2 * padding - layer.taps) / layer.stride + 1;
  kernels::ConvParams p = {};
  p.batch = 1;
  p.groups = 1;
  p.in_channels = layer.in_channels;
  p.out_channels = layer.out_channels;
  for (int i = 0; i < 3; ++i) {
    p.in_size[i] = i == 0 ? 1 : layer.size;
    p.out_size[i] = i == 0 ? 1 : out_size;
    p.taps[i] = i == 0 ? 1 : layer.taps;
    p.stride[i] = i == 0 ? 1 : layer.stride;
    p.dilation[i] = 1;
    p.padding[i] = i == 0 ? 0 : padding;
  }
  const int32_t taps = layer.taps * layer.taps;
  p.block_channels = std::clamp(8192 / (taps * kLanes * kColumns), 1, layer.in_channels);
  const std::vector<float> x = Filled(int64_t{layer.in_channels} * layer.size * layer.size);
  const std::vector<float> weights =
      Filled(int64_t{layer.out_channels + kRows} * layer.in_channels * taps);
  const std::vector<float> bias = Filled(layer.out_channels);
  std::vector<float> y = Filled(int64_t{layer.out_channels} * out_size * out_size);
  std::vector<float> panel =
      Filled(kernels::PanelScratchBytes(p.block_channels, taps, kLanes * kColumns) / 4);
  for (auto _ : state) {
    if (layer.taps == 1 && layer.stride == 1) {
      kernels::ConvPointwise<kLanes, kRows, kColumns, true>(p, x.data(), weights.data(),
                                                            bias.data(), nullptr, y.data());
    } else {
      kernels::ConvGemm<kLanes, kRows, kColumns, true>(p, x.data(), weights.data(), bias.data(),
                                                       nullptr, panel.data(), y.data());
    }
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  Report(state, int64_t{out_size} * out_size * layer.out_channels * layer.in_channels * taps);
}

template <int Taps>
void DepthwiseLayer(benchmark::State& state, const ConvLayer& layer) {
  constexpr int kPlaneLanes = kLanes < 8 ? kLanes : 8;
  const int32_t out_size = (layer.size + 2 * (Taps / 2) - Taps) / layer.stride + 1;
  kernels::DepthwiseParams p = {};
  p.batch = 1;
  p.channels = layer.in_channels;
  p.multiplier = 1;
  for (int i = 0; i < 2; ++i) {
    p.in_size[i] = layer.size;
    p.out_size[i] = out_size;
    p.taps[i] = Taps;
    p.stride[i] = layer.stride;
    p.dilation[i] = 1;
    p.padding[i] = Taps / 2;
  }
  const std::vector<float> x = Filled(int64_t{layer.in_channels} * layer.size * layer.size);
  const std::vector<float> weights = Filled(int64_t{layer.in_channels} * Taps * Taps);
  std::vector<float> y = Filled(int64_t{layer.in_channels} * out_size * out_size);
  std::vector<float> padded = Filled(kernels::DepthwisePlaneScratchBytes(p, kPlaneLanes) / 4);
  for (auto _ : state) {
    kernels::DepthwisePlane<kPlaneLanes, Taps, Taps>(p, x.data(), weights.data(), nullptr, nullptr,
                                                     padded.data(), y.data());
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  Report(state, int64_t{out_size} * out_size * layer.in_channels * Taps * Taps);
}

// `packed`: B is constant, so that lowering packs it.
struct Product {
  const char* network;
  int32_t rows, depth, columns;
  bool packed;
};

void MatMul(benchmark::State& state, Product product) {
  kernels::MatMulParams p = {};
  for (int i = 0; i < kernels::kMatMulBatchRank; ++i) p.batch[i] = 1;
  p.rows = product.rows;
  p.columns = product.columns;
  p.depth = product.depth;
  p.a_row_stride = product.depth;
  p.a_depth_stride = 1;
  p.b_depth_stride = product.columns;
  p.b_column_stride = 1;
  p.depth_block = std::min(product.depth, 384);
  p.scale = 1;
  p.bias_scale = 1;
  const std::vector<float> a = Filled(int64_t{product.rows} * product.depth);
  const std::vector<float> b = Filled(int64_t{product.depth} * (product.columns + kLanes));
  std::vector<float> c = Filled(int64_t{product.rows} * product.columns);
  for (auto _ : state) {
    if (product.rows == 1) {
      kernels::MatMul<kLanes, 1, 4, true>(p, a.data(), b.data(), nullptr, nullptr, c.data());
    } else if (product.packed) {
      kernels::MatMul<kLanes, kRows, kColumns, true>(p, a.data(), b.data(), nullptr, nullptr,
                                                     c.data());
    } else {
      kernels::MatMul<kLanes, kRows, kColumns, false>(p, a.data(), b.data(), nullptr, nullptr,
                                                      c.data());
    }
    benchmark::DoNotOptimize(c.data());
    benchmark::ClobberMemory();
  }
  Report(state, int64_t{product.rows} * product.depth * product.columns);
}

constexpr ConvLayer kConvLayers[] = {
    {"mobilenet_v2", 3, 32, 224, 3, 2},   {"mobilenet_v2", 16, 96, 112, 1, 1},
    {"mobilenet_v2", 144, 24, 56, 1, 1},  {"mobilenet_v2", 192, 32, 28, 1, 1},
    {"mobilenet_v2", 64, 384, 14, 1, 1},  {"mobilenet_v2", 576, 96, 14, 1, 1},
    {"mobilenet_v2", 160, 960, 7, 1, 1},  {"mobilenet_v2", 320, 1280, 7, 1, 1},
    {"squeezenet1_1", 3, 64, 224, 3, 2},  {"squeezenet1_1", 16, 64, 55, 3, 1},
    {"squeezenet1_1", 64, 256, 13, 3, 1}, {"squeezenet1_1", 512, 1000, 13, 1, 1},
    {"resnet18", 3, 64, 224, 7, 2},       {"resnet18", 64, 64, 56, 3, 1},
    {"resnet18", 128, 128, 28, 3, 1},     {"resnet18", 256, 256, 14, 3, 1},
    {"resnet18", 512, 512, 7, 3, 1},      {"unet_small", 16, 16, 64, 3, 1},
    {"unet_small", 64, 64, 16, 3, 1},
};
constexpr ConvLayer kDepthwiseLayers[] = {
    {"mobilenet_v2", 32, 32, 112, 3, 1},     {"mobilenet_v2", 96, 96, 112, 3, 2},
    {"mobilenet_v2", 144, 144, 56, 3, 1},    {"mobilenet_v2", 384, 384, 14, 3, 1},
    {"mobilenet_v2", 960, 960, 7, 3, 1},     {"efficientnet_b0", 240, 240, 28, 5, 2},
    {"efficientnet_b0", 672, 672, 14, 5, 1},
};
constexpr Product kProducts[] = {
    {"square", 512, 512, 512, true},     {"bert_base", 128, 768, 768, true},
    {"bert_base", 128, 768, 3072, true}, {"bert_base", 128, 3072, 768, true},
    {"attention", 128, 64, 128, false},  {"attention", 128, 128, 64, false},
    {"vit_b_16", 197, 768, 768, true},   {"mlperf_ad_fp32", 1, 640, 128, true},
    {"resnet18", 1, 512, 1000, true},
};

// Registers all; the value only makes it run before main.
const bool kRegistered = [] {
  if (!CpuRuns()) return false;
  const std::string target = MEMPLAN_BENCH_TARGET "/";
  benchmark::RegisterBenchmark((target + "FmaPeak").c_str(), FmaPeak);
  const auto name = [&](const char* kind, const char* network, std::vector<int32_t> numbers) {
    std::string text = target + kind + "/" + network;
    for (size_t i = 0; i < numbers.size(); ++i) {
      text += (i == 0 ? "/" : "x") + std::to_string(numbers[i]);
    }
    return text;
  };
  for (const ConvLayer& layer : kConvLayers) {
    benchmark::RegisterBenchmark(
        name("Conv", layer.network,
             {layer.in_channels, layer.out_channels, layer.size, layer.taps, layer.stride})
            .c_str(),
        Conv, layer);
  }
  for (const ConvLayer& layer : kDepthwiseLayers) {
    benchmark::RegisterBenchmark(
        name("Depthwise", layer.network, {layer.in_channels, layer.size, layer.taps, layer.stride})
            .c_str(),
        layer.taps == 3 ? DepthwiseLayer<3> : DepthwiseLayer<5>, layer);
  }
  for (const Product& product : kProducts) {
    benchmark::RegisterBenchmark(
        name("MatMul", product.network, {product.rows, product.depth, product.columns}).c_str(),
        MatMul, product);
  }
  return true;
}();

}  // namespace
