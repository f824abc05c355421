// Winograd convolution over images in blocks of channels.
#include "ops/host_kernels.h"

#include "kernels/blocked_winograd.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/blocked.h"
#include "ops/dispatch.h"
#include "ops/parallel_axis.h"
#include "ops/scratch_room.h"
#include "ops/winograd_lowering.h"
#include "ops/winograd_weights.h"

namespace onnx_memplan {
namespace {

// The instantiations: tiles of sums that fill the registers, or divide the usual numbers of tiles
// of an image (4, 16, 49). Those of 8 lanes also serve wider CPUs for few output channels.
constexpr WinogradVariant kVariants[] = {
    {8, 4, 2, 4, 0},  {8, 4, 3, 4, 0},  {8, 5, 2, 4, 0},  {8, 6, 2, 4, 0},  //
    {8, 4, 2, 2, 0},  {8, 4, 3, 2, 0},  {8, 5, 2, 2, 0},  {8, 6, 2, 2, 0},  //
    {16, 4, 2, 4, 0}, {16, 7, 2, 4, 0}, {16, 8, 2, 4, 0},                   //
    {16, 4, 2, 2, 0}, {16, 7, 2, 2, 0}, {16, 8, 2, 2, 0},
};

template <size_t I>
KernelFunction FunctionOfVariant() {
  constexpr WinogradVariant kV = kVariants[I];
  return FunctionOf<&kernels::BlockedWinograd<kV.lanes, kV.rows, kV.columns, kV.tile>>();
}

KernelFunction FunctionFor(const WinogradVariant& variant) {
  KernelFunction function;
  [&]<size_t... I>(std::index_sequence<I...>) {
    const auto try_variant = [&](const WinogradVariant& v, KernelFunction candidate) {
      if (v.lanes == variant.lanes && v.rows == variant.rows && v.columns == variant.columns &&
          v.tile == variant.tile) {
        function = candidate;
      }
    };
    (try_variant(kVariants[I], FunctionOfVariant<I>()), ...);
  }
  (std::make_index_sequence<std::size(kVariants)>());
  MEMPLAN_CHECK(function.invoke != nullptr);
  return function;
}

// Costs in multiply-adds of one core at its peak, as tools/bench/blocked_winograd.cc measures them.
//
// A transform's for one tile and channel, there or back.
constexpr double kTransformCost[] = {64.0, 200.0};  // tile 2, tile 4
// A byte of weights from memory, and from the last level of cache. What is less costly than the
// other of memory and arithmetic hides behind it but for a part.
constexpr double kMemoryByteCost = 2.2;
constexpr double kCacheByteCost = 1.0;
constexpr double kHiddenPart = 0.3;
// Weights of this size stay in the second level of cache from group to group.
constexpr double kNearWeightsBytes = 512.0 * 1024;
// So do patches and products of a group, which are read once for each panel.
constexpr int64_t kMostScratchBytes = 768 * 1024;
// A direct convolution's multiply-add, and how much less Winograd has to cost: it has more weights,
// and is less exact.
constexpr double kDirectCost = 1.1;
constexpr double kWorthIt = 0.85;

double Overlapped(double arithmetic, double memory) {
  return std::max(arithmetic, memory) + kHiddenPart * std::min(arithmetic, memory);
}

int32_t RoundUp(int32_t value, int32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

double DirectCost(const kernels::BlockedConvParams& p) {
  const double weights = 9.0 * p.in_channels * p.out_channels;
  const double pixels = static_cast<double>(p.batch) * p.out_size[0] * p.out_size[1];
  return Overlapped(kDirectCost * weights * pixels, kMemoryByteCost * 4 * weights);
}

// What a product of `rows` tiles and `columns` vectors costs for each input channel. A cycle does
// two multiply-adds of 8 lanes or one of 16, and two loads; sums of fewer than about five cycles
// wait for each other.
double StepCost(int32_t lanes, int32_t rows, int32_t columns) {
  constexpr double kPeak = 16;  // multiply-adds of floats in a cycle
  constexpr double kLoad = 0.55;
  constexpr double kLatency = 4.8;
  constexpr double kLoop = 0.3;
  const double sums = rows * columns * lanes / kPeak;
  return kPeak * (kLoop + std::max({sums, kLoad * (rows + columns), kLatency}));
}

double WinogradCost(const kernels::BlockedConvParams& p, const WinogradVariant& v) {
  const double in = RoundUp(p.in_channels, kernels::kChannelBlock);
  const double out = RoundUp(p.out_channels, v.lanes);
  const double places = (v.tile + 2) * (v.tile + 2);
  const int32_t tiles = kernels::WinogradTiles(p.out_size, v.tile);
  const int32_t groups = (tiles + v.group_tiles - 1) / v.group_tiles;
  const int32_t last = tiles - (groups - 1) * v.group_tiles;
  const int32_t passes = ((groups - 1) * v.group_tiles + RoundUp(last, v.rows)) / v.rows;
  const int32_t vectors = RoundUp(p.out_channels, v.lanes) / v.lanes;
  const int32_t last_vectors = vectors % v.columns;
  double steps = vectors / v.columns * StepCost(v.lanes, v.rows, v.columns);
  if (last_vectors > 0) steps += StepCost(v.lanes, v.rows, last_vectors);
  const double arithmetic =
      p.batch * passes *
      (places * in * steps + v.rows * kTransformCost[v.tile == 4 ? 1 : 0] * (in + out));
  const double weights = 4 * places * in * out;
  const double again = weights <= kNearWeightsBytes ? 0.0 : kCacheByteCost;
  return Overlapped(arithmetic, weights * (kMemoryByteCost + (p.batch * groups - 1) * again));
}

// The variant with the smallest groups that are about as good as any that `budget_bytes` of scratch
// have room for; group_tiles 0: none has.
WinogradVariant FitGroups(const kernels::BlockedConvParams& p, const WinogradVariant& variant,
                          int64_t budget_bytes) {
  constexpr double kAsGood = 1.02;
  const int32_t tiles = kernels::WinogradTiles(p.out_size, variant.tile);
  const int64_t most_bytes = std::min(budget_bytes, kMostScratchBytes);
  WinogradVariant best;
  double best_cost = std::numeric_limits<double>::infinity();
  WinogradVariant v = variant;
  for (int32_t passes = 1; v.group_tiles < tiles; ++passes) {
    v.group_tiles = passes * v.rows;
    if (kernels::BlockedWinogradScratchBytes(p.in_channels, v.tile, v.group_tiles,
                                             v.panel_channels()) > most_bytes) {
      break;
    }
    const double cost = WinogradCost(p, v);
    if (cost * kAsGood >= best_cost) continue;
    best = v;
    best_cost = cost;
  }
  return best;
}

kernels::BlockedWinogradParams ParamsOf(const kernels::BlockedConvParams& conv, int32_t tile,
                                        int32_t group_tiles) {
  kernels::BlockedWinogradParams p = {};
  p.batch = conv.batch;
  p.in_channels = conv.in_channels;
  p.out_channels = conv.out_channels;
  for (int i = 0; i < 2; ++i) {
    p.in_size[i] = conv.in_size[i];
    p.out_size[i] = conv.out_size[i];
    p.padding[i] = conv.padding[i];
  }
  p.out_blocks = kernels::ChannelBlocks(p.out_channels);
  p.group_tiles = group_tiles;
  p.tile_begin = 0;
  p.tile_end = kernels::WinogradTiles(p.out_size, tile);
  SetActivation(conv, &p);
  return p;
}

// Threads may share the tiles of an image, in the same groups as one thread has, or its output
// channels, for which each then transforms the whole input.
void ShareOut(const WinogradVariant& v, const kernels::BlockedWinogradParams& p,
              Lowering& lowering) {
  using Params = kernels::BlockedWinogradParams;
  const int64_t places = int64_t{v.tile + 2} * (v.tile + 2);
  const int64_t depth = int64_t{kernels::ChannelBlocks(p.in_channels)} * kernels::kChannelBlock;
  const int64_t out = int64_t{p.out_size[0]} * p.out_size[1];
  KernelCall& call = lowering.calls.back();
  call.own_scratch_bytes = lowering.scratch_bytes;
  call.work = p.batch * p.tile_end * places * depth * p.out_channels;
  call.axes = {
      RangeOf<&Params::tile_begin, &Params::tile_end>(p, p.group_tiles, call.args.size()),
      AxisOf<&Params::out_channels>(p, v.panel_channels(), {0, places * depth, 1, out, 0, out})};
}

}  // namespace

std::span<const WinogradVariant> WinogradVariants() { return kVariants; }

bool IsWinogradConv(const Target& target, const kernels::BlockedConvParams& p) {
  bool fits = target.vector_floats >= kernels::kChannelBlock && p.in_blocked != 0 &&
              p.depthwise == 0 && p.batch > 0 && p.in_channels > 0 && p.out_channels > 0;
  for (int i = 0; i < 2; ++i) {
    fits = fits && p.taps[i] == 3 && p.stride[i] == 1 && p.dilation[i] == 1 && p.out_size[i] > 0;
  }
  return fits;
}

std::optional<WinogradVariant> ChooseWinograd(const Target& target,
                                              const kernels::BlockedConvParams& p,
                                              int64_t budget_bytes) {
  // The transformed weights are 16/9 or 4 times as large as the model's.
  if (!IsWinogradConv(target, p) || target.optimize == OptimizeFor::kSize) return std::nullopt;
  std::optional<WinogradVariant> best;
  double best_cost = kWorthIt * DirectCost(p);
  for (const WinogradVariant& variant : kVariants) {
    if (variant.lanes > target.vector_floats) continue;
    const bool half_empty = p.out_channels <= kernels::kChannelBlock;
    if (variant.lanes < std::min(target.vector_floats, 16) && !half_empty) continue;
    const WinogradVariant fitted = FitGroups(p, variant, budget_bytes);
    if (fitted.group_tiles == 0) continue;
    const double cost = WinogradCost(p, fitted);
    if (cost < best_cost) {
      best_cost = cost;
      best = fitted;
    }
  }
  return best;
}

Lowering LowerWinogradVariant(const NodeContext& node, const kernels::BlockedConvParams& p,
                              const WinogradVariant& variant) {
  const Tensor* weights = node.InputConstant(1);
  MEMPLAN_CHECK(weights != nullptr);
  KernelCall call;
  call.header = "kernels/blocked_winograd.h";
  call.name = absl::StrCat("kernels::BlockedWinograd<", variant.lanes, ", ", variant.rows, ", ",
                           variant.columns, ", ", variant.tile, ">");
  call.function = FunctionFor(variant);
  call.constants.push_back(PackWinogradWeights(weights->As<float>(), p.out_channels, p.in_channels,
                                               variant.tile, variant.lanes,
                                               variant.panel_channels()));
  Lowering lowering = OneCall(std::move(call), ParamsOf(p, variant.tile, variant.group_tiles),
                              {KernelArg::Input(0), KernelArg::Constant(0), OptionalInput(node, 2),
                               ResidualArg(node), KernelArg::Scratch(), KernelArg::Output(0)});
  lowering.scratch_bytes = kernels::BlockedWinogradScratchBytes(
      p.in_channels, variant.tile, variant.group_tiles, variant.panel_channels());
  lowering.scratch_alignment = int64_t{4} * variant.lanes;
  ShareOut(variant, ParamsOf(p, variant.tile, variant.group_tiles), lowering);
  return lowering;
}

std::optional<Lowering> LowerBlockedWinograd(const NodeContext& node, const Target& target,
                                             const kernels::BlockedConvParams& p) {
  if (node.InputConstant(1) == nullptr || !IsWinogradConv(target, p)) return std::nullopt;
  const std::optional<WinogradVariant> variant = ChooseWinograd(target, p, ScratchRoomBytes(node));
  if (!variant) return std::nullopt;
  return LowerWinogradVariant(node, p, *variant);
}

}  // namespace onnx_memplan
