// A call of a kernel as data: the same value is run on the host (constant folding, replay) and
// printed as C++ (generated code), so that what is tested is what is emitted.
#ifndef ONNX_MEMPLAN_OPS_KERNEL_CALL_H_
#define ONNX_MEMPLAN_OPS_KERNEL_CALL_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

// A kernel function `void F(const Params&, pointers...)`, made by FunctionOf.
struct KernelFunction {
  // Calls F with *params and args[0], args[1], ... cast to its pointer types.
  void (*invoke)(const void* params, void* const* args) = nullptr;
  // The pointer types as C++ text ("const float*"), one for each argument after the parameters.
  std::span<const std::string_view> arg_types;
  // Bytes of what these point to; 1 for void.
  std::span<const int64_t> element_bytes;
};

// The parameters of one call: the struct's bytes for the host, an initialiser for generated code.
struct KernelParams {
  std::string type_name;    // "kernels::UnaryParams"
  std::string initializer;  // "{/*count=*/12, /*alpha=*/0x1p-2F}"
  std::vector<std::byte> bytes;
};

struct KernelArg {
  enum class Kind : uint8_t {
    kInput,     // the node's input `index`
    kOutput,    // the node's output `index`
    kConstant,  // KernelCall::constants[index]
    kScratch,   // byte `index` of the node's scratch
    kNull,      // an omitted optional operand: nullptr
  };
  Kind kind = Kind::kNull;
  int32_t index = 0;

  static KernelArg Input(int32_t i) { return {Kind::kInput, i}; }
  static KernelArg Output(int32_t i) { return {Kind::kOutput, i}; }
  static KernelArg Constant(int32_t i) { return {Kind::kConstant, i}; }
  static KernelArg Scratch(int32_t byte_offset = 0) { return {Kind::kScratch, byte_offset}; }
  static KernelArg Null() { return {}; }
  friend bool operator==(const KernelArg&, const KernelArg&) = default;
};

// An axis of a call's work of which every index can be computed by itself: the call does the same,
// bit for bit, as calls for consecutive ranges of the axis, in whatever order or at the same time.
struct ParallelAxis {
  int32_t extent = 0;
  // Ranges begin at multiples of this (tiles of the kernel, lanes of its vectors) or, where
  // `borders` says so, at one of these: 0 first, then ascending.
  int32_t unit = 1;
  std::vector<int32_t> borders;
  // By argument: how many elements it moves from one index to the next.
  std::vector<int64_t> arg_steps;
  // The parameters for the range [begin, end) of those for all.
  KernelParams (*restrict_to)(const KernelParams& all, int32_t begin, int32_t end) = nullptr;
};

// One of the calls that a call was split into.
struct CallPart {
  KernelParams params;
  // By argument: bytes to add to its address.
  std::vector<int64_t> arg_offsets;
};

struct KernelCall {
  std::string header;  // below codegen/: "kernels/unary.h"
  std::string name;    // with template arguments: "kernels::Unary<float, kernels::Relu>"
  KernelFunction function;
  KernelParams params;
  std::vector<KernelArg> args;
  // Constants that lowering made for this call (packed weights, tables).
  std::vector<Tensor> constants;
  // The axes by which the call may be shared out to threads, the best one first. None: it may not.
  std::vector<ParallelAxis> axes = {};
  // About how many multiply-adds the call takes, for a choice whether to share it out.
  int64_t work = 0;
  // Bytes that the scratch argument which the kernel writes needs for each thread: the last ones of
  // the node's scratch.
  int64_t own_scratch_bytes = 0;
  // What the call is run as, at the same time (SplitCall). Empty: as a whole.
  std::vector<CallPart> parts = {};
};

// All that a node does at run time. No calls: nothing to run (every output is a view).
struct Lowering {
  std::vector<KernelCall> calls;
  // Working memory shared by the calls, from the kernels' constexpr scratch-size functions.
  int64_t scratch_bytes = 0;
  // Multiply-accumulates, for the report; 0 for operators that have none.
  int64_t macs = 0;
  // The element type of the scratch decides its alignment; 0 without scratch.
  int64_t scratch_alignment = 0;
};

namespace internal {

template <class T>
constexpr std::string_view ArgTypeName();

#define ONNX_MEMPLAN_ARG_TYPE_(T)                      \
  template <>                                          \
  constexpr std::string_view ArgTypeName<T*>() {       \
    return #T "*";                                     \
  }                                                    \
  template <>                                          \
  constexpr std::string_view ArgTypeName<const T*>() { \
    return "const " #T "*";                            \
  }
ONNX_MEMPLAN_ARG_TYPE_(float)
ONNX_MEMPLAN_ARG_TYPE_(double)
ONNX_MEMPLAN_ARG_TYPE_(int8_t)
ONNX_MEMPLAN_ARG_TYPE_(int16_t)
ONNX_MEMPLAN_ARG_TYPE_(int32_t)
ONNX_MEMPLAN_ARG_TYPE_(int64_t)
ONNX_MEMPLAN_ARG_TYPE_(uint8_t)
ONNX_MEMPLAN_ARG_TYPE_(uint16_t)
ONNX_MEMPLAN_ARG_TYPE_(uint32_t)
ONNX_MEMPLAN_ARG_TYPE_(uint64_t)
ONNX_MEMPLAN_ARG_TYPE_(bool)
ONNX_MEMPLAN_ARG_TYPE_(void)
#undef ONNX_MEMPLAN_ARG_TYPE_

template <class T>
constexpr int64_t ElementBytes() {
  if constexpr (std::is_void_v<T>) {
    return 1;
  } else {
    return sizeof(T);
  }
}

template <auto F>
struct KernelThunk;

template <class Params, class... Args, void (*F)(const Params&, Args...)>
struct KernelThunk<F> {
  static constexpr std::string_view kArgTypes[] = {ArgTypeName<Args>()...};
  static constexpr int64_t kElementBytes[] = {ElementBytes<std::remove_pointer_t<Args>>()...};

  static void Invoke(const void* params, void* const* args) {
    Call(*static_cast<const Params*>(params), args, std::index_sequence_for<Args...>());
  }
  template <size_t... I>
  static void Call(const Params& params, void* const* args, std::index_sequence<I...>) {
    F(params, static_cast<Args>(args[I])...);
  }
};

// Prints scalars so that they read back bit for bit.
std::string CppLiteral(int32_t value);
std::string CppLiteral(int64_t value);
std::string CppLiteral(uint32_t value);
std::string CppLiteral(float value);
std::string CppLiteral(double value);

template <class T, size_t N>
std::string CppLiteral(const T (&values)[N]) {
  std::string text = "{";
  for (size_t i = 0; i < N; ++i) text += (i == 0 ? "" : ", ") + CppLiteral(values[i]);
  return text + "}";
}

}  // namespace internal

template <auto F>
constexpr KernelFunction FunctionOf() {
  using Thunk = internal::KernelThunk<F>;
  return {&Thunk::Invoke, Thunk::kArgTypes, Thunk::kElementBytes};
}

// Params: a plain struct of a kernel header, followed there by MEMPLAN_FIELDS.
template <class Params>
KernelParams MakeParams(const Params& params) {
  KernelParams result;
  result.type_name = ParamsTypeName(params);
  result.initializer = "{";
  VisitFields(params, [&](const char* name, const auto& value) {
    if (result.initializer.size() > 1) result.initializer += ", ";
    result.initializer += std::string("/*") + name + "=*/" + internal::CppLiteral(value);
  });
  result.initializer += "}";
  const auto* bytes = reinterpret_cast<const std::byte*>(&params);
  result.bytes.assign(bytes, bytes + sizeof(Params));
  return result;
}

// Runs `call` on the host, its parts one after the other. `inputs` and `outputs` are the node's
// (nullptr where omitted); `scratch` has the node's scratch_bytes.
void InvokeOnHost(const KernelCall& call, std::span<const std::byte* const> inputs,
                  std::span<std::byte* const> outputs, std::byte* scratch);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_KERNEL_CALL_H_
