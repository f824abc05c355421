// ArgMax, ArgMin, TopK and CumSum.
#include "ops/host_kernels.h"

#include "absl/strings/str_cat.h"
#include "kernels/arg_reduce.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/reduce_loops.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// ---- ArgMax, ArgMin

absl::StatusOr<std::vector<TensorType>> InferArgReduce(const NodeContext& node) {
  Shape shape = node.InputShape(0);
  ASSIGN_OR_RETURN(const int64_t axis,
                   node.NormalizeAxis(node.Int("axis", 0), node.InputType(0).rank()));
  const auto at = shape.begin() + static_cast<ptrdiff_t>(axis);
  if (*at == 0) return node.Invalid("the axis has no elements, so that none is the largest");
  if (node.Int("keepdims", 1) != 0) {
    *at = 1;
  } else {
    shape.erase(at);
  }
  return std::vector<TensorType>{{DType::kInt64, std::move(shape)}};
}

template <Functor kOrder>
absl::StatusOr<Lowering> LowerArgReduce(const NodeContext& node, const Target&) {
  using Order = typename decltype(kOrder)::Type;
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(NumericTypes(), node, node.InputDType(0), "kernels/arg_reduce.h",
                               "kernels::ArgReduce<{T}, {F}>", kOrder.name(), []<class T> {
                                 return FunctionOf<&kernels::ArgReduce<T, Order>>();
                               }));
  ASSIGN_OR_RETURN(const AxisSplit split,
                   SplitAtAxis(node, node.InputShape(0), node.Int("axis", 0)));
  const kernels::ArgReduceParams params = {split.outer, split.count, split.inner,
                                           node.Int("select_last_index", 0) != 0 ? 1 : 0};
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

// ---- TopK

absl::StatusOr<std::vector<TensorType>> InferTopK(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> k, node.ConstantInts(1, "K"));
  Shape shape = node.InputShape(0);
  ASSIGN_OR_RETURN(const int64_t axis,
                   node.NormalizeAxis(node.Int("axis", -1), node.InputType(0).rank()));
  int64_t& extent = shape[static_cast<size_t>(axis)];
  if (k.size() != 1) return node.Invalid("K must be one number");
  if (k[0] < 0 || k[0] > extent) {
    return node.Invalid(absl::StrCat("K is ", k[0], "; the axis has ", extent, " elements"));
  }
  extent = k[0];
  return std::vector<TensorType>{{node.InputDType(0), shape}, {DType::kInt64, shape}};
}

template <Functor kOrder>
absl::StatusOr<KernelCall> TopKCall(const NodeContext& node) {
  using Order = typename decltype(kOrder)::Type;
  return TypedCallOf(NumericTypes(), node, node.InputDType(0), "kernels/arg_reduce.h",
                     "kernels::TopK<{T}, {F}>", kOrder.name(),
                     []<class T> { return FunctionOf<&kernels::TopK<T, Order>>(); });
}

absl::StatusOr<Lowering> LowerTopK(const NodeContext& node, const Target&) {
  absl::StatusOr<KernelCall> call = node.Int("largest", 1) != 0
                                        ? TopKCall<KERNEL_FUNCTOR(Largest)>(node)
                                        : TopKCall<KERNEL_FUNCTOR(Smallest)>(node);
  RETURN_IF_ERROR(call.status());
  ASSIGN_OR_RETURN(const AxisSplit split,
                   SplitAtAxis(node, node.InputShape(0), node.Int("axis", -1)));
  ASSIGN_OR_RETURN(const std::vector<int64_t> k, node.ConstantInts(1, "K"));
  const kernels::TopKParams params = {split.outer, split.count, split.inner,
                                      static_cast<int32_t>(k[0])};
  const auto output = [&](int32_t i) {
    return node.HasOutput(i) ? KernelArg::Output(i) : KernelArg::Null();
  };
  Lowering lowering = OneCall(*std::move(call), params,
                              {KernelArg::Input(0), output(0), output(1), KernelArg::Scratch()});
  lowering.scratch_bytes = kernels::TopKScratchBytes(params.k);
  lowering.scratch_alignment = alignof(int32_t);
  return lowering;
}

// The chosen elements' gradients go where the elements came from.
absl::Status TopKGradient(GradientContext& g) {
  if (!g.Wants(0) || g.OutputGradient(0) == kNoValue) return absl::OkStatus();
  const Shape shape = g.ShapeOf(g.Input(0));
  const int64_t axis = g.context().Int("axis", -1);
  ValueId indices = g.Output(1);
  if (indices == kNoValue && g.num_outputs() == 1) {
    const std::vector<ValueId> extra = g.ExtendNode("TopK", "", 1);
    indices = extra[0];
  } else if (indices == kNoValue) {
    GradientContext::Attributes attributes = g.node().attributes;
    indices = g.AddMany("TopK", {g.Input(0), g.Input(1)}, 2, std::move(attributes))[1];
  }
  g.SetInputGradient(0, g.Add("GatherElementsGrad", {g.OutputGradient(0), g.Ints(shape), indices},
                              {{"axis", axis}}, kMicrosoft));
  return g.status();
}

// ---- CumSum

absl::StatusOr<std::vector<TensorType>> InferCumSum(const NodeContext& node) {
  if (node.InputType(1).NumElements() != 1) return node.Invalid("the axis must be one number");
  return rules::SameTypeAsInput(node);
}

absl::StatusOr<Lowering> LowerCumSum(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> axis, node.ConstantInts(1, "axis"));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double, int32_t, int64_t, uint32_t, uint64_t>(
                       node, node.InputDType(0), "kernels/arg_reduce.h", "kernels::CumSum<{T}>",
                       []<class T> { return FunctionOf<&kernels::CumSum<T>>(); })));
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtAxis(node, node.InputShape(0), axis[0]));
  const kernels::CumSumParams params = {split.outer, split.count, split.inner,
                                        node.Int("exclusive", 0) != 0 ? 1 : 0,
                                        node.Int("reverse", 0) != 0 ? 1 : 0};
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

// An element is part of the sums behind it: they add up from the other end.
absl::Status CumSumGradient(GradientContext& g) {
  const int64_t exclusive = g.context().Int("exclusive", 0);
  const int64_t reverse = g.context().Int("reverse", 0) != 0 ? 0 : 1;
  g.SetInputGradient(0, g.Add("CumSum", {g.OutputGradient(0), g.Input(1)},
                              {{"exclusive", exclusive}, {"reverse", reverse}}));
  return g.status();
}

}  // namespace

extern const OpDef kArgMax = {
    .type = "ArgMax",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferArgReduce,
    .lower = LowerArgReduce<KERNEL_FUNCTOR(Largest)>,
    .gradient = rules::ZeroGradient,
};

extern const OpDef kArgMin = {
    .type = "ArgMin",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferArgReduce,
    .lower = LowerArgReduce<KERNEL_FUNCTOR(Smallest)>,
    .gradient = rules::ZeroGradient,
};

extern const OpDef kTopK = {
    .type = "TopK",
    .min_inputs = 2,
    .max_inputs = 2,
    .max_outputs = 2,
    .infer = InferTopK,
    .lower = LowerTopK,
    .gradient = TopKGradient,
};

extern const OpDef kCumSum = {
    .type = "CumSum",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferCumSum,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerCumSum,
    .gradient = CumSumGradient,
};

}  // namespace onnx_memplan
