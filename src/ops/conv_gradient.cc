// ConvWeightGrad, and the gradient rules of Conv and ConvTranspose.
//
// ConvWeightGrad(X, dY): the gradient of the weights of a Conv of X whose result has gradient dY.
// Attributes as Conv's; kernel_shape is required, and there is no auto_pad. Only the padding in
// front counts: how many windows there are, dY says.
#include "ops/host_kernels.h"

#include "kernels/conv_gradient.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/conv_gradient.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gemm_lowering.h"
#include "ops/spatial.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

struct WeightGradShape {
  std::vector<int64_t> taps, stride, dilation, padding;
  int64_t groups = 0;
};

absl::StatusOr<WeightGradShape> ReadWeightGradShape(const NodeContext& node) {
  const Shape& x = node.InputShape(0);
  const Shape& dy = node.InputShape(1);
  if (x.size() < 3 || dy.size() != x.size() || dy[0] != x[0]) {
    return node.Invalid("X and dY need the same rank, at least 3, and the same batch");
  }
  if (node.InputDType(1) != node.InputDType(0)) {
    return node.Invalid("the inputs have different element types");
  }
  WeightGradShape shape;
  shape.groups = node.Int("group", 1);
  if (shape.groups < 1 || x[1] % shape.groups != 0 || dy[1] % shape.groups != 0) {
    return node.Invalid(absl::StrCat(shape.groups, " groups do not fit the channels"));
  }
  const size_t axes = x.size() - 2;
  RETURN_IF_ERROR(node.RequiredInts("kernel_shape").status());
  ASSIGN_OR_RETURN(shape.taps, SpatialAttribute(node, "kernel_shape", axes, 1, 1));
  ASSIGN_OR_RETURN(shape.stride, SpatialAttribute(node, "strides", axes, 1, 1));
  ASSIGN_OR_RETURN(shape.dilation, SpatialAttribute(node, "dilations", axes, 1, 1));
  ASSIGN_OR_RETURN(shape.padding, SpatialAttribute(node, "pads", 2 * axes, 0, 0));
  shape.padding.resize(axes);
  for (size_t i = 0; i < axes; ++i) {
    // Each factor has at most 31 bits.
    if (dy[i + 2] > std::numeric_limits<int32_t>::max() ||
        (dy[i + 2] - 1) * shape.stride[i] + (shape.taps[i] - 1) * shape.dilation[i] >
            std::numeric_limits<int32_t>::max()) {
      return node.Unsupported("windows that reach over 2^31 elements");
    }
  }
  return shape;
}

absl::StatusOr<std::vector<TensorType>> InferWeightGrad(const NodeContext& node) {
  ASSIGN_OR_RETURN(TensorType type, ConvWeightGradType(node));
  return std::vector<TensorType>{std::move(type)};
}

absl::StatusOr<kernels::ConvWeightGradParams> MakeWeightGradParams(const NodeContext& node) {
  ASSIGN_OR_RETURN(const WeightGradShape shape, ReadWeightGradShape(node));
  RETURN_IF_ERROR(CheckCountable(node));
  const Shape& x = node.InputShape(0);
  const Shape& dy = node.InputShape(1);
  kernels::ConvWeightGradParams p = {};
  ASSIGN_OR_RETURN(p.batch, ToInt32(node, x[0], "the batch"));
  ASSIGN_OR_RETURN(p.groups, ToInt32(node, shape.groups, "the number of groups"));
  ASSIGN_OR_RETURN(p.in_channels, ToInt32(node, x[1] / shape.groups, "the input channels"));
  ASSIGN_OR_RETURN(p.out_channels, ToInt32(node, dy[1] / shape.groups, "the output channels"));
  RETURN_IF_ERROR(ToThreeAxes(node, Shape(x.begin() + 2, x.end()), 1, p.in_size));
  RETURN_IF_ERROR(ToThreeAxes(node, Shape(dy.begin() + 2, dy.end()), 1, p.out_size));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.taps, 1, p.taps));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.stride, 1, p.stride));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.dilation, 1, p.dilation));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.padding, 0, p.padding));
  p.block_channels = std::max(p.in_channels, 1);
  p.x_channels = p.groups * p.in_channels;
  p.dy_channels = p.groups * p.out_channels;
  return p;
}

}  // namespace

absl::StatusOr<TensorType> ConvWeightGradType(const NodeContext& node) {
  ASSIGN_OR_RETURN(const WeightGradShape shape, ReadWeightGradShape(node));
  Shape output = {node.InputShape(1)[1], node.InputShape(0)[1] / shape.groups};
  output.insert(output.end(), shape.taps.begin(), shape.taps.end());
  return TensorType{node.InputDType(0), std::move(output)};
}

absl::StatusOr<kernels::ConvWeightGradParams> MakeConvWeightGradParams(const NodeContext& node) {
  return MakeWeightGradParams(node);
}

WeightGradTiling TileWeightGrad(const NodeContext& node, const Target& target,
                                kernels::ConvWeightGradParams p) {
  const int32_t taps = kernels::Volume(p.taps);
  const TileShape guess =
      ChooseTile(target, int64_t{p.in_channels} * taps, p.out_channels, true, false);
  const int64_t channel_bytes =
      kernels::ConvWeightGradScratchBytes(1, taps, guess.lanes, guess.columns) -
      kernels::ConvWeightGradScratchBytes(0, taps, guess.lanes, guess.columns);
  p.block_channels =
      EqualBlocks(p.in_channels, TrainingPanelBudgetBytes(node, target) / channel_bytes);
  // The last block may be smaller, and has as many rows as a tile at least.
  const int32_t last = (p.in_channels - 1) % p.block_channels + 1;
  return {p, ChooseTile(target, int64_t{last} * taps, p.out_channels, true, false)};
}

namespace {

using enum WeightGradArg;

// Fewer output channels leave most of a vector of them empty.
constexpr int32_t kMostDotChannels = 2;

Lowering LowerDot(const Target& target, const kernels::ConvWeightGradParams& p) {
  KernelCall call;
  call.header = "kernels/conv_gradient.h";
  const int32_t lanes = target.vector_floats >= 8 && p.out_size[2] >= 8 ? 8 : 4;
  call.name = absl::StrCat("kernels::ConvWeightGradDot<", lanes, ">");
  call.function = lanes == 8 ? FunctionOf<&kernels::ConvWeightGradDot<8>>()
                             : FunctionOf<&kernels::ConvWeightGradDot<4>>();
  return InParallel(
      OneCall(std::move(call), p, {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)}),
      WeightGradWork(p), {WeightGradAxis(p, 1, {kX, kDy, kW})});
}

Lowering LowerGemm(const WeightGradTiling& tiling) {
  const TileShape& tile = tiling.tile;
  KernelCall call;
  call.header = "kernels/conv_gradient.h";
  call.name = absl::StrCat("kernels::ConvWeightGrad<", TileArguments(tile), ">");
  call.function = FunctionForTile(
      tile, []<int L, int R, int C> { return FunctionOf<&kernels::ConvWeightGrad<L, R, C>>(); });
  Lowering lowering = OneCall(
      std::move(call), tiling.params,
      {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Scratch(), KernelArg::Output(0)});
  lowering.scratch_bytes = kernels::ConvWeightGradScratchBytes(
      tiling.params.block_channels, kernels::Volume(tiling.params.taps), tile.lanes, tile.columns);
  lowering.scratch_alignment = int64_t{4} * tile.lanes;
  lowering.calls.back().own_scratch_bytes = lowering.scratch_bytes;
  return InParallel(std::move(lowering), WeightGradWork(tiling.params),
                    {WeightGradAxis(tiling.params, tile.width(), {kX, kDy, kStays, kW})});
}

absl::StatusOr<Lowering> LowerWeightGrad(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const kernels::ConvWeightGradParams p, MakeWeightGradParams(node));
  Lowering lowering;
  if (node.InputDType(0) == DType::kFloat && node.OutputType(0).NumElements() > 0) {
    lowering = p.out_channels <= kMostDotChannels ? LowerDot(target, p)
                                                  : LowerGemm(TileWeightGrad(node, target, p));
  } else {
    ASSIGN_OR_RETURN(KernelCall call, (TypedCall<float, double>(
                                          node, node.InputDType(0), "kernels/conv_gradient.h",
                                          "kernels::ConvWeightGradPlain<{T}>", []<class T> {
                                            return FunctionOf<&kernels::ConvWeightGradPlain<T>>();
                                          })));
    lowering = InParallel(OneCall(std::move(call), p,
                                  {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)}),
                          WeightGradWork(p), {WeightGradAxis(p, 1, {kX, kDy, kW})});
  }
  lowering.macs =
      node.InputType(1).NumElements() * p.in_channels * int64_t{kernels::Volume(p.taps)};
  return lowering;
}

// ---- Rules

absl::Status CheckNoEpilogue(const GradientContext& g) {
  if (g.node().epilogue.empty()) return absl::OkStatus();
  return g.context().Unsupported("a fused epilogue has no gradient; derive before fusing");
}

// The sum of dY over all axes but that of the channels.
void SetBiasGradient(GradientContext& g) {
  if (!g.Wants(2)) return;
  const ValueId dy = g.OutputGradient(0);
  std::vector<int64_t> axes = {0};
  for (int64_t axis = 2; axis < g.Type(dy).rank(); ++axis) axes.push_back(axis);
  g.SetInputGradient(2, g.Add("ReduceSum", {dy, g.Ints(axes)}, {{"keepdims", int64_t{0}}}));
}

struct ConvAttributes {
  std::vector<int64_t> taps, stride, dilation;
  int64_t groups = 1;

  int64_t Reach(size_t axis) const { return (taps[axis] - 1) * dilation[axis] + 1; }
  GradientContext::Attributes ToAttributes(std::vector<int64_t> pads) const {
    return {{"kernel_shape", taps},
            {"strides", stride},
            {"dilations", dilation},
            {"group", groups},
            {"pads", std::move(pads)}};
  }
};

absl::StatusOr<ConvAttributes> ReadConvAttributes(const GradientContext& g) {
  const NodeContext node = g.context();
  ConvAttributes result;
  const Shape& w = node.InputShape(1);
  result.taps.assign(w.begin() + 2, w.end());
  const size_t axes = result.taps.size();
  ASSIGN_OR_RETURN(result.stride, SpatialAttribute(node, "strides", axes, 1, 1));
  ASSIGN_OR_RETURN(result.dilation, SpatialAttribute(node, "dilations", axes, 1, 1));
  result.groups = node.Int("group", 1);
  return result;
}

}  // namespace

absl::Status ConvGradient(GradientContext& g) {
  RETURN_IF_ERROR(CheckNoEpilogue(g));
  ASSIGN_OR_RETURN(const ConvAttributes conv, ReadConvAttributes(g));
  ASSIGN_OR_RETURN(const SlidingWindow window, ReadSlidingWindow(g.context(), conv.taps));
  const ValueId dy = g.OutputGradient(0);
  const size_t axes = conv.taps.size();
  std::vector<int64_t> pads = window.padding_begin;
  pads.resize(2 * axes, 0);
  if (g.Wants(0)) {
    // What the windows reach of the input is as large as the input by padding, or by adding what no
    // window read.
    std::vector<int64_t> transposed_pads = pads, extra(axes, 0);
    for (size_t i = 0; i < axes; ++i) {
      const int64_t reached =
          (window.out_size[i] - 1) * conv.stride[i] + conv.Reach(i) - window.padding_begin[i];
      transposed_pads[axes + i] = std::max<int64_t>(0, reached - window.in_size[i]);
      extra[i] = std::max<int64_t>(0, window.in_size[i] - reached);
    }
    GradientContext::Attributes attributes = conv.ToAttributes(transposed_pads);
    attributes["output_padding"] = extra;
    g.SetInputGradient(0, g.Add("ConvTranspose", {dy, g.Input(1)}, std::move(attributes)));
  }
  if (g.Wants(1)) {
    g.SetInputGradient(
        1, g.Add("ConvWeightGrad", {g.Input(0), dy}, conv.ToAttributes(pads), kMemplan));
  }
  SetBiasGradient(g);
  return g.status();
}

absl::Status ConvTransposeGradient(GradientContext& g, const std::vector<int64_t>& padding_begin) {
  RETURN_IF_ERROR(CheckNoEpilogue(g));
  ASSIGN_OR_RETURN(const ConvAttributes conv, ReadConvAttributes(g));
  const ValueId dy = g.OutputGradient(0);
  const Shape x_shape = g.ShapeOf(g.Input(0));
  const Shape y_shape = g.ShapeOf(dy);
  const size_t axes = conv.taps.size();
  std::vector<int64_t> pads = padding_begin;
  pads.resize(2 * axes, 0);
  if (g.Wants(0)) {
    // The convolution has as many windows as X has elements: elements of dY behind the last one,
    // which no input contributed to, are cut off where they would make another one.
    std::vector<int64_t> conv_pads = pads, ends, cut_axes;
    for (size_t i = 0; i < axes; ++i) {
      const int64_t reached =
          (x_shape[i + 2] - 1) * conv.stride[i] + conv.Reach(i) - padding_begin[i];
      conv_pads[axes + i] = std::max<int64_t>(0, reached - y_shape[i + 2]);
      if (y_shape[i + 2] - reached < conv.stride[i]) continue;
      ends.push_back(reached);
      cut_axes.push_back(static_cast<int64_t>(i) + 2);
    }
    ValueId cut = dy;
    if (!ends.empty()) {
      cut = g.Add("Slice", {dy, g.Ints(std::vector<int64_t>(ends.size(), 0)), g.Ints(ends),
                            g.Ints(cut_axes)});
    }
    g.SetInputGradient(0, g.Add("Conv", {cut, g.Input(1)}, conv.ToAttributes(conv_pads)));
  }
  if (g.Wants(1)) {
    g.SetInputGradient(
        1, g.Add("ConvWeightGrad", {dy, g.Input(0)}, conv.ToAttributes(pads), kMemplan));
  }
  SetBiasGradient(g);
  return g.status();
}

extern const OpDef kConvWeightGrad = {
    .type = "ConvWeightGrad",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferWeightGrad,
    .lower = LowerWeightGrad,
};

}  // namespace onnx_memplan
