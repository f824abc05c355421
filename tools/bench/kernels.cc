// GFLOP/s of convolutions and matrix products over layer shapes of real networks, one build of this
// file for each target (MEMPLAN_BENCH_TARGET, _LANES, _ROWS, _COLUMNS: its name and its tile).
//
//   onnx_memplan_bench_kernels --benchmark_filter=x86-64-v3
//
// FmaPeak is what this CPU does with sums in registers alone: the bound for all others; `of_peak`
// is the share of it, `of_openblas` that of OpenBLAS's sgemm on one thread in the same process,
// where CMake finds it. Run nothing else meanwhile.
#include <benchmark/benchmark.h>
#include <time.h>
#ifdef MEMPLAN_BENCH_OPENBLAS
#include <cblas.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Anonymous: the builds for several targets are linked together.
namespace {
#include "kernel_bench.h"
#include "kernels/conv.h"
#include "kernels/depthwise_plane.h"
#include "kernels/matmul.h"

constexpr int kLanes = MEMPLAN_BENCH_LANES;
constexpr int kRows = MEMPLAN_BENCH_ROWS;
constexpr int kColumns = MEMPLAN_BENCH_COLUMNS;

// kChains sums of vectors, kRounds times.
constexpr int kChains = 12;
constexpr int kRounds = 1000;
constexpr double kPeakMacs = 1.0 * kRounds * kChains * kLanes;

// Not inlined: its loop keeps all in registers wherever it is called.
__attribute__((noinline)) void RunFmas() {
  using V = kernels::Vector<kLanes>::Type;
  V sums[kChains] = {};
  const V a = 0.5F - V{};
  const V b = 0.25F - V{};
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      sums[i] = sums[i] * a + b;
      asm volatile("" : "+v"(sums[i]));
    }
  }
}

// Of this thread alone: other processes do not count.
double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The least seconds that `run`, which does `macs` multiply-adds, takes: of 20 measurements of some
// milliseconds each, so that the clock is exact enough.
template <class Run>
double LeastSeconds(double macs, Run run) {
  const int together = std::clamp(static_cast<int>(1e8 / macs), 1, 100000);
  double least = 1e9;
  for (int i = 0; i < 20; ++i) {
    const double start = CpuSeconds();
    for (int j = 0; j < together; ++j) run();
    least = std::min(least, (CpuSeconds() - start) / together);
  }
  return least;
}

// Multiply-adds in a second with sums in registers alone.
double PeakMacsPerSecond() {
  static const double peak = kPeakMacs / LeastSeconds(kPeakMacs, RunFmas);
  return peak;
}

void Report(benchmark::State& state, int64_t macs) {
  const auto done = static_cast<double>(macs) * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * done, benchmark::Counter::kIsRate);
  state.counters["of_peak"] =
      benchmark::Counter(done / PeakMacsPerSecond(), benchmark::Counter::kIsRate);
}

void FmaPeak(benchmark::State& state) {
  for (auto _ : state) RunFmas();
  Report(state, static_cast<int64_t>(kPeakMacs));
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

constexpr Product kProducts[] = {
    {"square", 512, 512, 512, true},
    {"bert_base", 64, 768, 768, true},
    {"bert_base", 64, 768, 3072, true},
    {"bert_base", 64, 3072, 768, true},
    {"bert_base", 1, 768, 768, true},
    {"attention", 128, 64, 128, false},
    {"attention", 128, 128, 64, false},
    {"vit_b_16", 197, 768, 768, true},
    {"vit_b_16", 197, 768, 2304, true},
    {"vit_b_16", 197, 768, 3072, true},
    {"vit_b_16", 197, 3072, 768, true},
    {"transformer_base", 20, 512, 1536, true},
    {"transformer_base", 20, 512, 2048, true},
    {"transformer_base", 20, 2048, 512, true},
    {"transformer_base", 12, 512, 512, true},
    {"mixer_tiny", 16, 48, 192, true},
    {"mixer_tiny", 16, 192, 48, true},
    {"mixer_tiny", 48, 16, 32, true},
    {"mixer_tiny", 48, 32, 16, true},
    {"gpt_tiny", 16, 32, 128, true},
    {"gpt_tiny", 16, 128, 32, true},
    {"gpt_tiny", 16, 32, 32, true},
    {"transformer_tiny_cls", 12, 32, 32, true},
    {"transformer_tiny_cls", 12, 32, 64, true},
    {"mlperf_ad_fp32", 1, 640, 128, true},
    {"mlperf_ad_fp32", 1, 128, 128, true},
    {"mlperf_ad_fp32", 1, 128, 640, true},
    {"resnet18", 1, 512, 1000, true},
    {"alexnet", 1, 9216, 4096, true},
    {"alexnet", 1, 4096, 4096, true},
    {"few_rows", 2, 512, 512, true},
    {"few_rows", 3, 512, 512, true},
    {"few_rows", 5, 512, 512, true},
    {"few_rows", 7, 512, 512, true},
};

constexpr kernels::MatMulParams ParamsOf(const Product& product) {
  kernels::MatMulParams p = {};
  for (int i = 0; i < kernels::kMatMulBatchRank; ++i) p.batch[i] = 1;
  p.rows = product.rows;
  p.columns = product.columns;
  p.depth = product.depth;
  p.a_row_stride = product.depth;
  p.a_depth_stride = 1;
  p.b_depth_stride = product.columns;
  p.b_column_stride = 1;
  const int32_t blocks = product.rows < 2 ? 1 : (product.depth + 383) / 384;
  p.depth_block = (product.depth + blocks - 1) / blocks;
  p.scale = 1;
  p.bias_scale = 1;
  return p;
}

// Filled numbers that begin where tensors of generated code may: at a multiple of 64 bytes.
class Aligned {
 public:
  explicit Aligned(int64_t count) : storage_(Filled(count + kAlignment)) {}
  float* data() {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data()) / sizeof(float);
    return storage_.data() + (kAlignment - address % kAlignment) % kAlignment;
  }

 private:
  static constexpr int64_t kAlignment = 16;  // in floats
  std::vector<float> storage_;
};

// Seconds that OpenBLAS needs for `product`; 0 without it.
double OpenBlasSeconds([[maybe_unused]] const Product& product) {
#ifdef MEMPLAN_BENCH_OPENBLAS
  openblas_set_num_threads(1);
  Aligned a(int64_t{product.rows} * product.depth);
  Aligned b(int64_t{product.depth} * product.columns);
  Aligned c(int64_t{product.rows} * product.columns);
  const double macs = 1.0 * product.rows * product.depth * product.columns;
  return LeastSeconds(macs, [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, product.rows, product.columns,
                product.depth, 1, a.data(), product.depth, b.data(), product.columns, 0, c.data(),
                product.columns);
  });
#else
  return 0;
#endif
}

// With constant parameters, as in generated code.
template <size_t Index, int Rows, int Columns>
void MatMul(benchmark::State& state) {
  constexpr Product product = kProducts[Index];
  static constexpr kernels::MatMulParams p = ParamsOf(product);
  Aligned a(int64_t{product.rows} * product.depth);
  Aligned b(int64_t{product.depth} * (product.columns + kLanes));
  Aligned c(int64_t{product.rows} * product.columns);
  for (auto _ : state) {
    kernels::MatMul<kLanes, Rows, Columns, product.packed>(p, a.data(), b.data(), nullptr, nullptr,
                                                           c.data());
    benchmark::DoNotOptimize(c.data());
    benchmark::ClobberMemory();
  }
  Report(state, int64_t{product.rows} * product.depth * product.columns);
  if (const double seconds = OpenBlasSeconds(product); seconds > 0) {
    state.counters["of_openblas"] = benchmark::Counter(
        seconds * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  }
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
  const auto product = [&]<size_t Index>() {
    constexpr Product shape = kProducts[Index];
    const std::string text =
        name("MatMul", shape.network, {shape.rows, shape.depth, shape.columns});
    const auto tile = [&]<int Rows, int Columns>() {
      if constexpr (Rows <= shape.rows && (Rows > 1 || shape.rows <= 3)) {
        benchmark::RegisterBenchmark(
            (text + "/tile" + std::to_string(Rows) + "x" + std::to_string(Columns)).c_str(),
            MatMul<Index, Rows, Columns>);
      }
    };
    // kProductTileShapes of src/ops/gemm_lowering.h.
    tile.template operator()<kRows, kColumns>();
    if constexpr (kLanes == 4) tile.template operator()<2, 2>();
    if constexpr (kLanes == 8) tile.template operator()<6, 2>();
    if constexpr (kLanes == 16) tile.template operator()<4, 4>();
    if constexpr (kLanes >= 8) tile.template operator()<3, 4>();
    if constexpr (kLanes == 8) tile.template operator()<2, 6>();
    if constexpr (kLanes == 16) tile.template operator()<2, 4>();
    tile.template operator()<1, 4>();
  };
  [&]<size_t... Index>(std::index_sequence<Index...>) {
    (product.template operator()<Index>(), ...);
  }
  (std::make_index_sequence<std::size(kProducts)>());
  return true;
}();

}  // namespace
