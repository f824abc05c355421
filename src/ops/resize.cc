// Resize: every mode is a table for each axis (resize_table.h) and one kernel that reads it.
#include "ops/host_kernels.h"

#include "kernels/resize.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/resize_lanes.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/index_rules.h"
#include "ops/resize_table.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::StatusOr<ResizeRule> RuleOf(const NodeContext& node) {
  ResizeRule rule;
  rule.mode = node.String("mode", "nearest");
  rule.coordinates = node.String("coordinate_transformation_mode", "half_pixel");
  rule.nearest_mode = node.String("nearest_mode", "round_prefer_floor");
  rule.cubic_coeff_a = static_cast<double>(node.Float("cubic_coeff_a", -0.75F));
  rule.antialias = node.Int("antialias", 0) != 0;
  rule.exclude_outside = node.Int("exclude_outside", 0) != 0;
  if (!IsOneOf(rule.mode, {"nearest", "linear", "cubic"})) {
    return node.Invalid("mode '" + rule.mode + "' is not one of nearest, linear, cubic");
  }
  if (!IsOneOf(rule.coordinates,
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"})) {
    return node.Invalid("unknown coordinate_transformation_mode '" + rule.coordinates + "'");
  }
  if (!IsOneOf(rule.nearest_mode, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})) {
    return node.Invalid("unknown nearest_mode '" + rule.nearest_mode + "'");
  }
  return rule;
}

bool IsGiven(const NodeContext& node, int32_t i) {
  return node.HasInput(i) && node.InputType(i).NumElements() != 0;
}

// The axes that scales, sizes and roi speak of, in their order.
absl::StatusOr<std::vector<size_t>> NamedAxes(const NodeContext& node) {
  const int64_t rank = node.InputType(0).rank();
  std::vector<int64_t> given;
  for (int64_t i = 0; i < rank; ++i) given.push_back(i);
  std::vector<size_t> axes;
  for (int64_t axis : node.Ints("axes", given)) {
    ASSIGN_OR_RETURN(const int64_t normal, node.NormalizeAxis(axis, rank));
    if (std::find(axes.begin(), axes.end(), static_cast<size_t>(normal)) != axes.end()) {
      return node.Invalid(absl::StrCat("axis ", axis, " is given twice"));
    }
    axes.push_back(static_cast<size_t>(normal));
  }
  return axes;
}

// Reads the region of tf_crop_and_resize: starts of the named axes, then their ends.
absl::Status ReadRoi(const NodeContext& node, const std::vector<size_t>& named,
                     std::vector<ResizeAxis>* axes) {
  if (node.String("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize") {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<double> roi, node.ConstantDoubles(1, "roi"));
  if (roi.size() != 2 * named.size()) {
    return node.Invalid(absl::StrCat("roi has ", roi.size(), " elements for ", named.size(),
                                     " axes; two for each are needed"));
  }
  for (size_t i = 0; i < named.size(); ++i) {
    (*axes)[named[i]].roi_start = static_cast<float>(roi[i]);
    (*axes)[named[i]].roi_end = static_cast<float>(roi[named.size() + i]);
  }
  return absl::OkStatus();
}

absl::Status ApplyScales(const NodeContext& node, const std::vector<size_t>& named,
                         std::vector<ResizeAxis>* axes) {
  ASSIGN_OR_RETURN(const std::vector<double> scales, node.ConstantDoubles(2, "scales"));
  if (scales.size() != named.size()) {
    return node.Invalid(
        absl::StrCat("scales has ", scales.size(), " elements for ", named.size(), " axes"));
  }
  for (size_t i = 0; i < named.size(); ++i) {
    ResizeAxis& axis = (*axes)[named[i]];
    axis.scale = static_cast<float>(scales[i]);
    axis.length = axis.scale * static_cast<float>(axis.in) * (axis.roi_end - axis.roi_start);
    if (!(axis.scale > 0) || !(axis.length >= 0) || axis.length >= 0x1p31F) {
      return node.Invalid(absl::StrCat("cannot scale ", axis.in, " elements by ", scales[i]));
    }
    axis.out = static_cast<int64_t>(std::floor(axis.length));
  }
  return absl::OkStatus();
}

absl::Status ApplySizes(const NodeContext& node, const std::vector<size_t>& named,
                        std::vector<ResizeAxis>* axes) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, node.ConstantInts(3, "sizes"));
  if (sizes.size() != named.size()) {
    return node.Invalid(
        absl::StrCat("sizes has ", sizes.size(), " elements for ", named.size(), " axes"));
  }
  const std::string policy = node.String("keep_aspect_ratio_policy", "stretch");
  if (!IsOneOf(policy, {"stretch", "not_larger", "not_smaller"})) {
    return node.Invalid("unknown keep_aspect_ratio_policy '" + policy + "'");
  }
  std::optional<float> common;
  for (size_t i = 0; i < named.size(); ++i) {
    ResizeAxis& axis = (*axes)[named[i]];
    if (sizes[i] < 0 || sizes[i] > INT32_MAX || (axis.in == 0 && sizes[i] != 0)) {
      return node.Invalid(absl::StrCat("cannot resize ", axis.in, " elements to ", sizes[i]));
    }
    axis.out = sizes[i];
    axis.length = static_cast<float>(axis.out);
    if (axis.in == 0) continue;
    axis.scale = static_cast<float>(axis.out) / static_cast<float>(axis.in);
    if (!common || (policy == "not_larger" ? axis.scale < *common : axis.scale > *common)) {
      common = axis.scale;
    }
  }
  if (policy == "stretch" || !common) return absl::OkStatus();
  for (size_t i : named) {
    ResizeAxis& axis = (*axes)[i];
    axis.scale = *common;
    axis.length = std::floor(*common * static_cast<float>(axis.in) + 0.5F);
    if (axis.length >= 0x1p31F) return node.Invalid("the output is too large");
    axis.out = static_cast<int64_t>(axis.length);
  }
  return absl::OkStatus();
}

// What is resized: input 0, or what attribute `input_shape` of ResizeGrad says.
Shape ResizedShape(const NodeContext& node) { return node.Ints("input_shape", node.InputShape(0)); }

// What happens to each dimension.
absl::StatusOr<std::vector<ResizeAxis>> ResizeAxes(const NodeContext& node) {
  std::vector<ResizeAxis> axes;
  for (int64_t dim : ResizedShape(node)) {
    axes.push_back({.in = dim, .out = dim, .length = static_cast<float>(dim)});
  }
  ASSIGN_OR_RETURN(const std::vector<size_t> named, NamedAxes(node));
  RETURN_IF_ERROR(ReadRoi(node, named, &axes));
  if (IsGiven(node, 3) == IsGiven(node, 2)) {
    return node.Invalid("either scales or sizes must be given");
  }
  RETURN_IF_ERROR(IsGiven(node, 3) ? ApplySizes(node, named, &axes)
                                   : ApplyScales(node, named, &axes));
  return axes;
}

absl::StatusOr<std::vector<TensorType>> InferResize(const NodeContext& node) {
  RETURN_IF_ERROR(RuleOf(node).status());
  ASSIGN_OR_RETURN(const std::vector<ResizeAxis> axes, ResizeAxes(node));
  TensorType type = node.InputType(0);
  for (size_t i = 0; i < axes.size(); ++i) type.shape[i] = axes[i].out;
  return std::vector<TensorType>{type};
}

// Tables as the kernel takes them: leading dimensions that stay merged into `outer`, trailing ones
// into `inner`, neighbours that stay in between into one axis.
struct ResizePlan {
  struct Axis {
    int64_t in, out;
    ResizeTable table;
    bool is_identity;
  };
  int64_t outer = 1;
  int64_t inner = 1;
  std::vector<Axis> axes;
};

ResizeTable IdentityTable(int64_t dim) {
  ResizeTable table;
  for (int64_t i = 0; i < dim; ++i) table.indices.push_back(static_cast<int32_t>(i));
  table.weights.assign(table.indices.size(), 1.0F);
  return table;
}

absl::StatusOr<ResizePlan> PlanResize(const NodeContext& node) {
  // Entries of one table; beyond, the table would outweigh any model.
  constexpr int64_t kMostEntries = int64_t{1} << 24;
  ASSIGN_OR_RETURN(const ResizeRule rule, RuleOf(node));
  ASSIGN_OR_RETURN(const std::vector<ResizeAxis> axes, ResizeAxes(node));
  ResizePlan plan;
  for (const ResizeAxis& axis : axes) {
    const bool untouched = axis.in == axis.out && axis.scale == 1 && axis.roi_start == 0 &&
                           axis.roi_end == 1 && rule.coordinates != "tf_half_pixel_for_nn";
    ResizePlan::Axis planned = {axis.in, axis.out, {}, untouched};
    if (!untouched) {
      if (axis.out > kMostEntries / ResizeTaps(rule, axis)) {
        return node.Unsupported("the table of the resampling would be too large");
      }
      planned.table = MakeResizeTable(rule, axis);
      planned.is_identity = axis.in == axis.out && planned.table.IsIdentity(axis.in);
    }
    if (!planned.is_identity) {
      plan.axes.push_back(std::move(planned));
    } else if (plan.axes.empty()) {
      plan.outer *= axis.in;
    } else if (plan.axes.back().is_identity) {
      plan.axes.back().in *= axis.in;
      plan.axes.back().out *= axis.in;
    } else {
      plan.axes.push_back(std::move(planned));
    }
  }
  if (!plan.axes.empty() && plan.axes.back().is_identity) {
    plan.inner = plan.axes.back().in;
    plan.axes.pop_back();
  }
  for (ResizePlan::Axis& axis : plan.axes) {
    if (!axis.is_identity) continue;
    if (axis.in > kMostEntries) return node.Unsupported("the table would be too large");
    axis.table = IdentityTable(axis.in);
  }
  if (plan.axes.size() > static_cast<size_t>(kernels::kResizeAxes)) {
    return node.Unsupported("more than 4 axes change or lie between those that change");
  }
  return plan;
}

absl::StatusOr<KernelCall> WeightedCall(const NodeContext& node) {
  if (node.InputDType(0) == DType::kDouble) {
    return TypedCall<double>(
        node, DType::kDouble, "kernels/resize.h", "kernels::ResizeWeighted<{T}, double>",
        []<class T>() { return FunctionOf<&kernels::ResizeWeighted<T, double>>(); });
  }
  return TypedCall<float, int8_t, int16_t, int32_t, uint8_t, uint16_t>(
      node, node.InputDType(0), "kernels/resize.h", "kernels::ResizeWeighted<{T}, float>",
      []<class T>() { return FunctionOf<&kernels::ResizeWeighted<T, float>>(); });
}

std::vector<Alias> ResizeAliases(const NodeContext& node) {
  if (node.OutputType(0).NumElements() == 0 || !CheckCounts(node).ok()) return {};
  const absl::StatusOr<ResizePlan> plan = PlanResize(node);
  return plan.ok() && plan->axes.empty() ? rules::ViewOfFirstInput(node) : std::vector<Alias>();
}

// What the kernels take.
struct ResizeTables {
  kernels::ResizeParams params = {};
  std::vector<int32_t> indices = {0};  // the first entry is of the axes that are not there
  std::vector<float> weights = {1};
  bool extrapolates = false;

  Tensor Indices() const {
    return Tensor::FromVector<int32_t>({static_cast<int64_t>(indices.size())}, indices);
  }
  Tensor Weights() const {
    return Tensor::FromVector<float>({static_cast<int64_t>(weights.size())}, weights);
  }
};

absl::StatusOr<ResizeTables> MakeTables(const NodeContext& node, const ResizePlan& plan) {
  ResizeTables tables;
  kernels::ResizeParams& params = tables.params;
  params.extrapolation = node.Float("extrapolation_value", 0);
  ASSIGN_OR_RETURN(params.outer, ToInt32(node, plan.outer, "a product of dimensions"));
  ASSIGN_OR_RETURN(params.inner, ToInt32(node, plan.inner, "a product of dimensions"));
  const size_t pad = static_cast<size_t>(kernels::kResizeAxes) - plan.axes.size();
  for (size_t a = 0; a < static_cast<size_t>(kernels::kResizeAxes); ++a) {
    params.in[a] = params.out[a] = params.taps[a] = 1;
    if (a < pad) continue;
    const ResizePlan::Axis& axis = plan.axes[a - pad];
    ASSIGN_OR_RETURN(params.in[a], ToInt32(node, axis.in, "a dimension"));
    ASSIGN_OR_RETURN(params.out[a], ToInt32(node, axis.out, "a dimension"));
    params.taps[a] = axis.table.taps;
    params.first[a] = static_cast<int32_t>(tables.indices.size());
    tables.indices.insert(tables.indices.end(), axis.table.indices.begin(),
                          axis.table.indices.end());
    tables.weights.insert(tables.weights.end(), axis.table.weights.begin(),
                          axis.table.weights.end());
    tables.extrapolates = tables.extrapolates || axis.table.Extrapolates();
  }
  return tables;
}

// The kernel for floats whose two axes lie around whole vectors, if it applies.
std::optional<KernelCall> LanesCall(const NodeContext& node, const Target& target,
                                    const ResizePlan& plan, const ResizeTables& tables) {
  const int32_t lanes = target.vector_floats >= 8 && plan.inner % 8 == 0 ? 8 : 4;
  const kernels::ResizeParams& p = tables.params;
  if (node.InputDType(0) != DType::kFloat || plan.axes.size() > 2 || plan.inner % lanes != 0 ||
      tables.extrapolates) {
    return std::nullopt;
  }
  KernelCall call;
  call.header = "kernels/resize_lanes.h";
  if (node.String("mode", "nearest") == "nearest") {
    call.name = absl::StrCat("kernels::ResizeNearestLanes<", lanes, ">");
    call.function = lanes == 8 ? FunctionOf<&kernels::ResizeNearestLanes<8>>()
                               : FunctionOf<&kernels::ResizeNearestLanes<4>>();
    call.constants = {tables.Indices()};
    return call;
  }
  if (p.taps[2] != 2 || p.taps[3] != 2) return std::nullopt;
  call.name = absl::StrCat("kernels::ResizeLinearLanes<", lanes, ">");
  call.function = lanes == 8 ? FunctionOf<&kernels::ResizeLinearLanes<8>>()
                             : FunctionOf<&kernels::ResizeLinearLanes<4>>();
  call.constants = {tables.Indices(), tables.Weights()};
  return call;
}

absl::StatusOr<Lowering> LowerResize(const NodeContext& node, const Target& target) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const ResizePlan plan, PlanResize(node));
  if (plan.axes.empty()) return rules::LowerCopy(node, target);
  ASSIGN_OR_RETURN(const ResizeTables tables, MakeTables(node, plan));
  const KernelArg x = KernelArg::Input(0);
  const KernelArg y = KernelArg::Output(0);
  if (std::optional<KernelCall> call = LanesCall(node, target, plan, tables)) {
    std::vector<KernelArg> args = {x, KernelArg::Constant(0)};
    if (call->constants.size() == 2) args.push_back(KernelArg::Constant(1));
    args.push_back(y);
    return OneCall(*std::move(call), tables.params, std::move(args));
  }
  if (node.String("mode", "nearest") == "nearest" && !tables.extrapolates) {
    KernelCall call =
        WidthCall(node.InputDType(0), "kernels/resize.h", "kernels::ResizeNearest<{T}>",
                  []<class T>() { return FunctionOf<&kernels::ResizeNearest<T>>(); });
    call.constants = {tables.Indices()};
    return OneCall(std::move(call), tables.params, {x, KernelArg::Constant(0), y});
  }
  ASSIGN_OR_RETURN(KernelCall call, WeightedCall(node));
  call.constants = {tables.Indices(), tables.Weights()};
  return OneCall(std::move(call), tables.params,
                 {x, KernelArg::Constant(0), KernelArg::Constant(1), y});
}

absl::Status ResizeGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  std::vector<ValueId> operands = {g.OutputGradient(0)};
  for (int32_t i = 1; i < g.num_inputs(); ++i) {
    operands.push_back(g.Input(i) == kNoValue ? GradientContext::kOmitted : g.Input(i));
  }
  GradientContext::Attributes attributes = g.node().attributes;
  attributes["input_shape"] = Shape(g.ShapeOf(g.Input(0)));
  g.SetInputGradient(0, g.Add("ResizeGrad", operands, std::move(attributes), kMemplan));
  return g.status();
}

// ResizeGrad: dY, then the inputs of Resize behind its first, and its attributes; `input_shape` is
// the shape of what was resized.
absl::StatusOr<std::vector<TensorType>> InferResizeGrad(const NodeContext& node) {
  RETURN_IF_ERROR(node.RequiredInts("input_shape").status());
  RETURN_IF_ERROR(RuleOf(node).status());
  const Shape shape = ResizedShape(node);
  if (shape.size() != node.InputShape(0).size()) return node.Invalid("the ranks differ");
  for (int64_t dim : shape) {
    if (dim < 1) return node.Invalid("a dimension of input_shape is less than 1");
  }
  if (node.InputType(0).NumElements() == 0) return node.Invalid("the gradient has no elements");
  ASSIGN_OR_RETURN(const std::vector<ResizeAxis> axes, ResizeAxes(node));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (node.InputShape(0)[i] != axes[i].out) {
      return node.Invalid(
          absl::StrCat("dimension ", i, " of the gradient should be ", axes[i].out));
    }
  }
  return std::vector<TensorType>{{node.InputDType(0), shape}};
}

absl::StatusOr<Lowering> LowerResizeGrad(const NodeContext& node, const Target& target) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const ResizePlan plan, PlanResize(node));
  if (plan.axes.empty()) return rules::LowerCopy(node, target);
  ASSIGN_OR_RETURN(const ResizeTables tables, MakeTables(node, plan));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(
                       node, node.InputDType(0), "kernels/resize.h", "kernels::ResizeGrad<{T}>",
                       []<class T>() { return FunctionOf<&kernels::ResizeGrad<T>>(); })));
  call.constants = {tables.Indices(), tables.Weights()};
  return OneCall(
      std::move(call), tables.params,
      {KernelArg::Input(0), KernelArg::Constant(0), KernelArg::Constant(1), KernelArg::Output(0)});
}

}  // namespace

extern const OpDef kResize = {
    .type = "Resize",
    .min_inputs = 1,
    .max_inputs = 4,
    .infer = InferResize,
    .aliases = ResizeAliases,
    .lower = LowerResize,
    .gradient = ResizeGradient,
};

extern const OpDef kResizeGrad = {
    .type = "ResizeGrad",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 4,
    .infer = InferResizeGrad,
    .aliases = ResizeAliases,
    .lower = LowerResizeGrad,
};

}  // namespace onnx_memplan
