// GFLOP/s of direct convolutions over images in blocks of channels: each tile that fits a target on
// layers of real networks, beside FmaPeak of kernels.cc. What src/ops/blocked_direct.cc chooses
// tiles by: see direct_costs.cc.
//
//   onnx_memplan_bench_kernels --benchmark_filter=x86-64-v3/Direct
//
// A name ends in the vectors' floats, their number and the pixels of the tile. Products with
// padding are counted, though they are skipped.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

// Anonymous: the builds for several targets are linked together.
namespace {
#include "kernel_bench.h"
#include "kernels/blocked_direct.h"
#include "ops/direct_shapes.h"

// A square convolution; planes: the network's input, which is not in blocks.
struct Layer {
  const char* network;
  int32_t in_channels, out_channels, size, taps, stride;
  bool planes = false;
};

constexpr Layer kLayers[] = {
    {"resnet50", 3, 64, 224, 7, 2, true}, {"resnet50", 64, 64, 56, 1, 1},
    {"resnet50", 64, 256, 56, 1, 1},      {"resnet50", 256, 64, 56, 1, 1},
    {"resnet50", 64, 64, 56, 3, 1},       {"resnet50", 512, 128, 28, 1, 1},
    {"resnet50", 128, 128, 28, 3, 1},     {"resnet50", 128, 128, 56, 3, 2},
    {"resnet50", 256, 1024, 14, 1, 1},    {"resnet50", 256, 256, 14, 3, 1},
    {"resnet50", 256, 512, 56, 1, 2},     {"resnet50", 512, 2048, 7, 1, 1},
    {"resnet50", 512, 512, 7, 3, 1},      {"mobilenet_v2", 3, 32, 224, 3, 2, true},
    {"mobilenet_v2", 32, 16, 112, 1, 1},  {"mobilenet_v2", 16, 96, 112, 1, 1},
    {"mobilenet_v2", 24, 144, 56, 1, 1},  {"mobilenet_v2", 144, 24, 56, 1, 1},
    {"mobilenet_v2", 32, 192, 28, 1, 1},  {"mobilenet_v2", 96, 576, 14, 1, 1},
    {"mobilenet_v2", 160, 960, 7, 1, 1},  {"mobilenet_v2", 960, 160, 7, 1, 1},
    {"mobilenet_v2", 320, 1280, 7, 1, 1}, {"squeezenet1_1", 16, 64, 55, 3, 1},
    {"squeezenet1_1", 64, 256, 13, 3, 1}, {"googlenet", 64, 192, 56, 3, 1},
    {"googlenet", 96, 208, 14, 3, 1},     {"googlenet", 16, 48, 14, 3, 1},
    {"resnet8_cifar", 16, 16, 32, 3, 1},  {"resnet8_cifar", 32, 32, 16, 3, 1},
    {"resnet8_cifar", 64, 64, 8, 3, 1},   {"ultraface_rfb320", 32, 32, 40, 3, 1},
    {"yunet_n_320", 16, 16, 80, 1, 1},
};

kernels::BlockedDirectParams ParamsOf(const Layer& layer) {
  kernels::BlockedDirectParams p = {};
  p.batch = 1;
  p.in_channels = layer.in_channels;
  const int32_t padding = layer.taps / 2;
  const int32_t out_size = (layer.size + 2 * padding - layer.taps) / layer.stride + 1;
  for (int i = 0; i < 2; ++i) {
    p.in_size[i] = layer.size;
    p.out_size[i] = out_size;
    p.taps[i] = layer.taps;
    p.stride[i] = layer.stride;
    p.dilation[i] = 1;
    p.padding[i] = padding;
  }
  if (layer.taps == 1 && layer.stride == 1) {
    p.in_size[0] = p.out_size[0] = 1;
    p.in_size[1] = p.out_size[1] = layer.size * layer.size;
  }
  p.out_blocks = kernels::ChannelBlocks(layer.out_channels);
  p.clamps = 1;
  p.highest = std::numeric_limits<float>::infinity();
  return p;
}

template <int Width, int Vectors, int Pixels, int Step, int Kind>
void Direct(benchmark::State& state, Layer layer) {
  kernels::BlockedDirectParams p = ParamsOf(layer);
  const int32_t tile_floats = layer.in_channels * Pixels * layer.stride * layer.stride;
  p.groups = p.out_blocks * kernels::kChannelBlock / (Width * Vectors);
  p.tile_end = kernels::DirectTileCount(p.out_size, Pixels);
  p.chunk_tiles = std::clamp(64 * 1024 / tile_floats, 1, p.tile_end);
  const std::vector<float> x = Filled(int64_t{layer.in_channels + 8} * layer.size * layer.size);
  const std::vector<float> weights =
      Filled(int64_t{layer.in_channels} * layer.taps * layer.taps * (layer.out_channels + 8));
  const std::vector<float> bias = Filled(layer.out_channels + 8);
  const int64_t out_pixels = int64_t{p.out_size[0]} * p.out_size[1];
  std::vector<float> y = Filled(out_pixels * p.out_blocks * kernels::kChannelBlock);
  for (auto _ : state) {
    kernels::BlockedDirect<Width, Vectors, Pixels, Step, Kind>(p, x.data(), weights.data(),
                                                               bias.data(), nullptr, y.data());
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  const double macs = static_cast<double>(out_pixels) * layer.in_channels * layer.out_channels *
                      layer.taps * layer.taps;
  state.counters["GFLOP/s"] = benchmark::Counter(
      2e-9 * macs * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

using LayerBenchmark = void (*)(benchmark::State& state, Layer layer);

// The function that reads what `layer` has, or nullptr.
template <int Width, int Vectors, int Pixels>
LayerBenchmark Pick(const Layer& layer) {
  if (layer.planes) {
    return &Direct<Width, Vectors, Pixels, 2, kernels::kDirectPlanes>;
  }
  if (layer.stride == 2) return &Direct<Width, Vectors, Pixels, 16, kernels::kDirectBlocked>;
  if (layer.taps == 1) return &Direct<Width, Vectors, Pixels, 8, kernels::kDirectPointwise>;
  return &Direct<Width, Vectors, Pixels, 8, kernels::kDirectBlocked>;
}

// Registers the tile for all layers whose rows and channels it divides.
template <int Width, int Vectors, int Pixels>
void RegisterTile() {
  for (const Layer& layer : kLayers) {
    const kernels::BlockedDirectParams p = ParamsOf(layer);
    if (p.out_blocks * kernels::kChannelBlock % (Width * Vectors) != 0) continue;
    if (kernels::SplitDirectRow(p.out_size[1], Pixels).full < 0) continue;
    std::string name = MEMPLAN_BENCH_TARGET "/Direct/";
    name += layer.network;
    char separator = '/';
    for (const int32_t number :
         {layer.in_channels, layer.out_channels, layer.size, layer.taps, layer.stride}) {
      name += separator + std::to_string(number);
      separator = 'x';
    }
    name +=
        "/" + std::to_string(Width) + "x" + std::to_string(Vectors) + "x" + std::to_string(Pixels);
    benchmark::RegisterBenchmark(name.c_str(), Pick<Width, Vectors, Pixels>(layer), layer);
  }
}

template <const auto& kShapes>
void RegisterTiles() {
  [&]<size_t... I>(std::index_sequence<I...>) {
    (RegisterTile<kShapes[I].width, kShapes[I].vectors, kShapes[I].pixels>(), ...);
  }
  (std::make_index_sequence<std::size(kShapes)>());
}

// Registers all; the value only makes it run before main.
const bool kRegistered = [] {
  if (!CpuRuns()) return false;
  RegisterTiles<onnx_memplan::kDirectShapes8>();
#if defined(__AVX512F__)
  RegisterTiles<onnx_memplan::kDirectShapes16>();
#endif
  return true;
}();

}  // namespace
