#include "load/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr std::pair<int32_t, DType> kDTypes[] = {
    {onnx::TensorProto::FLOAT, DType::kFloat},     {onnx::TensorProto::DOUBLE, DType::kDouble},
    {onnx::TensorProto::FLOAT16, DType::kFloat16}, {onnx::TensorProto::BFLOAT16, DType::kBFloat16},
    {onnx::TensorProto::INT8, DType::kInt8},       {onnx::TensorProto::INT16, DType::kInt16},
    {onnx::TensorProto::INT32, DType::kInt32},     {onnx::TensorProto::INT64, DType::kInt64},
    {onnx::TensorProto::UINT8, DType::kUint8},     {onnx::TensorProto::UINT16, DType::kUint16},
    {onnx::TensorProto::UINT32, DType::kUint32},   {onnx::TensorProto::UINT64, DType::kUint64},
    {onnx::TensorProto::BOOL, DType::kBool},
};

// Names of the types that have no DType; those after BFLOAT16 are newer than Debian's onnx.proto.
std::string UnsupportedTypeName(int32_t data_type) {
  switch (data_type) {
    case 0:
      return "undefined";
    case 8:
      return "string";
    case 14:
      return "complex64";
    case 15:
      return "complex128";
    case 17:
      return "float8e4m3fn";
    case 18:
      return "float8e4m3fnuz";
    case 19:
      return "float8e5m2";
    case 20:
      return "float8e5m2fnuz";
    case 21:
      return "uint4";
    case 22:
      return "int4";
    case 23:
      return "float4e2m1";
    default:
      return absl::StrCat("number ", data_type);
  }
}

// Bytes of `type`; InvalidArgument for a negative dimension or an overflow.
absl::StatusOr<int64_t> CheckedBytes(const TensorType& type) {
  const std::optional<int64_t> count = CheckedNumElements(type.shape);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, DTypeBytes(type.dtype), &bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the dimensions ", ShapeToString(type.shape), " are not possible"));
  }
  return bytes;
}

absl::Status WrongAmount(const TensorType& type, int64_t present, const char* unit) {
  return absl::InvalidArgumentError(absl::StrCat("a tensor of type ", type.ToString(), " has ",
                                                 present, " ", unit, " of data; it needs ",
                                                 type.NumElements(), " elements"));
}

absl::StatusOr<Tensor> FromRaw(TensorType type, int64_t bytes, std::string raw) {
  if (static_cast<int64_t>(raw.size()) != bytes) {
    return WrongAmount(type, static_cast<int64_t>(raw.size()), "bytes");
  }
  const auto owner = std::make_shared<const std::string>(std::move(raw));
  const auto* data = reinterpret_cast<const std::byte*>(owner->data());
  return Tensor(std::move(type), std::shared_ptr<const std::byte>(owner, data));
}

// Element i of `field` becomes the low bytes of tensor element i.
template <class Field>
absl::StatusOr<Tensor> FromField(TensorType type, const Field& field) {
  if (field.size() != type.NumElements()) return WrongAmount(type, field.size(), "elements");
  const auto width = static_cast<size_t>(DTypeBytes(type.dtype));
  std::byte* data = nullptr;
  Tensor tensor = Tensor::Zeros(std::move(type), &data);
  for (const auto& value : field) {
    std::memcpy(data, &value, width);
    data += width;
  }
  return tensor;
}

absl::StatusOr<Tensor> FromTypedFields(TensorType type, const onnx::TensorProto& proto) {
  switch (type.dtype) {
    case DType::kFloat:
      return FromField(std::move(type), proto.float_data());
    case DType::kDouble:
      return FromField(std::move(type), proto.double_data());
    case DType::kInt64:
      return FromField(std::move(type), proto.int64_data());
    case DType::kUint32:
    case DType::kUint64:
      return FromField(std::move(type), proto.uint64_data());
    default:
      return FromField(std::move(type), proto.int32_data());
  }
}

absl::StatusOr<Tensor> FromExternal(TensorType type, int64_t bytes, const onnx::TensorProto& proto,
                                    ExternalData& external) {
  std::string location;
  int64_t offset = 0;
  int64_t length = bytes;
  for (const auto& entry : proto.external_data()) {
    bool valid = true;
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") valid = absl::SimpleAtoi(entry.value(), &offset);
    if (entry.key() == "length") valid = absl::SimpleAtoi(entry.value(), &length);
    if (!valid) {
      return absl::InvalidArgumentError(absl::StrCat("external data has the ", entry.key(), " '",
                                                     entry.value(), "', which is not a number"));
    }
  }
  if (length != bytes) return WrongAmount(type, length, "bytes");
  ASSIGN_OR_RETURN(std::shared_ptr<const std::byte> data,
                   external.Read(location, offset, bytes, DTypeBytes(type.dtype)));
  return Tensor(std::move(type), std::move(data));
}

absl::StatusOr<Tensor> Convert(const onnx::TensorProto& proto, std::string* raw_data,
                               ExternalData& external) {
  if (proto.has_segment()) return absl::UnimplementedError("segmented tensors are not supported");
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromOnnx(proto.data_type()));
  TensorType type{dtype, Shape(proto.dims().begin(), proto.dims().end())};
  ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(type));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    return FromExternal(std::move(type), bytes, proto, external);
  }
  if (proto.has_raw_data()) {
    if (raw_data != nullptr) return FromRaw(std::move(type), bytes, std::move(*raw_data));
    return FromRaw(std::move(type), bytes, proto.raw_data());
  }
  return FromTypedFields(std::move(type), proto);
}

absl::StatusOr<Tensor> ConvertChecked(const onnx::TensorProto& proto, std::string* raw_data,
                                      ExternalData& external) {
  absl::StatusOr<Tensor> tensor = Convert(proto, raw_data, external);
  if (tensor.ok()) {
    if (absl::Status status = CheckBools(*tensor); !status.ok()) tensor = status;
  }
  if (tensor.ok() || proto.name().empty()) return tensor;
  return absl::Status(
      tensor.status().code(),
      absl::StrCat("tensor '", proto.name(), "': ", std::string(tensor.status().message())));
}

}  // namespace

absl::StatusOr<DType> DTypeFromOnnx(int32_t data_type) {
  for (const auto& [number, dtype] : kDTypes) {
    if (number == data_type) return dtype;
  }
  return absl::UnimplementedError(
      absl::StrCat("element type ", UnsupportedTypeName(data_type), " is not supported"));
}

int32_t DTypeToOnnx(DType dtype) {
  const auto* const it = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                      [&](const auto& pair) { return pair.second == dtype; });
  return it->first;
}

absl::Status CheckBools(const Tensor& tensor) {
  if (tensor.dtype() != DType::kBool) return absl::OkStatus();
  for (int64_t i = 0; i < tensor.Bytes(); ++i) {
    if (std::to_integer<int>(tensor.data()[i]) > 1) {
      return absl::InvalidArgumentError("a tensor of bool holds a byte other than 0 and 1");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorFromProto(onnx::TensorProto&& proto, ExternalData& external) {
  return ConvertChecked(proto, proto.has_raw_data() ? proto.mutable_raw_data() : nullptr, external);
}

absl::StatusOr<Tensor> TensorFromProto(const onnx::TensorProto& proto, ExternalData& external) {
  return ConvertChecked(proto, nullptr, external);
}

}  // namespace onnx_memplan
