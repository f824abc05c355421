// The shared case table: at least one row for every operator. Each row is run, checked against its
// expected outputs, and used for the properties that every operator must have; see
// op_table_test.cc.
//
// To add a family: a header like cases_elementwise.h, and a line in AllCases() of
// all_cases.h.
#ifndef ONNX_MEMPLAN_TESTS_OPS_CASES_H_
#define ONNX_MEMPLAN_TESTS_OPS_CASES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx_memplan/graph.h"
#include "onnx_memplan/tensor.h"

namespace onnx_memplan::cases {

using Attributes = std::map<std::string, Attribute, std::less<>>;

struct OpCase {
  std::string op;
  // nullopt: an omitted input. Copies of one tensor (the same data) become one value of the graph.
  std::vector<std::optional<Tensor>> inputs;
  // One for each output of the node; an omitted output is a default-constructed tensor.
  std::vector<Tensor> expected;
  std::map<std::string, Attribute, std::less<>> attributes = {};
  std::string domain = {};
  // Largest absolute difference to the expected values, relative to the larger of 1 and the value.
  double tolerance = 1e-6;
};

inline Tensor Floats(Shape shape, const std::vector<float>& values) {
  return Tensor::FromVector<float>(std::move(shape), values);
}
inline Tensor Doubles(Shape shape, const std::vector<double>& values) {
  return Tensor::FromVector<double>(std::move(shape), values);
}
inline Tensor Ints(Shape shape, const std::vector<int64_t>& values) {
  return Tensor::FromVector<int64_t>(std::move(shape), values);
}
inline Tensor Int32s(Shape shape, const std::vector<int32_t>& values) {
  return Tensor::FromVector<int32_t>(std::move(shape), values);
}
inline Tensor Int8s(Shape shape, const std::vector<int8_t>& values) {
  return Tensor::FromVector<int8_t>(std::move(shape), values);
}
inline Tensor Uint8s(Shape shape, const std::vector<uint8_t>& values) {
  return Tensor::FromVector<uint8_t>(std::move(shape), values);
}
// Elements 0 and 1.
inline Tensor Bools(Shape shape, const std::vector<int>& values) {
  std::byte* data = nullptr;
  Tensor tensor = Tensor::Zeros({DType::kBool, std::move(shape)}, &data);
  for (size_t i = 0; i < values.size(); ++i) data[i] = static_cast<std::byte>(values[i]);
  return tensor;
}
inline Tensor ScalarFloat(float value) { return Floats({}, {value}); }

// 0.5, -1.5, 2.5, ... (with a sign that alternates), for inputs whose values do not matter.
inline Tensor SomeFloats(Shape shape) {
  std::vector<float> values(static_cast<size_t>(CheckedNumElements(shape).value()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (static_cast<float>(i % 13) + 0.5F) * (i % 2 == 0 ? 1.0F : -1.0F);
  }
  return Floats(std::move(shape), values);
}

}  // namespace onnx_memplan::cases

#endif  // ONNX_MEMPLAN_TESTS_OPS_CASES_H_
