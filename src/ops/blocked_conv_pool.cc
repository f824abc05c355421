// BlockedConvPool: a convolution of a plain image and the maximum pool that alone reads its result.
#include "ops/host_kernels.h"

#include "kernels/blocked_conv_pool.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/blocked.h"
#include "ops/blocked_direct.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/spatial.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Attributes: those of Conv, and those of MaxPool with this in front.
constexpr std::string_view kPoolPrefix = "pool_";

// The convolution's output and the pool's window over it.
struct ConvPoolShape {
  Shape conv;  // blocked
  SlidingWindow pool;
};

absl::StatusOr<ConvPoolShape> ReadConvPool(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<TensorType> conv, kBlockedConv.infer(node));
  if (IsBlockedShape(node.InputShape(0))) return node.Invalid("X needs to be a plain image");
  Node pool = node.node();
  pool.attributes.clear();
  for (const auto& [name, value] : node.node().attributes) {
    if (name.starts_with(kPoolPrefix)) pool.attributes[name.substr(kPoolPrefix.size())] = value;
  }
  const NodeContext pool_context(node.graph(), pool);
  ConvPoolShape shape;
  shape.conv = conv[0].shape;
  const Shape image = {shape.conv[0], shape.conv[1], shape.conv[2], shape.conv[3]};
  ASSIGN_OR_RETURN(const std::vector<int64_t> taps, pool_context.RequiredInts("kernel_shape"));
  ASSIGN_OR_RETURN(shape.pool, ReadSlidingWindow(pool_context, image, taps));
  for (const int64_t dilation : shape.pool.dilation) {
    if (dilation != 1) return node.Unsupported("a pool with dilation");
  }
  return shape;
}

absl::StatusOr<std::vector<TensorType>> InferConvPool(const NodeContext& node) {
  ASSIGN_OR_RETURN(const ConvPoolShape shape, ReadConvPool(node));
  Shape out = shape.conv;
  out[2] = shape.pool.out_size[0];
  out[3] = shape.pool.out_size[1];
  return std::vector<TensorType>{{DType::kFloat, out}};
}

absl::StatusOr<kernels::BlockedConvPoolParams> MakeConvPoolParams(
    const NodeContext& node, const kernels::BlockedConvParams& conv) {
  ASSIGN_OR_RETURN(const ConvPoolShape shape, ReadConvPool(node));
  kernels::BlockedConvPoolParams p = {};
  p.batch = conv.batch;
  p.in_channels = conv.in_channels;
  for (size_t i = 0; i < 2; ++i) {
    p.in_size[i] = conv.in_size[i];
    p.conv_size[i] = conv.out_size[i];
    p.taps[i] = conv.taps[i];
    p.stride[i] = conv.stride[i];
    p.dilation[i] = conv.dilation[i];
    p.padding[i] = conv.padding[i];
    ASSIGN_OR_RETURN(p.out_size[i], ToInt32(node, shape.pool.out_size[i], "an output size"));
    ASSIGN_OR_RETURN(p.pool_taps[i], ToInt32(node, shape.pool.taps[i], "a window"));
    ASSIGN_OR_RETURN(p.pool_stride[i], ToInt32(node, shape.pool.stride[i], "a stride"));
    ASSIGN_OR_RETURN(p.pool_padding[i], ToInt32(node, shape.pool.padding_begin[i], "padding"));
  }
  p.out_blocks = kernels::ChannelBlocks(conv.out_channels);
  p.clamps = conv.clamps;
  p.activation = conv.activation;
  p.lowest = conv.lowest;
  p.highest = conv.highest;
  p.alpha = conv.alpha;
  p.beta = conv.beta;
  return p;
}

template <const auto& kShapes>
KernelFunction PickConvPool(const DirectShape& shape, const DirectAccess& access) {
  constexpr int32_t kSteps[] = {0, 1, 2};
  KernelFunction function;
  const auto try_one = [&]<size_t I>() {
    constexpr DirectShape kShape = kShapes[I / std::size(kSteps)];
    constexpr int32_t kStep = kSteps[I % std::size(kSteps)];
    if (shape == kShape && access.step == kStep) {
      function = FunctionOf<&kernels::BlockedConvPool<kShape.width, kShape.vectors, kShape.pixels,
                                                      kStep, kernels::kDirectPlanes>>();
    }
  };
  [&]<size_t... I>(std::index_sequence<I...>) { (try_one.template operator()<I>(), ...); }
  (std::make_index_sequence<std::size(kShapes) * std::size(kSteps)>());
  return function;
}

absl::StatusOr<Lowering> LowerConvPool(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const kernels::BlockedConvParams conv, ReadBlockedConv(node));
  ASSIGN_OR_RETURN(kernels::BlockedConvPoolParams p, MakeConvPoolParams(node, conv));
  const Tensor* weights = node.InputConstant(1);
  const Tensor* bias = node.InputConstant(2);
  if (weights == nullptr || (node.HasInput(2) && bias == nullptr)) {
    return node.Unsupported("weights and bias need to be constant");
  }
  Lowering lowering;
  if (node.OutputType(0).NumElements() == 0) return lowering;
  // Tiles of eight floats exist everywhere.
  Target wide = target;
  wide.vector_floats = std::max(wide.vector_floats, kernels::kChannelBlock);
  const DirectAccess access = DirectAccessOf(conv);
  for (const DirectPart& part : ChooseDirectParts(wide, conv, access)) {
    const DirectShape& shape = part.shape;
    const int32_t first_channel = p.first_block * kernels::kChannelBlock;
    p.groups = part.groups;
    KernelCall call;
    call.header = "kernels/blocked_conv_pool.h";
    call.name = absl::StrCat("kernels::BlockedConvPool<", shape.width, ", ", shape.vectors, ", ",
                             shape.pixels, ", ", access.step, ", ", access.kind, ">");
    call.function = shape.width == 8 ? PickConvPool<kDirectShapes8>(shape, access)
                                     : PickConvPool<kDirectShapes16>(shape, access);
    call.params = MakeParams(p);
    call.constants.push_back(PackDirectWeights(conv, weights->As<float>(), part, first_channel));
    if (bias != nullptr) {
      call.constants.push_back(PackDirectBias(bias->As<float>(), part, first_channel));
    }
    call.args = {KernelArg::Input(0), KernelArg::Constant(0),
                 bias != nullptr ? KernelArg::Constant(1) : KernelArg::Null(), KernelArg::Scratch(),
                 KernelArg::Output(0)};
    lowering.calls.push_back(std::move(call));
    const int64_t channels = int64_t{shape.width} * shape.vectors;
    lowering.scratch_bytes =
        std::max(lowering.scratch_bytes, kernels::ConvPoolScratchBytes(p, channels));
    p.first_block += part.groups * shape.blocks();
  }
  lowering.scratch_alignment = int64_t{4} * std::min(wide.vector_floats, 16);
  lowering.macs = int64_t{p.batch} * conv.out_channels * p.conv_size[0] * p.conv_size[1] *
                  conv.in_channels * p.taps[0] * p.taps[1];
  return lowering;
}

}  // namespace

extern const OpDef kBlockedConvPool = {
    .type = "BlockedConvPool",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferConvPool,
    .lower = LowerConvPool,
    .fuses_activation = true,
};

}  // namespace onnx_memplan
