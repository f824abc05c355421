// MaxPool, AveragePool, LpPool, and their global siblings.
#include "ops/host_kernels.h"

#include "kernels/pool.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/parallel_axis.h"
#include "ops/pool_lowering.h"
#include "ops/spatial.h"
#include "support/status_macros.h"

namespace onnx_memplan {

absl::StatusOr<kernels::PoolParams> MakePoolParams(const NodeContext& node, const Shape& x) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> taps, node.RequiredInts("kernel_shape"));
  ASSIGN_OR_RETURN(const SlidingWindow window, ReadSlidingWindow(node, x, taps));
  RETURN_IF_ERROR(CheckCountable(node));
  kernels::PoolParams p = {};
  ASSIGN_OR_RETURN(p.planes, ToInt32(node, x[0] * x[1], "the number of planes"));
  RETURN_IF_ERROR(ToThreeAxes(node, window.in_size, 1, p.in_size));
  RETURN_IF_ERROR(ToThreeAxes(node, window.out_size, 1, p.out_size));
  RETURN_IF_ERROR(ToThreeAxes(node, window.taps, 1, p.taps));
  RETURN_IF_ERROR(ToThreeAxes(node, window.stride, 1, p.stride));
  RETURN_IF_ERROR(ToThreeAxes(node, window.dilation, 1, p.dilation));
  RETURN_IF_ERROR(ToThreeAxes(node, window.padding_begin, 0, p.padding));
  RETURN_IF_ERROR(ToThreeAxes(node, window.padding_end, 0, p.padding_after));
  return p;
}

absl::StatusOr<int32_t> ReadNorm(const NodeContext& node) {
  const int64_t norm = node.Int("p", 2);
  if (norm < 1) return node.Invalid(absl::StrCat("p is ", norm, "; it must be at least 1"));
  return ToInt32(node, norm, "p");
}

namespace {

absl::StatusOr<std::vector<TensorType>> InferPool(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> taps, node.RequiredInts("kernel_shape"));
  ASSIGN_OR_RETURN(const SlidingWindow window, ReadSlidingWindow(node, taps));
  Shape shape = {node.InputShape(0)[0], node.InputShape(0)[1]};
  shape.insert(shape.end(), window.out_size.begin(), window.out_size.end());
  return std::vector<TensorType>{{node.InputDType(0), shape}};
}

// Output 1: indices.
absl::StatusOr<std::vector<TensorType>> InferMaxPool(const NodeContext& node) {
  ASSIGN_OR_RETURN(std::vector<TensorType> types, InferPool(node));
  types.push_back({DType::kInt64, types[0].shape});
  return types;
}

// The vectors to use on `target`.
int32_t PoolLanes(const Target& target) {
  return target.vector_floats >= 16 ? 16 : target.vector_floats >= 8 ? 8 : 4;
}

// The call of the kernel template `name`<float, lanes>; pick.operator()<lanes>() gives it.
template <class Pick>
KernelCall VectorCall(std::string_view name, std::string_view arguments, const Target& target,
                      Pick pick) {
  KernelCall call;
  const int32_t lanes = PoolLanes(target);
  call.header = "kernels/pool.h";
  call.name = absl::StrCat("kernels::", std::string(name), "<", std::string(arguments), lanes, ">");
  call.function = lanes == 16  ? pick.template operator()<16>()
                  : lanes == 8 ? pick.template operator()<8>()
                               : pick.template operator()<4>();
  return call;
}

// A call that may be shared out by planes.
Lowering ByPlanes(KernelCall call, const kernels::PoolParams& p, std::vector<KernelArg> args) {
  const auto volume = [](const int32_t(&size)[3]) { return int64_t{size[0]} * size[1] * size[2]; };
  const int64_t out = volume(p.out_size);
  std::vector<int64_t> steps(args.size(), out);
  steps[0] = volume(p.in_size);
  return InParallel(OneCall(std::move(call), p, std::move(args)),
                    p.planes * out * volume(p.taps) * 2,
                    {AxisOf<&kernels::PoolParams::planes>(p, 1, std::move(steps))});
}

absl::StatusOr<Lowering> LowerMaxPool(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(kernels::PoolParams p, MakePoolParams(node, node.InputShape(0)));
  p.column_major = node.Int("storage_order", 0) != 0 ? 1 : 0;
  const DType dtype = node.InputDType(0);
  if (node.HasOutput(1)) {
    ASSIGN_OR_RETURN(KernelCall call,
                     (TypedCall<float, double, int8_t, uint8_t>(
                         node, dtype, "kernels/pool.h", "kernels::MaxPoolIndices<{T}>",
                         []<class T> { return FunctionOf<&kernels::MaxPoolIndices<T>>(); })));
    return OneCall(std::move(call), p,
                   {KernelArg::Input(0), KernelArg::Output(0), KernelArg::Output(1)});
  }
  if (dtype == DType::kFloat) {
    KernelCall call = VectorCall("MaxPool", "float, ", target, []<int Lanes> {
      return FunctionOf<&kernels::MaxPool<float, Lanes>>();
    });
    return ByPlanes(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)});
  }
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<double, int8_t, uint8_t>(
                       node, dtype, "kernels/pool.h", "kernels::MaxPool<{T}, 1>",
                       []<class T> { return FunctionOf<&kernels::MaxPool<T, 1>>(); })));
  return ByPlanes(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerAveragePool(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(kernels::PoolParams p, MakePoolParams(node, node.InputShape(0)));
  p.counts_padding = node.Int("count_include_pad", 0) != 0 ? 1 : 0;
  if (node.InputDType(0) == DType::kFloat) {
    KernelCall call = VectorCall("AveragePool", "float, ", target, []<int Lanes> {
      return FunctionOf<&kernels::AveragePool<float, Lanes>>();
    });
    return ByPlanes(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)});
  }
  ASSIGN_OR_RETURN(
      KernelCall call,
      (TypedCall<double>(node, node.InputDType(0), "kernels/pool.h", "kernels::AveragePool<{T}, 1>",
                         []<class T> { return FunctionOf<&kernels::AveragePool<T, 1>>(); })));
  return ByPlanes(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerLpPool(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(kernels::PoolParams p, MakePoolParams(node, node.InputShape(0)));
  ASSIGN_OR_RETURN(p.norm, ReadNorm(node));
  ASSIGN_OR_RETURN(
      KernelCall call,
      (TypedCall<float, double>(node, node.InputDType(0), "kernels/pool.h", "kernels::LpPool<{T}>",
                                []<class T> { return FunctionOf<&kernels::LpPool<T>>(); })));
  return ByPlanes(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)});
}

// ---- Global pools

absl::StatusOr<std::vector<TensorType>> InferGlobalPool(const NodeContext& node) {
  TensorType type = node.InputType(0);
  if (type.rank() < 2) return node.Invalid("the input needs a batch and a channel axis");
  for (size_t i = 2; i < type.shape.size(); ++i) {
    if (type.shape[i] == 0) return node.Invalid("a pool of no elements has no value");
    type.shape[i] = 1;
  }
  return std::vector<TensorType>{type};
}

absl::StatusOr<kernels::GlobalPoolParams> MakeGlobalPoolParams(const NodeContext& node) {
  RETURN_IF_ERROR(CheckCountable(node));
  kernels::GlobalPoolParams p = {};
  const Shape& shape = node.InputShape(0);
  ASSIGN_OR_RETURN(p.planes, ToInt32(node, shape[0] * shape[1], "the number of planes"));
  int64_t volume = 1;
  for (size_t i = 2; i < shape.size(); ++i) volume *= shape[i];
  ASSIGN_OR_RETURN(p.volume, ToInt32(node, volume, "the number of elements"));
  return p;
}

Lowering ByPlanes(KernelCall call, const kernels::GlobalPoolParams& p) {
  return InParallel(OneCall(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)}),
                    int64_t{p.planes} * p.volume * 2,
                    {AxisOf<&kernels::GlobalPoolParams::planes>(p, 1, {p.volume, 1})});
}

// A global pool of doubles.
template <class Pool>
Lowering LowerGlobalDouble(const kernels::GlobalPoolParams& p, std::string_view pool) {
  KernelCall call;
  call.header = "kernels/pool.h";
  call.name = absl::StrCat("kernels::GlobalPoolPlain<kernels::", std::string(pool), ">");
  call.function = FunctionOf<&kernels::GlobalPoolPlain<Pool>>();
  return ByPlanes(std::move(call), p);
}

absl::Status RequireFloat(const NodeContext& node) {
  if (node.InputDType(0) == DType::kFloat || node.InputDType(0) == DType::kDouble) {
    return absl::OkStatus();
  }
  return node.Unsupported(absl::StrCat("no kernel for element type ",
                                       std::string(DTypeName(node.InputDType(0))),
                                       "; supported are float, double"));
}

absl::StatusOr<Lowering> LowerGlobalAveragePool(const NodeContext& node, const Target& target) {
  RETURN_IF_ERROR(RequireFloat(node));
  ASSIGN_OR_RETURN(const kernels::GlobalPoolParams p, MakeGlobalPoolParams(node));
  if (node.InputDType(0) == DType::kDouble) {
    return LowerGlobalDouble<kernels::PoolSum>(p, "PoolSum");
  }
  KernelCall call = VectorCall("GlobalAveragePool", "", target, []<int Lanes> {
    return FunctionOf<&kernels::GlobalAveragePool<Lanes>>();
  });
  return ByPlanes(std::move(call), p);
}

absl::StatusOr<Lowering> LowerGlobalMaxPool(const NodeContext& node, const Target& target) {
  RETURN_IF_ERROR(RequireFloat(node));
  ASSIGN_OR_RETURN(const kernels::GlobalPoolParams p, MakeGlobalPoolParams(node));
  if (node.InputDType(0) == DType::kDouble) {
    return LowerGlobalDouble<kernels::PoolMax>(p, "PoolMax");
  }
  KernelCall call = VectorCall("GlobalMaxPool", "", target, []<int Lanes> {
    return FunctionOf<&kernels::GlobalMaxPool<Lanes>>();
  });
  return ByPlanes(std::move(call), p);
}

absl::StatusOr<Lowering> LowerGlobalLpPool(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(kernels::GlobalPoolParams p, MakeGlobalPoolParams(node));
  ASSIGN_OR_RETURN(p.norm, ReadNorm(node));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(
                       node, node.InputDType(0), "kernels/pool.h", "kernels::GlobalLpPool<{T}>",
                       []<class T> { return FunctionOf<&kernels::GlobalLpPool<T>>(); })));
  return ByPlanes(std::move(call), p);
}

}  // namespace

extern const OpDef kMaxPool = {
    .type = "MaxPool",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 2,
    .infer = InferMaxPool,
    .lower = LowerMaxPool,
    .gradient = MaxPoolGradient,
};

extern const OpDef kAveragePool = {
    .type = "AveragePool",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferPool,
    .lower = LowerAveragePool,
    .gradient = AveragePoolGradient,
};

extern const OpDef kLpPool = {
    .type = "LpPool",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferPool,
    .lower = LowerLpPool,
    .gradient = LpPoolGradient,
};

extern const OpDef kGlobalAveragePool = {
    .type = "GlobalAveragePool",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferGlobalPool,
    .lower = LowerGlobalAveragePool,
    .gradient = GlobalAveragePoolGradient,
};

extern const OpDef kGlobalMaxPool = {
    .type = "GlobalMaxPool",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferGlobalPool,
    .lower = LowerGlobalMaxPool,
    .gradient = GlobalMaxPoolGradient,
};

extern const OpDef kGlobalLpPool = {
    .type = "GlobalLpPool",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferGlobalPool,
    .lower = LowerGlobalLpPool,
    .gradient = GlobalLpPoolGradient,
};

}  // namespace onnx_memplan
