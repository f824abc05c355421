// Conv.
#include "ops/host_kernels.h"

#include "kernels/conv.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/depthwise.h"
#include "kernels/depthwise_plane.h"
#include "ops/conv_gradient.h"
#include "ops/depthwise_lowering.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gemm_lowering.h"
#include "ops/matmul_lowering.h"
#include "ops/parallel_axis.h"
#include "ops/spatial.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

struct ConvShape {
  SlidingWindow window;
  int64_t batch = 0;
  int64_t groups = 0;
  int64_t in_channels = 0;   // of one group
  int64_t out_channels = 0;  // of one group
};

absl::StatusOr<ConvShape> ReadConvShape(const NodeContext& node) {
  const Shape& x = node.InputShape(0);
  const Shape& w = node.InputShape(1);
  if (x.size() < 3 || w.size() != x.size()) {
    return node.Invalid("X and W need the same rank, at least 3");
  }
  ConvShape shape;
  shape.batch = x[0];
  shape.groups = node.Int("group", 1);
  if (shape.groups < 1 || x[1] % shape.groups != 0 || w[0] % shape.groups != 0 ||
      w[1] != x[1] / shape.groups) {
    return node.Invalid(absl::StrCat(shape.groups, " groups do not fit ", x[1],
                                     " input channels and weights of ", ShapeToString(w)));
  }
  shape.in_channels = x[1] / shape.groups;
  shape.out_channels = w[0] / shape.groups;
  const std::vector<int64_t> taps(w.begin() + 2, w.end());
  if (node.HasAttribute("kernel_shape") && node.Ints("kernel_shape", {}) != taps) {
    return node.Invalid("attribute 'kernel_shape' differs from the shape of W");
  }
  if (node.HasInput(2) && node.InputShape(2) != Shape{w[0]}) {
    return node.Invalid(absl::StrCat("the bias needs shape ", w[0]));
  }
  if (node.InputDType(1) != node.InputDType(0) ||
      (node.HasInput(2) && node.InputDType(2) != node.InputDType(0))) {
    return node.Invalid("the inputs have different element types");
  }
  ASSIGN_OR_RETURN(shape.window, ReadSlidingWindow(node, taps));
  return shape;
}

absl::StatusOr<std::vector<TensorType>> InferConv(const NodeContext& node) {
  ASSIGN_OR_RETURN(const ConvShape shape, ReadConvShape(node));
  Shape output = {shape.batch, shape.groups * shape.out_channels};
  output.insert(output.end(), shape.window.out_size.begin(), shape.window.out_size.end());
  return std::vector<TensorType>{{node.InputDType(0), output}};
}

absl::StatusOr<kernels::ConvParams> MakeConvParams(const NodeContext& node,
                                                   const ConvShape& shape) {
  RETURN_IF_ERROR(CheckCountable(node));
  kernels::ConvParams p = {};
  // Each of these is at most the number of elements of a tensor.
  p.batch = static_cast<int32_t>(shape.batch);
  p.groups = static_cast<int32_t>(shape.groups);
  p.in_channels = static_cast<int32_t>(shape.in_channels);
  p.out_channels = static_cast<int32_t>(shape.out_channels);
  p.block_channels = std::max(p.in_channels, 1);
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.in_size, 1, p.in_size));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.out_size, 1, p.out_size));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.taps, 1, p.taps));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.stride, 1, p.stride));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.dilation, 1, p.dilation));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.padding_begin, 0, p.padding));
  return p;
}

// ---- Depthwise

// More output channels for each input channel are better off as a matrix product.
constexpr int32_t kMostDepthwiseMultiplier = 4;

bool IsDepthwise(const kernels::ConvParams& p) {
  return p.groups > 1 && p.in_channels == 1 && p.out_channels <= kMostDepthwiseMultiplier &&
         p.in_size[0] == 1 && p.taps[0] == 1 && p.padding[0] == 0 && p.out_size[0] == 1;
}

template <int Lanes>
KernelFunction DepthwiseFunction(int32_t taps) {
  if (taps == 3) return FunctionOf<&kernels::Depthwise<Lanes, 3, 3>>();
  if (taps == 5) return FunctionOf<&kernels::Depthwise<Lanes, 5, 5>>();
  return FunctionOf<&kernels::Depthwise<Lanes, 0, 0>>();
}

template <int Lanes>
KernelFunction DepthwisePlaneFunction(int32_t taps) {
  return taps == 3 ? FunctionOf<&kernels::DepthwisePlane<Lanes, 3, 3>>()
                   : FunctionOf<&kernels::DepthwisePlane<Lanes, 5, 5>>();
}

// Chooses between a ring of rows (any kernel, least scratch) and a whole padded plane (fastest).
// taps: the size of a square kernel that has its own instantiation, else 0.
KernelCall ChooseDepthwise(const NodeContext& node, const Target& target,
                           const kernels::DepthwiseParams& p, int32_t taps,
                           int64_t* scratch_bytes) {
  KernelCall call;
  const int32_t plane_lanes = p.out_size[1] <= 4 ? 4 : 8;
  const int64_t plane_bytes = kernels::DepthwisePlaneScratchBytes(p, plane_lanes);
  const int64_t beside = node.InputType(0).Bytes() + node.OutputType(0).Bytes();
  if (target.vector_floats >= 8 && taps > 0 && p.stride[1] <= 2 &&
      plane_bytes <= std::max<int64_t>(4096, beside / 50)) {
    call.header = "kernels/depthwise_plane.h";
    call.name = absl::StrCat("kernels::DepthwisePlane<", plane_lanes, ", ", taps, ", ", taps, ">");
    call.function =
        plane_lanes == 8 ? DepthwisePlaneFunction<8>(taps) : DepthwisePlaneFunction<4>(taps);
    *scratch_bytes = plane_bytes;
    return call;
  }
  // Vectors that a row of outputs fills more than half.
  int32_t lanes = 4;
  while (lanes * 2 <= std::min(target.vector_floats, 16) && p.out_size[1] > lanes) lanes *= 2;
  call.header = "kernels/depthwise.h";
  call.name = absl::StrCat("kernels::Depthwise<", lanes, ", ", taps, ", ", taps, ">");
  call.function = lanes == 16  ? DepthwiseFunction<16>(taps)
                  : lanes == 8 ? DepthwiseFunction<8>(taps)
                               : DepthwiseFunction<4>(taps);
  *scratch_bytes = kernels::DepthwiseScratchBytes(p, lanes);
  return call;
}

Lowering LowerDepthwise(const NodeContext& node, const Target& target,
                        const kernels::ConvParams& conv, const FusedActivation& fused) {
  kernels::DepthwiseParams p = {};
  p.batch = conv.batch;
  p.channels = conv.groups;
  p.multiplier = conv.out_channels;
  for (int i = 0; i < 2; ++i) {
    p.in_size[i] = conv.in_size[i + 1];
    p.out_size[i] = conv.out_size[i + 1];
    p.taps[i] = conv.taps[i + 1];
    p.stride[i] = conv.stride[i + 1];
    p.dilation[i] = conv.dilation[i + 1];
    p.padding[i] = conv.padding[i + 1];
  }
  SetActivation(fused, &p);
  Lowering lowering;
  AppendDepthwise(node, target, p, KernelArg::Input(1), &lowering);
  return lowering;
}

}  // namespace

void AppendDepthwise(const NodeContext& node, const Target& target,
                     const kernels::DepthwiseParams& p, KernelArg weights, Lowering* lowering) {
  const bool square = p.taps[0] == p.taps[1] && (p.taps[0] == 3 || p.taps[0] == 5);
  const int64_t alignment = int64_t{4} * std::min(target.vector_floats, 16);
  const int64_t offset = (lowering->scratch_bytes + alignment - 1) / alignment * alignment;
  int64_t scratch_bytes = 0;
  KernelCall call = ChooseDepthwise(node, target, p, square ? p.taps[0] : 0, &scratch_bytes);
  call.params = MakeParams(p);
  call.own_scratch_bytes = scratch_bytes;
  const int64_t in = int64_t{p.in_size[0]} * p.in_size[1];
  const int64_t out = int64_t{p.out_size[0]} * p.out_size[1] * p.multiplier;
  const int64_t taps = int64_t{p.taps[0]} * p.taps[1];
  call.work = int64_t{p.batch} * p.channels * out * taps;
  if (p.batch == 1) {
    call.axes = {AxisOf<&kernels::DepthwiseParams::channels>(
        p, 1, {in, p.multiplier * taps, p.multiplier, out, 0, out})};
  }
  call.args = {KernelArg::Input(0),
               weights,
               OptionalInput(node, 2),
               ResidualArg(node),
               KernelArg::Scratch(static_cast<int32_t>(offset)),
               KernelArg::Output(0)};
  lowering->calls.push_back(std::move(call));
  lowering->scratch_bytes = offset + scratch_bytes;
  lowering->scratch_alignment = alignment;
}

namespace {

// ---- Matrix product

// Whether the rows of the input are the panels.
bool ReadsInputDirectly(const Target& target, const kernels::ConvParams& p) {
  for (int i = 0; i < 3; ++i) {
    if (p.taps[i] != 1 || p.stride[i] != 1 || p.padding[i] != 0) return false;
    if (p.in_size[i] != p.out_size[i]) return false;
  }
  // Rows a multiple of a page apart fall into the same few sets of a cache.
  constexpr int32_t kPageFloats = 1024;
  const bool conflicts = target.vector_floats > 4 && p.in_channels >= 16 &&
                         kernels::Volume(p.in_size) % kPageFloats == 0;
  // Short rows straddle cache lines; where many output channels read them, packing pays.
  const bool short_rows =
      target.vector_floats > 4 && kernels::Volume(p.in_size) < 64 && p.out_channels >= 96;
  return !conflicts && !short_rows;
}

// Few pixels and many weights: each pass over all weights would come from memory anew, while the
// outputs that blocks of channels add to fit a cache.
bool StreamsWeightsOnce(const Target& target, const kernels::ConvParams& p, const TileShape& tile) {
  constexpr int64_t kCacheFloats = 128 * 1024;
  const int64_t weights = int64_t{p.out_channels} * p.in_channels * kernels::Volume(p.taps);
  const int64_t pixels = kernels::Volume(p.out_size);
  return target.vector_floats > 4 && p.block_channels < p.in_channels && pixels > tile.width() &&
         weights > kCacheFloats && pixels * p.out_channels < kCacheFloats;
}

// The whole input is one window without padding: each image is a row of a matrix product.
bool IsOneWindow(const kernels::ConvParams& p) {
  bool one = p.groups == 1;
  for (int i = 0; i < 3; ++i) {
    one = one && p.in_size[i] == p.taps[i] && p.out_size[i] == 1 && p.padding[i] == 0;
  }
  return one;
}

absl::StatusOr<Lowering> LowerOneWindow(const NodeContext& node, const Target& target,
                                        const kernels::ConvParams& p) {
  MatMulSpec spec;
  spec.rows = p.batch;
  spec.columns = p.out_channels;
  spec.depth = static_cast<int64_t>(p.in_channels) * kernels::Volume(p.taps);
  spec.a_row_stride = spec.depth;
  spec.a_depth_stride = 1;
  spec.b_depth_stride = 1;
  spec.b_column_stride = spec.depth;
  spec.bias_column_stride = 1;
  spec.a = KernelArg::Input(0);
  spec.b = KernelArg::Input(1);
  spec.bias = OptionalInput(node, 2);
  spec.residual = ResidualArg(node);
  spec.b_constant = node.InputConstant(1);
  return LowerMatMul(node, target, DType::kFloat, spec);
}

// Windows of a row of one channel, none of which reaches past it: the columns of a matrix that lies
// in the input already, one beginning `stride` elements after the other.
bool IsRowOfWindows(const kernels::ConvParams& p) {
  bool row = p.groups == 1 && p.in_channels == 1 && p.dilation[2] == 1 && p.padding[2] == 0 &&
             (p.out_size[2] - 1) * int64_t{p.stride[2]} + p.taps[2] <= p.in_size[2];
  for (int i = 0; i < 2; ++i) row = row && p.in_size[i] == 1 && p.out_size[i] == 1;
  return row && p.taps[0] == 1 && p.taps[1] == 1;
}

absl::StatusOr<Lowering> LowerRowOfWindows(const NodeContext& node, const Target& target,
                                           const kernels::ConvParams& p) {
  MatMulSpec spec;
  spec.batch = {p.batch};
  spec.a_batch_strides = {0};
  spec.b_batch_strides = {p.in_size[2]};
  spec.rows = p.out_channels;
  spec.columns = p.out_size[2];
  spec.depth = p.taps[2];
  spec.a_row_stride = spec.depth;
  spec.a_depth_stride = 1;
  spec.b_depth_stride = 1;
  spec.b_column_stride = p.stride[2];
  spec.bias_row_stride = 1;
  spec.a = KernelArg::Input(1);
  spec.b = KernelArg::Input(0);
  spec.bias = OptionalInput(node, 2);
  spec.residual = ResidualArg(node);
  return LowerMatMul(node, target, DType::kFloat, spec);
}

// The call of a matrix product, of which threads may share images, groups, or output channels by
// tiles of `tile_rows`; packed weights are filled up to whole tiles. args: X, W, bias, ..., Y, of
// which those behind the bias are laid out as Y.
Lowering ProductCall(KernelCall call, const kernels::ConvParams& p, int32_t tile_rows, bool packed,
                     std::vector<KernelArg> args) {
  const int64_t depth = int64_t{p.in_channels} * kernels::Volume(p.taps);
  const int64_t in = int64_t{p.in_channels} * kernels::Volume(p.in_size);
  const int64_t out = kernels::Volume(p.out_size);
  const int64_t rows =
      packed ? (p.out_channels + tile_rows - 1) / tile_rows * tile_rows : p.out_channels;
  const auto steps = [&](int64_t x, int64_t w, int64_t bias, int64_t y) {
    std::vector<int64_t> result = {x, w, bias};
    for (size_t i = 3; i < args.size(); ++i) {
      result.push_back(args[i].kind == KernelArg::Kind::kScratch ? 0 : y);
    }
    return result;
  };
  using Params = kernels::ConvParams;
  const int64_t group = p.out_channels * out;
  ParallelAxis axis;
  if (p.batch > 1) {
    axis = AxisOf<&Params::batch>(p, 1, steps(p.groups * in, 0, 0, p.groups * group));
  } else if (p.groups > 1) {
    axis = AxisOf<&Params::groups>(p, 1, steps(in, rows * depth, p.out_channels, group));
  } else {
    axis = AxisOf<&Params::out_channels>(p, tile_rows, steps(0, depth, 1, out));
    if (!packed) axis.borders = WholeTiles(p.out_channels, tile_rows);
  }
  const int64_t work = int64_t{p.batch} * p.groups * group * depth;
  return InParallel(OneCall(std::move(call), p, std::move(args)), work, {std::move(axis)});
}

Lowering LowerGemmConv(const NodeContext& node, const Target& target, kernels::ConvParams p,
                       const FusedActivation& fused) {
  const Tensor* weights = node.InputConstant(1);
  const bool packed = weights != nullptr;
  const int32_t taps = kernels::Volume(p.taps);
  const int32_t pixels = kernels::Volume(p.out_size);
  TileShape tile;
  if (ReadsInputDirectly(target, p)) {
    tile = ChooseTile(target, p.out_channels, pixels, /*whole_rows=*/!packed,
                      /*whole_lanes=*/true);
  }
  const bool direct = tile.lanes > 0;
  if (!direct) {
    tile = ChooseTile(target, p.out_channels, pixels, /*whole_rows=*/!packed,
                      /*whole_lanes=*/false);
  }
  SetActivation(fused, &p);
  KernelCall call;
  KernelArg weights_arg = KernelArg::Input(1);
  if (packed) {
    weights_arg = KernelArg::Constant(0);
    call.constants.push_back(PackRows(weights->As<float>(), p.groups, p.out_channels,
                                      static_cast<int64_t>(p.in_channels) * taps, tile.rows));
  }
  constexpr int64_t kDirectBlock = 256;
  if (!direct) {
    const int64_t channel_bytes = kernels::PanelScratchBytes(1, taps, tile.width());
    p.block_channels = EqualBlocks(p.in_channels, PanelBudgetBytes(node, target) / channel_bytes);
  } else if (target.vector_floats > 4) {
    p.block_channels = EqualBlocks(p.in_channels, kDirectBlock);
  }
  p.weights_once = StreamsWeightsOnce(target, p, tile) ? 1 : 0;
  call.header = "kernels/conv.h";
  call.name = absl::StrCat("kernels::", direct ? "ConvPointwise<" : "ConvGemm<",
                           TileArguments(tile), packed ? ", true>" : ", false>");
  call.function = FunctionForTile(tile, [&]<int L, int R, int C> {
    if (direct) {
      return packed ? FunctionOf<&kernels::ConvPointwise<L, R, C, true>>()
                    : FunctionOf<&kernels::ConvPointwise<L, R, C, false>>();
    }
    return packed ? FunctionOf<&kernels::ConvGemm<L, R, C, true>>()
                  : FunctionOf<&kernels::ConvGemm<L, R, C, false>>();
  });
  std::vector<KernelArg> args = {KernelArg::Input(0), weights_arg, OptionalInput(node, 2),
                                 ResidualArg(node)};
  if (!direct) args.push_back(KernelArg::Scratch());
  args.push_back(KernelArg::Output(0));
  Lowering lowering = ProductCall(std::move(call), p, tile.rows, packed, std::move(args));
  if (!direct) {
    lowering.scratch_bytes = kernels::PanelScratchBytes(p.block_channels, taps, tile.width());
    lowering.calls.back().own_scratch_bytes = lowering.scratch_bytes;
    lowering.scratch_alignment = int64_t{4} * tile.lanes;
  }
  return lowering;
}

absl::StatusOr<Lowering> LowerPlainConv(const NodeContext& node, const kernels::ConvParams& p) {
  if (!node.node().epilogue.empty()) {
    return node.Unsupported("a convolution that is not in float has no fused epilogue");
  }
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(
                       node, node.InputDType(0), "kernels/conv.h", "kernels::ConvPlain<{T}>",
                       []<class T> { return FunctionOf<&kernels::ConvPlain<T>>(); })));
  return ProductCall(
      std::move(call), p, 1, /*packed=*/false,
      {KernelArg::Input(0), KernelArg::Input(1), OptionalInput(node, 2), KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerConv(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const ConvShape shape, ReadConvShape(node));
  ASSIGN_OR_RETURN(const kernels::ConvParams p, MakeConvParams(node, shape));
  const FusedActivation fused = FuseActivation(node.node().epilogue);
  const int64_t outputs = node.OutputType(0).NumElements();
  absl::StatusOr<Lowering> lowering;
  if (node.InputDType(0) != DType::kFloat) {
    lowering = LowerPlainConv(node, p);
  } else if (outputs > 0 && IsOneWindow(p)) {
    lowering = LowerOneWindow(node, target, p);
  } else if (outputs > 0 && IsRowOfWindows(p)) {
    lowering = LowerRowOfWindows(node, target, p);
  } else if (IsDepthwise(p)) {
    lowering = LowerDepthwise(node, target, p, fused);
  } else {
    lowering = LowerGemmConv(node, target, p, fused);
  }
  if (lowering.ok()) lowering->macs = outputs * p.in_channels * kernels::Volume(p.taps);
  return lowering;
}

}  // namespace

extern const OpDef kConv = {
    .type = "Conv",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferConv,
    .aliases = InPlaceResidual,
    .lower = LowerConv,
    .gradient = ConvGradient,
    .fuses_activation = true,
    .fuses_residual = true,
};

}  // namespace onnx_memplan
