// Helpers for the `lower` functions of operators. Include host_kernels.h and the kernel headers
// before this where their parameter structs are used.
#ifndef ONNX_MEMPLAN_OPS_DISPATCH_H_
#define ONNX_MEMPLAN_OPS_DISPATCH_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "ops/kernel_call.h"
#include "ops/node_context.h"

namespace onnx_memplan {

// Every `placeholder` of `pattern` replaced by `type`.
std::string Substitute(std::string_view pattern, std::string_view placeholder,
                       std::string_view type);

// A call of the kernel template in `header` for the element type `dtype`, one of Ts. `pattern` is
// the C++ text of what `pick.template operator()<T>()` returns FunctionOf<>: keep the two on
// adjacent lines. Unimplemented, naming the supported types, for another type.
//
//   TypedCall<float, int32_t>(node, dtype, "kernels/unary.h", "kernels::Unary<{T}, kernels::Neg>",
//                             []<class T> { return FunctionOf<&kernels::Unary<T, kernels::Neg>>();
//                             })
template <class... Ts, class Pick>
absl::StatusOr<KernelCall> TypedCall(const NodeContext& node, DType dtype, std::string_view header,
                                     std::string_view pattern, Pick pick) {
  KernelCall call;
  call.header = header;
  bool found = false;
  const auto try_type = [&]<class T>() {
    if (found || dtype != kDTypeOf<T>) return;
    found = true;
    call.name = Substitute(pattern, "{T}", DTypeCppName(dtype));
    call.function = pick.template operator()<T>();
  };
  (try_type.template operator()<Ts>(), ...);
  if (found) return call;
  std::string supported;
  ((supported += std::string(supported.empty() ? "" : ", ") + std::string(DTypeName(kDTypeOf<Ts>))),
   ...);
  return node.Unsupported("no kernel for element type " + std::string(DTypeName(dtype)) +
                          "; supported are " + supported);
}

// The Lowering with this one call.
template <class Params>
Lowering OneCall(KernelCall call, const Params& params, std::vector<KernelArg> args) {
  call.params = MakeParams(params);
  call.args = std::move(args);
  Lowering lowering;
  lowering.calls.push_back(std::move(call));
  return lowering;
}

// `value` as a kernel parameter; kernels count in int32_t. Unimplemented when it does not fit.
absl::StatusOr<int32_t> ToInt32(const NodeContext& node, int64_t value, std::string_view what);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_DISPATCH_H_
