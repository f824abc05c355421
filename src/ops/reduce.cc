// The Reduce* operators.
#include "ops/host_kernels.h"

#include "kernels/reduce.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/reduce_gradient.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/parallel_axis.h"
#include "ops/reduce_loops.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

using ReduceTypes = Types<float, double, int32_t, int64_t, uint32_t, uint64_t>;
using ExtremeTypes =
    Types<float, double, int8_t, uint8_t, int32_t, int64_t, uint32_t, uint64_t, bool>;

// By dimension of input 0, whether it is reduced. noop_with_empty_axes: none of them.
absl::StatusOr<std::vector<bool>> ReducedDims(const NodeContext& node) {
  std::vector<int64_t> axes;
  if (node.HasInput(1)) {
    ASSIGN_OR_RETURN(axes, node.ConstantInts(1, "axes"));
  }
  const bool all = axes.empty() && node.Int("noop_with_empty_axes", 0) == 0;
  return MarkAxes(node, axes, all);
}

absl::StatusOr<std::vector<TensorType>> InferReduce(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedDims(node));
  const bool keep = node.Int("keepdims", 1) != 0;
  const TensorType& input = node.InputType(0);
  TensorType output = {input.dtype, {}};
  for (size_t d = 0; d < reduced.size(); ++d) {
    if (!reduced[d]) {
      output.shape.push_back(input.shape[d]);
    } else if (keep) {
      output.shape.push_back(1);
    }
  }
  return std::vector<TensorType>{std::move(output)};
}

// True when each result is made of one element.
bool ReducesNothing(const NodeContext& node) {
  const absl::StatusOr<std::vector<bool>> reduced = ReducedDims(node);
  if (!reduced.ok()) return false;
  for (size_t d = 0; d < reduced->size(); ++d) {
    if ((*reduced)[d] && node.InputShape(0)[d] != 1) return false;
  }
  return true;
}

// For the operators whose result for one element is that element.
std::vector<Alias> ViewIfNothingReduced(const NodeContext& node) {
  return ReducesNothing(node) ? rules::ViewOfFirstInput(node) : std::vector<Alias>{};
}

template <Functor kReducer, class ElementTypes>
absl::StatusOr<Lowering> LowerReduce(const NodeContext& node, const Target&) {
  using R = typename decltype(kReducer)::Type;
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedDims(node));
  ASSIGN_OR_RETURN(const ReduceLoops loops, CollapseReduction(node, node.InputShape(0), reduced));
  const DType dtype = node.InputDType(0);
  absl::StatusOr<KernelCall> call =
      loops.innermost_reduced
          ? TypedCallOf(ElementTypes(), node, dtype, "kernels/reduce.h",
                        "kernels::ReduceRows<{T}, {F}>", kReducer.name(),
                        []<class T> { return FunctionOf<&kernels::ReduceRows<T, R>>(); })
          : TypedCallOf(ElementTypes(), node, dtype, "kernels/reduce.h",
                        "kernels::ReduceColumns<{T}, {F}>", kReducer.name(),
                        []<class T> { return FunctionOf<&kernels::ReduceColumns<T, R>>(); });
  RETURN_IF_ERROR(call.status());
  const kernels::ReduceParams& p = loops.params;
  Lowering lowering = OneCall(*std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)});
  if (p.kept_rank == 0) return lowering;
  constexpr auto kSetRows = [](kernels::ReduceParams& part, int32_t begin, int32_t end) {
    part.kept_dims[0] = end - begin;
  };
  int64_t row = loops.innermost_reduced ? 1 : p.inner;
  for (int32_t d = 1; d < p.kept_rank; ++d) row *= p.kept_dims[d];
  ParallelAxis axis = {.extent = p.kept_dims[0],
                       .borders = {},
                       .arg_steps = {p.kept_strides[0], row},
                       .restrict_to = &RestrictTo<kernels::ReduceParams, kSetRows>};
  return InParallel(std::move(lowering), node.InputType(0).NumElements() * kElementWork / 2,
                    {std::move(axis)});
}

template <Functor kReducer, class ElementTypes>
absl::StatusOr<Lowering> LowerReduceOrCopy(const NodeContext& node, const Target& target) {
  if (ReducesNothing(node)) return rules::LowerCopy(node, target);
  return LowerReduce<kReducer, ElementTypes>(node, target);
}

// ---- Gradients

// What rules work with: the gradient and the result with the reduced dimensions kept as 1.
struct Kept {
  Shape input;
  Shape shape;
  int64_t count = 1;  // elements that make one element of the result
  DType dtype = DType::kFloat;
  ValueId dy = kNoValue;
};

absl::StatusOr<Kept> KeepDims(GradientContext& g) {
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedDims(g.context()));
  Kept kept = {.input = g.ShapeOf(g.Input(0)), .shape = {}, .dtype = g.Type(g.Input(0)).dtype};
  for (size_t d = 0; d < reduced.size(); ++d) {
    kept.shape.push_back(reduced[d] ? 1 : kept.input[d]);
    if (reduced[d]) kept.count *= kept.input[d];
  }
  kept.dy = g.ReshapeTo(g.OutputGradient(0), kept.shape);
  return kept;
}

// `value` repeated over the reduced dimensions.
ValueId Spread(GradientContext& g, ValueId value, const Kept& kept) {
  return kept.shape == kept.input ? value : g.Add("Expand", {value, g.Ints(kept.input)});
}

absl::Status SumGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Kept kept, KeepDims(g));
  g.SetInputGradient(0, Spread(g, kept.dy, kept));
  return g.status();
}

absl::Status MeanGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Kept kept, KeepDims(g));
  const double factor = 1.0 / static_cast<double>(kept.count);
  const ValueId scaled =
      kept.count == 1 ? kept.dy : g.Add("Mul", {kept.dy, g.Scalar(factor, kept.dtype)});
  g.SetInputGradient(0, Spread(g, scaled, kept));
  return g.status();
}

absl::Status SumSquareGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Kept kept, KeepDims(g));
  const ValueId twice = g.Add("Mul", {kept.dy, g.Scalar(2, kept.dtype)});
  g.SetInputGradient(0, g.Add("Mul", {g.Input(0), twice}));
  return g.status();
}

absl::Status L1Gradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Kept kept, KeepDims(g));
  g.SetInputGradient(0, g.Add("Mul", {g.Add("Sign", {g.Input(0)}), kept.dy}));
  return g.status();
}

// X / Y; 0 where Y is.
absl::Status L2Gradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Kept kept, KeepDims(g));
  const ValueId y = g.ReshapeTo(g.Output(0), kept.shape);
  const ValueId zero = g.Scalar(0, kept.dtype);
  const ValueId scaled =
      g.Add("Where", {g.Add("Equal", {y, zero}), zero, g.Add("Div", {kept.dy, y})});
  g.SetInputGradient(0, g.Add("Mul", {g.Input(0), scaled}));
  return g.status();
}

// The sum is e^Y.
absl::Status LogSumGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Kept kept, KeepDims(g));
  const ValueId y = g.ReshapeTo(g.Output(0), kept.shape);
  g.SetInputGradient(0, Spread(g, g.Add("Div", {kept.dy, g.Add("Exp", {y})}), kept));
  return g.status();
}

// e^(X - Y).
absl::Status LogSumExpGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Kept kept, KeepDims(g));
  const ValueId y = g.ReshapeTo(g.Output(0), kept.shape);
  const ValueId part = g.Add("Exp", {g.Add("Sub", {g.Input(0), y})});
  g.SetInputGradient(0, g.Add("Mul", {part, kept.dy}));
  return g.status();
}

// The axes that were reduced.
std::vector<int64_t> ReducedAxes(const Kept& kept) {
  std::vector<int64_t> axes;
  for (size_t d = 0; d < kept.shape.size(); ++d) {
    if (kept.shape[d] != kept.input[d]) axes.push_back(static_cast<int64_t>(d));
  }
  return axes;
}

// Adds a gradient operator of dY, X and `more`, all with the reduced dimensions kept.
absl::Status GroupGradient(GradientContext& g, std::string_view op_type, bool reads_output) {
  if (!g.Wants(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Kept kept, KeepDims(g));
  const std::vector<int64_t> axes = ReducedAxes(kept);
  if (axes.empty()) {
    g.SetInputGradient(0, kept.dy);
    return g.status();
  }
  std::vector<ValueId> operands = {kept.dy, g.Input(0)};
  if (reads_output) operands.push_back(g.ReshapeTo(g.Output(0), kept.shape));
  g.SetInputGradient(0, g.Add(op_type, operands, {{"axes", axes}}, kMemplan));
  return g.status();
}

absl::Status ProdGradient(GradientContext& g) { return GroupGradient(g, "ReduceProdGrad", false); }
absl::Status ExtremeGradient(GradientContext& g) {
  return GroupGradient(g, "ReduceExtremeGrad", true);
}

// Attribute axes, by dimension of X.
absl::StatusOr<std::vector<bool>> GroupAxes(const NodeContext& node) {
  std::vector<bool> reduced(node.InputShape(1).size());
  for (int64_t axis : node.Ints("axes", {})) {
    ASSIGN_OR_RETURN(axis, node.NormalizeAxis(axis, node.InputType(1).rank()));
    reduced[static_cast<size_t>(axis)] = true;
  }
  return reduced;
}

// Inputs: dY, X and (ReduceExtremeGrad) Y; dY and Y have 1 in the dimensions of attribute axes.
absl::StatusOr<std::vector<TensorType>> InferGroupGradient(const NodeContext& node) {
  const TensorType& x = node.InputType(1);
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, GroupAxes(node));
  TensorType kept = x;
  for (size_t d = 0; d < reduced.size(); ++d) kept.shape[d] = reduced[d] ? 1 : x.shape[d];
  if (node.InputType(0) != kept || (node.HasInput(2) && node.InputType(2) != kept)) {
    return node.Invalid(absl::StrCat("the gradient and the result must be ", kept.ToString()));
  }
  return std::vector<TensorType>{x};
}

std::vector<Alias> InPlaceSecondInput(const NodeContext&) {
  return {{Alias::Kind::kInPlace, 0, 1, 0}};
}

absl::StatusOr<kernels::ReduceGradParams> GroupLoops(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, GroupAxes(node));
  ASSIGN_OR_RETURN(const ReduceLoops loops, CollapseReduction(node, node.InputShape(1), reduced));
  const kernels::ReduceParams& from = loops.params;
  kernels::ReduceGradParams params = {};
  params.kept_rank = from.kept_rank;
  params.reduced_rank = from.reduced_rank;
  std::copy_n(from.kept_dims, kernels::kMaxRank, params.kept_dims);
  std::copy_n(from.kept_strides, kernels::kMaxRank, params.kept_strides);
  std::copy_n(from.reduced_dims, kernels::kMaxRank, params.reduced_dims);
  std::copy_n(from.reduced_strides, kernels::kMaxRank, params.reduced_strides);
  int32_t& rank = loops.innermost_reduced ? params.reduced_rank : params.kept_rank;
  if (rank == kernels::kMaxRank) return node.Unsupported("kernels take at most 8 dimensions");
  (loops.innermost_reduced ? params.reduced_dims : params.kept_dims)[rank] = from.inner;
  (loops.innermost_reduced ? params.reduced_strides : params.kept_strides)[rank] = 1;
  ++rank;
  return params;
}

absl::StatusOr<Lowering> LowerProdGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const kernels::ReduceGradParams params, GroupLoops(node));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/reduce_gradient.h",
                                "kernels::ReduceProdGrad<{T}>", "", []<class T> {
                                  return FunctionOf<&kernels::ReduceProdGrad<T>>();
                                })));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerExtremeGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const kernels::ReduceGradParams params, GroupLoops(node));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/reduce_gradient.h",
                                "kernels::ReduceExtremeGrad<{T}>", "", []<class T> {
                                  return FunctionOf<&kernels::ReduceExtremeGrad<T>>();
                                })));
  return OneCall(
      std::move(call), params,
      {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2), KernelArg::Output(0)});
}

constexpr OpDef Reduction(std::string_view type,
                          absl::StatusOr<Lowering> (*lower)(const NodeContext&, const Target&),
                          absl::Status (*gradient)(GradientContext&)) {
  return {.type = type,
          .min_inputs = 1,
          .max_inputs = 2,
          .infer = InferReduce,
          .lower = lower,
          .gradient = gradient};
}

constexpr OpDef SelectingReduction(std::string_view type,
                                   absl::StatusOr<Lowering> (*lower)(const NodeContext&,
                                                                     const Target&),
                                   absl::Status (*gradient)(GradientContext&)) {
  OpDef def = Reduction(type, lower, gradient);
  def.aliases = ViewIfNothingReduced;
  return def;
}

}  // namespace

extern const OpDef kReduceSum = SelectingReduction(
    "ReduceSum", LowerReduceOrCopy<KERNEL_FUNCTOR(SumOf), ReduceTypes>, SumGradient);
extern const OpDef kReduceMean = SelectingReduction(
    "ReduceMean", LowerReduceOrCopy<KERNEL_FUNCTOR(MeanOf), ReduceTypes>, MeanGradient);
extern const OpDef kReduceProd = SelectingReduction(
    "ReduceProd", LowerReduceOrCopy<KERNEL_FUNCTOR(ProdOf), ReduceTypes>, ProdGradient);
extern const OpDef kReduceMax = SelectingReduction(
    "ReduceMax", LowerReduceOrCopy<KERNEL_FUNCTOR(MaxOf), ExtremeTypes>, ExtremeGradient);
extern const OpDef kReduceMin = SelectingReduction(
    "ReduceMin", LowerReduceOrCopy<KERNEL_FUNCTOR(MinOf), ExtremeTypes>, ExtremeGradient);
extern const OpDef kReduceL1 =
    Reduction("ReduceL1", LowerReduce<KERNEL_FUNCTOR(L1Of), ReduceTypes>, L1Gradient);
extern const OpDef kReduceL2 =
    Reduction("ReduceL2", LowerReduce<KERNEL_FUNCTOR(L2Of), ReduceTypes>, L2Gradient);
extern const OpDef kReduceLogSum =
    Reduction("ReduceLogSum", LowerReduce<KERNEL_FUNCTOR(LogSumOf), ReduceTypes>, LogSumGradient);
extern const OpDef kReduceLogSumExp = Reduction(
    "ReduceLogSumExp", LowerReduce<KERNEL_FUNCTOR(LogSumExpOf), FloatTypes>, LogSumExpGradient);
extern const OpDef kReduceSumSquare = Reduction(
    "ReduceSumSquare", LowerReduce<KERNEL_FUNCTOR(SumSquareOf), ReduceTypes>, SumSquareGradient);

extern const OpDef kReduceProdGrad = {
    .type = "ReduceProdGrad",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferGroupGradient,
    .aliases = InPlaceSecondInput,
    .lower = LowerProdGrad,
};

extern const OpDef kReduceExtremeGrad = {
    .type = "ReduceExtremeGrad",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferGroupGradient,
    .aliases = InPlaceSecondInput,
    .lower = LowerExtremeGrad,
};

}  // namespace onnx_memplan
