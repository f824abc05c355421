// The Reduce* operators.
#include "ops/host_kernels.h"

#include "kernels/reduce.h"

#include "ops/families.h"
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
  return OneCall(*std::move(call), loops.params, {KernelArg::Input(0), KernelArg::Output(0)});
}

template <Functor kReducer, class ElementTypes>
absl::StatusOr<Lowering> LowerReduceOrCopy(const NodeContext& node, const Target& target) {
  if (ReducesNothing(node)) return rules::LowerCopy(node, target);
  return LowerReduce<kReducer, ElementTypes>(node, target);
}

constexpr OpDef Reduction(std::string_view type,
                          absl::StatusOr<Lowering> (*lower)(const NodeContext&, const Target&)) {
  return {.type = type, .min_inputs = 1, .max_inputs = 2, .infer = InferReduce, .lower = lower};
}

constexpr OpDef SelectingReduction(std::string_view type,
                                   absl::StatusOr<Lowering> (*lower)(const NodeContext&,
                                                                     const Target&)) {
  OpDef def = Reduction(type, lower);
  def.aliases = ViewIfNothingReduced;
  return def;
}

}  // namespace

extern const OpDef kReduceSum =
    SelectingReduction("ReduceSum", LowerReduceOrCopy<KERNEL_FUNCTOR(SumOf), ReduceTypes>);
extern const OpDef kReduceMean =
    SelectingReduction("ReduceMean", LowerReduceOrCopy<KERNEL_FUNCTOR(MeanOf), ReduceTypes>);
extern const OpDef kReduceProd =
    SelectingReduction("ReduceProd", LowerReduceOrCopy<KERNEL_FUNCTOR(ProdOf), ReduceTypes>);
extern const OpDef kReduceMax =
    SelectingReduction("ReduceMax", LowerReduceOrCopy<KERNEL_FUNCTOR(MaxOf), ExtremeTypes>);
extern const OpDef kReduceMin =
    SelectingReduction("ReduceMin", LowerReduceOrCopy<KERNEL_FUNCTOR(MinOf), ExtremeTypes>);
extern const OpDef kReduceL1 =
    Reduction("ReduceL1", LowerReduce<KERNEL_FUNCTOR(L1Of), ReduceTypes>);
extern const OpDef kReduceL2 =
    Reduction("ReduceL2", LowerReduce<KERNEL_FUNCTOR(L2Of), ReduceTypes>);
extern const OpDef kReduceLogSum =
    Reduction("ReduceLogSum", LowerReduce<KERNEL_FUNCTOR(LogSumOf), ReduceTypes>);
extern const OpDef kReduceLogSumExp =
    Reduction("ReduceLogSumExp", LowerReduce<KERNEL_FUNCTOR(LogSumExpOf), FloatTypes>);
extern const OpDef kReduceSumSquare =
    Reduction("ReduceSumSquare", LowerReduce<KERNEL_FUNCTOR(SumSquareOf), ReduceTypes>);

}  // namespace onnx_memplan
