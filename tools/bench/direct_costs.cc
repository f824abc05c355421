// How well src/ops/blocked_direct.cc chooses the tiles of direct convolutions, by measurements of
// all of them; with --fit also the constants (DirectCosts) that fit these measurements best.
//
//   onnx_memplan_bench_kernels --benchmark_filter='x86-64-v3/Direct/' --benchmark_out=direct.json
//   onnx_memplan_bench_direct_costs direct.json [--fit]
//
// A choice is between the tiles for one layer, so constants are judged by the ratios of times
// within a layer: the sum of squares of what measured and estimated logarithms differ by, each less
// their mean over the layer. The clock of the CPU and the cost of memory then fall out.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ops/blocked.h"
#include "ops/blocked_direct.h"

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
    if (name.find("/Direct/") == std::string::npos ||
        std::sscanf(name.c_str() + shape, "/%dx%dx%dx%dx%d/%dx%dx%d", &in, &out, &size, &taps,
                    &stride, &width, &vectors, &pixels) != 8) {
      continue;
    }
    Layer& layer = layers[name.substr(0, tile)];
    layer.params = ParamsOf(in, out, size, taps, stride);
    layer.tiles.push_back({{width, vectors, pixels}, benchmark["real_time"]});
  }
  return layers;
}

double Cycles(const Layer& layer, const DirectShape& shape, const DirectCosts& costs) {
  const int32_t groups = kernels::ChannelBlocks(layer.params.out_channels) / shape.blocks();
  return layer.params.out_size[0] * groups *
         DirectRowCycles(layer.params, DirectAccessOf(layer.params), shape, costs);
}

double Error(const Layers& layers, const DirectCosts& costs) {
  double error = 0;
  for (const auto& [name, layer] : layers) {
    std::vector<double> ratios;
    double mean = 0;
    for (const Measurement& tile : layer.tiles) {
      ratios.push_back(std::log(tile.nanoseconds / Cycles(layer, tile.shape, costs)));
      mean += ratios.back() / static_cast<double>(layer.tiles.size());
    }
    for (const double ratio : ratios) error += (ratio - mean) * (ratio - mean);
  }
  return error;
}

// Changes one constant at a time while that lowers the error.
DirectCosts Fit(const Layers& layers) {
  DirectCosts best;
  double best_error = Error(layers, best);
  for (double step = 1.3; step > 1.01; step = std::sqrt(step)) {
    for (bool improves = true; improves;) {
      improves = false;
      for (double DirectCosts::*member :
           {&DirectCosts::latency, &DirectCosts::load, &DirectCosts::start_of_run,
            &DirectCosts::tile, &DirectCosts::sum_squared}) {
        for (const double factor : {step, 1 / step}) {
          DirectCosts costs = best;
          costs.*member *= factor;
          const double error = Error(layers, costs);
          if (error >= best_error) continue;
          best = costs;
          best_error = error;
          improves = true;
        }
      }
    }
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
  double sum = 0;
  double most = 0;
  for (const auto& [name, layer] : layers) {
    const Measurement& fastest = *std::min_element(
        layer.tiles.begin(), layer.tiles.end(),
        [](const Measurement& a, const Measurement& b) { return a.nanoseconds < b.nanoseconds; });
    const Measurement& chosen = *std::min_element(
        layer.tiles.begin(), layer.tiles.end(), [&](const Measurement& a, const Measurement& b) {
          return Cycles(layer, a.shape, costs) < Cycles(layer, b.shape, costs);
        });
    const double loss = chosen.nanoseconds / fastest.nanoseconds - 1;
    sum += loss;
    most = std::max(most, loss);
    std::printf("| %s | %zu | %s | %s | %.1f %% |\n", name.c_str(), layer.tiles.size(),
                Text(fastest.shape).c_str(), Text(chosen.shape).c_str(), 100 * loss);
  }
  std::printf(
      "\nSlower than the fastest tile by %.1f %% on average, %.1f %% at most; error %.3f.\n",
      100 * sum / static_cast<double>(layers.size()), 100 * most, Error(layers, costs));
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
