#include "ops/kernel_call.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "support/check.h"

namespace onnx_memplan {
namespace internal {

std::string CppLiteral(int32_t value) {
  // -2147483648 is not a literal but a negated one that does not fit.
  if (value == std::numeric_limits<int32_t>::min()) return "(-2147483647 - 1)";
  return absl::StrCat(value);
}

std::string CppLiteral(int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807LL - 1)";
  return absl::StrCat(value, "LL");
}

std::string CppLiteral(uint32_t value) { return absl::StrCat(value, "U"); }

std::string CppLiteral(float value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  // Nine significant digits name every float.
  std::string text = absl::StrFormat("%.9g", static_cast<double>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "F";
}

std::string CppLiteral(double value) {
  if (std::isnan(value)) return "static_cast<double>(NAN)";
  if (std::isinf(value)) {
    return value > 0 ? "static_cast<double>(INFINITY)" : "-static_cast<double>(INFINITY)";
  }
  std::string text = absl::StrFormat("%.17g", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace internal

void InvokeOnHost(const KernelCall& call, std::span<const std::byte* const> inputs,
                  std::span<std::byte* const> outputs, std::byte* scratch) {
  MEMPLAN_CHECK_MSG(call.args.size() == call.function.arg_types.size(), call.name);
  std::vector<void*> args(call.args.size(), nullptr);
  for (size_t i = 0; i < call.args.size(); ++i) {
    const KernelArg arg = call.args[i];
    const auto index = static_cast<size_t>(arg.index);
    // Kernels take inputs and constants by pointer to const; the cast is undone in the thunk.
    switch (arg.kind) {
      case KernelArg::Kind::kInput:
        args[i] = const_cast<std::byte*>(inputs[index]);
        break;
      case KernelArg::Kind::kOutput:
        args[i] = outputs[index];
        break;
      case KernelArg::Kind::kConstant:
        args[i] = const_cast<std::byte*>(call.constants[index].data());
        break;
      case KernelArg::Kind::kScratch:
        args[i] = scratch + index;
        break;
      case KernelArg::Kind::kNull:
        break;
    }
  }
  if (call.parts.empty()) call.function.invoke(call.params.bytes.data(), args.data());
  for (const CallPart& part : call.parts) {
    std::vector<void*> moved = args;
    for (size_t i = 0; i < moved.size(); ++i) {
      if (moved[i] != nullptr) moved[i] = static_cast<std::byte*>(moved[i]) + part.arg_offsets[i];
    }
    call.function.invoke(part.params.bytes.data(), moved.data());
  }
}

}  // namespace onnx_memplan
