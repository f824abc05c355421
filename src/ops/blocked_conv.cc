// BlockedConv: Conv with constant weights over images in blocks of channels.
#include "ops/host_kernels.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/blocked.h"
#include "ops/dispatch.h"
#include "ops/epilogue.h"
#include "ops/families.h"
#include "ops/spatial.h"
#include "support/status_macros.h"

namespace onnx_memplan {

Shape BlockedShape(const Shape& image) {
  return {image[0], kernels::ChannelBlocks(static_cast<int32_t>(image[1])), image[2], image[3],
          kernels::kChannelBlock};
}

bool IsBlockedShape(const Shape& shape) {
  return shape.size() == 5 && shape.back() == kernels::kChannelBlock;
}

namespace {

// X is blocked, or [batch, channels, height, width]; W is [out, in, height, width], with an `in` of
// 1 and group = channels for a depthwise convolution. Attributes: those of Conv.
struct BlockedConvShape {
  SlidingWindow window;
  int64_t batch = 0;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  bool depthwise = false;
  bool in_blocked = false;
};

absl::StatusOr<BlockedConvShape> ReadShape(const NodeContext& node) {
  const Shape& x = node.InputShape(0);
  const Shape& w = node.InputShape(1);
  BlockedConvShape shape;
  shape.in_blocked = IsBlockedShape(x);
  if ((!shape.in_blocked && x.size() != 4) || w.size() != 4 ||
      node.InputDType(0) != DType::kFloat || node.InputDType(1) != DType::kFloat) {
    return node.Invalid("X needs to be a blocked or plain image, and W four axes, of float");
  }
  const int64_t group = node.Int("group", 1);
  shape.depthwise = group > 1;
  shape.batch = x[0];
  shape.in_channels = w[1] * group;
  shape.out_channels = w[0];
  if (shape.depthwise && (w[1] != 1 || group != w[0])) {
    return node.Invalid(absl::StrCat(group, " groups: only one or one for each channel"));
  }
  const int64_t blocks = (shape.in_channels + kernels::kChannelBlock - 1) / kernels::kChannelBlock;
  if (x[1] != (shape.in_blocked ? blocks : shape.in_channels)) {
    return node.Invalid(absl::StrCat("X has not the ", shape.in_channels, " channels of W"));
  }
  if (node.HasInput(2) && node.InputType(2) != TensorType{DType::kFloat, {w[0]}}) {
    return node.Invalid(absl::StrCat("the bias needs to be ", w[0], " floats"));
  }
  const Shape image = {x[0], shape.in_channels, x[2], x[3]};
  ASSIGN_OR_RETURN(shape.window, ReadSlidingWindow(node, image, {w[2], w[3]}));
  return shape;
}

absl::StatusOr<std::vector<TensorType>> InferBlockedConv(const NodeContext& node) {
  ASSIGN_OR_RETURN(const BlockedConvShape shape, ReadShape(node));
  const std::vector<int64_t>& out = shape.window.out_size;
  return std::vector<TensorType>{
      {DType::kFloat, BlockedShape({shape.batch, shape.out_channels, out[0], out[1]})}};
}

absl::StatusOr<kernels::BlockedConvParams> MakeParamsOf(const NodeContext& node,
                                                        const BlockedConvShape& shape) {
  RETURN_IF_ERROR(CheckCountable(node));
  kernels::BlockedConvParams p = {};
  // Each of these is at most the number of elements of a tensor.
  p.batch = static_cast<int32_t>(shape.batch);
  p.in_channels = static_cast<int32_t>(shape.in_channels);
  p.out_channels = static_cast<int32_t>(shape.out_channels);
  p.depthwise = shape.depthwise ? 1 : 0;
  p.in_blocked = shape.in_blocked ? 1 : 0;
  for (size_t i = 0; i < 2; ++i) {
    p.in_size[i] = static_cast<int32_t>(shape.window.in_size[i]);
    p.out_size[i] = static_cast<int32_t>(shape.window.out_size[i]);
    p.taps[i] = static_cast<int32_t>(shape.window.taps[i]);
    ASSIGN_OR_RETURN(p.stride[i], ToInt32(node, shape.window.stride[i], "a stride"));
    ASSIGN_OR_RETURN(p.dilation[i], ToInt32(node, shape.window.dilation[i], "a dilation"));
    ASSIGN_OR_RETURN(p.padding[i], ToInt32(node, shape.window.padding_begin[i], "padding"));
  }
  SetActivation(FuseActivation(node.node().epilogue), &p);
  return p;
}

}  // namespace

absl::StatusOr<kernels::BlockedConvParams> ReadBlockedConv(const NodeContext& node) {
  ASSIGN_OR_RETURN(const BlockedConvShape shape, ReadShape(node));
  return MakeParamsOf(node, shape);
}

namespace {

Lowering LowerPlain(const NodeContext& node, const kernels::BlockedConvParams& p) {
  KernelCall call;
  call.header = "kernels/blocked.h";
  call.name = "kernels::BlockedConvPlain";
  call.function = FunctionOf<&kernels::BlockedConvPlain>();
  return OneCall(std::move(call), p,
                 {KernelArg::Input(0), KernelArg::Input(1), OptionalInput(node, 2),
                  ResidualArg(node), KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerBlockedConv(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const kernels::BlockedConvParams p, ReadBlockedConv(node));
  std::optional<Lowering> lowering;
  if (node.InputConstant(1) != nullptr) {
    if (p.depthwise != 0) {
      lowering = LowerBlockedDepthwise(node, target, p);
    } else {
      lowering = LowerBlockedWinograd(node, target, p);
      if (!lowering) lowering = LowerBlockedDirect(node, target, p);
    }
  }
  if (!lowering) lowering = LowerPlain(node, p);
  lowering->macs = int64_t{p.batch} * p.out_channels * p.out_size[0] * p.out_size[1] *
                   (p.depthwise != 0 ? 1 : p.in_channels) * p.taps[0] * p.taps[1];
  return *std::move(lowering);
}

// A depthwise convolution of one tap reads each element where it writes it.
bool IsElementwise(const BlockedConvShape& shape) {
  const SlidingWindow& w = shape.window;
  const auto all = [](const std::vector<int64_t>& values, int64_t value) {
    return std::all_of(values.begin(), values.end(), [=](int64_t v) { return v == value; });
  };
  return shape.depthwise && shape.in_blocked && all(w.taps, 1) && all(w.stride, 1) &&
         all(w.padding_begin, 0) && w.in_size == w.out_size;
}

std::vector<Alias> BlockedConvAliases(const NodeContext& node) {
  std::vector<Alias> aliases = InPlaceResidual(node);
  const absl::StatusOr<BlockedConvShape> shape = ReadShape(node);
  if (shape.ok() && IsElementwise(*shape)) aliases.push_back({Alias::Kind::kInPlace, 0, 0, 0});
  return aliases;
}

}  // namespace

extern const OpDef kBlockedConv = {
    .type = "BlockedConv",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferBlockedConv,
    .aliases = BlockedConvAliases,
    .lower = LowerBlockedConv,
    .fuses_activation = true,
    .fuses_residual = true,
};

}  // namespace onnx_memplan
