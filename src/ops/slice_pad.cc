// Operators that cut tensors and pad them: Slice, Pad, CenterCropPad.
#include "ops/host_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/pad.h"
#include "kernels/scatter_gradient.h"
#include "kernels/strided_copy.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/index_rules.h"
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

// Every dimension of the sliced tensor, of shape `sliced`; `first`: the input `starts`.
absl::StatusOr<std::vector<Range1D>> SliceRanges(const NodeContext& node, const Shape& sliced,
                                                 int32_t first) {
  const auto rank = static_cast<int64_t>(sliced.size());
  std::vector<Range1D> ranges;
  for (int64_t dim : sliced) ranges.push_back({0, 1, dim});
  ASSIGN_OR_RETURN(const std::vector<int64_t> starts, node.ConstantInts(first, "starts"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> ends, node.ConstantInts(first + 1, "ends"));
  std::vector<int64_t> axes;
  if (node.HasInput(first + 2)) {
    ASSIGN_OR_RETURN(axes, node.ConstantInts(first + 2, "axes"));
  } else {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  std::vector<int64_t> steps(starts.size(), 1);
  if (node.HasInput(first + 3)) {
    ASSIGN_OR_RETURN(steps, node.ConstantInts(first + 3, "steps"));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return node.Invalid("starts, ends, axes and steps differ in length");
  }
  std::vector<bool> seen(sliced.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t normal, node.NormalizeAxis(axes[i], rank));
    const auto axis = static_cast<size_t>(normal);
    if (seen[axis]) return node.Invalid(absl::StrCat("axis ", axes[i], " is given twice"));
    if (steps[i] == 0) return node.Invalid("a step is 0");
    seen[axis] = true;
    ranges[axis] = SliceDim(sliced[axis], starts[i], ends[i], steps[i]);
  }
  return ranges;
}

absl::StatusOr<std::vector<TensorType>> InferSlice(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<Range1D> ranges, SliceRanges(node, node.InputShape(0), 1));
  TensorType type = node.InputType(0);
  for (size_t i = 0; i < ranges.size(); ++i) type.shape[i] = ranges[i].count;
  return std::vector<TensorType>{type};
}

// The copy from the sliced tensor, of shape `sliced`.
StridedCopySpec SliceCopy(const Shape& sliced, const std::vector<Range1D>& ranges) {
  const std::vector<int64_t> strides = RowMajorStrides(sliced);
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

absl::StatusOr<StridedCopySpec> SliceSpec(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<Range1D> ranges, SliceRanges(node, node.InputShape(0), 1));
  return SliceCopy(node.InputShape(0), ranges);
}

std::vector<Alias> SliceAliases(const NodeContext& node) {
  const absl::StatusOr<StridedCopySpec> spec = SliceSpec(node);
  return spec.ok() ? ViewIfContiguous(node, *spec) : std::vector<Alias>();
}

absl::StatusOr<Lowering> LowerSlice(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const StridedCopySpec spec, SliceSpec(node));
  return LowerStridedCopy(node, spec);
}

// The gradient goes where the elements came from, among zeros: a Pad, where they are neighbours.
absl::Status SliceGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  const Shape sliced = g.ShapeOf(g.Input(0));
  ASSIGN_OR_RETURN(const std::vector<Range1D> ranges, SliceRanges(g.context(), sliced, 1));
  std::vector<int64_t> pads, ends;
  bool has_steps = false;
  for (size_t i = 0; i < ranges.size(); ++i) {
    pads.push_back(ranges[i].start);
    ends.push_back(sliced[i] - ranges[i].start - ranges[i].count);
    has_steps |= ranges[i].step != 1 && ranges[i].count > 0;
  }
  pads.insert(pads.end(), ends.begin(), ends.end());
  const ValueId dy = g.OutputGradient(0);
  if (!has_steps) {
    g.SetInputGradient(0, g.Add("Pad", {dy, g.Ints(pads)}));
    return g.status();
  }
  std::vector<ValueId> operands = {dy, g.Ints(sliced)};
  for (int32_t i = 1; i < g.num_inputs(); ++i) {
    operands.push_back(g.Input(i) == kNoValue ? GradientContext::kOmitted : g.Input(i));
  }
  g.SetInputGradient(0, g.Add("SliceGrad", operands, {}, kMicrosoft));
  return g.status();
}

// com.microsoft SliceGrad: dY, the shape of the sliced tensor, then the inputs of Slice behind it.
absl::StatusOr<std::vector<TensorType>> InferSliceGrad(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Shape shape, ConstantShape(node, 1));
  ASSIGN_OR_RETURN(const std::vector<Range1D> ranges, SliceRanges(node, shape, 2));
  if (SliceCopy(shape, ranges).dims != node.InputShape(0)) {
    return node.Invalid("the gradient does not have the shape of the slice");
  }
  return std::vector<TensorType>{{node.InputDType(0), shape}};
}

absl::StatusOr<Lowering> LowerSliceGrad(const NodeContext& node, const Target&) {
  const TensorType& output = node.OutputType(0);
  ASSIGN_OR_RETURN(const std::vector<Range1D> ranges, SliceRanges(node, output.shape, 2));
  kernels::FillParams fill = {};
  ASSIGN_OR_RETURN(fill.count, ToInt32(node, output.NumElements(), "the number of elements"));
  Lowering lowering =
      OneCall(WidthCall(output.dtype, "kernels/strided_copy.h", "kernels::Fill<{T}>",
                        []<class T>() { return FunctionOf<&kernels::Fill<T>>(); }),
              fill, {KernelArg::Null(), KernelArg::Output(0)});
  StridedCopySpec spec = SliceCopy(output.shape, ranges);
  std::swap(spec.src_strides, spec.dst_strides);
  std::swap(spec.src_offset, spec.dst_offset);
  RETURN_IF_ERROR(AppendStridedCopy(node, output.dtype, spec, KernelArg::Input(0),
                                    KernelArg::Output(0), &lowering));
  return lowering;
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

// The parameters of the kernel that pads tensors of type `input` to `output`.
absl::StatusOr<kernels::PadParams> MakePadParams(const NodeContext& node, const TensorType& input,
                                                 const TensorType& output, const Padding& padding,
                                                 int32_t mode) {
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
  return params;
}

// Pads input 0; `value` is the pointer to the padding.
absl::StatusOr<Lowering> LowerPadding(const NodeContext& node, const Padding& padding, int32_t mode,
                                      KernelArg value) {
  const TensorType& input = node.InputType(0);
  const TensorType& output = node.OutputType(0);
  if (output.NumElements() == 0) return Lowering();
  if (const auto crop = CropSpec(node, padding)) return LowerStridedCopy(node, *crop);
  ASSIGN_OR_RETURN(const kernels::PadParams params,
                   MakePadParams(node, input, output, padding, mode));
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

// Cutting off what was added, and the other way round.
ValueId Unpad(GradientContext& g, const Padding& padding) {
  std::vector<int64_t> pads;
  for (int64_t width : padding.begin) pads.push_back(-width);
  for (int64_t width : padding.end) pads.push_back(-width);
  return g.Add("Pad", {g.OutputGradient(0), g.Ints(pads)});
}

// The padding gets what is left of the sum of the gradients.
ValueId PaddingValueGradient(GradientContext& g, const Padding& padding) {
  const auto sum = [&](ValueId value) {
    return g.Add("ReduceSum", {value}, {{"keepdims", int64_t{0}}});
  };
  const Shape shape = g.ShapeOf(g.Input(2));
  const ValueId all = sum(g.OutputGradient(0));
  return g.ReshapeTo(g.Add("Sub", {all, sum(Unpad(g, padding))}), shape);
}

absl::Status PadGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const Padding padding, PadWidths(g.context()));
  ASSIGN_OR_RETURN(const int32_t mode, PadMode(g.context()));
  const bool is_constant = mode == kernels::kPadConstant;
  if (g.Wants(0) && is_constant) g.SetInputGradient(0, Unpad(g, padding));
  if (g.Wants(0) && !is_constant) {
    std::vector<int64_t> pads = padding.begin;
    pads.insert(pads.end(), padding.end.begin(), padding.end.end());
    const Shape shape = g.ShapeOf(g.Input(0));
    const std::string mode_name = g.context().String("mode", "constant");
    g.SetInputGradient(0, g.Add("PadGrad", {g.OutputGradient(0), g.Ints(pads), g.Ints(shape)},
                                {{"mode", mode_name}}, kMemplan));
  }
  // Where nothing is added, the padding changes nothing.
  if (g.Wants(2) && is_constant) g.SetInputGradient(2, PaddingValueGradient(g, padding));
  return g.status();
}

// PadGrad: dY, the pads of all axes, the shape of what was padded.
absl::StatusOr<std::vector<TensorType>> InferPadGrad(const NodeContext& node) {
  RETURN_IF_ERROR(PadMode(node).status());
  ASSIGN_OR_RETURN(const Shape shape, ConstantShape(node, 2));
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, node.ConstantInts(1, "pads"));
  const Shape& padded = node.InputShape(0);
  bool agrees = padded.size() == shape.size() && pads.size() == 2 * shape.size();
  for (size_t i = 0; i < shape.size() && agrees; ++i) {
    int64_t sum = 0;
    agrees = shape[i] >= 0 && (shape[i] > 0 || padded[i] == 0) &&
             !__builtin_add_overflow(shape[i], pads[i], &sum) &&
             !__builtin_add_overflow(sum, pads[shape.size() + i], &sum) && sum == padded[i];
  }
  if (!agrees) return node.Invalid("the gradient does not have the shape of the padded tensor");
  return std::vector<TensorType>{{node.InputDType(0), shape}};
}

absl::StatusOr<Lowering> LowerPadGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const Padding padding, PadWidths(node));
  ASSIGN_OR_RETURN(const int32_t mode, PadMode(node));
  ASSIGN_OR_RETURN(const kernels::PadParams params,
                   MakePadParams(node, node.OutputType(0), node.InputType(0), padding, mode));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(node, node.InputDType(0), "kernels/scatter_gradient.h",
                                             "kernels::PadGrad<{T}>", []<class T>() {
                                               return FunctionOf<&kernels::PadGrad<T>>();
                                             })));
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
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

Padding CenterPadding(const Shape& in, const Shape& out) {
  Padding padding;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t more = out[i] - in[i];
    // Division truncates: a cut of 3 starts at 1, a padding of 3 has 1 in front.
    padding.begin.push_back(more / 2);
    padding.end.push_back(more - more / 2);
  }
  return padding;
}

Padding CenterPadding(const NodeContext& node) {
  return CenterPadding(node.InputShape(0), node.OutputShape(0));
}

std::vector<Alias> CenterCropPadAliases(const NodeContext& node) {
  if (node.OutputType(0).NumElements() == 0) return {};
  const std::optional<StridedCopySpec> crop = CropSpec(node, CenterPadding(node));
  return crop ? ViewIfContiguous(node, *crop) : std::vector<Alias>();
}

absl::StatusOr<Lowering> LowerCenterCropPad(const NodeContext& node, const Target&) {
  return LowerPadding(node, CenterPadding(node), kernels::kPadConstant, KernelArg::Null());
}

absl::Status CenterCropPadGradient(GradientContext& g) {
  const Padding padding = CenterPadding(g.ShapeOf(g.Input(0)), g.ShapeOf(g.Output(0)));
  g.SetInputGradient(0, Unpad(g, padding));
  return g.status();
}

}  // namespace

extern const OpDef kSlice = {
    .type = "Slice",
    .min_inputs = 3,
    .max_inputs = 5,
    .infer = InferSlice,
    .aliases = SliceAliases,
    .lower = LowerSlice,
    .gradient = SliceGradient,
};

extern const OpDef kSliceGrad = {
    .type = "SliceGrad",
    .domain = kMicrosoft,
    .min_inputs = 4,
    .max_inputs = 6,
    .infer = InferSliceGrad,
    .lower = LowerSliceGrad,
};

extern const OpDef kPad = {
    .type = "Pad",
    .min_inputs = 2,
    .max_inputs = 4,
    .infer = InferPad,
    .aliases = PadAliases,
    .lower = LowerPad,
    .gradient = PadGradient,
};

extern const OpDef kPadGrad = {
    .type = "PadGrad",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferPadGrad,
    .lower = LowerPadGrad,
};

extern const OpDef kCenterCropPad = {
    .type = "CenterCropPad",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferCenterCropPad,
    .aliases = CenterCropPadAliases,
    .lower = LowerCenterCropPad,
    .gradient = CenterCropPadGradient,
};

}  // namespace onnx_memplan
