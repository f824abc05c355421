// Concat and Split. Along the outermost dimension that is not 1 neither moves anything: an input of
// Concat may be made in its place in the output, an output of Split is a part of the input.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Attribute `axis`, normalised; only where inference has checked it.
size_t CheckedAxis(const NodeContext& node, int64_t default_axis, const Shape& shape) {
  const int64_t axis = node.Int("axis", default_axis);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
}

absl::StatusOr<std::vector<TensorType>> InferConcat(const NodeContext& node) {
  TensorType result = node.InputType(0);
  ASSIGN_OR_RETURN(const int64_t given, node.RequiredInt("axis"));
  ASSIGN_OR_RETURN(const int64_t axis, node.NormalizeAxis(given, result.rank()));
  int64_t& length = result.shape[static_cast<size_t>(axis)];
  for (int32_t i = 1; i < node.num_inputs(); ++i) {
    if (!node.HasInput(i)) return node.Invalid(absl::StrCat("input ", i, " is missing"));
    TensorType type = node.InputType(i);
    if (type.rank() == result.rank()) {
      const int64_t more = std::exchange(type.shape[static_cast<size_t>(axis)], length);
      if (type == result && !__builtin_add_overflow(length, more, &length)) continue;
    }
    return node.Invalid(absl::StrCat("inputs 0 and ", i, " cannot be joined along axis ", axis));
  }
  return std::vector<TensorType>{result};
}

// The part of the output that input `i` fills; `before`: length along the axis of inputs [0, i).
StridedCopySpec ConcatSpec(const NodeContext& node, int32_t i, int64_t before) {
  const Shape& shape = node.InputShape(i);
  const std::vector<int64_t> strides = RowMajorStrides(node.OutputShape(0));
  const size_t axis = CheckedAxis(node, 0, shape);
  return {shape, RowMajorStrides(shape), strides, 0, before * strides[axis]};
}

std::vector<Alias> ConcatAliases(const NodeContext& node) {
  const TensorType& output = node.OutputType(0);
  const size_t axis = CheckedAxis(node, 0, output.shape);
  if (std::any_of(output.shape.begin(), output.shape.begin() + static_cast<ptrdiff_t>(axis),
                  [](int64_t dim) { return dim != 1; })) {
    return {};
  }
  if (node.num_inputs() == 1) return rules::ViewOfFirstInput(node);
  std::vector<Alias> aliases;
  int64_t offset_bytes = 0;
  for (int32_t i = 0; i < node.num_inputs(); ++i) {
    const int64_t bytes = node.InputType(i).Bytes();
    if (bytes != 0) aliases.push_back({Alias::Kind::kPart, 0, i, offset_bytes});
    offset_bytes += bytes;
  }
  return aliases;
}

absl::StatusOr<Lowering> LowerConcat(const NodeContext& node, const Target&) {
  Lowering lowering;
  const TensorType& output = node.OutputType(0);
  RETURN_IF_ERROR(ToInt32(node, output.NumElements(), "the number of output elements").status());
  const size_t axis = CheckedAxis(node, 0, output.shape);
  int64_t before = 0;
  for (int32_t i = 0; i < node.num_inputs(); ++i) {
    RETURN_IF_ERROR(AppendStridedCopy(node, output.dtype, ConcatSpec(node, i, before),
                                      KernelArg::Input(i), KernelArg::Output(0), &lowering));
    before += node.InputShape(i)[axis];
  }
  return lowering;
}

// com.microsoft ConcatTraining: Concat, and the lengths of the inputs along the axis.
absl::StatusOr<std::vector<TensorType>> InferConcatTraining(const NodeContext& node) {
  ASSIGN_OR_RETURN(std::vector<TensorType> types, InferConcat(node));
  if (node.num_outputs() > 1) types.push_back({DType::kInt64, {node.num_inputs()}});
  return types;
}

absl::StatusOr<Lowering> LowerConcatTraining(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(Lowering lowering, LowerConcat(node, target));
  if (!node.HasOutput(1)) return lowering;
  const size_t axis = CheckedAxis(node, 0, node.OutputShape(0));
  std::vector<int64_t> lengths;
  for (int32_t i = 0; i < node.num_inputs(); ++i) lengths.push_back(node.InputShape(i)[axis]);
  RETURN_IF_ERROR(AppendKnownOutput(node, 1, Tensor::VectorInt64(lengths), &lowering));
  return lowering;
}

absl::Status ConcatGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  const auto axis = static_cast<int64_t>(CheckedAxis(g.context(), 0, g.ShapeOf(dy)));
  int64_t begin = 0;
  for (int32_t i = 0; i < g.num_inputs(); ++i) {
    const int64_t end = begin + g.ShapeOf(g.Input(i))[static_cast<size_t>(axis)];
    if (g.Wants(i)) {
      g.SetInputGradient(i, g.Add("Slice", {dy, g.Ints({begin}), g.Ints({end}), g.Ints({axis})}));
    }
    begin = end;
  }
  return g.status();
}

// Lengths of the outputs of Split-18 along the axis. Without a `split` input, num_outputs equal
// chunks, of which the last may be smaller.
absl::StatusOr<std::vector<int64_t>> SplitLengths(const NodeContext& node, int64_t dim) {
  const int64_t outputs = node.num_outputs();
  std::vector<int64_t> lengths;
  if (node.HasInput(1)) {
    ASSIGN_OR_RETURN(lengths, node.ConstantInts(1, "split"));
    int64_t rest = dim;
    for (int64_t length : lengths) {
      if (length < 0 || length > rest) {
        rest = -1;
        break;
      }
      rest -= length;
    }
    if (rest != 0 || static_cast<int64_t>(lengths.size()) != outputs) {
      return node.Invalid(absl::StrCat("split [", absl::StrJoin(lengths, ","), "] does not divide ",
                                       dim, " elements among ", outputs, " outputs"));
    }
    return lengths;
  }
  if (node.Int("num_outputs", outputs) != outputs) {
    return node.Invalid(absl::StrCat("num_outputs is ", node.Int("num_outputs", outputs),
                                     ", the node has ", outputs, " outputs"));
  }
  const int64_t chunk = dim / outputs + (dim % outputs != 0 ? 1 : 0);
  for (int64_t i = 0, rest = dim; i < outputs; ++i) {
    lengths.push_back(std::min(chunk, rest));
    rest -= lengths.back();
  }
  return lengths;
}

absl::StatusOr<std::vector<TensorType>> InferSplit(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  ASSIGN_OR_RETURN(const int64_t axis, node.NormalizeAxis(node.Int("axis", 0), input.rank()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths,
                   SplitLengths(node, input.shape[static_cast<size_t>(axis)]));
  std::vector<TensorType> types;
  for (int64_t length : lengths) {
    types.push_back(input);
    types.back().shape[static_cast<size_t>(axis)] = length;
  }
  return types;
}

// What each output of Split takes from the input.
absl::StatusOr<std::vector<StridedCopySpec>> SplitSpecs(const NodeContext& node) {
  const Shape& shape = node.InputShape(0);
  const size_t axis = CheckedAxis(node, 0, shape);
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, SplitLengths(node, shape[axis]));
  const std::vector<int64_t> strides = RowMajorStrides(shape);
  std::vector<StridedCopySpec> specs;
  int64_t before = 0;
  for (int64_t length : lengths) {
    Shape dims = shape;
    dims[axis] = length;
    specs.push_back(GatheringCopy(dims, strides, length == 0 ? 0 : before * strides[axis]));
    before += length;
  }
  return specs;
}

std::vector<Alias> SplitAliases(const NodeContext& node) {
  const absl::StatusOr<std::vector<StridedCopySpec>> specs = SplitSpecs(node);
  if (!specs.ok()) return {};
  std::vector<Alias> aliases;
  for (int32_t i = 0; i < node.num_outputs(); ++i) {
    if (!node.HasOutput(i)) continue;
    for (const Alias& alias : ViewIfContiguous(node, (*specs)[static_cast<size_t>(i)], 0, i)) {
      aliases.push_back(alias);
    }
  }
  return aliases;
}

absl::StatusOr<Lowering> LowerSplit(const NodeContext& node, const Target&) {
  Lowering lowering;
  const TensorType& input = node.InputType(0);
  RETURN_IF_ERROR(ToInt32(node, input.NumElements(), "the number of input elements").status());
  ASSIGN_OR_RETURN(const std::vector<StridedCopySpec> specs, SplitSpecs(node));
  for (int32_t i = 0; i < node.num_outputs(); ++i) {
    if (!node.HasOutput(i)) continue;
    RETURN_IF_ERROR(AppendStridedCopy(node, input.dtype, specs[static_cast<size_t>(i)],
                                      KernelArg::Input(0), KernelArg::Output(i), &lowering));
  }
  return lowering;
}

// The gradients that there are, joined; zeros for outputs that the loss does not depend on.
absl::Status SplitGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  const int64_t axis = g.context().Int("axis", 0);
  const DType dtype = g.Type(g.Input(0)).dtype;
  ASSIGN_OR_RETURN(const std::vector<TensorType> types, InferSplit(g.context()));
  std::vector<ValueId> parts;
  for (int32_t i = 0; i < g.num_outputs(); ++i) {
    ValueId part = g.OutputGradient(i);
    if (part == kNoValue) part = g.Zeros(types[static_cast<size_t>(i)].shape, dtype);
    parts.push_back(part);
  }
  g.SetInputGradient(0, g.Add("Concat", parts, {{"axis", axis}}));
  return g.status();
}

}  // namespace

extern const OpDef kConcat = {
    .type = "Concat",
    .min_inputs = 1,
    .max_inputs = kVariadic,
    .infer = InferConcat,
    .aliases = ConcatAliases,
    .lower = LowerConcat,
    .gradient = ConcatGradient,
};

extern const OpDef kConcatTraining = {
    .type = "ConcatTraining",
    .domain = kMicrosoft,
    .min_inputs = 1,
    .max_inputs = kVariadic,
    .max_outputs = 2,
    .infer = InferConcatTraining,
    .aliases = ConcatAliases,
    .lower = LowerConcatTraining,
    .gradient = ConcatGradient,
};

extern const OpDef kSplit = {
    .type = "Split",
    .min_inputs = 1,
    .max_inputs = 2,
    .max_outputs = kVariadic,
    .infer = InferSplit,
    .aliases = SplitAliases,
    .lower = LowerSplit,
    .gradient = SplitGradient,
};

}  // namespace onnx_memplan
