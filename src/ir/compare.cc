#include "onnx_memplan/compare.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace onnx_memplan {
namespace {

template <class T>
Difference Compare(const Tensor& actual, const Tensor& expected) {
  Difference result;
  const std::span<const T> a = actual.As<T>();
  const std::span<const T> b = expected.As<T>();
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]);
    const double y = static_cast<double>(b[i]);
    if (std::isfinite(y)) result.scale = std::max(result.scale, std::abs(y));
    if (a[i] == b[i] || (std::isnan(x) && std::isnan(y))) continue;
    const double difference = std::abs(x - y);
    result.largest = std::isnan(difference) ? INFINITY : std::max(result.largest, difference);
  }
  return result;
}

}  // namespace

absl::StatusOr<Difference> CompareTensors(const Tensor& actual, const Tensor& expected) {
  if (actual.type() != expected.type()) {
    return absl::InvalidArgumentError(absl::StrCat("the result is ", actual.type().ToString(),
                                                   ", expected is ", expected.type().ToString()));
  }
  switch (actual.dtype()) {
    case DType::kFloat:
      return Compare<float>(actual, expected);
    case DType::kDouble:
      return Compare<double>(actual, expected);
    case DType::kInt8:
      return Compare<int8_t>(actual, expected);
    case DType::kInt16:
      return Compare<int16_t>(actual, expected);
    case DType::kInt32:
      return Compare<int32_t>(actual, expected);
    case DType::kInt64:
      return Compare<int64_t>(actual, expected);
    case DType::kUint8:
      return Compare<uint8_t>(actual, expected);
    case DType::kUint16:
      return Compare<uint16_t>(actual, expected);
    case DType::kUint32:
      return Compare<uint32_t>(actual, expected);
    case DType::kUint64:
      return Compare<uint64_t>(actual, expected);
    case DType::kBool:
      return Compare<bool>(actual, expected);
    case DType::kFloat16:
    case DType::kBFloat16:
      break;
  }
  return absl::UnimplementedError(
      absl::StrCat("tensors of type ", actual.type().ToString(), " cannot be compared"));
}

}  // namespace onnx_memplan
