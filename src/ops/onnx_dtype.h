// ONNX's numbers of element types, as attributes like Cast's `to` hold them.
#ifndef ONNX_MEMPLAN_OPS_ONNX_DTYPE_H_
#define ONNX_MEMPLAN_OPS_ONNX_DTYPE_H_

#include <cstdint>
#include <optional>

#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

// The type that TensorProto.DataType `number` names; nullopt for those without a DType (string,
// complex, 8-bit floats and 4-bit types) and for numbers that ONNX does not define.
std::optional<DType> DTypeOfOnnxNumber(int64_t number);
// The other way round.
int64_t OnnxNumberOf(DType dtype);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_ONNX_DTYPE_H_
