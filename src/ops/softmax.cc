// Softmax, LogSoftmax and Hardmax, and the gradient operators (dY, Y) -> dX of the former two:
// com.microsoft's SoftmaxGrad_13 and LogSoftmaxGrad_13, and the older SoftmaxGrad and
// LogSoftmaxGrad, whose lines are all axes from `axis` on, as of Softmax before opset 13.
#include "ops/host_kernels.h"

#include "kernels/softmax.h"

#include "kernels/softmax_gradient.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/parallel_axis.h"
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
  constexpr int64_t kSoftmaxWork = 4 * kElementWork;
  const int64_t line = int64_t{split.count} * split.inner;
  return InParallel(OneCall(*std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)}),
                    split.outer * line * kSoftmaxWork,
                    {AxisOf<&kernels::SoftmaxParams::outer>(params, 1, {line, line})});
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

absl::StatusOr<std::vector<TensorType>> InferGradient(const NodeContext& node) {
  if (node.InputType(0) != node.InputType(1)) {
    return node.Invalid("the gradient and the result must be of one type");
  }
  return InferSoftmax(node);
}

template <Functor kSlope, bool kLegacy>
absl::StatusOr<Lowering> LowerGradient(const NodeContext& node, const Target&) {
  using Slope = typename decltype(kSlope)::Type;
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/softmax_gradient.h",
                               "kernels::SoftmaxGrad<{T}, {F}>", kSlope.name(), []<class T> {
                                 return FunctionOf<&kernels::SoftmaxGrad<T, Slope>>();
                               }));
  ASSIGN_OR_RETURN(AxisSplit split,
                   SplitAtAxis(node, node.InputShape(0), node.Int("axis", kLegacy ? 1 : -1)));
  if (kLegacy) {
    split.count *= split.inner;
    split.inner = 1;
  }
  const kernels::SoftmaxParams params = {split.outer, split.count, split.inner};
  const int64_t line = int64_t{split.count} * split.inner;
  return InParallel(OneCall(std::move(call), params,
                            {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)}),
                    split.outer * line * kElementWork,
                    {AxisOf<&kernels::SoftmaxParams::outer>(params, 1, {line, line, line})});
}

std::vector<Alias> InPlaceGradient(const NodeContext&) {
  return {{Alias::Kind::kInPlace, 0, 0, 0}, {Alias::Kind::kInPlace, 0, 1, 0}};
}

// The operator of the same name with "Grad_13".
absl::Status SoftmaxGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  const std::string op_type = g.node().op_type + "Grad_13";
  g.SetInputGradient(
      0, g.Add(op_type, {g.OutputGradient(0), g.Output(0)}, g.node().attributes, kMicrosoft));
  return g.status();
}

template <Functor kSlope, bool kLegacy>
constexpr OpDef GradientOf(std::string_view type) {
  return {.type = type,
          .domain = kMicrosoft,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = InferGradient,
          .aliases = InPlaceGradient,
          .lower = LowerGradient<kSlope, kLegacy>};
}

constexpr OpDef AlongAxis(std::string_view type,
                          absl::StatusOr<Lowering> (*lower)(const NodeContext&, const Target&),
                          absl::Status (*gradient)(GradientContext&)) {
  return {.type = type,
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = InferSoftmax,
          .aliases = rules::InPlaceFirstInput,
          .lower = lower,
          .gradient = gradient};
}

}  // namespace

extern const OpDef kSoftmax =
    AlongAxis("Softmax", LowerSoftmax<KERNEL_FUNCTOR(SoftmaxOf)>, SoftmaxGradient);
extern const OpDef kLogSoftmax =
    AlongAxis("LogSoftmax", LowerSoftmax<KERNEL_FUNCTOR(LogSoftmaxOf)>, SoftmaxGradient);
extern const OpDef kHardmax = AlongAxis("Hardmax", LowerHardmax, rules::ZeroGradient);

extern const OpDef kSoftmaxGrad13 =
    GradientOf<KERNEL_FUNCTOR(SoftmaxSlope), false>("SoftmaxGrad_13");
extern const OpDef kLogSoftmaxGrad13 =
    GradientOf<KERNEL_FUNCTOR(LogSoftmaxSlope), false>("LogSoftmaxGrad_13");
extern const OpDef kSoftmaxGrad = GradientOf<KERNEL_FUNCTOR(SoftmaxSlope), true>("SoftmaxGrad");
extern const OpDef kLogSoftmaxGrad =
    GradientOf<KERNEL_FUNCTOR(LogSoftmaxSlope), true>("LogSoftmaxGrad");

}  // namespace onnx_memplan
