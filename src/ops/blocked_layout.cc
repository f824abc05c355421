// BlockChannels and UnblockChannels: the borders of what is computed in blocks of channels.
#include "ops/host_kernels.h"

#include "kernels/blocked_layout.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/blocked.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
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

std::vector<Alias> BlockAliases(const NodeContext& node) {
  return IsView(node.InputShape(0)) ? rules::ViewOfFirstInput(node) : std::vector<Alias>{};
}

std::vector<Alias> UnblockAliases(const NodeContext& node) {
  return IsView(node.OutputShape(0)) ? rules::ViewOfFirstInput(node) : std::vector<Alias>{};
}

absl::StatusOr<Lowering> LowerBlockChannels(const NodeContext& node, const Target& target) {
  if (IsView(node.InputShape(0))) return rules::LowerCopy(node, target);
  ASSIGN_OR_RETURN(const kernels::BlockLayoutParams p, LayoutParams(node, node.InputShape(0)));
  KernelCall call;
  call.header = "kernels/blocked_layout.h";
  call.name = "kernels::BlockChannels";
  call.function = FunctionOf<&kernels::BlockChannels>();
  return OneCall(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerUnblockChannels(const NodeContext& node, const Target& target) {
  if (IsView(node.OutputShape(0))) return rules::LowerCopy(node, target);
  ASSIGN_OR_RETURN(const kernels::BlockLayoutParams p, LayoutParams(node, node.OutputShape(0)));
  KernelCall call;
  call.header = "kernels/blocked_layout.h";
  call.name = "kernels::UnblockChannels";
  call.function = FunctionOf<&kernels::UnblockChannels>();
  return OneCall(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)});
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

}  // namespace onnx_memplan
