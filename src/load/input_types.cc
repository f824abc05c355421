#include "load/input_types.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "load/tensor_file.h"
#include "load/tensor_proto.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// One dimension as the model declares it.
struct Dim {
  std::optional<int64_t> size;
  std::string symbol;  // empty: has no name
};

struct Declared {
  std::string name;
  DType dtype = DType::kFloat;
  // nullopt: not even the rank is known.
  std::optional<std::vector<Dim>> dims;
};

absl::StatusOr<Declared> ReadDeclaration(const onnx::ValueInfoProto& info) {
  const auto prefix = [&] { return absl::StrCat("graph input '", info.name(), "': "); };
  if (!info.type().has_tensor_type()) {
    return absl::UnimplementedError(
        absl::StrCat(prefix(), "only tensors are supported, not sequences, maps or optionals"));
  }
  const onnx::TypeProto::Tensor& tensor = info.type().tensor_type();
  const absl::StatusOr<DType> dtype = DTypeFromOnnx(tensor.elem_type());
  if (!dtype.ok()) {
    return absl::Status(dtype.status().code(),
                        absl::StrCat(prefix(), std::string(dtype.status().message())));
  }
  Declared declared{info.name(), *dtype, std::nullopt};
  if (!tensor.has_shape()) return declared;
  declared.dims.emplace();
  for (const auto& proto : tensor.shape().dim()) {
    Dim dim;
    // Exporters write -1 for a dimension that they do not know.
    if (proto.has_dim_value() && proto.dim_value() >= 0) dim.size = proto.dim_value();
    if (proto.has_dim_param()) dim.symbol = proto.dim_param();
    declared.dims->push_back(std::move(dim));
  }
  return declared;
}

std::string DeclaredToString(const Declared& declared) {
  if (!declared.dims) return "any shape";
  return absl::StrCat("[",
                      absl::StrJoin(*declared.dims, ",",
                                    [](std::string* out, const Dim& dim) {
                                      absl::StrAppend(out, dim.size ? absl::StrCat(*dim.size)
                                                           : dim.symbol.empty() ? "?"
                                                                                : dim.symbol);
                                    }),
                      "]");
}

class Resolver {
 public:
  Resolver(std::vector<Declared> inputs, const LoadOptions& options)
      : inputs_(std::move(inputs)), options_(options), dims_(options.dims) {}

  absl::StatusOr<std::vector<LoadedInput>> Run() {
    RETURN_IF_ERROR(CheckNames());
    RETURN_IF_ERROR(CheckDims());
    for (Declared& input : inputs_) RETURN_IF_ERROR(ApplyGivenShape(input));
    RETURN_IF_ERROR(CheckLeftOver());
    std::vector<LoadedInput> result;
    for (const Declared& input : inputs_) {
      ASSIGN_OR_RETURN(LoadedInput loaded, Finish(input));
      result.push_back(std::move(loaded));
    }
    return result;
  }

 private:
  absl::Status CheckName(const std::string& option, const std::string& name) const {
    for (const Declared& input : inputs_) {
      if (input.name == name) return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        option, " ", name, "=...: the model has no input of this name; its inputs are: ",
        absl::StrJoin(inputs_, ", ", [](std::string* out, const Declared& input) {
          absl::StrAppend(out, input.name);
        })));
  }

  absl::Status CheckNames() const {
    for (const auto& [name, unused] : options_.input_shapes) {
      RETURN_IF_ERROR(CheckName("--input-shape", name));
    }
    for (const auto& [name, unused] : options_.bind) RETURN_IF_ERROR(CheckName("--bind", name));
    return absl::OkStatus();
  }

  absl::Status CheckDims() const {
    std::vector<std::string> symbols;
    for (const Declared& input : inputs_) {
      if (!input.dims) continue;
      for (const Dim& dim : *input.dims) {
        if (!dim.symbol.empty()) symbols.push_back(dim.symbol);
      }
    }
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    for (const auto& [name, size] : options_.dims) {
      if (size < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("--dim ", name, "=", size, ": a dimension cannot be negative"));
      }
      if (!std::binary_search(symbols.begin(), symbols.end(), name)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--dim ", name, "=", size, ": no input of the model has a dimension of this name; ",
            symbols.empty() ? "it has no named dimensions"
                            : absl::StrCat("the names are: ", absl::StrJoin(symbols, ", "))));
      }
    }
    return absl::OkStatus();
  }

  // Takes the dimensions of `input` from its bound data or from --input-shape; symbols that they
  // settle are settled for the other inputs too.
  absl::Status ApplyGivenShape(Declared& input) {
    const auto bound = options_.bind.find(input.name);
    const auto shaped = options_.input_shapes.find(input.name);
    if (shaped != options_.input_shapes.end()) {
      RETURN_IF_ERROR(Unify(input, shaped->second, "--input-shape"));
    }
    if (bound == options_.bind.end()) return absl::OkStatus();
    absl::StatusOr<Tensor> data = BoundData(input, bound->second);
    if (!data.ok()) {
      return absl::Status(
          data.status().code(),
          absl::StrCat("--bind ", input.name, "=...: ", std::string(data.status().message())));
    }
    RETURN_IF_ERROR(Unify(input, data->shape(), "--bind"));
    bound_.emplace(input.name, *std::move(data));
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> BoundData(const Declared& input, const Binding& binding) const {
    if (const auto* text = std::get_if<std::string>(&binding)) {
      ASSIGN_OR_RETURN(const Tensor tensor, TensorFromText(*text, input.dtype));
      return ShapeText(input, tensor);
    }
    const auto& tensor = std::get<Tensor>(binding);
    if (tensor.dtype() != input.dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("the data is of type ", std::string(DTypeName(tensor.dtype())),
                       ", the input of type ", std::string(DTypeName(input.dtype))));
    }
    return tensor;
  }

  // Text has no shape of its own: it takes that of the input where the input has one, and one
  // number is repeated.
  absl::StatusOr<Tensor> ShapeText(const Declared& input, const Tensor& tensor) const {
    if (!input.dims) return tensor;
    Shape shape;
    for (const Dim& dim : *input.dims) {
      const std::optional<int64_t> size = SizeOf(dim);
      if (!size && input.dims->size() == 1) return tensor.Reshaped({tensor.NumElements()});
      if (!size) return tensor;
      shape.push_back(*size);
    }
    const TensorType type{input.dtype, shape};
    const std::optional<int64_t> count = CheckedNumElements(shape);
    if (count == tensor.NumElements()) return tensor.Reshaped(shape);
    constexpr int64_t kMaxRepeats = int64_t{1} << 28;
    if (tensor.NumElements() != 1 || !count || *count > kMaxRepeats) return tensor;
    std::byte* data = nullptr;
    Tensor filled = Tensor::Zeros(type, &data);
    for (int64_t i = 0; i < *count; ++i) {
      data = std::copy_n(tensor.data(), DTypeBytes(input.dtype), data);
    }
    return filled;
  }

  std::optional<int64_t> SizeOf(const Dim& dim) const {
    if (dim.size) return dim.size;
    const auto it = dims_.find(dim.symbol);
    if (dim.symbol.empty() || it == dims_.end()) return std::nullopt;
    return it->second;
  }

  absl::Status Unify(Declared& input, const Shape& shape, const std::string& option) {
    const auto fail = [&](const std::string& why) {
      return absl::InvalidArgumentError(absl::StrCat(option, " ", input.name, ": the shape ",
                                                     ShapeToString(shape), " does not fit ",
                                                     DeclaredToString(input), ": ", why));
    };
    if (!CheckedNumElements(shape)) return fail("it is not possible");
    if (!input.dims) input.dims.emplace(shape.size());
    if (input.dims->size() != shape.size()) return fail("the rank differs");
    for (size_t i = 0; i < shape.size(); ++i) {
      Dim& dim = (*input.dims)[i];
      const std::optional<int64_t> known = SizeOf(dim);
      if (known && *known != shape[i]) {
        return fail(absl::StrCat(
            dim.symbol.empty() ? absl::StrCat("dimension ", i) : absl::StrCat("'", dim.symbol, "'"),
            " is ", *known));
      }
      if (!dim.symbol.empty()) dims_[dim.symbol] = shape[i];
      if (dim.symbol.empty()) dim.size = shape[i];
    }
    return absl::OkStatus();
  }

  // Every dimension that is not settled, with the option that settles it.
  absl::Status CheckLeftOver() const {
    std::vector<std::string> lines;
    std::vector<std::pair<std::string, std::vector<std::string>>> symbols;  // and their inputs
    int64_t count = 0;
    for (const Declared& input : inputs_) {
      bool unnamed = !input.dims;
      for (const Dim& dim : input.dims.value_or(std::vector<Dim>())) {
        if (SizeOf(dim)) continue;
        unnamed |= dim.symbol.empty();
        if (!dim.symbol.empty()) AddSymbol(symbols, dim.symbol, input.name);
      }
      if (!unnamed) continue;
      ++count;
      lines.push_back(absl::StrCat("  --input-shape ", input.name, "=", ExampleShape(input),
                                   "   (declared as ", DeclaredToString(input), ")"));
    }
    for (const auto& [symbol, names] : symbols) {
      ++count;
      lines.push_back(
          absl::StrCat("  --dim ", symbol, "=1   (of ", absl::StrJoin(names, ", "), ")"));
    }
    if (lines.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        count == 1 ? "an input dimension is" : absl::StrCat(count, " input dimensions are"),
        " not fixed by the model; pass the size", count == 1 ? "" : "s",
        ", with your own numbers:\n", absl::StrJoin(lines, "\n")));
  }

  static void AddSymbol(std::vector<std::pair<std::string, std::vector<std::string>>>& symbols,
                        const std::string& symbol, const std::string& input) {
    auto it = std::find_if(symbols.begin(), symbols.end(),
                           [&](const auto& entry) { return entry.first == symbol; });
    if (it == symbols.end()) it = symbols.insert(symbols.end(), {symbol, {}});
    if (it->second.empty() || it->second.back() != input) it->second.push_back(input);
  }

  std::string ExampleShape(const Declared& input) const {
    if (!input.dims) return "1x3x224x224";
    return absl::StrJoin(*input.dims, "x", [&](std::string* out, const Dim& dim) {
      absl::StrAppend(out, SizeOf(dim).value_or(1));
    });
  }

  absl::StatusOr<LoadedInput> Finish(const Declared& input) const {
    LoadedInput loaded{input.name, {input.dtype, {}}, std::nullopt};
    for (const Dim& dim : *input.dims) loaded.type.shape.push_back(*SizeOf(dim));
    const std::optional<int64_t> count = CheckedNumElements(loaded.type.shape);
    if (!count || *count > INT64_MAX / 8) {
      return absl::InvalidArgumentError(absl::StrCat("graph input '", input.name, "' of type ",
                                                     loaded.type.ToString(),
                                                     " has more bytes than 63 bits can count"));
    }
    const auto bound = bound_.find(input.name);
    if (bound == bound_.end()) return loaded;
    if (bound->second.shape() != loaded.type.shape) {
      return absl::InvalidArgumentError(absl::StrCat("--bind ", input.name, ": the data is ",
                                                     bound->second.type().ToString(),
                                                     ", the input ", loaded.type.ToString()));
    }
    loaded.data = bound->second;
    return loaded;
  }

  std::vector<Declared> inputs_;
  const LoadOptions& options_;
  // The user's dimensions, and those that follow from shapes.
  std::map<std::string, int64_t> dims_;
  std::map<std::string, Tensor> bound_;
};

}  // namespace

absl::StatusOr<std::vector<LoadedInput>> ResolveInputs(
    const std::vector<const onnx::ValueInfoProto*>& inputs, const LoadOptions& options) {
  std::vector<Declared> declared;
  for (const onnx::ValueInfoProto* input : inputs) {
    ASSIGN_OR_RETURN(Declared one, ReadDeclaration(*input));
    declared.push_back(std::move(one));
  }
  return Resolver(std::move(declared), options).Run();
}

}  // namespace onnx_memplan
