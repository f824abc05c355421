// How far two tensors are apart.
#ifndef ONNX_MEMPLAN_COMPARE_H_
#define ONNX_MEMPLAN_COMPARE_H_

#include "absl/status/statusor.h"
#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

struct Difference {
  // Largest |actual - expected|; infinite where one is NaN or infinite and the other is not the
  // same.
  double largest = 0;
  // Largest finite |expected|.
  double scale = 0;
};

// InvalidArgument when the types or shapes differ, Unimplemented for half-precision elements.
absl::StatusOr<Difference> CompareTensors(const Tensor& actual, const Tensor& expected);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_COMPARE_H_
