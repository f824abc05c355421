// Softmax, LogSoftmax and Hardmax.
#include "ops/host_kernels.h"

#include "kernels/softmax.h"

#include "ops/families.h"
#include "ops/reduce_loops.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::StatusOr<std::vector<TensorType>> InferSoftmax(const NodeContext& node) {
  RETURN_IF_ERROR(node.NormalizeAxis(node.Int("axis", -1), node.InputType(0).rank()).status());
  return rules::SameTypeAsInput(node);
}

absl::StatusOr<Lowering> WithSplit(const NodeContext& node, absl::StatusOr<KernelCall> call) {
  RETURN_IF_ERROR(call.status());
  ASSIGN_OR_RETURN(const AxisSplit split,
                   SplitAtAxis(node, node.InputShape(0), node.Int("axis", -1)));
  const kernels::SoftmaxParams params = {split.outer, split.count, split.inner};
  return OneCall(*std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

template <Functor kKind>
absl::StatusOr<Lowering> LowerSoftmax(const NodeContext& node, const Target&) {
  using Kind = typename decltype(kKind)::Type;
  return WithSplit(node, TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/softmax.h",
                                     "kernels::Softmax<{T}, {F}>", kKind.name(), []<class T> {
                                       return FunctionOf<&kernels::Softmax<T, Kind>>();
                                     }));
}

absl::StatusOr<Lowering> LowerHardmax(const NodeContext& node, const Target&) {
  return WithSplit(node, TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/softmax.h",
                                     "kernels::Hardmax<{T}>", "",
                                     []<class T> { return FunctionOf<&kernels::Hardmax<T>>(); }));
}

constexpr OpDef AlongAxis(std::string_view type,
                          absl::StatusOr<Lowering> (*lower)(const NodeContext&, const Target&)) {
  return {.type = type,
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = InferSoftmax,
          .aliases = rules::InPlaceFirstInput,
          .lower = lower};
}

}  // namespace

extern const OpDef kSoftmax = AlongAxis("Softmax", LowerSoftmax<KERNEL_FUNCTOR(SoftmaxOf)>);
extern const OpDef kLogSoftmax =
    AlongAxis("LogSoftmax", LowerSoftmax<KERNEL_FUNCTOR(LogSoftmaxOf)>);
extern const OpDef kHardmax = AlongAxis("Hardmax", LowerHardmax);

}  // namespace onnx_memplan
