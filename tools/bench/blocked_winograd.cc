// Winograd convolutions over layer shapes of real networks, by tile and register tile; one build of
// this file for each target (MEMPLAN_BENCH_TARGET, MEMPLAN_BENCH_LANES).
//
//   onnx_memplan_bench_kernels --benchmark_filter="x86-64-v3/Winograd"
//
// GFLOP/s are those of the definition's multiply-adds, so they may pass FmaPeak of kernels.cc.
// Weights take turns over 40 MB, as in a network, where they come from memory or the last cache.
// The costs in ops/blocked_winograd.cc are fitted to this.
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
#include "kernels/blocked_winograd.h"

#if MEMPLAN_BENCH_LANES >= 8

// Square, 3 x 3 taps, padding 1.
struct Layer {
  const char* network;
  int32_t in_channels, out_channels, size;

  int64_t Floats(int32_t channels) const {
    return int64_t{kernels::ChannelBlocks(channels)} * kernels::kChannelBlock * size * size;
  }
  double flops() const { return 18.0 * in_channels * out_channels * size * size; }
};

constexpr Layer kLayers[] = {
    {"resnet", 64, 64, 56},      {"resnet", 128, 128, 28},    {"resnet", 256, 256, 14},
    {"resnet", 512, 512, 7},     {"squeezenet", 16, 64, 55},  {"squeezenet", 32, 128, 27},
    {"squeezenet", 48, 192, 13}, {"squeezenet", 64, 256, 13}, {"googlenet", 64, 192, 56},
    {"googlenet", 96, 128, 28},  {"googlenet", 112, 224, 14}, {"googlenet", 160, 320, 14},
    {"googlenet", 192, 384, 7},  {"googlenet", 16, 48, 14},   {"densenet", 128, 32, 56},
    {"densenet", 128, 32, 28},   {"densenet", 128, 32, 14},   {"densenet", 128, 32, 7},
    {"unet_small", 16, 8, 64},   {"unet_small", 16, 16, 32},  {"unet_small", 64, 32, 16},
};

template <int Lanes, int Rows, int Columns, int Tile>
void Winograd(benchmark::State& state, Layer layer) {
  constexpr int kPanel = Lanes * Columns;
  constexpr int64_t kPlaces = (Tile + 2) * (Tile + 2);
  constexpr int64_t kWeightsBytes = 40'000'000;
  constexpr int32_t kGroupTiles = (16 + Rows - 1) / Rows * Rows;
  kernels::BlockedWinogradParams p = {};
  p.batch = 1;
  p.in_channels = layer.in_channels;
  p.out_channels = layer.out_channels;
  for (int i = 0; i < 2; ++i) {
    p.in_size[i] = layer.size;
    p.out_size[i] = layer.size;
    p.padding[i] = 1;
  }
  const int32_t tiles = kernels::WinogradTiles(p.out_size, Tile);
  p.out_blocks = kernels::ChannelBlocks(layer.out_channels);
  p.tile_end = tiles;
  p.group_tiles = std::min(kGroupTiles, (tiles + Rows - 1) / Rows * Rows);
  p.clamps = 1;
  p.highest = INFINITY;
  const std::vector<float> x = Filled(layer.Floats(layer.in_channels));
  const std::vector<float> bias = Filled(layer.out_channels);
  std::vector<float> y = Filled(layer.Floats(layer.out_channels));
  const int64_t depth = int64_t{kernels::ChannelBlocks(layer.in_channels)} * kernels::kChannelBlock;
  const int64_t weights_floats =
      kPlaces * depth * ((layer.out_channels + Lanes - 1) / Lanes * Lanes);
  const int64_t copies = std::max<int64_t>(1, kWeightsBytes / (4 * weights_floats));
  const std::vector<float> weights = Filled(copies * weights_floats);
  std::vector<float> scratch = Filled(
      kernels::BlockedWinogradScratchBytes(layer.in_channels, Tile, p.group_tiles, kPanel) / 4);
  int64_t turn = 0;
  for (auto _ : state) {
    kernels::BlockedWinograd<Lanes, Rows, Columns, Tile>(
        p, x.data(), weights.data() + turn % copies * weights_floats, bias.data(), nullptr,
        scratch.data(), y.data());
    ++turn;
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(
      layer.flops() * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

using Function = void (*)(benchmark::State&, Layer);

void Register(const char* variant, Function function) {
  for (const Layer& layer : kLayers) {
    const std::string shape = std::to_string(layer.in_channels) + "to" +
                              std::to_string(layer.out_channels) + "at" +
                              std::to_string(layer.size);
    const std::string name = std::string(MEMPLAN_BENCH_TARGET) + "/Winograd" + variant + "/" +
                             layer.network + "/" + shape;
    benchmark::RegisterBenchmark(
        name.c_str(), [function, layer](benchmark::State& state) { function(state, layer); });
  }
}

const bool kRegistered = [] {
  if (!CpuRuns()) return false;
#if MEMPLAN_BENCH_LANES == 8
  Register("4x4Rows4x2", Winograd<8, 4, 2, 4>);
  Register("4x4Rows4x3", Winograd<8, 4, 3, 4>);
  Register("4x4Rows5x2", Winograd<8, 5, 2, 4>);
  Register("4x4Rows6x2", Winograd<8, 6, 2, 4>);
  Register("2x2Rows4x2", Winograd<8, 4, 2, 2>);
  Register("2x2Rows4x3", Winograd<8, 4, 3, 2>);
  Register("2x2Rows5x2", Winograd<8, 5, 2, 2>);
  Register("2x2Rows6x2", Winograd<8, 6, 2, 2>);
#else
  Register("4x4Rows4x2", Winograd<16, 4, 2, 4>);
  Register("4x4Rows7x2", Winograd<16, 7, 2, 4>);
  Register("4x4Rows8x2", Winograd<16, 8, 2, 4>);
  Register("2x2Rows4x2", Winograd<16, 4, 2, 2>);
  Register("2x2Rows7x2", Winograd<16, 7, 2, 2>);
  Register("2x2Rows8x2", Winograd<16, 8, 2, 2>);
#endif
  return true;
}();

#endif  // MEMPLAN_BENCH_LANES >= 8

}  // namespace
