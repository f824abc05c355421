// Elementwise operators of one operand.
#include "ops/host_kernels.h"

#include "kernels/unary.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::StatusOr<Lowering> LowerRelu(const NodeContext& node, const Target&) {
  const TensorType& type = node.InputType(0);
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double, int8_t, int32_t, int64_t>(
                       node, type.dtype, "kernels/unary.h", "kernels::Unary<{T}, kernels::Relu>",
                       []<class T> { return FunctionOf<&kernels::Unary<T, kernels::Relu>>(); })));
  kernels::UnaryParams params = {};
  ASSIGN_OR_RETURN(params.count, ToInt32(node, type.NumElements(), "the number of elements"));
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

}  // namespace

extern const OpDef kRelu = {
    .type = "Relu",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = rules::SameTypeAsInput,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerRelu,
};

}  // namespace onnx_memplan
