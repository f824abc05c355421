// ConvTranspose.
#include "ops/host_kernels.h"

#include "kernels/conv_transpose.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/conv_transpose_tapped.h"
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

struct TransposeShape {
  SlidingWindow window;  // out_size: of the result
  int64_t batch = 0;
  int64_t groups = 0;
  int64_t in_channels = 0;   // of one group
  int64_t out_channels = 0;  // of one group
};

// Sets padding_begin and out_size so that the result is as large as asked.
void FitOutputShape(const std::vector<int64_t>& out_size, const std::vector<int64_t>& full,
                    bool smaller_half_first, SlidingWindow* window) {
  window->padding_begin.clear();
  window->out_size = out_size;
  for (size_t i = 0; i < full.size(); ++i) {
    // What exceeds the full result has no contributions.
    const int64_t total = std::max<int64_t>(0, full[i] - out_size[i]);
    window->padding_begin.push_back(smaller_half_first ? total / 2 : total - total / 2);
  }
}

absl::Status ReadOutSize(const NodeContext& node, SlidingWindow* window) {
  const size_t axes = window->in_size.size();
  ASSIGN_OR_RETURN(const std::vector<int64_t> extra,
                   SpatialAttribute(node, "output_padding", axes, 0, 0));
  const std::string auto_pad = node.String("auto_pad", "NOTSET");
  // The size without padding.
  std::vector<int64_t> full;
  for (size_t i = 0; i < axes; ++i) {
    int64_t size;
    if (__builtin_mul_overflow(window->in_size[i] - 1, window->stride[i], &size)) {
      return node.Invalid(absl::StrCat("spatial axis ", i, " of the result is too long"));
    }
    full.push_back(size + (window->taps[i] - 1) * window->dilation[i] + 1 + extra[i]);
  }
  if (node.HasAttribute("output_shape")) {
    std::vector<int64_t> out_size = node.Ints("output_shape", {});
    // Also with batch and channels in front, as some exporters write it.
    if (out_size.size() == axes + 2) out_size.erase(out_size.begin(), out_size.begin() + 2);
    if (out_size.size() != axes ||
        std::any_of(out_size.begin(), out_size.end(), [](int64_t n) { return n < 1; })) {
      return node.Invalid(absl::StrCat("output_shape needs ", axes, " positive values"));
    }
    FitOutputShape(out_size, full, auto_pad == "SAME_UPPER", window);
    return absl::OkStatus();
  }
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    std::vector<int64_t> out_size;
    for (size_t i = 0; i < axes; ++i) out_size.push_back(window->in_size[i] * window->stride[i]);
    FitOutputShape(out_size, full, auto_pad == "SAME_UPPER", window);
    return absl::OkStatus();
  }
  std::vector<int64_t> pads(2 * axes, 0);
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    ASSIGN_OR_RETURN(pads, SpatialAttribute(node, "pads", 2 * axes, 0, 0));
  } else if (auto_pad != "VALID") {
    return node.Invalid(
        absl::StrCat("auto_pad '", auto_pad, "' is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID"));
  }
  window->padding_begin.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(axes));
  for (size_t i = 0; i < axes; ++i) {
    window->out_size.push_back(full[i] - pads[i] - pads[axes + i]);
    if (window->out_size.back() < 1) {
      return node.Invalid(absl::StrCat("padding leaves nothing of spatial axis ", i));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TransposeShape> ReadTransposeShape(const NodeContext& node) {
  const Shape& x = node.InputShape(0);
  const Shape& w = node.InputShape(1);
  if (x.size() < 3 || w.size() != x.size()) {
    return node.Invalid("X and W need the same rank, at least 3");
  }
  TransposeShape shape;
  shape.batch = x[0];
  shape.groups = node.Int("group", 1);
  if (shape.groups < 1 || x[1] % shape.groups != 0 || w[0] != x[1]) {
    return node.Invalid(absl::StrCat(shape.groups, " groups do not fit ", x[1],
                                     " input channels and weights of ", ShapeToString(w)));
  }
  shape.in_channels = x[1] / shape.groups;
  shape.out_channels = w[1];
  if (node.HasInput(2) && node.InputShape(2) != Shape{shape.groups * w[1]}) {
    return node.Invalid(absl::StrCat("the bias needs shape ", shape.groups * w[1]));
  }
  if (node.InputDType(1) != node.InputDType(0) ||
      (node.HasInput(2) && node.InputDType(2) != node.InputDType(0))) {
    return node.Invalid("the inputs have different element types");
  }
  SlidingWindow& window = shape.window;
  window.in_size.assign(x.begin() + 2, x.end());
  window.taps.assign(w.begin() + 2, w.end());
  if (node.HasAttribute("kernel_shape") && node.Ints("kernel_shape", {}) != window.taps) {
    return node.Invalid("attribute 'kernel_shape' differs from the shape of W");
  }
  const auto empty = [](const std::vector<int64_t>& sizes) {
    return std::any_of(sizes.begin(), sizes.end(), [](int64_t n) { return n < 1; });
  };
  if (empty(window.in_size) || empty(window.taps)) {
    return node.Invalid("a spatial axis of X or W is empty");
  }
  const size_t axes = window.in_size.size();
  ASSIGN_OR_RETURN(window.stride, SpatialAttribute(node, "strides", axes, 1, 1));
  ASSIGN_OR_RETURN(window.dilation, SpatialAttribute(node, "dilations", axes, 1, 1));
  RETURN_IF_ERROR(ReadOutSize(node, &window));
  return shape;
}

absl::StatusOr<std::vector<TensorType>> InferConvTranspose(const NodeContext& node) {
  ASSIGN_OR_RETURN(const TransposeShape shape, ReadTransposeShape(node));
  Shape output = {shape.batch, shape.groups * shape.out_channels};
  output.insert(output.end(), shape.window.out_size.begin(), shape.window.out_size.end());
  return std::vector<TensorType>{{node.InputDType(0), output}};
}

absl::StatusOr<kernels::ConvTransposeParams> MakeTransposeParams(const NodeContext& node,
                                                                 const TransposeShape& shape) {
  RETURN_IF_ERROR(CheckCountable(node));
  kernels::ConvTransposeParams p = {};
  // Each of these is at most the number of elements of a tensor.
  p.batch = static_cast<int32_t>(shape.batch);
  p.groups = static_cast<int32_t>(shape.groups);
  p.in_channels = static_cast<int32_t>(shape.in_channels);
  p.out_channels = static_cast<int32_t>(shape.out_channels);
  p.block_channels = std::max(p.in_channels, 1);
  p.tiles = 1;
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.in_size, 1, p.in_size));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.out_size, 1, p.out_size));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.taps, 1, p.taps));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.stride, 1, p.stride));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.dilation, 1, p.dilation));
  RETURN_IF_ERROR(ToThreeAxes(node, shape.window.padding_begin, 0, p.padding));
  return p;
}

// Calls visit(z, y, x) with the three axes' phases, in the kernel's order.
template <class Visit>
void ForEachPhase(const kernels::ConvTransposeParams& p, Visit visit) {
  for (int32_t z = 0; z < p.stride[0]; ++z) {
    for (int32_t y = 0; y < p.stride[1]; ++y) {
      for (int32_t x = 0; x < p.stride[2]; ++x) {
        visit(kernels::TransposePhaseOf(p, 0, z), kernels::TransposePhaseOf(p, 1, y),
              kernels::TransposePhaseOf(p, 2, x));
      }
    }
  }
}

// Weights as ConvTransposeGemm takes them.
Tensor PackTransposed(const kernels::ConvTransposeParams& p, std::span<const float> weights,
                      int32_t tile_rows) {
  const int32_t taps = kernels::Volume(p.taps);
  std::vector<float> packed;
  ForEachPhase(p, [&](const kernels::TransposePhase& z, const kernels::TransposePhase& y,
                      const kernels::TransposePhase& x) {
    const int32_t phase_taps = z.axis.taps * y.axis.taps * x.axis.taps;
    // [groups][out_channels][in_channels][taps of the phase]
    std::vector<float> rows;
    for (int32_t group = 0; group < p.groups; ++group) {
      for (int32_t oc = 0; oc < p.out_channels; ++oc) {
        for (int32_t ic = 0; ic < p.in_channels; ++ic) {
          const int64_t channel = int64_t{group} * p.in_channels + ic;
          const int64_t from = (channel * p.out_channels + oc) * taps;
          for (int32_t i = 0; i < phase_taps; ++i) {
            const int32_t tz = z.first_tap + i / x.axis.taps / y.axis.taps * z.tap_step;
            const int32_t ty = y.first_tap + i / x.axis.taps % y.axis.taps * y.tap_step;
            const int32_t tx = x.first_tap + i % x.axis.taps * x.tap_step;
            rows.push_back(
                weights[static_cast<size_t>(from + (tz * p.taps[1] + ty) * p.taps[2] + tx)]);
          }
        }
      }
    }
    const Tensor part =
        PackRows(rows, p.groups, p.out_channels, int64_t{p.in_channels} * phase_taps, tile_rows);
    packed.insert(packed.end(), part.As<float>().begin(), part.As<float>().end());
  });
  const auto count = static_cast<int64_t>(packed.size());
  return Tensor::FromVector<float>({count}, packed);
}

// The most taps and pixels of a phase.
struct PhaseSizes {
  int64_t taps = 1;
  int64_t pixels = 1;
};

PhaseSizes LargestPhase(const kernels::ConvTransposeParams& p) {
  PhaseSizes most;
  ForEachPhase(p, [&](const kernels::TransposePhase& z, const kernels::TransposePhase& y,
                      const kernels::TransposePhase& x) {
    const auto product = [&](int32_t kernels::PanelAxis::*member) {
      return int64_t{z.axis.*member} * (y.axis.*member) * (x.axis.*member);
    };
    most.taps = std::max(most.taps, product(&kernels::PanelAxis::taps));
    most.pixels = std::max(most.pixels, product(&kernels::PanelAxis::pixels));
  });
  return most;
}

// Input channels in panels of `budget` bytes.
int32_t PanelChannels(const kernels::ConvTransposeParams& p, int64_t budget, int64_t taps,
                      const TileShape& tile) {
  return EqualBlocks(p.in_channels, budget / kernels::PanelScratchBytes(1, taps, tile.width()));
}

// A call of one of this file's kernels, of which threads may share the images or, of a single one,
// the groups if the weights of one follow those of another. The arguments are X, W, bias, residual,
// maybe scratch, and Y.
Lowering ByImages(Lowering lowering, const kernels::ConvTransposeParams& p,
                  bool by_groups = false) {
  using Params = kernels::ConvTransposeParams;
  const int64_t in = int64_t{p.in_channels} * kernels::Volume(p.in_size);
  const int64_t out = int64_t{p.out_channels} * kernels::Volume(p.out_size);
  const int64_t weights = int64_t{p.in_channels} * p.out_channels * kernels::Volume(p.taps);
  KernelCall& call = lowering.calls.front();
  const bool has_scratch = call.args.size() == 6;
  const auto steps = [&](int64_t x, int64_t w, int64_t bias, int64_t y) {
    return has_scratch ? std::vector<int64_t>{x, w, bias, y, 0, y}
                       : std::vector<int64_t>{x, w, bias, y, y};
  };
  call.own_scratch_bytes = lowering.scratch_bytes;
  std::vector<ParallelAxis> axes = {
      AxisOf<&Params::batch>(p, 1, steps(p.groups * in, 0, 0, p.groups * out))};
  if (by_groups && p.batch == 1) {
    axes = {AxisOf<&Params::groups>(p, 1, steps(in, weights, p.out_channels, out))};
  }
  const int64_t work = int64_t{p.batch} * p.groups * weights * kernels::Volume(p.in_size);
  return InParallel(std::move(lowering), work, std::move(axes));
}

Lowering LowerTransposedGemm(const NodeContext& node, const Target& target,
                             kernels::ConvTransposeParams p, const Tensor& weights) {
  const PhaseSizes most = LargestPhase(p);
  const TileShape tile = ChooseTile(target, p.out_channels, most.pixels, /*whole_rows=*/false,
                                    /*whole_lanes=*/false);
  p.block_channels = PanelChannels(p, PanelBudgetBytes(node, target), most.taps, tile);
  KernelCall call;
  call.header = "kernels/conv_transpose.h";
  call.name = absl::StrCat("kernels::ConvTransposeGemm<", TileArguments(tile), ">");
  call.function = FunctionForTile(
      tile, []<int L, int R, int C> { return FunctionOf<&kernels::ConvTransposeGemm<L, R, C>>(); });
  call.constants.push_back(PackTransposed(p, weights.As<float>(), tile.rows));
  Lowering lowering = OneCall(std::move(call), p,
                              {KernelArg::Input(0), KernelArg::Constant(0), OptionalInput(node, 2),
                               ResidualArg(node), KernelArg::Scratch(), KernelArg::Output(0)});
  lowering.scratch_bytes = kernels::PanelScratchBytes(p.block_channels, most.taps, tile.width());
  lowering.scratch_alignment = int64_t{4} * tile.lanes;
  return ByImages(std::move(lowering), p);
}

// ---- Weights that are not known while planning

// A call of input, weights, bias, residual, scratch and output.
Lowering RuntimeWeightsCall(const NodeContext& node, KernelCall call,
                            const kernels::ConvTransposeParams& p, int64_t scratch_bytes,
                            int32_t lanes, bool by_groups) {
  Lowering lowering = OneCall(std::move(call), p,
                              {KernelArg::Input(0), KernelArg::Input(1), OptionalInput(node, 2),
                               ResidualArg(node), KernelArg::Scratch(), KernelArg::Output(0)});
  lowering.scratch_bytes = scratch_bytes;
  lowering.scratch_alignment = int64_t{4} * lanes;
  return ByImages(std::move(lowering), p, by_groups);
}

// Tiles of pixels that a block of weights serves at once, where reading the weights anew for each
// would not find them in a near cache.
int32_t TilesAtOnce(const NodeContext& node, const Target& target, int64_t pixels,
                    const TileShape& tile) {
  constexpr int64_t kNearCacheBytes = 128 * 1024;
  constexpr int64_t kMost = 4;
  if (target.vector_floats <= 4 || node.InputType(1).Bytes() <= kNearCacheBytes) return 1;
  return static_cast<int32_t>(std::min(kMost, (pixels + tile.width() - 1) / tile.width()));
}

Lowering LowerTapped(const NodeContext& node, const Target& target,
                     kernels::ConvTransposeParams p) {
  const PhaseSizes most = LargestPhase(p);
  const TileShape tile = ChooseTile(target, p.out_channels, most.pixels, /*whole_rows=*/true,
                                    /*whole_lanes=*/false);
  p.tiles = TilesAtOnce(node, target, most.pixels, tile);
  p.block_channels =
      PanelChannels(p, TrainingPanelBudgetBytes(node, target), p.tiles * most.taps, tile);
  KernelCall call;
  call.header = "kernels/conv_transpose_tapped.h";
  call.name = absl::StrCat("kernels::ConvTransposeTapped<", TileArguments(tile), ">");
  call.function = FunctionForTile(tile, []<int L, int R, int C> {
    return FunctionOf<&kernels::ConvTransposeTapped<L, R, C>>();
  });
  return RuntimeWeightsCall(
      node, std::move(call), p,
      kernels::ConvTransposeTappedScratchBytes(p, most.taps, tile.lanes, tile.width()), tile.lanes,
      /*by_groups=*/false);
}

Lowering LowerDepthwise(const NodeContext& node, const Target& target,
                        const kernels::ConvTransposeParams& p) {
  const int32_t lanes = target.vector_floats >= 8 && p.out_size[2] >= 8 * p.stride[2] ? 8 : 4;
  KernelCall call;
  call.header = "kernels/conv_transpose_tapped.h";
  call.name = absl::StrCat("kernels::ConvTransposeDepthwise<", lanes, ">");
  call.function = lanes == 8 ? FunctionOf<&kernels::ConvTransposeDepthwise<8>>()
                             : FunctionOf<&kernels::ConvTransposeDepthwise<4>>();
  return RuntimeWeightsCall(node, std::move(call), p, kernels::DepthwiseTransposeScratchBytes(p),
                            lanes, /*by_groups=*/true);
}

// Whether a depthwise transposed convolution is a depthwise convolution with its taps reversed. Not
// where planes are so small that reversed weights, in scratch, would be a large part of the arena.
bool IsReversedDepthwise(const kernels::ConvTransposeParams& p) {
  constexpr int64_t kLargestShare = 8;
  bool reversed =
      p.in_channels == 1 && p.out_channels == 1 && p.in_size[0] == 1 && p.out_size[0] == 1 &&
      p.taps[0] == 1 &&
      kLargestShare * kernels::Volume(p.taps) <= int64_t{p.batch} * kernels::Volume(p.out_size);
  for (int i = 0; i < 3; ++i) {
    reversed = reversed && p.stride[i] == 1 && p.padding[i] <= (p.taps[i] - 1) * p.dilation[i];
  }
  return reversed;
}

Lowering LowerReversedDepthwise(const NodeContext& node, const Target& target,
                                const kernels::ConvTransposeParams& transposed) {
  kernels::DepthwiseParams p = {};
  p.batch = transposed.batch;
  p.channels = transposed.groups;
  p.multiplier = 1;
  for (int i = 0; i < 2; ++i) {
    p.in_size[i] = transposed.in_size[i + 1];
    p.out_size[i] = transposed.out_size[i + 1];
    p.taps[i] = transposed.taps[i + 1];
    p.stride[i] = 1;
    p.dilation[i] = transposed.dilation[i + 1];
    p.padding[i] = (p.taps[i] - 1) * p.dilation[i] - transposed.padding[i + 1];
  }
  SetActivation(FuseActivation(node.node().epilogue), &p);
  KernelCall reverse;
  reverse.header = "kernels/conv_transpose_tapped.h";
  reverse.name = "kernels::ReverseTaps";
  reverse.function = FunctionOf<&kernels::ReverseTaps>();
  const kernels::ReverseTapsParams taps = {p.channels, p.taps[0] * p.taps[1]};
  Lowering lowering =
      OneCall(std::move(reverse), taps, {KernelArg::Input(1), KernelArg::Scratch()});
  lowering.scratch_bytes = node.InputType(1).Bytes();
  AppendDepthwise(node, target, p, KernelArg::Scratch(), &lowering);
  return lowering;
}

// Weights by input and output channel only: each image is their transpose times its pixels.
bool IsPointwise(const kernels::ConvTransposeParams& p) {
  bool pointwise = p.groups == 1;
  for (int i = 0; i < 3; ++i) {
    pointwise = pointwise && p.taps[i] == 1 && p.stride[i] == 1 && p.padding[i] == 0 &&
                p.in_size[i] == p.out_size[i];
  }
  return pointwise;
}

absl::StatusOr<Lowering> LowerPointwise(const NodeContext& node, const Target& target,
                                        const kernels::ConvTransposeParams& p) {
  MatMulSpec spec;
  const int64_t pixels = kernels::Volume(p.in_size);
  spec.batch = {p.batch};
  spec.a_batch_strides = {0};
  spec.b_batch_strides = {p.in_channels * pixels};
  spec.rows = p.out_channels;
  spec.columns = pixels;
  spec.depth = p.in_channels;
  spec.a_row_stride = 1;
  spec.a_depth_stride = p.out_channels;
  spec.b_depth_stride = pixels;
  spec.b_column_stride = 1;
  spec.bias_row_stride = 1;
  spec.a = KernelArg::Input(1);
  spec.b = KernelArg::Input(0);
  spec.bias = OptionalInput(node, 2);
  spec.residual = ResidualArg(node);
  return LowerMatMul(node, target, DType::kFloat, spec);
}

// Each image is one pixel, and the result one window: a row of a matrix product.
bool IsOneWindow(const kernels::ConvTransposeParams& p) {
  bool one = p.groups == 1;
  for (int i = 0; i < 3; ++i) {
    one = one && p.in_size[i] == 1 && p.out_size[i] == p.taps[i] && p.padding[i] == 0 &&
          (p.dilation[i] == 1 || p.taps[i] == 1);
  }
  return one;
}

absl::StatusOr<Lowering> LowerOneWindow(const NodeContext& node, const Target& target,
                                        const kernels::ConvTransposeParams& p) {
  MatMulSpec spec;
  spec.rows = p.batch;
  spec.columns = int64_t{p.out_channels} * kernels::Volume(p.taps);
  spec.depth = p.in_channels;
  spec.a_row_stride = spec.depth;
  spec.a_depth_stride = 1;
  spec.b_depth_stride = spec.columns;
  spec.b_column_stride = 1;
  spec.a = KernelArg::Input(0);
  spec.b = KernelArg::Input(1);
  spec.residual = ResidualArg(node);
  return LowerMatMul(node, target, DType::kFloat, spec);
}

absl::StatusOr<Lowering> LowerConvTranspose(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const TransposeShape shape, ReadTransposeShape(node));
  ASSIGN_OR_RETURN(kernels::ConvTransposeParams p, MakeTransposeParams(node, shape));
  SetActivation(FuseActivation(node.node().epilogue), &p);
  const Tensor* weights = node.InputConstant(1);
  absl::StatusOr<Lowering> lowering;
  if (node.InputDType(0) != DType::kFloat || node.InputType(0).NumElements() == 0 ||
      node.OutputType(0).NumElements() == 0) {
    ASSIGN_OR_RETURN(KernelCall call, (TypedCall<float, double>(
                                          node, node.InputDType(0), "kernels/conv_transpose.h",
                                          "kernels::ConvTransposePlain<{T}>", []<class T> {
                                            return FunctionOf<&kernels::ConvTransposePlain<T>>();
                                          })));
    lowering = ByImages(OneCall(std::move(call), p,
                                {KernelArg::Input(0), KernelArg::Input(1), OptionalInput(node, 2),
                                 ResidualArg(node), KernelArg::Output(0)}),
                        p, /*by_groups=*/true);
  } else if (weights != nullptr) {
    lowering = LowerTransposedGemm(node, target, p, *weights);
  } else if (IsOneWindow(p) && !node.HasInput(2)) {
    lowering = LowerOneWindow(node, target, p);
  } else if (IsReversedDepthwise(p)) {
    lowering = LowerReversedDepthwise(node, target, p);
  } else if (p.in_channels == 1 && p.out_channels == 1) {
    lowering = LowerDepthwise(node, target, p);
  } else if (IsPointwise(p) && kernels::Volume(p.in_size) >= target.vector_floats) {
    lowering = LowerPointwise(node, target, p);
  } else {
    lowering = LowerTapped(node, target, p);
  }
  if (lowering.ok()) {
    lowering->macs = node.InputType(0).NumElements() * p.out_channels * kernels::Volume(p.taps);
  }
  return lowering;
}

absl::Status TransposeGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const TransposeShape shape, ReadTransposeShape(g.context()));
  return ConvTransposeGradient(g, shape.window.padding_begin);
}

}  // namespace

extern const OpDef kConvTranspose = {
    .type = "ConvTranspose",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferConvTranspose,
    .aliases = InPlaceResidual,
    .lower = LowerConvTranspose,
    .gradient = TransposeGradient,
    .fuses_activation = true,
    .fuses_residual = true,
};

}  // namespace onnx_memplan
