// Comparisons and boolean operators of two operands with numpy broadcasting.
#include "ops/host_kernels.h"

#include "kernels/binary.h"
#include "ops/broadcast.h"
#include "ops/families.h"
#include "ops/type_lists.h"

namespace onnx_memplan {
namespace {

template <Functor kFunctor, class ElementTypes>
absl::StatusOr<Lowering> LowerComparison(const NodeContext& node, const Target&) {
  using F = typename decltype(kFunctor)::Type;
  return OneBinaryCall(
      node, TypedCallOf(ElementTypes(), node, node.InputDType(0), "kernels/binary.h",
                        "kernels::Binary<{T}, {T}, bool, {F}>", kFunctor.name(),
                        []<class T> { return FunctionOf<&kernels::Binary<T, T, bool, F>>(); }));
}

constexpr OpDef Comparison(std::string_view type,
                           absl::StatusOr<Lowering> (*lower)(const NodeContext&, const Target&)) {
  return {.type = type,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = InferComparison,
          .aliases = InPlaceUnbroadcast,
          .lower = lower,
          .gradient = rules::ZeroGradient};
}

}  // namespace

#define COMPARISON(Name, F, ElementTypes) \
  extern const OpDef k##Name = Comparison(#Name, LowerComparison<KERNEL_FUNCTOR(F), ElementTypes>)
COMPARISON(Equal, Equal, AllTypes);
COMPARISON(Greater, Greater, NumericTypes);
COMPARISON(GreaterOrEqual, GreaterOrEqual, NumericTypes);
COMPARISON(Less, Less, NumericTypes);
COMPARISON(LessOrEqual, LessOrEqual, NumericTypes);
COMPARISON(And, LogicalAnd, BoolType);
COMPARISON(Or, LogicalOr, BoolType);
COMPARISON(Xor, LogicalXor, BoolType);
#undef COMPARISON

}  // namespace onnx_memplan
