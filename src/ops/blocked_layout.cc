// BlockChannels and UnblockChannels: the borders of what is computed in blocks of channels.
// BlockedGatherChannels: channels of an image in blocks, in another order.
#include "ops/host_kernels.h"

#include "kernels/blocked_layout.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/blocked.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/parallel_axis.h"
#include "ops/spatial.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::StatusOr<std::vector<TensorType>> InferBlockChannels(const NodeContext& node) {
  const TensorType& x = node.InputType(0);
  if (x.rank() != 4 || x.dtype != DType::kFloat) {
    return node.Invalid("X needs to be an image of float");
  }
  return std::vector<TensorType>{{x.dtype, BlockedShape(x.shape)}};
}

// Attribute `channels`: how many there are.
absl::StatusOr<std::vector<TensorType>> InferUnblockChannels(const NodeContext& node) {
  const TensorType& x = node.InputType(0);
  ASSIGN_OR_RETURN(const int64_t channels, node.RequiredInt("channels"));
  if (!IsBlockedShape(x.shape) || x.dtype != DType::kFloat) {
    return node.Invalid("X needs to be an image of float in blocks of channels");
  }
  const Shape image = {x.shape[0], channels, x.shape[2], x.shape[3]};
  if (channels < 1 || BlockedShape(image) != x.shape) {
    return node.Invalid(absl::StrCat(channels, " channels do not fill the blocks"));
  }
  return std::vector<TensorType>{{x.dtype, image}};
}

// Whether both sides are the same bytes: images of one pixel without padding.
bool IsView(const Shape& image) {
  return image[1] % kernels::kChannelBlock == 0 && image[2] * image[3] == 1;
}

absl::StatusOr<kernels::BlockLayoutParams> LayoutParams(const NodeContext& node,
                                                        const Shape& image) {
  RETURN_IF_ERROR(CheckCountable(node));
  return kernels::BlockLayoutParams{static_cast<int32_t>(image[0]), static_cast<int32_t>(image[1]),
                                    static_cast<int32_t>(image[2] * image[3])};
}

int32_t LanesFor(const Target& target) { return target.vector_floats >= 8 ? 8 : 4; }

std::vector<Alias> BlockAliases(const NodeContext& node) {
  return IsView(node.InputShape(0)) ? rules::ViewOfFirstInput(node) : std::vector<Alias>{};
}

std::vector<Alias> UnblockAliases(const NodeContext& node) {
  return IsView(node.OutputShape(0)) ? rules::ViewOfFirstInput(node) : std::vector<Alias>{};
}

// The call of a conversion, of which threads may share the blocks of one image: a channel is as
// many elements in either layout.
Lowering ByBlocks(KernelCall call, const kernels::BlockLayoutParams& p) {
  Lowering lowering = OneCall(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)});
  if (p.batch != 1) return lowering;
  return InParallel(std::move(lowering), int64_t{p.channels} * p.pixels * kElementWork,
                    {AxisOf<&kernels::BlockLayoutParams::channels>(p, kernels::kChannelBlock,
                                                                   {p.pixels, p.pixels})});
}

absl::StatusOr<Lowering> LowerBlockChannels(const NodeContext& node, const Target& target) {
  if (IsView(node.InputShape(0))) return rules::LowerCopy(node, target);
  ASSIGN_OR_RETURN(const kernels::BlockLayoutParams p, LayoutParams(node, node.InputShape(0)));
  KernelCall call;
  call.header = "kernels/blocked_layout.h";
  call.name = absl::StrCat("kernels::BlockChannels<", LanesFor(target), ">");
  call.function = LanesFor(target) == 8 ? FunctionOf<&kernels::BlockChannels<8>>()
                                        : FunctionOf<&kernels::BlockChannels<4>>();
  return ByBlocks(std::move(call), p);
}

absl::StatusOr<Lowering> LowerUnblockChannels(const NodeContext& node, const Target& target) {
  if (IsView(node.OutputShape(0))) return rules::LowerCopy(node, target);
  ASSIGN_OR_RETURN(const kernels::BlockLayoutParams p, LayoutParams(node, node.OutputShape(0)));
  KernelCall call;
  call.header = "kernels/blocked_layout.h";
  call.name = absl::StrCat("kernels::UnblockChannels<", LanesFor(target), ">");
  call.function = LanesFor(target) == 8 ? FunctionOf<&kernels::UnblockChannels<8>>()
                                        : FunctionOf<&kernels::UnblockChannels<4>>();
  return ByBlocks(std::move(call), p);
}

// Attribute `channels`: for each channel of Y, the channel of X that it is.
absl::StatusOr<std::vector<TensorType>> InferGatherChannels(const NodeContext& node) {
  const TensorType& x = node.InputType(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> channels, node.RequiredInts("channels"));
  if (!IsBlockedShape(x.shape) || x.dtype != DType::kFloat) {
    return node.Invalid("X needs to be an image of float in blocks of channels");
  }
  const int64_t last = x.shape[1] * kernels::kChannelBlock - 1;
  for (const int64_t channel : channels) {
    if (channel < 0 || channel > last) {
      return node.Invalid(absl::StrCat("there is no channel ", channel, " in X"));
    }
  }
  const auto count = static_cast<int64_t>(channels.size());
  return std::vector<TensorType>{
      {x.dtype, BlockedShape({x.shape[0], count, x.shape[2], x.shape[3]})}};
}

// The table of GatherChannelsFromTwo; empty where a block of Y has channels of three blocks of X.
// `channels` fills the blocks of Y.
std::vector<int32_t> TableOfTwo(const std::vector<int32_t>& channels) {
  std::vector<int32_t> table;
  for (size_t c = 0; c < channels.size(); c += kernels::kChannelBlock) {
    std::array<int32_t, 2> blocks = {channels[c] / kernels::kChannelBlock, -1};
    std::vector<int32_t> lanes;
    for (size_t l = c; l < c + kernels::kChannelBlock; ++l) {
      const int32_t block = channels[l] / kernels::kChannelBlock;
      if (block != blocks[0] && blocks[1] < 0) blocks[1] = block;
      if (block != blocks[0] && block != blocks[1]) return {};
      lanes.push_back(channels[l] % kernels::kChannelBlock +
                      (block == blocks[0] ? 0 : kernels::kChannelBlock));
    }
    table.push_back(blocks[0]);
    table.push_back(blocks[1] < 0 ? blocks[0] : blocks[1]);
    table.insert(table.end(), lanes.begin(), lanes.end());
  }
  return table;
}

absl::StatusOr<Lowering> LowerGatherChannels(const NodeContext& node, const Target& target) {
  RETURN_IF_ERROR(CheckCountable(node));
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, node.RequiredInts("channels"));
  const Shape& x = node.InputShape(0);
  const Shape& y = node.OutputShape(0);
  // Lanes behind the last channel repeat it.
  std::vector<int32_t> channels(static_cast<size_t>(y[1] * kernels::kChannelBlock));
  for (size_t i = 0; i < channels.size(); ++i) {
    channels[i] = static_cast<int32_t>(i < given.size() ? given[i] : given.back());
  }
  const kernels::GatherChannelsParams p = {static_cast<int32_t>(x[0]), static_cast<int32_t>(x[1]),
                                           static_cast<int32_t>(y[1]),
                                           static_cast<int32_t>(x[2] * x[3])};
  std::vector<int32_t> table;
  if (LanesFor(target) == 8) table = TableOfTwo(channels);
  KernelCall call;
  call.header = "kernels/blocked_layout.h";
  if (!table.empty()) {
    call.name = "kernels::GatherChannelsFromTwo";
    call.function = FunctionOf<&kernels::GatherChannelsFromTwo>();
  } else {
    call.name = "kernels::GatherChannels";
    call.function = FunctionOf<&kernels::GatherChannels>();
    table = std::move(channels);
  }
  const int64_t row = static_cast<int64_t>(table.size()) / std::max<int64_t>(y[1], 1);
  const int64_t plane = kernels::kChannelBlock * int64_t{p.pixels};
  call.constants = {Tensor::FromVector<int32_t>({static_cast<int64_t>(table.size())}, table)};
  Lowering lowering = OneCall(std::move(call), p,
                              {KernelArg::Input(0), KernelArg::Constant(0), KernelArg::Output(0)});
  if (p.batch != 1) return lowering;
  return InParallel(std::move(lowering), p.out_blocks * plane * kElementWork,
                    {AxisOf<&kernels::GatherChannelsParams::out_blocks>(p, 1, {0, row, plane})});
}

}  // namespace

extern const OpDef kBlockChannels = {
    .type = "BlockChannels",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferBlockChannels,
    .aliases = BlockAliases,
    .lower = LowerBlockChannels,
};

extern const OpDef kUnblockChannels = {
    .type = "UnblockChannels",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferUnblockChannels,
    .aliases = UnblockAliases,
    .lower = LowerUnblockChannels,
};

extern const OpDef kBlockedGatherChannels = {
    .type = "BlockedGatherChannels",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferGatherChannels,
    .lower = LowerGatherChannels,
};

}  // namespace onnx_memplan
