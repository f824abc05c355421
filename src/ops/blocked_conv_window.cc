// BlockedConvPool and BlockedConvDepthwise: a convolution and the maximum pool or the depthwise
// convolution that alone reads its result.
#include "ops/host_kernels.h"

#include "ops/blocked_conv_window.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/blocked.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/parallel_axis.h"
#include "ops/spatial.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Attributes: those of Conv for the convolution, and those of the window with this in front. The
// epilogue is that of the pool's convolution, and of the depthwise one; the convolution before a
// depthwise one has its own in the attributes first_activation, first_alpha, first_beta.
constexpr std::string_view kWindowPrefix = "window_";

}  // namespace

absl::StatusOr<ConvWindowShape> ReadWindowOver(const NodeContext& node, Shape conv,
                                               std::vector<int64_t> taps) {
  Node window = node.node();
  window.attributes.clear();
  for (const auto& [name, value] : node.node().attributes) {
    if (name.starts_with(kWindowPrefix)) {
      window.attributes[name.substr(kWindowPrefix.size())] = value;
    }
  }
  const NodeContext window_context(node.graph(), window);
  ConvWindowShape shape;
  shape.conv = std::move(conv);
  const Shape image = {shape.conv[0], shape.conv[1], shape.conv[2], shape.conv[3]};
  if (taps.empty()) {
    ASSIGN_OR_RETURN(taps, window_context.RequiredInts("kernel_shape"));
  }
  ASSIGN_OR_RETURN(shape.window, ReadSlidingWindow(window_context, image, taps));
  for (const int64_t dilation : shape.window.dilation) {
    if (dilation != 1) return node.Unsupported("a window with dilation");
  }
  return shape;
}

absl::StatusOr<ConvWindowShape> ReadConvWindow(const NodeContext& node, std::vector<int64_t> taps) {
  ASSIGN_OR_RETURN(const std::vector<TensorType> conv, kBlockedConv.infer(node));
  return ReadWindowOver(node, conv[0].shape, std::move(taps));
}

absl::StatusOr<std::vector<int64_t>> ReadDepthwiseTaps(const NodeContext& node, int32_t i,
                                                       int64_t channels) {
  if (!node.HasInput(i)) return node.Invalid(absl::StrCat("input ", i, " is missing"));
  const Shape& w = node.InputShape(i);
  if (w.size() != 4 || w[1] != 1 || w[0] != channels) {
    return node.Invalid(absl::StrCat("no depthwise weights are ", ShapeToString(w)));
  }
  const TensorType bias = {DType::kFloat, {w[0]}};
  if (node.InputDType(i) != DType::kFloat ||
      (node.HasInput(i + 1) && node.InputType(i + 1) != bias)) {
    return node.Invalid("the depthwise weights and bias need to be floats, of one channel count");
  }
  return std::vector<int64_t>{w[2], w[3]};
}

namespace {

std::vector<TensorType> TypesOf(const ConvWindowShape& shape) {
  Shape out = shape.conv;
  out[2] = shape.window.out_size[0];
  out[3] = shape.window.out_size[1];
  return {{DType::kFloat, out}};
}

}  // namespace

absl::StatusOr<kernels::BlockedConvWindowParams> MakeWindowParams(
    const NodeContext& node, const kernels::BlockedConvParams& conv, const ConvWindowShape& shape) {
  kernels::BlockedConvWindowParams p = {};
  SetConvolution(conv, &p);
  for (size_t i = 0; i < 2; ++i) {
    p.conv_size[i] = conv.out_size[i];
    ASSIGN_OR_RETURN(p.out_size[i], ToInt32(node, shape.window.out_size[i], "an output size"));
    ASSIGN_OR_RETURN(p.window_taps[i], ToInt32(node, shape.window.taps[i], "a window"));
    ASSIGN_OR_RETURN(p.window_stride[i], ToInt32(node, shape.window.stride[i], "a stride"));
    ASSIGN_OR_RETURN(p.window_padding[i], ToInt32(node, shape.window.padding_begin[i], "padding"));
  }
  p.out_blocks = kernels::ChannelBlocks(conv.out_channels);
  p.row_begin = 0;
  p.row_end = p.out_size[0];
  return p;
}

void SetWindowActivation(const Epilogue& epilogue, kernels::BlockedConvWindowParams* p) {
  const FusedActivation fused = FuseActivation(epilogue);
  p->window_clamps = fused.clamps;
  p->window_activation = fused.kind;
  p->window_lowest = fused.lowest;
  p->window_highest = fused.highest;
  p->window_alpha = fused.alpha;
  p->window_beta = fused.beta;
}

Epilogue EpilogueOf(const NodeContext& node, const std::string& prefix) {
  Epilogue epilogue;
  epilogue.activation = node.String(prefix + "_activation", "");
  epilogue.alpha = node.Float(prefix + "_alpha", 0);
  epilogue.beta = node.Float(prefix + "_beta", 0);
  return epilogue;
}

absl::StatusOr<Tensor> PackDepthwiseInput(const NodeContext& node, int32_t i) {
  if (!HasDirectConstants(node, i)) {
    return node.Unsupported("weights and bias need to be constant");
  }
  const Tensor* weights = node.InputConstant(i);
  const Tensor* bias = node.InputConstant(i + 1);
  return PackBlockedDepthwise(weights->shape()[0], weights->As<float>(),
                              bias == nullptr ? std::span<const float>() : bias->As<float>());
}

namespace {

template <const auto& kShapes, bool Pools>
KernelFunction PickConvWindow(const DirectShape& shape, const DirectAccess& access) {
  constexpr size_t kAccesses = std::size(kWindowAccesses);
  KernelFunction function;
  const auto try_one = [&]<size_t I>() {
    constexpr DirectShape kShape = kShapes[I / kAccesses];
    constexpr DirectAccess kAccess = kWindowAccesses[I % kAccesses];
    if (shape != kShape || access != kAccess) return;
    if constexpr (Pools) {
      function = FunctionOf<&kernels::BlockedConvPool<kShape.width, kShape.vectors, kShape.pixels,
                                                      kAccess.step, kAccess.kind>>();
    } else {
      function =
          FunctionOf<&kernels::BlockedConvDepthwise<kShape.width, kShape.vectors, kShape.pixels,
                                                    kAccess.step, kAccess.kind>>();
    }
  };
  [&]<size_t... I>(std::index_sequence<I...>) { (try_one.template operator()<I>(), ...); }
  (std::make_index_sequence<std::size(kShapes) * kAccesses>());
  return function;
}

// Threads may share the groups of `channels` output channels or, where these are few, rows, of
// which each thread then computes those again that its windows share with another's.
void ShareOut(const kernels::BlockedConvWindowParams& p, int64_t channels, KernelCall& call) {
  using Params = kernels::BlockedConvWindowParams;
  const int64_t weights = channels * p.in_channels * p.taps[0] * p.taps[1];
  const int64_t window_taps = int64_t{p.window_taps[0]} * p.window_taps[1];
  const int64_t out = int64_t{p.out_size[0]} * p.out_size[1];
  std::vector<int64_t> steps = {0, weights, channels};
  // What follows are the constants of a depthwise kernel, if it is one, scratch, and the output.
  if (call.args.size() == 6) steps.push_back(channels * (1 + window_taps));
  steps.push_back(0);
  steps.push_back(channels * out);
  call.work = p.batch * p.groups *
              (weights * p.conv_size[0] * p.conv_size[1] + channels * window_taps * out);
  call.axes = {AxisOf<&Params::groups>(p, 1, std::move(steps)),
               RangeOf<&Params::row_begin, &Params::row_end>(p, 1, call.args.size())};
}

// `kernel`: BlockedConvPool or BlockedConvDepthwise. constants: of the window's kernel, if it has.
template <bool Pools>
absl::StatusOr<Lowering> LowerConvWindow(const NodeContext& node, const Target& target,
                                         const kernels::BlockedConvParams& conv,
                                         kernels::BlockedConvWindowParams p,
                                         std::vector<Tensor> window_constants) {
  if (!HasDirectConstants(node, 1)) {
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
    call.header = "kernels/blocked_conv_window.h";
    call.name =
        absl::StrCat("kernels::BlockedConv", Pools ? "Pool<" : "Depthwise<", shape.width, ", ",
                     shape.vectors, ", ", shape.pixels, ", ", access.step, ", ", access.kind, ">");
    call.function = shape.width == 8 ? PickConvWindow<kDirectShapes8, Pools>(shape, access)
                                     : PickConvWindow<kDirectShapes16, Pools>(shape, access);
    if (call.function.invoke == nullptr) {
      return node.Unsupported("the input needs to be plain, or the kernel of one tap and stride 1");
    }
    call.params = MakeParams(p);
    call.args = {KernelArg::Input(0)};
    AddDirectConstants(node, 1, conv, part, first_channel, call);
    for (const Tensor& constant : window_constants) {
      call.args.push_back(KernelArg::Constant(static_cast<int32_t>(call.constants.size())));
      call.constants.push_back(constant);
    }
    call.args.push_back(KernelArg::Scratch());
    call.args.push_back(KernelArg::Output(0));
    ShareOut(p, int64_t{shape.width} * shape.vectors, call);
    lowering.calls.push_back(std::move(call));
    lowering.scratch_bytes =
        std::max(lowering.scratch_bytes,
                 kernels::ConvWindowScratchBytes(p, int64_t{shape.width} * shape.vectors));
    p.first_block += part.groups * shape.blocks();
  }
  for (KernelCall& call : lowering.calls) call.own_scratch_bytes = lowering.scratch_bytes;
  lowering.scratch_alignment = int64_t{4} * std::min(wide.vector_floats, 16);
  lowering.macs = int64_t{p.batch} * conv.out_channels * p.conv_size[0] * p.conv_size[1] *
                  conv.in_channels * p.taps[0] * p.taps[1];
  return lowering;
}

// ---- A maximum pool

absl::StatusOr<std::vector<TensorType>> InferConvPool(const NodeContext& node) {
  ASSIGN_OR_RETURN(const ConvWindowShape shape, ReadConvWindow(node, {}));
  return TypesOf(shape);
}

absl::StatusOr<Lowering> LowerConvPool(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const kernels::BlockedConvParams conv, ReadBlockedConv(node));
  ASSIGN_OR_RETURN(const ConvWindowShape shape, ReadConvWindow(node, {}));
  ASSIGN_OR_RETURN(kernels::BlockedConvWindowParams p, MakeWindowParams(node, conv, shape));
  SetActivation(FuseActivation(node.node().epilogue), &p);
  return LowerConvWindow</*Pools=*/true>(node, target, conv, p, {});
}

// ---- A depthwise convolution: inputs 3 and 4 are its weights and bias

absl::StatusOr<ConvWindowShape> ReadConvDepthwise(const NodeContext& node) {
  ASSIGN_OR_RETURN(std::vector<int64_t> taps, ReadDepthwiseTaps(node, 3, node.InputShape(1)[0]));
  return ReadConvWindow(node, std::move(taps));
}

absl::StatusOr<std::vector<TensorType>> InferConvDepthwise(const NodeContext& node) {
  ASSIGN_OR_RETURN(const ConvWindowShape shape, ReadConvDepthwise(node));
  return TypesOf(shape);
}

absl::StatusOr<Lowering> LowerConvDepthwise(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const kernels::BlockedConvParams conv, ReadBlockedConv(node));
  ASSIGN_OR_RETURN(const ConvWindowShape shape, ReadConvDepthwise(node));
  ASSIGN_OR_RETURN(kernels::BlockedConvWindowParams p, MakeWindowParams(node, conv, shape));
  SetActivation(FuseActivation(EpilogueOf(node, "first")), &p);
  SetWindowActivation(node.node().epilogue, &p);
  ASSIGN_OR_RETURN(Tensor constants, PackDepthwiseInput(node, 3));
  ASSIGN_OR_RETURN(Lowering lowering,
                   LowerConvWindow</*Pools=*/false>(node, target, conv, p, {std::move(constants)}));
  lowering.macs += node.OutputType(0).NumElements() * p.window_taps[0] * p.window_taps[1];
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

extern const OpDef kBlockedConvDepthwise = {
    .type = "BlockedConvDepthwise",
    .domain = kMemplan,
    .min_inputs = 2,  // and input 3
    .max_inputs = 5,
    .infer = InferConvDepthwise,
    .lower = LowerConvDepthwise,
    .fuses_activation = true,
};

}  // namespace onnx_memplan
