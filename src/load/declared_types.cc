#include "load/declared_types.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "load/tensor_proto.h"

namespace onnx_memplan {
namespace {

// A parser by recursive descent: a sum of products of factors. Once `failed`, it only runs out.
class DimensionParser {
 public:
  DimensionParser(std::string_view text, const SymbolSizes& symbols)
      : text_(text), symbols_(symbols) {}

  std::optional<int64_t> Parse() {
    const int64_t value = Sum();
    SkipSpace();
    if (failed_ || at_ < text_.size() || value < 0) return std::nullopt;
    return value;
  }

 private:
  static constexpr int kMaxDepth = 50;

  int64_t Sum() {
    int64_t value = Product();
    while (!failed_) {
      if (Take('+')) {
        failed_ |= __builtin_add_overflow(value, Product(), &value);
      } else if (Take('-')) {
        failed_ |= __builtin_sub_overflow(value, Product(), &value);
      } else {
        break;
      }
    }
    return value;
  }

  int64_t Product() {
    int64_t value = Factor();
    while (!failed_) {
      if (Take('*')) {
        failed_ |= __builtin_mul_overflow(value, Factor(), &value);
      } else if (Take('/')) {
        const int64_t divisor = Factor();
        if (divisor <= 0 || value % divisor != 0) return Fail();
        value /= divisor;
      } else {
        break;
      }
    }
    return value;
  }

  int64_t Factor() {
    if (++depth_ > kMaxDepth) return Fail();
    int64_t value = 0;
    if (Take('(')) {
      value = Sum();
      if (!Take(')')) return Fail();
    } else {
      value = Atom();
    }
    --depth_;
    return value;
  }

  // A number or a symbol.
  int64_t Atom() {
    SkipSpace();
    const size_t begin = at_;
    while (at_ < text_.size() && IsPartOfName(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (const auto it = symbols_.find(word); it != symbols_.end()) return it->second;
    int64_t value = 0;
    if (!absl::SimpleAtoi(absl::string_view(word.data(), word.size()), &value)) return Fail();
    return value;
  }

  static bool IsPartOfName(char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ':';
  }

  void SkipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  int64_t Fail() {
    failed_ = true;
    return 0;
  }

  std::string_view text_;
  const SymbolSizes& symbols_;
  size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
};

}  // namespace

void AddSymbols(const onnx::ValueInfoProto& declaration, const Shape& shape, SymbolSizes& symbols) {
  const auto& dims = declaration.type().tensor_type().shape().dim();
  if (static_cast<size_t>(dims.size()) != shape.size()) return;
  for (int i = 0; i < dims.size(); ++i) {
    if (!dims[i].dim_param().empty()) {
      symbols[dims[i].dim_param()] = shape[static_cast<size_t>(i)];
    }
  }
}

std::optional<int64_t> EvaluateDimension(std::string_view text, const SymbolSizes& symbols) {
  // A name may have any character.
  if (const auto it = symbols.find(text); it != symbols.end()) return it->second;
  return DimensionParser(text, symbols).Parse();
}

std::optional<TensorType> DeclaredType(const onnx::ValueInfoProto& declaration,
                                       const SymbolSizes& symbols) {
  if (!declaration.type().has_tensor_type()) return std::nullopt;
  const onnx::TypeProto::Tensor& tensor = declaration.type().tensor_type();
  const absl::StatusOr<DType> dtype = DTypeFromOnnx(tensor.elem_type());
  if (!dtype.ok() || !tensor.has_shape()) return std::nullopt;
  TensorType type = {*dtype, {}};
  for (const auto& dim : tensor.shape().dim()) {
    const std::optional<int64_t> size =
        dim.has_dim_value() ? dim.dim_value() : EvaluateDimension(dim.dim_param(), symbols);
    if (!size || *size < 0) return std::nullopt;
    type.shape.push_back(*size);
  }
  const std::optional<int64_t> count = CheckedNumElements(type.shape);
  if (!count || *count > INT64_MAX / 8) return std::nullopt;
  return type;
}

}  // namespace onnx_memplan
