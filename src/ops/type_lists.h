// Lists of element types, and functors together with their C++ text: what the lowering templates of
// the elementwise and reduction operators are instantiated over.
#ifndef ONNX_MEMPLAN_OPS_TYPE_LISTS_H_
#define ONNX_MEMPLAN_OPS_TYPE_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "ops/dispatch.h"

namespace onnx_memplan {

template <class... Ts>
struct Types {};

using FloatTypes = Types<float, double>;
using SignedTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t>;
using IntegerTypes =
    Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using UnsignedTypes = Types<uint8_t, uint16_t, uint32_t, uint64_t>;
using NumericTypes =
    Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using AllTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                       uint32_t, uint64_t, bool>;
using BoolType = Types<bool>;

// A functor of a kernel header as a template argument, with its name: KERNEL_FUNCTOR(Abs).
template <class F, size_t kSize>
struct Functor {
  using Type = F;
  char text[kSize] = {};

  // `name` ends in a zero.
  explicit constexpr Functor(const char (&name)[kSize]) {
    for (size_t i = 0; i < kSize; ++i) text[i] = name[i];
  }
  constexpr std::string_view name() const { return {text, kSize - 1}; }
};

#define KERNEL_FUNCTOR(F) \
  ::onnx_memplan::Functor<kernels::F, sizeof("kernels::" #F)> { "kernels::" #F }

// TypedCall over a list of types. "{F}" in `pattern` stands for `functor`.
template <class... Ts, class Pick>
absl::StatusOr<KernelCall> TypedCallOf(Types<Ts...>, const NodeContext& node, DType dtype,
                                       std::string_view header, std::string pattern,
                                       std::string_view functor, Pick pick) {
  constexpr std::string_view kPlaceholder = "{F}";
  if (const size_t at = pattern.find(kPlaceholder); at != std::string::npos) {
    pattern.replace(at, kPlaceholder.size(), functor);
  }
  return TypedCall<Ts...>(node, dtype, header, pattern, std::move(pick));
}

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_TYPE_LISTS_H_
