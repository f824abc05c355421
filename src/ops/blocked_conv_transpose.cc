// BlockedConvTranspose: ConvTranspose with constant weights over images in blocks of channels.
#include "ops/host_kernels.h"

#include "kernels/blocked_conv_transpose.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/blocked.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/spatial.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Attributes: `strides`; `padding`, what is cut off before the first row and column of the full
// result; `output_size`, height and width of the result. One group, no dilation.
absl::StatusOr<std::vector<TensorType>> InferBlockedConvTranspose(const NodeContext& node) {
  const Shape& x = node.InputShape(0);
  const Shape& w = node.InputShape(1);
  if (!IsBlockedShape(x) || w.size() != 4 || node.InputDType(0) != DType::kFloat ||
      node.InputDType(1) != DType::kFloat) {
    return node.Invalid("X needs to be an image in blocks of channels, and W four axes, of float");
  }
  if (BlockedShape({x[0], w[0], x[2], x[3]}) != x || w[1] < 1 || w[2] < 1 || w[3] < 1) {
    return node.Invalid(absl::StrCat("X has not the ", w[0], " channels of W"));
  }
  if (node.HasInput(2) && node.InputType(2) != TensorType{DType::kFloat, {w[1]}}) {
    return node.Invalid(absl::StrCat("the bias needs to be ", w[1], " floats"));
  }
  RETURN_IF_ERROR(SpatialAttribute(node, "strides", 2, 1, 1).status());
  RETURN_IF_ERROR(SpatialAttribute(node, "padding", 2, 0, 0).status());
  ASSIGN_OR_RETURN(const std::vector<int64_t> out, SpatialAttribute(node, "output_size", 2, 0, 1));
  if (out[0] < 1) return node.Invalid("attribute 'output_size' is missing");
  return std::vector<TensorType>{{DType::kFloat, BlockedShape({x[0], w[1], out[0], out[1]})}};
}

absl::StatusOr<kernels::BlockedTransposeParams> MakeParamsOf(const NodeContext& node) {
  RETURN_IF_ERROR(CheckCountable(node));
  const Shape& x = node.InputShape(0);
  const Shape& w = node.InputShape(1);
  const Shape& y = node.OutputShape(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> stride, SpatialAttribute(node, "strides", 2, 1, 1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> padding, SpatialAttribute(node, "padding", 2, 0, 0));
  kernels::BlockedTransposeParams p = {};
  p.batch = static_cast<int32_t>(x[0]);
  p.in_blocks = static_cast<int32_t>(x[1]);
  p.out_blocks = static_cast<int32_t>(y[1]);
  for (size_t i = 0; i < 2; ++i) {
    p.in_size[i] = static_cast<int32_t>(x[2 + i]);
    p.out_size[i] = static_cast<int32_t>(y[2 + i]);
    p.taps[i] = static_cast<int32_t>(w[2 + i]);
    ASSIGN_OR_RETURN(p.stride[i], ToInt32(node, stride[i], "a stride"));
    ASSIGN_OR_RETURN(p.padding[i], ToInt32(node, padding[i], "padding"));
    RETURN_IF_ERROR(ToInt32(node, padding[i] + y[2 + i], "the full result").status());
  }
  SetActivation(FuseActivation(node.node().epilogue), &p);
  return p;
}

// The kernel's constants: for each block of output channels its bias, then each tap's weights.
Tensor PackWeights(const kernels::BlockedTransposeParams& p, const Shape& shape,
                   std::span<const float> weights, std::span<const float> bias) {
  const auto lanes = static_cast<size_t>(kernels::kChannelBlock);
  const auto in = static_cast<size_t>(shape[0]);
  const auto out = static_cast<size_t>(shape[1]);
  const auto taps = static_cast<size_t>(shape[2] * shape[3]);
  const size_t padded_in = static_cast<size_t>(p.in_blocks) * lanes;
  const size_t block_floats = (1 + taps * padded_in) * lanes;
  std::vector<float> packed(static_cast<size_t>(p.out_blocks) * block_floats);
  for (size_t o = 0; o < out; ++o) {
    float* to = packed.data() + o / lanes * block_floats + o % lanes;
    if (!bias.empty()) to[0] = bias[o];
    for (size_t t = 0; t < taps; ++t) {
      for (size_t i = 0; i < in; ++i) {
        to[(1 + t * padded_in + i) * lanes] = weights[(i * out + o) * taps + t];
      }
    }
  }
  const auto count = static_cast<int64_t>(packed.size());
  return Tensor::FromVector<float>({count}, packed);
}

absl::StatusOr<Lowering> LowerBlockedConvTranspose(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const kernels::BlockedTransposeParams p, MakeParamsOf(node));
  const Tensor* weights = node.InputConstant(1);
  if (weights == nullptr || (node.HasInput(2) && node.InputConstant(2) == nullptr)) {
    return node.Unsupported("weights and bias need to be constant");
  }
  const int32_t lanes = target.vector_floats >= 8 ? 8 : 4;
  KernelCall call;
  call.header = "kernels/blocked_conv_transpose.h";
  call.name = absl::StrCat("kernels::BlockedConvTranspose<", lanes, ">");
  call.function = lanes == 8 ? FunctionOf<&kernels::BlockedConvTranspose<8>>()
                             : FunctionOf<&kernels::BlockedConvTranspose<4>>();
  std::span<const float> bias;
  if (node.HasInput(2)) bias = node.InputConstant(2)->As<float>();
  call.constants = {PackWeights(p, weights->shape(), weights->As<float>(), bias)};
  Lowering lowering = OneCall(
      std::move(call), p,
      {KernelArg::Input(0), KernelArg::Constant(0), ResidualArg(node), KernelArg::Output(0)});
  const Shape& x = node.InputShape(0);
  lowering.macs = x[0] * x[2] * x[3] * weights->NumElements();
  return lowering;
}

}  // namespace

extern const OpDef kBlockedConvTranspose = {
    .type = "BlockedConvTranspose",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferBlockedConvTranspose,
    .aliases = InPlaceResidual,
    .lower = LowerBlockedConvTranspose,
    .fuses_activation = true,
    .fuses_residual = true,
};

}  // namespace onnx_memplan
