#ifndef ONNX_MEMPLAN_LOAD_VALUE_NAMES_H_
#define ONNX_MEMPLAN_LOAD_VALUE_NAMES_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/strings/str_cat.h"

namespace onnx_memplan {

// Names of one graph's values, kept unique in constant time (Graph::UniqueValueName scans).
class ValueNames {
 public:
  // `base` itself, or base_1, base_2, ...: a name that was not handed out before.
  std::string Unique(const std::string& base) {
    const std::string stem = base.empty() ? "value" : base;
    std::string candidate = stem;
    int64_t& next = next_[stem];
    while (next > 0 && next_.contains(candidate)) candidate = absl::StrCat(stem, "_", next++);
    if (next == 0) next = 1;
    next_.try_emplace(candidate, 1);
    return candidate;
  }

 private:
  // A name that was handed out -> the suffix to try next for it.
  std::unordered_map<std::string, int64_t> next_;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_VALUE_NAMES_H_
