// BlockedDepthwiseConv and BlockedConvDepthwiseConv: a depthwise convolution and the convolution of
// one tap that alone reads its result; the latter also with the convolution that alone makes its
// input, as the inverted residuals of MobileNets are.
//
//   BlockedDepthwiseConv(X, depthwise W, [bias], W, [bias], [residual])
//   BlockedConvDepthwiseConv(X, W, [bias], depthwise W, [bias], W, [bias], [residual])
//
// Attributes: those of the first convolution, and those of the depthwise one with "window_" in
// front; first_activation and second_activation (with _alpha and _beta) of the first and the
// depthwise one. The epilogue is that of the last one. All weights are constant.
#include "ops/host_kernels.h"

#include "kernels/blocked_conv_project.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/blocked.h"
#include "ops/blocked_conv_window.h"
#include "ops/families.h"
#include "ops/parallel_axis.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

using kernels::BlockedConvParams;
using kernels::BlockedConvWindowParams;
using kernels::kChannelBlock;

// Tiles of eight lanes, for both convolutions: few, for there is a kernel for each pair of them.
constexpr DirectShape kProjectShapes[] = {{8, 2, 6},  {8, 2, 4}, {8, 2, 2},
                                          {8, 1, 14}, {8, 1, 4}, {8, 1, 2}};

// Which inputs are what.
struct Operands {
  int32_t depthwise;  // its weights; its bias follows
  int32_t project;    // the same of the last convolution
  bool has_first() const { return depthwise == 3; }
};
constexpr Operands kPair = {1, 3};
constexpr Operands kTriple = {3, 5};

struct ProjectShape {
  ConvWindowShape windows;
  int64_t hidden_channels = 0;
  int64_t out_channels = 0;

  Shape output() const {
    return BlockedShape(
        {windows.conv[0], out_channels, windows.window.out_size[0], windows.window.out_size[1]});
  }
};

absl::StatusOr<ProjectShape> ReadShape(const NodeContext& node, Operands operands) {
  const Shape& x = node.InputShape(0);
  if (!operands.has_first() && (!IsBlockedShape(x) || node.InputDType(0) != DType::kFloat)) {
    return node.Invalid("X needs to be an image of float in blocks of channels");
  }
  for (const int32_t i : {operands.depthwise, operands.project}) {
    if (!node.HasInput(i)) return node.Invalid(absl::StrCat("input ", i, " is missing"));
  }
  ProjectShape shape;
  shape.hidden_channels =
      node.InputShape(operands.depthwise).empty() ? 0 : node.InputShape(operands.depthwise)[0];
  ASSIGN_OR_RETURN(std::vector<int64_t> taps,
                   ReadDepthwiseTaps(node, operands.depthwise, shape.hidden_channels));
  if (operands.has_first()) {
    if (node.InputShape(1).empty() || node.InputShape(1)[0] != shape.hidden_channels) {
      return node.Invalid("the depthwise convolution needs the channels of the first one");
    }
    ASSIGN_OR_RETURN(shape.windows, ReadConvWindow(node, std::move(taps)));
  } else {
    if (x[1] != kernels::ChannelBlocks(static_cast<int32_t>(shape.hidden_channels))) {
      return node.Invalid("the depthwise convolution needs the channels of X");
    }
    ASSIGN_OR_RETURN(shape.windows, ReadWindowOver(node, x, std::move(taps)));
  }
  const Shape& w = node.InputShape(operands.project);
  if (w.size() != 4 || w[1] != shape.hidden_channels || w[2] != 1 || w[3] != 1 ||
      node.InputDType(operands.project) != DType::kFloat) {
    return node.Invalid(absl::StrCat("the last weights need one tap and ", shape.hidden_channels,
                                     " input channels, not ", ShapeToString(w)));
  }
  shape.out_channels = w[0];
  const TensorType bias = {DType::kFloat, {w[0]}};
  if (node.HasInput(operands.project + 1) && node.InputType(operands.project + 1) != bias) {
    return node.Invalid(absl::StrCat("the last bias needs shape ", w[0]));
  }
  return shape;
}

template <const Operands& kOperands>
absl::StatusOr<std::vector<TensorType>> Infer(const NodeContext& node) {
  ASSIGN_OR_RETURN(const ProjectShape shape, ReadShape(node, kOperands));
  return std::vector<TensorType>{{DType::kFloat, shape.output()}};
}

// The cheapest tile for `conv` in groups of one shape; among kProjectShapes, some splits any row.
DirectShape ChooseShape(const BlockedConvParams& conv) {
  DirectShape best;
  double least = std::numeric_limits<double>::infinity();
  const int32_t blocks = kernels::ChannelBlocks(conv.out_channels);
  for (const DirectShape& shape : kProjectShapes) {
    if (blocks % shape.blocks() != 0 ||
        kernels::SplitDirectRow(conv.out_size[1], shape.pixels).full < 0) {
      continue;
    }
    const double cycles =
        blocks / shape.blocks() * DirectRowCycles(conv, DirectAccessOf(conv), shape);
    if (cycles >= least) continue;
    least = cycles;
    best = shape;
  }
  MEMPLAN_CHECK(best.width > 0);
  return best;
}

// The last convolution, of a row.
BlockedConvParams ProjectConv(const BlockedConvWindowParams& p, int64_t out_channels) {
  BlockedConvParams conv = {};
  conv.batch = 1;
  conv.in_channels = p.project_channels;
  conv.out_channels = static_cast<int32_t>(out_channels);
  conv.in_blocked = 1;
  for (int i = 0; i < 2; ++i) {
    conv.in_size[i] = conv.out_size[i] = i == 0 ? 1 : p.out_size[1];
    conv.taps[i] = conv.stride[i] = conv.dilation[i] = 1;
  }
  return conv;
}

template <size_t kProject>
KernelFunction PickPair(const DirectShape& project) {
  constexpr DirectShape kP = kProjectShapes[kProject];
  if (project != kP) return {};
  return FunctionOf<&kernels::BlockedDepthwiseConv<kP.width, kP.vectors, kP.pixels>>();
}

template <size_t kProject, size_t kFirst, size_t kAccess>
KernelFunction PickTriple(const DirectShape& project, const DirectShape& first,
                          const DirectAccess& access) {
  constexpr DirectShape kP = kProjectShapes[kProject];
  constexpr DirectShape kF = kProjectShapes[kFirst];
  constexpr DirectAccess kA = kWindowAccesses[kAccess];
  if (project != kP || first != kF || access != kA) return {};
  return FunctionOf<&kernels::BlockedConvDepthwiseConv<kF.width, kF.vectors, kF.pixels, kA.step,
                                                       kA.kind, kP.vectors, kP.pixels>>();
}

// Calls try_one.operator()<I>() for all I below kCount until one gives a function.
template <size_t kCount, class TryOne>
KernelFunction FirstFunction(TryOne try_one) {
  KernelFunction function;
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((function = function.invoke != nullptr ? function : try_one.template operator()<I>()), ...);
  }
  (std::make_index_sequence<kCount>());
  return function;
}

// Appends weights and bias of a convolution, packed for groups of `shape`, to a call.
absl::Status AddConvolution(const NodeContext& node, int32_t input, const BlockedConvParams& conv,
                            const DirectShape& shape, KernelCall& call) {
  if (!HasDirectConstants(node, input)) {
    return node.Unsupported("weights and bias need to be constant");
  }
  const DirectPart part = {shape, kernels::ChannelBlocks(conv.out_channels) / shape.blocks()};
  AddDirectConstants(node, input, conv, part, 0, call);
  return absl::OkStatus();
}

// Threads may share rows, of which each computes those of the first convolution again that its
// windows share with another's.
Lowering ByRows(KernelCall call, const BlockedConvWindowParams& p, int64_t scratch_bytes,
                int64_t macs) {
  using Params = BlockedConvWindowParams;
  call.params = MakeParams(p);
  call.own_scratch_bytes = scratch_bytes;
  Lowering lowering;
  lowering.scratch_bytes = scratch_bytes;
  lowering.scratch_alignment = int64_t{4} * kChannelBlock;
  lowering.macs = macs;
  ParallelAxis rows = RangeOf<&Params::row_begin, &Params::row_end>(p, 1, call.args.size());
  lowering.calls.push_back(std::move(call));
  return InParallel(std::move(lowering), macs, {std::move(rows)});
}

void SetProject(const NodeContext& node, const ProjectShape& shape, BlockedConvWindowParams* p) {
  p->project_channels = static_cast<int32_t>(shape.hidden_channels);
  p->project_blocks = kernels::ChannelBlocks(static_cast<int32_t>(shape.out_channels));
  const FusedActivation fused = FuseActivation(node.node().epilogue);
  p->project_clamps = fused.clamps;
  p->project_activation = fused.kind;
  p->project_lowest = fused.lowest;
  p->project_highest = fused.highest;
  p->project_alpha = fused.alpha;
  p->project_beta = fused.beta;
}

// Multiply-adds of the depthwise and the last convolution.
int64_t MacsBehind(const ProjectShape& shape, const BlockedConvWindowParams& p) {
  const int64_t pixels = int64_t{p.batch} * p.out_size[0] * p.out_size[1];
  return pixels * shape.hidden_channels *
         (int64_t{p.window_taps[0]} * p.window_taps[1] + shape.out_channels);
}

absl::StatusOr<Lowering> LowerPair(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const ProjectShape shape, ReadShape(node, kPair));
  RETURN_IF_ERROR(CheckCountable(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  BlockedConvParams image = {};
  // Each of these is at most the number of elements of a tensor.
  image.batch = static_cast<int32_t>(shape.windows.conv[0]);
  for (size_t i = 0; i < 2; ++i) {
    image.out_size[i] = static_cast<int32_t>(shape.windows.conv[2 + i]);
  }
  ASSIGN_OR_RETURN(BlockedConvWindowParams p, MakeWindowParams(node, image, shape.windows));
  SetWindowActivation(EpilogueOf(node, "second"), &p);
  SetProject(node, shape, &p);
  const BlockedConvParams project = ProjectConv(p, shape.out_channels);
  const DirectShape tile = ChooseShape(project);
  KernelCall call;
  call.header = "kernels/blocked_conv_project.h";
  call.name = absl::StrCat("kernels::BlockedDepthwiseConv<", tile.width, ", ", tile.vectors, ", ",
                           tile.pixels, ">");
  call.function =
      FirstFunction<std::size(kProjectShapes)>([&]<size_t I>() { return PickPair<I>(tile); });
  ASSIGN_OR_RETURN(Tensor constants, PackDepthwiseInput(node, kPair.depthwise));
  call.constants.push_back(std::move(constants));
  call.args = {KernelArg::Input(0), KernelArg::Constant(0)};
  RETURN_IF_ERROR(AddConvolution(node, kPair.project, project, tile, call));
  for (const KernelArg arg : {ResidualArg(node), KernelArg::Scratch(), KernelArg::Output(0)}) {
    call.args.push_back(arg);
  }
  return ByRows(std::move(call), p, kernels::ProjectRowBytes(p), MacsBehind(shape, p));
}

absl::StatusOr<Lowering> LowerTriple(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const ProjectShape shape, ReadShape(node, kTriple));
  ASSIGN_OR_RETURN(const BlockedConvParams conv, ReadBlockedConv(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(BlockedConvWindowParams p, MakeWindowParams(node, conv, shape.windows));
  SetActivation(FuseActivation(EpilogueOf(node, "first")), &p);
  SetWindowActivation(EpilogueOf(node, "second"), &p);
  SetProject(node, shape, &p);
  const BlockedConvParams project = ProjectConv(p, shape.out_channels);
  const DirectAccess access = DirectAccessOf(conv);
  const DirectShape first_tile = ChooseShape(conv);
  const DirectShape tile = ChooseShape(project);
  p.groups = kernels::ChannelBlocks(conv.out_channels) / first_tile.blocks();
  KernelCall call;
  call.header = "kernels/blocked_conv_project.h";
  call.name = absl::StrCat("kernels::BlockedConvDepthwiseConv<", first_tile.width, ", ",
                           first_tile.vectors, ", ", first_tile.pixels, ", ", access.step, ", ",
                           access.kind, ", ", tile.vectors, ", ", tile.pixels, ">");
  constexpr size_t kShapes = std::size(kProjectShapes);
  constexpr size_t kAccesses = std::size(kWindowAccesses);
  call.function = FirstFunction<kShapes * kShapes * kAccesses>([&]<size_t I>() {
    return PickTriple<I % kShapes, I / kShapes % kShapes, I / kShapes / kShapes>(tile, first_tile,
                                                                                 access);
  });
  if (call.function.invoke == nullptr) {
    return node.Unsupported("the input needs to be plain, or the kernel of one tap and stride 1");
  }
  call.args = {KernelArg::Input(0)};
  RETURN_IF_ERROR(AddConvolution(node, 1, conv, first_tile, call));
  ASSIGN_OR_RETURN(Tensor constants, PackDepthwiseInput(node, kTriple.depthwise));
  call.args.push_back(KernelArg::Constant(static_cast<int32_t>(call.constants.size())));
  call.constants.push_back(std::move(constants));
  RETURN_IF_ERROR(AddConvolution(node, kTriple.project, project, tile, call));
  for (const KernelArg arg : {ResidualArg(node), KernelArg::Scratch(), KernelArg::Output(0)}) {
    call.args.push_back(arg);
  }
  const int64_t macs = int64_t{p.batch} * conv.out_channels * p.conv_size[0] * p.conv_size[1] *
                       conv.in_channels * p.taps[0] * p.taps[1];
  return ByRows(std::move(call), p, kernels::ConvProjectScratchBytes(p),
                macs + MacsBehind(shape, p));
}

}  // namespace

extern const OpDef kBlockedDepthwiseConv = {
    .type = "BlockedDepthwiseConv",
    .domain = kMemplan,
    .min_inputs = 2,  // and input 3
    .max_inputs = 5,
    .infer = Infer<kPair>,
    .aliases = InPlaceResidual,
    .lower = LowerPair,
    .fuses_activation = true,
    .fuses_residual = true,
};

extern const OpDef kBlockedConvDepthwiseConv = {
    .type = "BlockedConvDepthwiseConv",
    .domain = kMemplan,
    .min_inputs = 2,  // and inputs 3 and 5
    .max_inputs = 7,
    .infer = Infer<kTriple>,
    .aliases = InPlaceResidual,
    .lower = LowerTriple,
    .fuses_activation = true,
    .fuses_residual = true,
};

}  // namespace onnx_memplan
