// BlockedMaxPool, BlockedAveragePool and the global ones: pools of images in blocks of channels.
//
// Attributes and semantics are those of ONNX's MaxPool (without indices), AveragePool, and
// GlobalMaxPool and GlobalAveragePool, whose results are images of one pixel, in blocks too.
#include "ops/host_kernels.h"

#include "kernels/blocked_pool.h"

#include <string>
#include <string_view>
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

absl::Status CheckInput(const NodeContext& node) {
  if (IsBlockedShape(node.InputShape(0)) && node.InputDType(0) == DType::kFloat) {
    return absl::OkStatus();
  }
  return node.Invalid("X needs to be an image of float in blocks of channels");
}

absl::StatusOr<SlidingWindow> WindowOf(const NodeContext& node) {
  RETURN_IF_ERROR(CheckInput(node));
  const Shape& x = node.InputShape(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> taps, node.RequiredInts("kernel_shape"));
  return ReadSlidingWindow(node, {x[0], x[1], x[2], x[3]}, taps);
}

absl::StatusOr<std::vector<TensorType>> InferPool(const NodeContext& node) {
  ASSIGN_OR_RETURN(const SlidingWindow window, WindowOf(node));
  Shape shape = node.InputShape(0);
  shape[2] = window.out_size[0];
  shape[3] = window.out_size[1];
  return std::vector<TensorType>{{DType::kFloat, shape}};
}

absl::StatusOr<kernels::BlockedPoolParams> MakeParamsOf(const NodeContext& node) {
  ASSIGN_OR_RETURN(const SlidingWindow window, WindowOf(node));
  RETURN_IF_ERROR(CheckCountable(node));
  kernels::BlockedPoolParams p = {};
  // Each of these is at most the number of elements of a tensor.
  p.planes = static_cast<int32_t>(node.InputShape(0)[0] * node.InputShape(0)[1]);
  for (size_t i = 0; i < 2; ++i) {
    p.in_size[i] = static_cast<int32_t>(window.in_size[i]);
    p.out_size[i] = static_cast<int32_t>(window.out_size[i]);
    ASSIGN_OR_RETURN(p.taps[i], ToInt32(node, window.taps[i], "a kernel size"));
    ASSIGN_OR_RETURN(p.stride[i], ToInt32(node, window.stride[i], "a stride"));
    ASSIGN_OR_RETURN(p.dilation[i], ToInt32(node, window.dilation[i], "a dilation"));
    ASSIGN_OR_RETURN(p.padding[i], ToInt32(node, window.padding_begin[i], "padding"));
    ASSIGN_OR_RETURN(p.padding_after[i], ToInt32(node, window.padding_end[i], "padding"));
  }
  return p;
}

int32_t LanesFor(const Target& target) { return target.vector_floats >= 8 ? 8 : 4; }

// The kernel template `name`<lanes, taps, stride>; pick.operator()<...>() gives it.
template <class Pick>
KernelCall WindowCall(std::string_view name, const Target& target,
                      const kernels::BlockedPoolParams& p, Pick pick) {
  const bool common = (p.taps[1] == 2 || p.taps[1] == 3) && p.dilation[1] == 1 &&
                      (p.stride[1] == 2 || (p.stride[1] == 1 && p.taps[1] == 3));
  const int32_t taps = common ? p.taps[1] : 0;
  const int32_t stride = common ? p.stride[1] : 0;
  const int32_t lanes = LanesFor(target);
  const auto for_lanes = [&]<int Lanes>() {
    return taps == 0     ? pick.template operator()<Lanes, 0, 0>()
           : taps == 2   ? pick.template operator()<Lanes, 2, 2>()
           : stride == 1 ? pick.template operator()<Lanes, 3, 1>()
                         : pick.template operator()<Lanes, 3, 2>();
  };
  KernelCall call;
  call.header = "kernels/blocked_pool.h";
  call.name =
      absl::StrCat("kernels::", std::string(name), "<", lanes, ", ", taps, ", ", stride, ">");
  call.function =
      lanes == 8 ? for_lanes.template operator()<8>() : for_lanes.template operator()<4>();
  return call;
}

Lowering ByPlanes(KernelCall call, const kernels::BlockedPoolParams& p) {
  constexpr int64_t kLanes = kernels::kChannelBlock;
  const int64_t in = kLanes * p.in_size[0] * p.in_size[1];
  const int64_t out = kLanes * p.out_size[0] * p.out_size[1];
  return InParallel(OneCall(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)}),
                    p.planes * out * p.taps[0] * p.taps[1] * 2,
                    {AxisOf<&kernels::BlockedPoolParams::planes>(p, 1, {in, out})});
}

absl::StatusOr<Lowering> LowerMaxPool(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const kernels::BlockedPoolParams p, MakeParamsOf(node));
  KernelCall call = WindowCall("BlockedMaxPool", target, p, []<int Lanes, int Taps, int Stride> {
    return FunctionOf<&kernels::BlockedMaxPool<Lanes, Taps, Stride>>();
  });
  return ByPlanes(std::move(call), p);
}

absl::StatusOr<Lowering> LowerAveragePool(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(kernels::BlockedPoolParams p, MakeParamsOf(node));
  p.counts_padding = node.Int("count_include_pad", 0) != 0 ? 1 : 0;
  KernelCall call =
      WindowCall("BlockedAveragePool", target, p, []<int Lanes, int Taps, int Stride> {
        return FunctionOf<&kernels::BlockedAveragePool<Lanes, Taps, Stride>>();
      });
  return ByPlanes(std::move(call), p);
}

// ---- Global pools

absl::StatusOr<std::vector<TensorType>> InferGlobalPool(const NodeContext& node) {
  RETURN_IF_ERROR(CheckInput(node));
  Shape shape = node.InputShape(0);
  if (shape[2] * shape[3] == 0) return node.Invalid("a pool of no elements has no value");
  shape[2] = shape[3] = 1;
  return std::vector<TensorType>{{DType::kFloat, shape}};
}

absl::StatusOr<kernels::BlockedGlobalPoolParams> MakeGlobalParams(const NodeContext& node) {
  RETURN_IF_ERROR(CheckCountable(node));
  const Shape& x = node.InputShape(0);
  return kernels::BlockedGlobalPoolParams{static_cast<int32_t>(x[0] * x[1]),
                                          static_cast<int32_t>(x[2] * x[3])};
}

Lowering ByPlanes(KernelCall call, const kernels::BlockedGlobalPoolParams& p) {
  constexpr int64_t kLanes = kernels::kChannelBlock;
  const int64_t in = kLanes * p.pixels;
  return InParallel(OneCall(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)}),
                    p.planes * in * 2,
                    {AxisOf<&kernels::BlockedGlobalPoolParams::planes>(p, 1, {in, kLanes})});
}

absl::StatusOr<Lowering> LowerGlobalMaxPool(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const kernels::BlockedGlobalPoolParams p, MakeGlobalParams(node));
  KernelCall call;
  call.header = "kernels/blocked_pool.h";
  call.name = absl::StrCat("kernels::BlockedGlobalMaxPool<", LanesFor(target), ">");
  call.function = LanesFor(target) == 8 ? FunctionOf<&kernels::BlockedGlobalMaxPool<8>>()
                                        : FunctionOf<&kernels::BlockedGlobalMaxPool<4>>();
  return ByPlanes(std::move(call), p);
}

absl::StatusOr<Lowering> LowerGlobalAveragePool(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const kernels::BlockedGlobalPoolParams p, MakeGlobalParams(node));
  KernelCall call;
  call.header = "kernels/blocked_pool.h";
  call.name = absl::StrCat("kernels::BlockedGlobalAveragePool<", LanesFor(target), ">");
  call.function = LanesFor(target) == 8 ? FunctionOf<&kernels::BlockedGlobalAveragePool<8>>()
                                        : FunctionOf<&kernels::BlockedGlobalAveragePool<4>>();
  return ByPlanes(std::move(call), p);
}

}  // namespace

extern const OpDef kBlockedMaxPool = {
    .type = "BlockedMaxPool",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferPool,
    .lower = LowerMaxPool,
};

extern const OpDef kBlockedAveragePool = {
    .type = "BlockedAveragePool",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferPool,
    .lower = LowerAveragePool,
};

extern const OpDef kBlockedGlobalMaxPool = {
    .type = "BlockedGlobalMaxPool",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferGlobalPool,
    .lower = LowerGlobalMaxPool,
};

extern const OpDef kBlockedGlobalAveragePool = {
    .type = "BlockedGlobalAveragePool",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferGlobalPool,
    .lower = LowerGlobalAveragePool,
};

}  // namespace onnx_memplan
