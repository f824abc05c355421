#include "onnx_memplan/tensor.h"

#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

struct DTypeFacts {
  int64_t bytes;
  std::string_view name;
  std::string_view cpp_name;
};

// By DType. Half-precision elements are stored as their 16 bits.
constexpr DTypeFacts kFacts[] = {
    {4, "float", "float"},       {8, "double", "double"},   {2, "float16", "uint16_t"},
    {2, "bfloat16", "uint16_t"}, {1, "int8", "int8_t"},     {2, "int16", "int16_t"},
    {4, "int32", "int32_t"},     {8, "int64", "int64_t"},   {1, "uint8", "uint8_t"},
    {2, "uint16", "uint16_t"},   {4, "uint32", "uint32_t"}, {8, "uint64", "uint64_t"},
    {1, "bool", "bool"},
};

const DTypeFacts& Facts(DType dtype) { return kFacts[static_cast<size_t>(dtype)]; }

// Wide enough for every element type and for the vector loads of any kernel.
constexpr std::align_val_t kDataAlignment{64};

}  // namespace

int64_t DTypeBytes(DType dtype) { return Facts(dtype).bytes; }
std::string_view DTypeName(DType dtype) { return Facts(dtype).name; }
std::string_view DTypeCppName(DType dtype) { return Facts(dtype).cpp_name; }

bool IsFloatingPoint(DType dtype) { return dtype <= DType::kBFloat16; }
bool IsInteger(DType dtype) { return !IsFloatingPoint(dtype) && dtype != DType::kBool; }

std::string ShapeToString(const Shape& shape) {
  return shape.empty() ? "scalar" : absl::StrJoin(shape, "x");
}

std::optional<int64_t> CheckedNumElements(const Shape& shape) {
  bool empty = false;
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    empty |= dim == 0;
    // An empty tensor with absurd other dimensions is still empty.
    if (dim != 0 && __builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  }
  return empty ? 0 : count;
}

int64_t TensorType::NumElements() const {
  const std::optional<int64_t> count = CheckedNumElements(shape);
  MEMPLAN_CHECK_MSG(count.has_value(), ToString());
  return *count;
}

int64_t TensorType::Bytes() const { return NumElements() * DTypeBytes(dtype); }

std::string TensorType::ToString() const {
  return absl::StrCat(std::string(DTypeName(dtype)), " ", ShapeToString(shape));
}

Tensor::Tensor(TensorType type, std::shared_ptr<const std::byte> data)
    : type_(std::move(type)), data_(std::move(data)) {}

Tensor Tensor::Zeros(TensorType type, std::byte** mutable_data) {
  const size_t bytes = static_cast<size_t>(type.Bytes());
  auto* data = static_cast<std::byte*>(::operator new(bytes == 0 ? 1 : bytes, kDataAlignment));
  std::memset(data, 0, bytes);
  *mutable_data = data;
  return Tensor(std::move(type), std::shared_ptr<const std::byte>(data, [](const std::byte* p) {
                  ::operator delete(const_cast<std::byte*>(p), kDataAlignment);
                }));
}

Tensor Tensor::Reshaped(Shape shape) const {
  Tensor result = *this;
  result.type_.shape = std::move(shape);
  MEMPLAN_CHECK(result.NumElements() == NumElements());
  return result;
}

namespace {

template <class T>
std::vector<int64_t> Widen(const Tensor& tensor) {
  const std::span<const T> values = tensor.As<T>();
  std::vector<int64_t> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = static_cast<int64_t>(values[i]);
  return result;
}

}  // namespace

std::optional<std::vector<int64_t>> Tensor::ToInt64s() const {
  switch (dtype()) {
    case DType::kInt8:
      return Widen<int8_t>(*this);
    case DType::kInt16:
      return Widen<int16_t>(*this);
    case DType::kInt32:
      return Widen<int32_t>(*this);
    case DType::kInt64:
      return Widen<int64_t>(*this);
    case DType::kUint8:
      return Widen<uint8_t>(*this);
    case DType::kUint16:
      return Widen<uint16_t>(*this);
    case DType::kUint32:
      return Widen<uint32_t>(*this);
    case DType::kUint64:
      return Widen<uint64_t>(*this);
    case DType::kBool:
      return Widen<bool>(*this);
    default:
      return std::nullopt;
  }
}

bool operator==(const Tensor& a, const Tensor& b) {
  if (a.type_ != b.type_) return false;
  if (a.data_ == b.data_) return true;
  return std::memcmp(a.data(), b.data(), static_cast<size_t>(a.Bytes())) == 0;
}

namespace internal {
void DieWrongElementType(const TensorType& type, DType asked) {
  MEMPLAN_CHECK_MSG(false,
                    absl::StrCat(type.ToString(), " read as ", std::string(DTypeName(asked))));
  __builtin_unreachable();
}
}  // namespace internal

}  // namespace onnx_memplan
