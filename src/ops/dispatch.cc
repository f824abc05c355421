#include "ops/dispatch.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace onnx_memplan {

std::string Substitute(std::string_view pattern, std::string_view placeholder,
                       std::string_view type) {
  std::string result;
  for (size_t at; (at = pattern.find(placeholder)) != std::string_view::npos;) {
    result += pattern.substr(0, at);
    result += type;
    pattern.remove_prefix(at + placeholder.size());
  }
  result += pattern;
  return result;
}

absl::StatusOr<int32_t> ToInt32(const NodeContext& node, int64_t value, std::string_view what) {
  if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
    return node.Unsupported(
        absl::StrCat(std::string(what), " is ", value, "; kernels count in 32 bits"));
  }
  return static_cast<int32_t>(value);
}

}  // namespace onnx_memplan
