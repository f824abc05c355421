// Tensors as ONNX stores them.
#ifndef ONNX_MEMPLAN_LOAD_TENSOR_PROTO_H_
#define ONNX_MEMPLAN_LOAD_TENSOR_PROTO_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "load/external_data.h"
#include "onnx/onnx_pb.h"
#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

// Unimplemented, with the type's name, for element types that are no DType (string, complex, ...).
absl::StatusOr<DType> DTypeFromOnnx(int32_t data_type);
// The value of TensorProto::DataType.
int32_t DTypeToOnnx(DType dtype);

// A byte other than 0 and 1 is no bool, and reading one is undefined behaviour: InvalidArgument.
absl::Status CheckBools(const Tensor& tensor);

// The tensor. `proto` may give up its raw data instead of copying it. InvalidArgument when the
// amount of data does not fit the shape.
absl::StatusOr<Tensor> TensorFromProto(onnx::TensorProto&& proto, ExternalData& external);
absl::StatusOr<Tensor> TensorFromProto(const onnx::TensorProto& proto, ExternalData& external);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_TENSOR_PROTO_H_
