#include <utility>

#include "absl/strings/str_cat.h"
#include "load/adapters.h"

namespace onnx_memplan::adapters {
namespace {

// Emits the rank of `x` as an int64 tensor of shape [1]. It folds, as every shape is known.
ValueId RankOf(Adaptation& a, ValueId x) {
  const ValueId shape = a.Emit("Shape", {x});
  return a.Emit("Shape", {shape});
}

// Emits int64 ones; `count` is a tensor of shape [1].
ValueId Ones(Adaptation& a, ValueId count) {
  return a.Emit("ConstantOfShape", {count}, {{"value", Tensor::VectorInt64({1})}});
}

absl::Status ToResize(Adaptation& a, ValueId scales) {
  std::string mode = a.TakeString("mode").value_or("nearest");
  if (mode == "bilinear") mode = "linear";
  a.node.op_type = "Resize";
  a.node.inputs = {a.node.inputs[0], kNoValue, scales};
  a.node.attributes = {{"mode", mode},
                       {"coordinate_transformation_mode", std::string("asymmetric")},
                       {"nearest_mode", std::string("floor")}};
  return absl::OkStatus();
}

}  // namespace

// Before 7, b broadcasts only when `broadcast` is set; `axis` is then the dimension of a that b's
// first one belongs to (without it: b's last one belongs to a's last one, as today).
absl::Status LegacyBroadcast(Adaptation& a) {
  const auto axis = a.TakeInt("axis");
  const bool broadcast = a.TakeInt("broadcast").value_or(0) != 0;
  if (!broadcast || !axis) return absl::OkStatus();
  if (!a.HasInput(0) || !a.HasInput(1)) return a.Invalid("needs two inputs");
  const ValueId b = a.node.inputs[1];
  const ValueId b_shape = a.Emit("Shape", {b});
  // Trailing ones: rank(a) - axis - rank(b), or -axis - rank(b) for an axis from the end.
  ValueId space = a.Ints("axis", {-*axis});
  if (*axis >= 0) space = a.Emit("Add", {RankOf(a, a.node.inputs[0]), space});
  const ValueId count = a.Emit("Sub", {space, a.Emit("Shape", {b_shape})});
  const ValueId shape = a.Emit("Concat", {b_shape, Ones(a, count)}, {{"axis", int64_t{0}}});
  a.node.inputs[1] = a.Emit("Reshape", {b, shape});
  return absl::OkStatus();
}

// Before 7 the slope is one number or has one for each channel (axis 1); today it broadcasts from
// the right: slope [C] becomes [C, 1, ..., 1] of rank(x) - 1 dimensions.
absl::Status PReluByChannel(Adaptation& a) {
  if (!a.HasInput(0) || !a.HasInput(1)) return a.Invalid("needs two inputs");
  const ValueId count = a.Emit("Sub", {RankOf(a, a.node.inputs[0]), a.Ints("two", {2})});
  const ValueId shape =
      a.Emit("Concat", {a.Ints("channels", {-1}), Ones(a, count)}, {{"axis", int64_t{0}}});
  a.node.inputs[1] = a.Emit("Reshape", {a.node.inputs[1], shape});
  return absl::OkStatus();
}

// Softmax, LogSoftmax and Hardmax before 13 see their input as a matrix, split at `axis`.
absl::Status SoftmaxOfFlattened(Adaptation& a) {
  if (!a.HasInput(0)) return a.Invalid("needs an input");
  const int64_t axis = a.TakeInt("axis").value_or(1);
  if (axis == -1) return absl::OkStatus();  // the last axis alone: the same today
  const ValueId x = a.node.inputs[0];
  const ValueId matrix = a.Emit("Flatten", {x}, {{"axis", axis}});
  const ValueId result = a.Emit(a.node.op_type, {matrix}, {{"axis", int64_t{-1}}});
  a.node.op_type = "Reshape";
  a.node.inputs = {result, a.Emit("Shape", {x})};
  // The shape is literal: a 0 means an empty dimension.
  a.node.attributes = {{"allowzero", int64_t{1}}};
  return absl::OkStatus();
}

absl::Status BatchNormalizationOld(Adaptation& a) {
  if (a.TakeInt("spatial").value_or(1) == 0) {
    return a.Unsupported("spatial = 0 (statistics for each element) is not supported");
  }
  const auto is_test = a.TakeInt("is_test");
  if (is_test && *is_test == 0) return a.Unsupported("training mode (is_test = 0)");
  // Before 14, asking for the statistics is what selects training mode.
  for (size_t i = 1; i < a.node.outputs.size(); ++i) {
    if (a.HasOutput(i)) {
      return a.Unsupported("training mode (more than one output); export the model for inference");
    }
  }
  if (a.node.outputs.size() > 1)
    a.node.outputs.erase(a.node.outputs.begin() + 1, a.node.outputs.end());
  return absl::OkStatus();
}

// The ratio (an input since 12) plays no part in inference.
absl::Status DropoutOld(Adaptation& a) {
  const auto is_test = a.TakeInt("is_test");
  if (is_test && *is_test == 0) return a.Unsupported("training mode (is_test = 0)");
  a.Drop("ratio");
  if (a.node.inputs.size() > 1) a.node.inputs.erase(a.node.inputs.begin() + 1, a.node.inputs.end());
  return absl::OkStatus();
}

absl::Status UpsampleToResize(Adaptation& a) {
  if (!a.HasInput(0)) return a.Invalid("needs an input");
  if (a.HasInput(1)) return ToResize(a, a.node.inputs[1]);
  auto scales = a.TakeFloats("scales");
  const auto height = a.TakeFloat("height_scale");
  const auto width = a.TakeFloat("width_scale");
  if (!scales && height && width) scales = {1, 1, *height, *width};
  if (!scales) return a.Invalid("has no scales");
  const auto rank = static_cast<int64_t>(scales->size());
  return ToResize(a, a.Constant("scales", Tensor::FromVector<float>({rank}, *scales)));
}

absl::Status Resize10(Adaptation& a) {
  if (!a.HasInput(0) || !a.HasInput(1)) return a.Invalid("needs two inputs");
  return ToResize(a, a.node.inputs[1]);
}

// Before 13, roi and scales could not be omitted: an empty constant says the same.
absl::Status ResizeOptionalInputs(Adaptation& a) {
  for (size_t i = 1; i <= 2 && i < a.node.inputs.size(); ++i) {
    if (a.IsEmptyConstant(i)) a.node.inputs[i] = kNoValue;
  }
  return absl::OkStatus();
}

// Before 21, scale and bias have one number for each group. With n = channels / groups:
// [groups] -> [groups, 1] -> [groups, n] -> [channels].
absl::Status GroupNormalizationByGroup(Adaptation& a) {
  const auto it = a.node.attributes.find("num_groups");
  const auto* groups = it == a.node.attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
  if (groups == nullptr || *groups <= 0) return a.Invalid("attribute 'num_groups' is missing");
  if (!a.HasInput(0) || !a.HasInput(1) || !a.HasInput(2)) return a.Invalid("needs three inputs");
  const ValueId channels =
      a.Emit("Shape", {a.node.inputs[0]}, {{"start", int64_t{1}}, {"end", int64_t{2}}});
  const ValueId group_count = a.Ints("num_groups", {*groups});
  const ValueId repeats = a.Emit("Div", {channels, group_count});
  const ValueId shape = a.Emit("Concat", {group_count, repeats}, {{"axis", int64_t{0}}});
  for (size_t i = 1; i <= 2; ++i) {
    const ValueId column = a.Emit("Unsqueeze", {a.node.inputs[i], a.Ints("axis", {1})});
    const ValueId expanded = a.Emit("Expand", {column, shape});
    a.node.inputs[i] = a.Emit("Reshape", {expanded, a.Ints("flat", {-1})});
  }
  return absl::OkStatus();
}

absl::Status Refuse(Adaptation& a) {
  return a.Unsupported(
      "this old form of the operator is not supported; convert the model with "
      "onnx.version_converter, or export it with a newer opset");
}

}  // namespace onnx_memplan::adapters
