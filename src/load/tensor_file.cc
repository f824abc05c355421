#include "load/tensor_file.h"

#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/stubs/logging.h"
#include "load/tensor_proto.h"
#include "onnx_memplan/load.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::Status NpyError(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("not a .npy file: ", std::string(what)));
}

// NumPy's type strings; '|' and '<' mean the same for one byte.
std::optional<DType> DTypeFromNumpy(std::string_view descr) {
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"<f4", DType::kFloat},  {"<f8", DType::kDouble}, {"<f2", DType::kFloat16},
      {"|i1", DType::kInt8},   {"<i1", DType::kInt8},   {"<i2", DType::kInt16},
      {"<i4", DType::kInt32},  {"<i8", DType::kInt64},  {"|u1", DType::kUint8},
      {"<u1", DType::kUint8},  {"<u2", DType::kUint16}, {"<u4", DType::kUint32},
      {"<u8", DType::kUint64}, {"|b1", DType::kBool},
  };
  for (const auto& [name, dtype] : kNames) {
    if (name == descr) return dtype;
  }
  return std::nullopt;
}

// The text behind 'key': in the header, which is a Python dictionary; empty when it is not there.
std::string_view AfterKey(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  const size_t start = header.find_first_not_of(": ", at + key.size());
  return start == std::string_view::npos ? std::string_view() : header.substr(start);
}

std::optional<std::string_view> Between(std::string_view text, char open, char close) {
  if (text.empty() || text[0] != open) return std::nullopt;
  const size_t end = text.find(close, 1);
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(1, end - 1);
}

absl::StatusOr<TensorType> ParseNpyHeader(std::string_view header) {
  const std::optional<std::string_view> descr = Between(AfterKey(header, "'descr'"), '\'', '\'');
  const std::optional<std::string_view> dims = Between(AfterKey(header, "'shape'"), '(', ')');
  if (!descr || !dims) return NpyError("its header names no type or shape");
  const std::optional<DType> dtype = DTypeFromNumpy(*descr);
  if (!dtype) {
    return absl::UnimplementedError(
        absl::StrCat("element type '", std::string(*descr), "' of the .npy file is not supported"));
  }
  if (AfterKey(header, "'fortran_order'").substr(0, 5) != "False") {
    return absl::UnimplementedError(
        "the .npy file is in Fortran order; save numpy.ascontiguousarray(x)");
  }
  TensorType type{*dtype, {}};
  for (absl::string_view part :
       absl::StrSplit(absl::string_view(dims->data(), dims->size()), ',')) {
    part = absl::StripAsciiWhitespace(part);
    if (part.empty()) continue;
    int64_t dim = 0;
    if (!absl::SimpleAtoi(part, &dim) || dim < 0) return NpyError("its shape has no numbers");
    type.shape.push_back(dim);
  }
  return type;
}

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("'", path, "': ", std::string(status.message())));
}

template <class T>
absl::StatusOr<Tensor> ParseNumbers(const std::vector<std::string>& parts, Shape shape) {
  std::vector<T> values;
  for (const std::string& part : parts) {
    bool valid = false;
    T value{};
    if constexpr (std::is_same_v<T, float>) {
      valid = absl::SimpleAtof(part, &value);
    } else if constexpr (std::is_same_v<T, double>) {
      valid = absl::SimpleAtod(part, &value);
    } else if constexpr (std::is_same_v<T, bool>) {
      valid = absl::SimpleAtob(part, &value);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      valid = absl::SimpleAtoi(part, &value);
    } else {
      int64_t wide = 0;
      valid = absl::SimpleAtoi(part, &wide) &&
              wide >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
              wide <= static_cast<int64_t>(std::numeric_limits<T>::max());
      value = static_cast<T>(wide);
    }
    if (!valid) {
      return absl::InvalidArgumentError(absl::StrCat("'", part, "' is not a value of type ",
                                                     std::string(DTypeName(kDTypeOf<T>))));
    }
    values.push_back(value);
  }
  return Tensor::FromVector<T>(std::move(shape), values);
}

}  // namespace

absl::StatusOr<Tensor> TensorFromNpy(std::span<const std::byte> bytes) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < 12 || text.substr(0, kMagic.size()) != kMagic) {
    return NpyError("it does not start with NumPy's magic bytes");
  }
  const int version = std::to_integer<int>(bytes[6]);
  if (version < 1 || version > 3) return NpyError("unknown version");
  size_t header_bytes = std::to_integer<size_t>(bytes[8]) | std::to_integer<size_t>(bytes[9]) << 8;
  size_t start = 10;
  if (version > 1) {
    header_bytes |= std::to_integer<size_t>(bytes[10]) << 16 | std::to_integer<size_t>(bytes[11])
                                                                   << 24;
    start = 12;
  }
  if (header_bytes > bytes.size() - start) return NpyError("its header is cut off");
  ASSIGN_OR_RETURN(TensorType type, ParseNpyHeader(text.substr(start, header_bytes)));
  const size_t present = bytes.size() - start - header_bytes;
  const std::optional<int64_t> count = CheckedNumElements(type.shape);
  int64_t needed = 0;
  if (!count || __builtin_mul_overflow(*count, DTypeBytes(type.dtype), &needed) ||
      static_cast<size_t>(needed) != present) {
    return NpyError(
        absl::StrCat("it has ", present, " bytes of data, which is not a ", type.ToString()));
  }
  std::byte* data = nullptr;
  Tensor tensor = Tensor::Zeros(std::move(type), &data);
  std::memcpy(data, bytes.data() + start + header_bytes, present);
  RETURN_IF_ERROR(CheckBools(tensor));
  return tensor;
}

absl::StatusOr<Tensor> TensorFromSerializedProto(std::span<const std::byte> bytes) {
  const google::protobuf::LogSilencer silencer;
  onnx::TensorProto proto;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError("not a serialised TensorProto");
  }
  ExternalData external("");
  return TensorFromProto(std::move(proto), external);
}

absl::StatusOr<Tensor> TensorFromText(const std::string& text, DType dtype) {
  absl::string_view body = absl::StripAsciiWhitespace(text);
  const bool has_brackets = absl::ConsumePrefix(&body, "[");
  if (has_brackets && !absl::ConsumeSuffix(&body, "]")) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' has no closing bracket"));
  }
  std::vector<std::string> parts;
  if (!absl::StripAsciiWhitespace(body).empty()) {
    for (absl::string_view part : absl::StrSplit(body, ',')) {
      parts.emplace_back(absl::StripAsciiWhitespace(part));
    }
  }
  Shape shape;
  if (has_brackets || parts.size() != 1) shape = {static_cast<int64_t>(parts.size())};
  switch (dtype) {
    case DType::kFloat:
      return ParseNumbers<float>(parts, std::move(shape));
    case DType::kDouble:
      return ParseNumbers<double>(parts, std::move(shape));
    case DType::kInt8:
      return ParseNumbers<int8_t>(parts, std::move(shape));
    case DType::kInt16:
      return ParseNumbers<int16_t>(parts, std::move(shape));
    case DType::kInt32:
      return ParseNumbers<int32_t>(parts, std::move(shape));
    case DType::kInt64:
      return ParseNumbers<int64_t>(parts, std::move(shape));
    case DType::kUint8:
      return ParseNumbers<uint8_t>(parts, std::move(shape));
    case DType::kUint16:
      return ParseNumbers<uint16_t>(parts, std::move(shape));
    case DType::kUint32:
      return ParseNumbers<uint32_t>(parts, std::move(shape));
    case DType::kUint64:
      return ParseNumbers<uint64_t>(parts, std::move(shape));
    case DType::kBool:
      return ParseNumbers<bool>(parts, std::move(shape));
    case DType::kFloat16:
    case DType::kBFloat16:
      break;
  }
  return absl::UnimplementedError(
      absl::StrCat("values of type ", std::string(DTypeName(dtype)),
                   " cannot be written as text; pass a .npy or .pb file"));
}

absl::StatusOr<Tensor> ReadTensorFile(const std::string& path) {
  const bool is_npy = absl::EndsWith(path, ".npy");
  if (!is_npy && !absl::EndsWith(path, ".pb")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "': a tensor file ends in .npy or .pb"));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  absl::StatusOr<Tensor> tensor =
      is_npy ? TensorFromNpy(file->bytes()) : TensorFromSerializedProto(file->bytes());
  if (!tensor.ok()) return InFile(path, tensor.status());
  return tensor;
}

}  // namespace onnx_memplan
