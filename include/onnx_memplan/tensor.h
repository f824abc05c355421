// Element types, tensor types, and constant tensors.
#ifndef ONNX_MEMPLAN_TENSOR_H_
#define ONNX_MEMPLAN_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onnx_memplan {

enum class DType : uint8_t {
  kFloat,
  kDouble,
  kFloat16,
  kBFloat16,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kBool,
};

// Bytes of one element in memory; bool takes one byte.
int64_t DTypeBytes(DType dtype);
// ONNX's name in lower case: "float", "int64", ...
std::string_view DTypeName(DType dtype);
// The C++ type of an element in generated code: "float", "int64_t", "bool", ...
std::string_view DTypeCppName(DType dtype);
bool IsFloatingPoint(DType dtype);
bool IsInteger(DType dtype);  // signed or unsigned; not bool

// The DType of a C++ type.
template <class T>
inline constexpr bool kIsElement = false;
template <class T>
inline constexpr DType kDTypeOf = DType::kFloat;
#define ONNX_MEMPLAN_ELEMENT_(type, dtype)       \
  template <>                                    \
  inline constexpr bool kIsElement<type> = true; \
  template <>                                    \
  inline constexpr DType kDTypeOf<type> = DType::dtype
ONNX_MEMPLAN_ELEMENT_(float, kFloat);
ONNX_MEMPLAN_ELEMENT_(double, kDouble);
ONNX_MEMPLAN_ELEMENT_(int8_t, kInt8);
ONNX_MEMPLAN_ELEMENT_(int16_t, kInt16);
ONNX_MEMPLAN_ELEMENT_(int32_t, kInt32);
ONNX_MEMPLAN_ELEMENT_(int64_t, kInt64);
ONNX_MEMPLAN_ELEMENT_(uint8_t, kUint8);
ONNX_MEMPLAN_ELEMENT_(uint16_t, kUint16);
ONNX_MEMPLAN_ELEMENT_(uint32_t, kUint32);
ONNX_MEMPLAN_ELEMENT_(uint64_t, kUint64);
ONNX_MEMPLAN_ELEMENT_(bool, kBool);
#undef ONNX_MEMPLAN_ELEMENT_

using Shape = std::vector<int64_t>;

// "1x3x224x224"; "scalar" for rank 0.
std::string ShapeToString(const Shape& shape);
// Product of the dimensions; nullopt when it does not fit in 63 bits or a dimension is negative.
std::optional<int64_t> CheckedNumElements(const Shape& shape);

struct TensorType {
  DType dtype = DType::kFloat;
  Shape shape;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  // Product of all dimensions; 1 for a scalar. The shape is known to be valid (see Graph::Verify).
  int64_t NumElements() const;
  int64_t Bytes() const;
  // "float 1x3x224x224".
  std::string ToString() const;

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// An immutable tensor in memory, C order, little endian. Copies share the data.
class Tensor {
 public:
  Tensor() = default;
  // `data` keeps alive (or owns) at least type.Bytes() bytes, aligned for the element type.
  Tensor(TensorType type, std::shared_ptr<const std::byte> data);

  // Zero-filled, to be filled through `mutable_data` before it is shared.
  static Tensor Zeros(TensorType type, std::byte** mutable_data);
  template <class T>
  static Tensor FromVector(Shape shape, const std::vector<T>& values);
  static Tensor ScalarInt64(int64_t value) { return FromVector<int64_t>({}, {value}); }
  static Tensor VectorInt64(const std::vector<int64_t>& values) {
    return FromVector<int64_t>({static_cast<int64_t>(values.size())}, values);
  }

  const TensorType& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  int64_t NumElements() const { return type_.NumElements(); }
  int64_t Bytes() const { return type_.Bytes(); }
  const std::byte* data() const { return data_.get(); }
  // The elements; T must be the element type exactly.
  template <class T>
  std::span<const T> As() const;
  // The same bytes under another shape with as many elements.
  Tensor Reshaped(Shape shape) const;
  // Elements as int64 (from any integer type or bool); nullopt for floating point.
  std::optional<std::vector<int64_t>> ToInt64s() const;

  // Equal type and equal bytes.
  friend bool operator==(const Tensor& a, const Tensor& b);

 private:
  TensorType type_;
  std::shared_ptr<const std::byte> data_;
};

namespace internal {
[[noreturn]] void DieWrongElementType(const TensorType& type, DType asked);
}

template <class T>
std::span<const T> Tensor::As() const {
  static_assert(kIsElement<T>);
  if (type_.dtype != kDTypeOf<T>) internal::DieWrongElementType(type_, kDTypeOf<T>);
  return {reinterpret_cast<const T*>(data_.get()), static_cast<size_t>(NumElements())};
}

template <class T>
Tensor Tensor::FromVector(Shape shape, const std::vector<T>& values) {
  std::byte* data = nullptr;
  Tensor tensor = Zeros({kDTypeOf<T>, std::move(shape)}, &data);
  T* out = reinterpret_cast<T*>(data);
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return tensor;
}

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_TENSOR_H_
