#include "ops/onnx_dtype.h"

namespace onnx_memplan {

// The numbers are those of onnx.proto3, message TensorProto, enum DataType.
std::optional<DType> DTypeOfOnnxNumber(int64_t number) {
  switch (number) {
    case 1:
      return DType::kFloat;
    case 2:
      return DType::kUint8;
    case 3:
      return DType::kInt8;
    case 4:
      return DType::kUint16;
    case 5:
      return DType::kInt16;
    case 6:
      return DType::kInt32;
    case 7:
      return DType::kInt64;
    case 9:
      return DType::kBool;
    case 10:
      return DType::kFloat16;
    case 11:
      return DType::kDouble;
    case 12:
      return DType::kUint32;
    case 13:
      return DType::kUint64;
    case 16:
      return DType::kBFloat16;
    default:
      return std::nullopt;
  }
}

int64_t OnnxNumberOf(DType dtype) {
  for (int64_t number = 1;; ++number) {
    if (DTypeOfOnnxNumber(number) == dtype) return number;
  }
}

}  // namespace onnx_memplan
