// Direct convolution over images in blocks of channels: which tiles, and the weights in the order
// in which these read them.
#include "ops/host_kernels.h"

#include "ops/blocked_direct.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/blocked.h"
#include "ops/parallel_axis.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

using kernels::BlockedConvParams;
using kernels::kChannelBlock;

// One tap, and each pixel sees its own: the image may as well be one row.
bool IsPointwise(const BlockedConvParams& p) {
  bool pointwise = true;
  for (int i = 0; i < 2; ++i) {
    pointwise = pointwise && p.taps[i] == 1 && p.stride[i] == 1 && p.padding[i] == 0 &&
                p.in_size[i] == p.out_size[i];
  }
  return pointwise;
}

}  // namespace

DirectAccess DirectAccessOf(const BlockedConvParams& p) {
  if (p.in_blocked == 0) {
    return {p.stride[1] <= 2 ? p.stride[1] : 0, kernels::kDirectPlanes};
  }
  return {p.stride[1] <= 2 ? p.stride[1] * kChannelBlock : 0,
          IsPointwise(p) ? kernels::kDirectPointwise : kernels::kDirectBlocked};
}

namespace {

// Whether a row of outputs is tiles of shape.pixels and of one less.
bool Splits(const DirectShape& shape, int32_t width) {
  return kernels::SplitDirectRow(width, shape.pixels).full >= 0;
}

}  // namespace

bool FitsRegisters(const DirectShape& shape, const Target& target) {
  const int32_t sums = shape.vectors * shape.pixels;
  return shape.width <= target.vector_floats &&
         sums + std::min(shape.vectors, shape.pixels) + 1 <= target.vector_registers;
}

double DirectRowCycles(const BlockedConvParams& p, const DirectAccess& access,
                       const DirectShape& shape, const DirectCosts& costs) {
  const double depth = double{1} * p.in_channels * p.taps[0] * p.taps[1];
  const int32_t run =
      access.kind == kernels::kDirectPlanes ? p.taps[1] : std::min(p.in_channels, kChannelBlock);
  const double runs = access.kind == kernels::kDirectPointwise ? 0 : depth / run;
  const auto tile_cycles = [&](int32_t pixels) {
    const double sums = double{1} * pixels * shape.vectors;
    const double step =
        std::max({sums * shape.width / 16, costs.load * (pixels + shape.vectors), costs.latency});
    return costs.tile + costs.sum_squared * shape.width * sums * sums + runs * costs.start_of_run +
           depth * step;
  };
  const kernels::DirectRow row = kernels::SplitDirectRow(p.out_size[1], shape.pixels);
  return row.full * tile_cycles(shape.pixels) +
         (row.tiles - row.full) * tile_cycles(shape.pixels - 1);
}

std::vector<DirectPart> ChooseDirectParts(const Target& target, const BlockedConvParams& p,
                                          const DirectAccess& access) {
  constexpr double kSecondShape = 1.02;
  std::vector<std::pair<DirectShape, double>> shapes;
  for (const std::span<const DirectShape> list : {std::span<const DirectShape>(kDirectShapes8),
                                                  std::span<const DirectShape>(kDirectShapes16)}) {
    for (const DirectShape& shape : list) {
      if (FitsRegisters(shape, target) && Splits(shape, p.out_size[1])) {
        shapes.emplace_back(shape, DirectRowCycles(p, access, shape));
      }
    }
  }
  const int32_t blocks = kernels::ChannelBlocks(p.out_channels);
  std::vector<DirectPart> best;
  double best_cycles = std::numeric_limits<double>::infinity();
  for (const auto& [first, first_cycles] : shapes) {
    for (int32_t groups = 1; groups * first.blocks() <= blocks; ++groups) {
      const int32_t left = blocks - groups * first.blocks();
      if (left == 0 && groups * first_cycles < best_cycles) {
        best_cycles = groups * first_cycles;
        best = {{first, groups}};
      }
      for (const auto& [second, second_cycles] : shapes) {
        const int32_t others = left / second.blocks();
        const double cycles = kSecondShape * (groups * first_cycles + others * second_cycles);
        if (others == 0 || left % second.blocks() != 0 || cycles >= best_cycles) continue;
        best_cycles = cycles;
        best = {{first, groups}, {second, others}};
      }
    }
  }
  MEMPLAN_CHECK(!best.empty());
  return best;
}

namespace {

Tensor PackDirectWeights(const BlockedConvParams& p, std::span<const float> weights,
                         const DirectPart& part, int32_t first_channel) {
  const int32_t channels = part.shape.blocks() * kChannelBlock;
  const int32_t lanes = p.in_blocked != 0 ? kChannelBlock : 1;
  const int64_t taps = int64_t{p.taps[0]} * p.taps[1];
  std::vector<float> packed(static_cast<size_t>(part.groups * channels * p.in_channels * taps));
  float* to = packed.data();
  for (int32_t group = 0; group < part.groups; ++group) {
    const int32_t first = first_channel + group * channels;
    const int32_t count = std::clamp(p.out_channels - first, 0, channels);
    for (int32_t block = 0; block < p.in_channels; block += lanes) {
      const int32_t block_end = std::min(block + lanes, p.in_channels);
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int32_t in = block; in < block_end; ++in, to += channels) {
          for (int32_t l = 0; l < count; ++l) {
            to[l] = weights[static_cast<size_t>((int64_t{first + l} * p.in_channels + in) * taps +
                                                tap)];
          }
        }
      }
    }
  }
  const auto size = static_cast<int64_t>(packed.size());
  return Tensor::FromVector<float>({size}, packed);
}

Tensor PackDirectBias(std::span<const float> bias, const DirectPart& part, int32_t first_channel) {
  std::vector<float> packed(static_cast<size_t>(part.groups * part.shape.blocks() * kChannelBlock));
  const auto first = static_cast<size_t>(first_channel);
  for (size_t i = 0; i < packed.size() && first + i < bias.size(); ++i) packed[i] = bias[first + i];
  const auto size = static_cast<int64_t>(packed.size());
  return Tensor::FromVector<float>({size}, packed);
}

}  // namespace

bool HasDirectConstants(const NodeContext& node, int32_t input) {
  return node.InputConstant(input) != nullptr &&
         (!node.HasInput(input + 1) || node.InputConstant(input + 1) != nullptr);
}

void AddDirectConstants(const NodeContext& node, int32_t input, const BlockedConvParams& conv,
                        const DirectPart& part, int32_t first_channel, KernelCall& call) {
  const auto add = [&](Tensor constant) {
    call.args.push_back(KernelArg::Constant(static_cast<int32_t>(call.constants.size())));
    call.constants.push_back(std::move(constant));
  };
  add(PackDirectWeights(conv, node.InputConstant(input)->As<float>(), part, first_channel));
  if (node.HasInput(input + 1)) {
    add(PackDirectBias(node.InputConstant(input + 1)->As<float>(), part, first_channel));
  } else {
    call.args.push_back(KernelArg::Null());
  }
}

namespace {

kernels::BlockedDirectParams MakeDirectParams(const BlockedConvParams& conv) {
  kernels::BlockedDirectParams p = {};
  SetConvolution(conv, &p);
  SetActivation(conv, &p);
  for (int i = 0; i < 2; ++i) p.out_size[i] = conv.out_size[i];
  p.out_blocks = kernels::ChannelBlocks(conv.out_channels);
  return p;
}

// Tiles whose input stays in the second cache level while all groups of channels pass.
int32_t ChunkTiles(const BlockedConvParams& p, const DirectShape& shape) {
  constexpr int64_t kChunkFloats = 64 * 1024;
  const int64_t tile_floats = int64_t{p.in_channels} * shape.pixels * p.stride[0] * p.stride[1];
  const int64_t tiles =
      int64_t{p.out_size[0]} * kernels::SplitDirectRow(p.out_size[1], shape.pixels).tiles;
  return static_cast<int32_t>(
      std::clamp<int64_t>(kChunkFloats / std::max<int64_t>(tile_floats, 1), 1, tiles));
}

// Threads may share the tiles of an image, or its groups of `channels` output channels: the one
// that leaves each of them less to read.
void ShareOut(const kernels::BlockedDirectParams& p, int64_t channels, KernelCall& call) {
  using Params = kernels::BlockedDirectParams;
  const int64_t taps = int64_t{p.taps[0]} * p.taps[1];
  const int64_t in = int64_t{p.in_channels} * p.in_size[0] * p.in_size[1];
  const int64_t out = int64_t{p.out_size[0]} * p.out_size[1];
  const int64_t weights = channels * p.in_channels * taps;
  ParallelAxis tiles = RangeOf<&Params::tile_begin, &Params::tile_end>(p, 1, call.args.size());
  ParallelAxis groups =
      AxisOf<&Params::groups>(p, 1, {0, weights, channels, channels * out, channels * out});
  call.work = p.batch * p.groups * weights * out;
  call.axes = {std::move(tiles), std::move(groups)};
  if (p.groups * weights > in) std::swap(call.axes[0], call.axes[1]);
}

}  // namespace

std::optional<Lowering> LowerBlockedDirect(const NodeContext& node, const Target& target,
                                           const BlockedConvParams& conv) {
  if (target.vector_floats < 8 || !HasDirectConstants(node, 1) ||
      node.OutputType(0).NumElements() == 0 || conv.in_channels == 0) {
    return std::nullopt;
  }
  BlockedConvParams flat = conv;
  if (IsPointwise(conv)) {
    flat.in_size[0] = flat.out_size[0] = 1;
    flat.in_size[1] = flat.out_size[1] = conv.in_size[0] * conv.in_size[1];
  }
  const DirectAccess access = DirectAccessOf(flat);
  kernels::BlockedDirectParams p = MakeDirectParams(flat);
  Lowering lowering;
  for (const DirectPart& part : ChooseDirectParts(target, flat, access)) {
    const DirectShape& shape = part.shape;
    const int32_t first_channel = p.first_block * kChannelBlock;
    p.groups = part.groups;
    p.tile_begin = 0;
    p.tile_end = kernels::DirectTileCount(flat.out_size, shape.pixels);
    p.chunk_tiles = ChunkTiles(flat, shape);
    KernelCall call;
    call.header = "kernels/blocked_direct.h";
    call.name = absl::StrCat("kernels::BlockedDirect<", shape.width, ", ", shape.vectors, ", ",
                             shape.pixels, ", ", access.step, ", ", access.kind, ">");
    call.function =
        shape.width == 8 ? DirectFunction8(shape, access) : DirectFunction16(shape, access);
    MEMPLAN_CHECK(call.function.invoke != nullptr);
    call.params = MakeParams(p);
    call.args = {KernelArg::Input(0)};
    AddDirectConstants(node, 1, flat, part, first_channel, call);
    call.args.push_back(ResidualArg(node));
    call.args.push_back(KernelArg::Output(0));
    ShareOut(p, shape.blocks() * kChannelBlock, call);
    lowering.calls.push_back(std::move(call));
    p.first_block += part.groups * shape.blocks();
  }
  return lowering;
}

}  // namespace onnx_memplan
