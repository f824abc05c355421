// Operators that cut tensors and pad them: Slice, Pad, CenterCropPad.
#include "ops/host_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/pad.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// One dimension of a Slice: `count` elements from `start`, `step` apart.
struct Range1D {
  int64_t start, step, count;
};

// Slice-13 along a dimension of `dim` elements: negative start and end count from the back, both
// are clamped to what the direction of the step can reach.
Range1D SliceDim(int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (dim == 0) return {0, 1, 0};
  // A longer step than the dimension takes one element, as dim itself does.
  step = std::clamp(step, -dim, dim);
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  if (step > 0) {
    start = std::clamp(start, int64_t{0}, dim);
    end = std::clamp(end, int64_t{0}, dim);
    return {start, step, end > start ? 1 + (end - start - 1) / step : 0};
  }
  start = std::clamp(start, int64_t{0}, dim - 1);
  end = std::clamp(end, int64_t{-1}, dim - 1);
  return {start, step, start > end ? 1 + (start - end - 1) / -step : 0};
}

// Every dimension of the sliced tensor.
absl::StatusOr<std::vector<Range1D>> SliceRanges(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  std::vector<Range1D> ranges;
  for (int64_t dim : input.shape) ranges.push_back({0, 1, dim});
  ASSIGN_OR_RETURN(const std::vector<int64_t> starts, node.ConstantInts(1, "starts"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> ends, node.ConstantInts(2, "ends"));
  std::vector<int64_t> axes;
  if (node.HasInput(3)) {
    ASSIGN_OR_RETURN(axes, node.ConstantInts(3, "axes"));
  } else {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  std::vector<int64_t> steps(starts.size(), 1);
  if (node.HasInput(4)) {
    ASSIGN_OR_RETURN(steps, node.ConstantInts(4, "steps"));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return node.Invalid("starts, ends, axes and steps differ in length");
  }
  std::vector<bool> seen(input.shape.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t normal, node.NormalizeAxis(axes[i], input.rank()));
    const auto axis = static_cast<size_t>(normal);
    if (seen[axis]) return node.Invalid(absl::StrCat("axis ", axes[i], " is given twice"));
    if (steps[i] == 0) return node.Invalid("a step is 0");
    seen[axis] = true;
    ranges[axis] = SliceDim(input.shape[axis], starts[i], ends[i], steps[i]);
  }
  return ranges;
}

absl::StatusOr<std::vector<TensorType>> InferSlice(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<Range1D> ranges, SliceRanges(node));
  TensorType type = node.InputType(0);
  for (size_t i = 0; i < ranges.size(); ++i) type.shape[i] = ranges[i].count;
  return std::vector<TensorType>{type};
}

absl::StatusOr<StridedCopySpec> SliceSpec(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<Range1D> ranges, SliceRanges(node));
  const std::vector<int64_t> strides = RowMajorStrides(node.InputShape(0));
  Shape dims;
  std::vector<int64_t> src_strides;
  for (size_t i = 0; i < ranges.size(); ++i) {
    dims.push_back(ranges[i].count);
    src_strides.push_back(ranges[i].count > 1 ? strides[i] * ranges[i].step : 0);
  }
  int64_t offset = 0;
  if (std::find(dims.begin(), dims.end(), 0) == dims.end()) {
    for (size_t i = 0; i < ranges.size(); ++i) offset += strides[i] * ranges[i].start;
  }
  return GatheringCopy(dims, src_strides, offset);
}

std::vector<Alias> SliceAliases(const NodeContext& node) {
  const absl::StatusOr<StridedCopySpec> spec = SliceSpec(node);
  return spec.ok() ? ViewIfContiguous(node, *spec) : std::vector<Alias>();
}

absl::StatusOr<Lowering> LowerSlice(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const StridedCopySpec spec, SliceSpec(node));
  return LowerStridedCopy(node, spec);
}

// Elements added in front of and behind each dimension; negative: cut off.
struct Padding {
  std::vector<int64_t> begin, end;
};

// Pad-21: `pads` lists the beginnings of all axes, then their ends.
absl::StatusOr<Padding> PadWidths(const NodeContext& node) {
  const auto rank = node.InputShape(0).size();
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, node.ConstantInts(1, "pads"));
  std::vector<int64_t> axes;
  if (node.HasInput(3)) {
    ASSIGN_OR_RETURN(axes, node.ConstantInts(3, "axes"));
  } else {
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (pads.size() != 2 * axes.size()) {
    return node.Invalid(absl::StrCat("pads has ", pads.size(), " elements for ", axes.size(),
                                     " axes; two for each are needed"));
  }
  Padding padding = {std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  std::vector<bool> seen(rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t normal, node.NormalizeAxis(axes[i], static_cast<int64_t>(rank)));
    const auto axis = static_cast<size_t>(normal);
    if (seen[axis]) return node.Invalid(absl::StrCat("axis ", axes[i], " is given twice"));
    seen[axis] = true;
    padding.begin[axis] = pads[i];
    padding.end[axis] = pads[axes.size() + i];
  }
  return padding;
}

absl::StatusOr<int32_t> PadMode(const NodeContext& node) {
  const std::string mode = node.String("mode", "constant");
  if (mode == "constant") return kernels::kPadConstant;
  if (mode == "reflect") return kernels::kPadReflect;
  if (mode == "edge") return kernels::kPadEdge;
  if (mode == "wrap") return kernels::kPadWrap;
  return node.Invalid("mode '" + mode + "' is not one of constant, reflect, edge, wrap");
}

absl::StatusOr<std::vector<TensorType>> InferPad(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Padding padding, PadWidths(node));
  ASSIGN_OR_RETURN(const int32_t mode, PadMode(node));
  TensorType type = node.InputType(0);
  if (node.HasInput(2) &&
      (node.InputDType(2) != type.dtype || node.InputType(2).NumElements() != 1)) {
    return node.Invalid("constant_value must be one element of the type of the input");
  }
  for (size_t i = 0; i < type.shape.size(); ++i) {
    const int64_t dim = type.shape[i];
    int64_t& padded = type.shape[i];
    if (__builtin_add_overflow(padded, padding.begin[i], &padded) ||
        __builtin_add_overflow(padded, padding.end[i], &padded) || padded < 0 ||
        (dim == 0 && padded != 0 && mode != kernels::kPadConstant)) {
      return node.Invalid(absl::StrCat("cannot pad dimension ", i, " of ", dim, " elements by ",
                                       padding.begin[i], " and ", padding.end[i]));
    }
  }
  return std::vector<TensorType>{type};
}

// The copy that a Pad is when it only cuts off.
std::optional<StridedCopySpec> CropSpec(const NodeContext& node, const Padding& padding) {
  const std::vector<int64_t> strides = RowMajorStrides(node.InputShape(0));
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    if (padding.begin[i] > 0 || padding.end[i] > 0) return std::nullopt;
    offset -= padding.begin[i] * strides[i];
  }
  return GatheringCopy(node.OutputShape(0), strides, offset);
}

// Pads input 0; `value` is the pointer to the padding.
absl::StatusOr<Lowering> LowerPadding(const NodeContext& node, const Padding& padding, int32_t mode,
                                      KernelArg value) {
  const TensorType& input = node.InputType(0);
  const TensorType& output = node.OutputType(0);
  if (output.NumElements() == 0) return Lowering();
  if (const auto crop = CropSpec(node, padding)) return LowerStridedCopy(node, *crop);
  // Room for sums of two of these in the kernel.
  constexpr int64_t kLongest = int64_t{1} << 29;
  for (size_t i = 0; i < input.shape.size(); ++i) {
    if (input.shape[i] > kLongest || output.shape[i] > kLongest || padding.begin[i] > kLongest ||
        padding.begin[i] < -kLongest) {
      return node.Unsupported(absl::StrCat("dimension ", i, " is longer than ", kLongest));
    }
  }
  kernels::PadParams params = {};
  params.mode = mode;
  RETURN_IF_ERROR(ToInt32(node, input.NumElements(), "the number of input elements").status());
  RETURN_IF_ERROR(ToInt32(node, output.NumElements(), "the number of output elements").status());
  RETURN_IF_ERROR(ToKernelArray(node, input.shape, 1, params.in));
  RETURN_IF_ERROR(ToKernelArray(node, output.shape, 1, params.out));
  RETURN_IF_ERROR(ToKernelArray(node, padding.begin, 0, params.begin));
  KernelCall call = WidthCall(input.dtype, "kernels/pad.h", "kernels::Pad<{T}>",
                              []<class T>() { return FunctionOf<&kernels::Pad<T>>(); });
  return OneCall(std::move(call), params, {KernelArg::Input(0), value, KernelArg::Output(0)});
}

std::vector<Alias> PadAliases(const NodeContext& node) {
  const absl::StatusOr<Padding> padding = PadWidths(node);
  if (!padding.ok() || node.OutputType(0).NumElements() == 0) return {};
  const std::optional<StridedCopySpec> crop = CropSpec(node, *padding);
  return crop ? ViewIfContiguous(node, *crop) : std::vector<Alias>();
}

absl::StatusOr<Lowering> LowerPad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const Padding padding, PadWidths(node));
  ASSIGN_OR_RETURN(const int32_t mode, PadMode(node));
  return LowerPadding(node, padding, mode,
                      node.HasInput(2) ? KernelArg::Input(2) : KernelArg::Null());
}

// CenterCropPad-18: the named axes get the wanted lengths, as much being added or cut in front as
// behind; of an odd difference, the larger part is behind when padding and, as in ONNX's own
// definition, the cut starts at floor(difference / 2).
absl::StatusOr<std::vector<TensorType>> InferCenterCropPad(const NodeContext& node) {
  TensorType type = node.InputType(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, node.ConstantInts(1, "shape"));
  std::vector<int64_t> axes(type.shape.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  axes = node.Ints("axes", axes);
  if (axes.size() != lengths.size()) {
    return node.Invalid(
        absl::StrCat("shape has ", lengths.size(), " elements for ", axes.size(), " axes"));
  }
  std::vector<bool> seen(type.shape.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t normal, node.NormalizeAxis(axes[i], type.rank()));
    const auto axis = static_cast<size_t>(normal);
    if (seen[axis]) return node.Invalid(absl::StrCat("axis ", axes[i], " is given twice"));
    if (lengths[i] < 0) return node.Invalid("a wanted length is negative");
    seen[axis] = true;
    type.shape[axis] = lengths[i];
  }
  return std::vector<TensorType>{type};
}

Padding CenterPadding(const NodeContext& node) {
  Padding padding;
  for (size_t i = 0; i < node.InputShape(0).size(); ++i) {
    const int64_t more = node.OutputShape(0)[i] - node.InputShape(0)[i];
    // Division truncates: a cut of 3 starts at 1, a padding of 3 has 1 in front.
    padding.begin.push_back(more / 2);
    padding.end.push_back(more - more / 2);
  }
  return padding;
}

std::vector<Alias> CenterCropPadAliases(const NodeContext& node) {
  if (node.OutputType(0).NumElements() == 0) return {};
  const std::optional<StridedCopySpec> crop = CropSpec(node, CenterPadding(node));
  return crop ? ViewIfContiguous(node, *crop) : std::vector<Alias>();
}

absl::StatusOr<Lowering> LowerCenterCropPad(const NodeContext& node, const Target&) {
  return LowerPadding(node, CenterPadding(node), kernels::kPadConstant, KernelArg::Null());
}

}  // namespace

extern const OpDef kSlice = {
    .type = "Slice",
    .min_inputs = 3,
    .max_inputs = 5,
    .infer = InferSlice,
    .aliases = SliceAliases,
    .lower = LowerSlice,
};

extern const OpDef kPad = {
    .type = "Pad",
    .min_inputs = 2,
    .max_inputs = 4,
    .infer = InferPad,
    .aliases = PadAliases,
    .lower = LowerPad,
};

extern const OpDef kCenterCropPad = {
    .type = "CenterCropPad",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferCenterCropPad,
    .aliases = CenterCropPadAliases,
    .lower = LowerCenterCropPad,
};

}  // namespace onnx_memplan
