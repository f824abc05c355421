// How well src/ops/blocked_direct.cc chooses the tiles of direct convolutions, by measurements of
// all of them; with --fit also the constants (DirectCosts) that fit these measurements best.
//
//   onnx_memplan_bench_kernels --benchmark_filter='x86-64-v./Direct/' --benchmark_repetitions=5
//     --benchmark_enable_random_interleaving=true --benchmark_out=direct.json
//   onnx_memplan_bench_direct_costs direct.json [--fit]
//
// Constants are judged by what their choices lose: how much slower than the fastest one the chosen
// tile is, on average over the layers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "ops/blocked.h"
#include "ops/blocked_direct.h"
#include "ops/target.h"

namespace onnx_memplan {
namespace {

// One tile on one layer.
struct Measurement {
  DirectShape shape;
  double nanoseconds = 0;
};

struct Layer {
  kernels::BlockedConvParams params = {};
  std::vector<Measurement> tiles;
};

using Layers = std::map<std::string, Layer>;  // by "x86-64-v3/Direct/resnet50/64x64x56x1x1"

// As ParamsOf of blocked_kernels.cc.
kernels::BlockedConvParams ParamsOf(int32_t in_channels, int32_t out_channels, int32_t size,
                                    int32_t taps, int32_t stride) {
  kernels::BlockedConvParams p = {};
  p.batch = 1;
  p.in_channels = in_channels;
  p.out_channels = out_channels;
  p.in_blocked = in_channels >= kernels::kChannelBlock ? 1 : 0;
  const bool flat = taps == 1 && stride == 1;
  for (int i = 0; i < 2; ++i) {
    p.taps[i] = taps;
    p.stride[i] = stride;
    p.dilation[i] = 1;
    p.padding[i] = taps / 2;
    p.in_size[i] = flat ? (i == 0 ? 1 : size * size) : size;
    p.out_size[i] = (p.in_size[i] + 2 * p.padding[i] - taps) / stride + 1;
  }
  return p;
}

Layers ReadLayers(const char* path) {
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  Layers layers;
  if (!json.contains("benchmarks")) return layers;
  for (const nlohmann::json& benchmark : json["benchmarks"]) {
    const std::string name = benchmark["name"];
    const size_t tile = name.rfind('/');
    const size_t shape = name.rfind('/', tile - 1);
    int in, out, size, taps, stride, width, vectors, pixels;
    if (benchmark["run_type"] != "iteration" || name.find("/Direct/") == std::string::npos ||
        std::sscanf(name.c_str() + shape, "/%dx%dx%dx%dx%d/%dx%dx%d", &in, &out, &size, &taps,
                    &stride, &width, &vectors, &pixels) != 8) {
      continue;
    }
    const DirectShape direct = {width, vectors, pixels};
    const absl::StatusOr<Target> target = FindTarget(name.substr(0, name.find('/')));
    if (!target.ok() || !FitsRegisters(direct, *target)) continue;
    Layer& layer = layers[name.substr(0, tile)];
    layer.params = ParamsOf(in, out, size, taps, stride);
    // Of repetitions the fastest: other programs only make one slower.
    const auto known =
        std::find_if(layer.tiles.begin(), layer.tiles.end(),
                     [&](const Measurement& other) { return other.shape == direct; });
    if (known == layer.tiles.end()) {
      layer.tiles.push_back({direct, benchmark["real_time"]});
    } else {
      known->nanoseconds = std::min<double>(known->nanoseconds, benchmark["real_time"]);
    }
  }
  return layers;
}

double Cycles(const Layer& layer, const DirectShape& shape, const DirectCosts& costs) {
  const int32_t groups = kernels::ChannelBlocks(layer.params.out_channels) / shape.blocks();
  return layer.params.out_size[0] * groups *
         DirectRowCycles(layer.params, DirectAccessOf(layer.params), shape, costs);
}

const Measurement& FastestTile(const Layer& layer) {
  return *std::min_element(
      layer.tiles.begin(), layer.tiles.end(),
      [](const Measurement& a, const Measurement& b) { return a.nanoseconds < b.nanoseconds; });
}

const Measurement& ChosenTile(const Layer& layer, const DirectCosts& costs) {
  return *std::min_element(layer.tiles.begin(), layer.tiles.end(),
                           [&](const Measurement& a, const Measurement& b) {
                             return Cycles(layer, a.shape, costs) < Cycles(layer, b.shape, costs);
                           });
}

double LossAt(const Layer& layer, const DirectCosts& costs) {
  return ChosenTile(layer, costs).nanoseconds / FastestTile(layer).nanoseconds - 1;
}

double AverageLoss(const Layers& layers, const DirectCosts& costs) {
  double sum = 0;
  for (const auto& [name, layer] : layers) sum += LossAt(layer, costs);
  return sum / static_cast<double>(layers.size());
}

// Changes some constants at random and keeps what loses less. The same numbers on every machine.
DirectCosts Fit(const Layers& layers) {
  constexpr int kTries = 20000;
  std::mt19937 random(1);
  const auto uniform = [&] { return static_cast<double>(random()) / 4294967296.0; };
  DirectCosts best;
  double least = AverageLoss(layers, best);
  for (int i = 0; i < kTries; ++i) {
    DirectCosts costs = best;
    for (double DirectCosts::*member :
         {&DirectCosts::latency, &DirectCosts::load, &DirectCosts::start_of_run, &DirectCosts::tile,
          &DirectCosts::sum_squared}) {
      if (uniform() < 0.5) costs.*member *= std::exp2(2 * uniform() - 1);
    }
    const double loss = AverageLoss(layers, costs);
    if (loss >= least) continue;
    least = loss;
    best = costs;
  }
  return best;
}

std::string Text(const DirectShape& shape) {
  return std::to_string(shape.width) + "x" + std::to_string(shape.vectors) + "x" +
         std::to_string(shape.pixels);
}

// A row for each layer: the best tile, the one that costs least by `costs`, and the time lost.
void PrintChoices(const Layers& layers, const DirectCosts& costs) {
  std::printf("| layer | tiles | fastest | chosen | slower by |\n|---|---|---|---|---|\n");
  double most = 0;
  for (const auto& [name, layer] : layers) {
    const double loss = LossAt(layer, costs);
    most = std::max(most, loss);
    std::printf("| %s | %zu | %s | %s | %.1f %% |\n", name.c_str(), layer.tiles.size(),
                Text(FastestTile(layer).shape).c_str(),
                Text(ChosenTile(layer, costs).shape).c_str(), 100 * loss);
  }
  std::printf("\nSlower than the fastest tile by %.1f %% on average, %.1f %% at most.\n",
              100 * AverageLoss(layers, costs), 100 * most);
}

int Run(const char* path, bool fit) {
  const Layers layers = ReadLayers(path);
  if (layers.empty()) {
    std::fprintf(stderr, "%s has no benchmarks of direct convolutions\n", path);
    return 1;
  }
  PrintChoices(layers, DirectCosts());
  if (fit) {
    const DirectCosts costs = Fit(layers);
    std::printf("\nlatency %.3g, load %.3g, start_of_run %.3g, tile %.3g, sum_squared %.3g:\n\n",
                costs.latency, costs.load, costs.start_of_run, costs.tile, costs.sum_squared);
    PrintChoices(layers, costs);
  }
  return 0;
}

}  // namespace
}  // namespace onnx_memplan

int main(int argc, char** argv) {
  const bool fit = argc == 3 && std::string(argv[2]) == "--fit";
  if (argc != 2 && !fit) {
    std::fprintf(stderr, "usage: %s direct.json [--fit]\n", argv[0]);
    return 2;
  }
  return onnx_memplan::Run(argv[1], fit);
}
