// Tensors in files of their own, and as text.
#ifndef ONNX_MEMPLAN_LOAD_TENSOR_FILE_H_
#define ONNX_MEMPLAN_LOAD_TENSOR_FILE_H_

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

// NumPy's .npy format, versions 1 to 3, C order, little endian.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
absl::StatusOr<Tensor> TensorFromNpy(std::span<const std::byte> bytes);
// A serialised onnx::TensorProto.
absl::StatusOr<Tensor> TensorFromSerializedProto(std::span<const std::byte> bytes);

// Numbers as a user writes them (see Binding in load.h), as a tensor of `dtype`: rank 0 for one
// number without brackets, else rank 1.
absl::StatusOr<Tensor> TensorFromText(const std::string& text, DType dtype);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_TENSOR_FILE_H_
