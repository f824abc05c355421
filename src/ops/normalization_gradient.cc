// Gradient operators of normalisations, and the rules that use them.
//
// com.microsoft, operands as ONNX Runtime's: BatchNormalizationGrad(dY, X, scale, mean,
// 1/deviation) and LayerNormalizationGrad(dY, X, scale, mean, 1/deviation) -> dX, dscale, dbias. Of
// the latter there also is a form (dY, X, scale, bias), which takes the statistics anew. Of this
// project: GroupNormalizationGrad(dY, X, scale) -> dX, dscale, dbias, which also serves
// InstanceNormalization; RmsNormalizationGrad(dY, X, scale) -> dX, dscale; ChannelScaleGrad(dY, X,
// mean, 1/deviation) -> dscale; LpNormalizationGrad(dY, X), LrnGrad(dY, X) -> dX. Attributes are
// those of the forward operators.
#include "ops/host_kernels.h"

#include "kernels/normalization_gradient.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/families.h"
#include "ops/normalization_lowering.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr std::string_view kHeader = "kernels/normalization_gradient.h";

KernelArg OutputOrNull(const NodeContext& node, int32_t i) {
  return node.HasOutput(i) ? KernelArg::Output(i) : KernelArg::Null();
}

absl::Status CheckGradient(const NodeContext& node) {
  if (node.InputType(0) == node.InputType(1)) return absl::OkStatus();
  return node.Invalid("the gradient and X must be of one type");
}

// Inputs `first` to `last` are vectors by channel of X.
absl::Status CheckChannelVectors(const NodeContext& node, int32_t first, int32_t last) {
  RETURN_IF_ERROR(CheckGradient(node));
  const Shape& x = node.InputShape(0);
  const TensorType expected = {node.InputDType(0), {x.size() < 2 ? 1 : x[1]}};
  for (int32_t i = first; i <= last; ++i) {
    if (node.InputType(i) == expected) continue;
    return node.Invalid(absl::StrCat("input ", i, " must be ", expected.ToString()));
  }
  return absl::OkStatus();
}

// dX over dY, and over X.
std::vector<Alias> InPlaceGradient(const NodeContext& node) {
  if (!node.HasOutput(0)) return {};
  return {{Alias::Kind::kInPlace, 0, 0, 0}, {Alias::Kind::kInPlace, 0, 1, 0}};
}

// ---- BatchNormalization

absl::StatusOr<std::vector<TensorType>> InferBatchGrad(const NodeContext& node) {
  RETURN_IF_ERROR(CheckChannelVectors(node, 2, 4));
  return std::vector<TensorType>{node.InputType(0), node.InputType(2), node.InputType(2)};
}

absl::StatusOr<kernels::BatchNormalizationGradParams> BatchGradParams(const NodeContext& node) {
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtChannels(node));
  return kernels::BatchNormalizationGradParams{split.outer, split.count, split.inner};
}

absl::StatusOr<Lowering> LowerBatchGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), kHeader,
                               "kernels::BatchNormalizationGrad<{T}>", "", []<class T> {
                                 return FunctionOf<&kernels::BatchNormalizationGrad<T>>();
                               }));
  ASSIGN_OR_RETURN(const kernels::BatchNormalizationGradParams params, BatchGradParams(node));
  std::vector<KernelArg> args;
  for (int32_t i = 0; i < 5; ++i) args.push_back(KernelArg::Input(i));
  for (int32_t i = 0; i < 3; ++i) args.push_back(OutputOrNull(node, i));
  return OneCall(std::move(call), params, std::move(args));
}

absl::StatusOr<std::vector<TensorType>> InferChannelScaleGrad(const NodeContext& node) {
  RETURN_IF_ERROR(CheckChannelVectors(node, 2, 3));
  return std::vector<TensorType>{node.InputType(2)};
}

absl::StatusOr<Lowering> LowerChannelScaleGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(
      KernelCall call,
      TypedCallOf(FloatTypes(), node, node.InputDType(0), kHeader, "kernels::ChannelScaleGrad<{T}>",
                  "", []<class T> { return FunctionOf<&kernels::ChannelScaleGrad<T>>(); }));
  ASSIGN_OR_RETURN(const kernels::BatchNormalizationGradParams params, BatchGradParams(node));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2),
                  KernelArg::Input(3), KernelArg::Output(0)});
}

// ---- GroupNormalization

absl::StatusOr<std::vector<TensorType>> InferGroupGrad(const NodeContext& node) {
  RETURN_IF_ERROR(CheckChannelVectors(node, 2, 2));
  if (node.InputType(0).rank() < 2) return node.Invalid("X must have a channel dimension");
  ASSIGN_OR_RETURN(const int64_t groups, node.RequiredInt("num_groups"));
  const int64_t channels = node.InputShape(0)[1];
  if (groups < 0 || groups > channels || (groups > 0 ? channels % groups : channels) != 0) {
    return node.Invalid(absl::StrCat("num_groups is ", groups, ", which must divide the channels"));
  }
  return std::vector<TensorType>{node.InputType(0), node.InputType(2), node.InputType(2)};
}

absl::StatusOr<Lowering> LowerGroupGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), kHeader,
                               "kernels::GroupNormalizationGrad<{T}>", "", []<class T> {
                                 return FunctionOf<&kernels::GroupNormalizationGrad<T>>();
                               }));
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtAxis(node, node.InputShape(0), 1));
  kernels::GroupNormalizationParams params = {};
  params.outer = split.outer;
  params.num_groups = static_cast<int32_t>(node.Int("num_groups", 1));
  params.group_channels = params.num_groups == 0 ? 0 : split.count / params.num_groups;
  params.inner = split.inner;
  params.epsilon = node.Float("epsilon", 1e-5F);
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2),
                  OutputOrNull(node, 0), OutputOrNull(node, 1), OutputOrNull(node, 2)});
}

// ---- LayerNormalization, RMSNormalization

// X and scale; the scale has an element for each one of a row.
absl::StatusOr<Rows> CheckRowGradient(const NodeContext& node) {
  RETURN_IF_ERROR(CheckGradient(node));
  ASSIGN_OR_RETURN(Rows rows, SplitRows(node));
  const TensorType row = {node.InputDType(0), rows.row_shape};
  if (node.InputDType(2) != row.dtype || node.InputType(2).NumElements() != row.NumElements()) {
    return node.Invalid(absl::StrCat("the scale must have the elements of ", row.ToString()));
  }
  return rows;
}

absl::StatusOr<std::vector<TensorType>> InferLayerGrad(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Rows rows, CheckRowGradient(node));
  const int64_t outer = TensorType{DType::kInt8, rows.outer_shape}.NumElements();
  if (node.num_inputs() < 5 && node.InputType(3) != node.InputType(2)) {
    return node.Invalid("without statistics, input 3 must be the bias, of the scale's type");
  }
  // Those of 16-bit tensors are kept in float.
  const DType dtype = node.InputDType(0);
  const DType kept = DTypeBytes(dtype) == 2 ? DType::kFloat : dtype;
  for (int32_t i = 3; node.num_inputs() == 5 && i < 5; ++i) {
    if (!node.HasInput(i) || (node.InputDType(i) != dtype && node.InputDType(i) != kept) ||
        node.InputType(i).NumElements() != outer) {
      return node.Invalid(absl::StrCat("input ", i, " must have ", outer, " elements of X's type"));
    }
  }
  return std::vector<TensorType>{node.InputType(0), node.InputType(2), node.InputType(2)};
}

absl::StatusOr<std::vector<TensorType>> InferRmsGrad(const NodeContext& node) {
  RETURN_IF_ERROR(CheckRowGradient(node).status());
  return std::vector<TensorType>{node.InputType(0), node.InputType(2)};
}

template <bool kCenters>
absl::StatusOr<Lowering> LowerRowGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(
      KernelCall call,
      TypedCallOf(
          FloatTypes(), node, node.InputDType(0), kHeader,
          absl::StrCat("kernels::LayerNormalizationGrad<{T}, ", kCenters ? "true" : "false", ">"),
          "", []<class T> { return FunctionOf<&kernels::LayerNormalizationGrad<T, kCenters>>(); }));
  ASSIGN_OR_RETURN(const Rows rows, SplitRows(node));
  ASSIGN_OR_RETURN(const kernels::LayerNormalizationParams params, RowParams(node, rows));
  const bool has_statistics = node.num_inputs() == 5;
  const int64_t element_bytes = DTypeBytes(node.InputDType(0));
  Lowering lowering =
      OneCall(std::move(call), params,
              {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2),
               has_statistics ? KernelArg::Input(3) : KernelArg::Null(),
               has_statistics ? KernelArg::Input(4) : KernelArg::Null(), KernelArg::Scratch(),
               OutputOrNull(node, 0), OutputOrNull(node, 1), OutputOrNull(node, 2)});
  if (node.HasOutput(1) || node.HasOutput(2)) {
    lowering.scratch_bytes =
        kernels::ColumnSumScratchBytes(params.outer, params.count, element_bytes, 2);
  }
  lowering.scratch_alignment = lowering.scratch_bytes > 0 ? element_bytes : 0;
  return lowering;
}

// ---- LpNormalization, LRN

absl::StatusOr<std::vector<TensorType>> InferLpGrad(const NodeContext& node) {
  RETURN_IF_ERROR(CheckGradient(node));
  return kLpNormalization.infer(node);
}

absl::StatusOr<Lowering> LowerLpGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), kHeader,
                               "kernels::LpNormalizationGrad<{T}>", "", []<class T> {
                                 return FunctionOf<&kernels::LpNormalizationGrad<T>>();
                               }));
  ASSIGN_OR_RETURN(const AxisSplit split,
                   SplitAtAxis(node, node.InputShape(0), node.Int("axis", -1)));
  const kernels::LpNormalizationParams params = {split.outer, split.count, split.inner,
                                                 static_cast<int32_t>(node.Int("p", 2))};
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

absl::StatusOr<std::vector<TensorType>> InferLrnGrad(const NodeContext& node) {
  RETURN_IF_ERROR(CheckGradient(node));
  return kLRN.infer(node);
}

absl::StatusOr<Lowering> LowerLrnGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call, TypedCallOf(FloatTypes(), node, node.InputDType(0), kHeader,
                                                "kernels::LrnGrad<{T}>", "", []<class T> {
                                                  return FunctionOf<&kernels::LrnGrad<T>>();
                                                }));
  ASSIGN_OR_RETURN(const kernels::LrnParams params, MakeLrnParams(node));
  const int64_t element_bytes = DTypeBytes(node.InputDType(0));
  Lowering lowering = OneCall(
      std::move(call), params,
      {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Scratch(), KernelArg::Output(0)});
  lowering.scratch_bytes = kernels::LrnGradScratchBytes(params.channels, element_bytes);
  lowering.scratch_alignment = element_bytes;
  return lowering;
}

// ---- Rules

using Attributes = GradientContext::Attributes;

// Runs `op_type` with an output for each of the gradients of inputs 0, 1, ..., and sets those that
// are wanted.
absl::Status SetGradients(GradientContext& g, std::string_view op_type, std::vector<ValueId> inputs,
                          int32_t count, const Attributes& attributes, std::string_view domain) {
  const std::vector<ValueId> gradients =
      g.AddMany(op_type, std::move(inputs), count, attributes, domain);
  for (int32_t i = 0; i < count; ++i) {
    if (g.Wants(i)) g.SetInputGradient(i, gradients[static_cast<size_t>(i)]);
  }
  return g.status();
}

bool WantsAny(const GradientContext& g, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (g.Wants(i)) return true;
  }
  return false;
}

absl::Status BatchTrainingGradient(GradientContext& g) {
  // The running statistics are no part of the loss.
  const ValueId dy = g.OutputGradient(0);
  if (dy == kNoValue || !WantsAny(g, 3)) return absl::OkStatus();
  ValueId mean = g.Output(3);
  ValueId inverse = g.Output(4);
  if (mean == kNoValue || inverse == kNoValue) {
    if (g.num_outputs() > 3) {
      return g.context().Unsupported("one of its saved statistics is an output without the other");
    }
    const std::vector<ValueId> added =
        g.ExtendNode("BatchNormInternal", kMicrosoft, 5 - g.num_outputs());
    mean = added[added.size() - 2];
    inverse = added[added.size() - 1];
  }
  RETURN_IF_ERROR(g.status());
  Attributes attributes;
  if (g.context().HasAttribute("epsilon")) {
    attributes["epsilon"] = g.context().Float("epsilon", 1e-5F);
  }
  return SetGradients(g, "BatchNormalizationGrad", {dy, g.Input(0), g.Input(1), mean, inverse}, 3,
                      attributes, kMicrosoft);
}

// y = (x - mean) * inverse * scale + bias with inverse = 1 / sqrt(variance + epsilon).
absl::Status BatchInferenceGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  const TensorType x = g.Type(g.Input(0));
  const ValueId epsilon =
      g.Scalar(static_cast<double>(g.context().Float("epsilon", 1e-5F)), x.dtype);
  const ValueId inverse =
      g.Add("Reciprocal", {g.Add("Sqrt", {g.Add("Add", {g.Input(4), epsilon})})});
  ValueId dscale = kNoValue;
  if (g.Wants(1) || g.Wants(4)) {
    dscale = g.Add("ChannelScaleGrad", {dy, g.Input(0), g.Input(3), inverse}, {}, kMemplan);
    if (g.Wants(1)) g.SetInputGradient(1, dscale);
  }
  ValueId dbias = kNoValue;
  if (g.Wants(2) || g.Wants(3)) {
    std::vector<int64_t> axes = {0};
    for (int64_t axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
    dbias = g.Add("ReduceSum", {dy, g.Ints(axes)}, {{"keepdims", int64_t{0}}});
    if (x.rank() < 2) dbias = g.ReshapeTo(dbias, {1});
    if (g.Wants(2)) g.SetInputGradient(2, dbias);
  }
  if (!g.Wants(0) && !g.Wants(3) && !g.Wants(4)) return g.status();
  const ValueId factor = g.Add("Mul", {g.Input(1), inverse});
  if (g.Wants(0)) {
    Shape channels(x.shape.size(), 1);
    if (x.rank() >= 2) channels[1] = x.shape[1];
    g.SetInputGradient(0, g.Add("Mul", {dy, g.ReshapeTo(factor, channels)}));
  }
  if (g.Wants(3)) g.SetInputGradient(3, g.Add("Neg", {g.Add("Mul", {dbias, factor})}));
  if (g.Wants(4)) {
    // dscale * scale * d(inverse)/d(variance) / inverse, where the quotient is -inverse^2 / 2.
    const ValueId half = g.Add("Mul", {g.Add("Mul", {dscale, factor}), inverse});
    g.SetInputGradient(4, g.Add("Mul", {half, g.Scalar(-0.5, x.dtype)}));
  }
  return g.status();
}

// The scale with an element for each one of a row.
ValueId RowScale(GradientContext& g, const Shape& row) {
  return g.ShapeOf(g.Input(1)) == row ? g.Input(1) : g.Add("Expand", {g.Input(1), g.Ints(row)});
}

// Sets the gradients of X, scale and bias from those of X and of scale and bias for each element of
// a row.
void SetRowGradients(GradientContext& g, const std::vector<ValueId>& gradients) {
  if (!g.status().ok()) return;
  for (int32_t i = 0; i < static_cast<int32_t>(gradients.size()); ++i) {
    if (!g.Wants(i)) continue;
    const ValueId gradient = gradients[static_cast<size_t>(i)];
    // A copy: the graph grows.
    const Shape shape = g.ShapeOf(g.Input(i));
    g.SetInputGradient(i, i == 0 ? gradient : g.SumTo(gradient, shape));
  }
}

// Mean and 1 / deviation as outputs of the forward node.
absl::Status RequestStatistics(GradientContext& g, ValueId* mean, ValueId* inverse) {
  if (g.OutputGradient(1) != kNoValue || g.OutputGradient(2) != kNoValue) {
    return g.context().Unsupported("the loss depends on its mean or deviation outputs");
  }
  Attributes attributes;
  // Statistics are computed in X's element type; float is the default of the attribute.
  if (g.Type(g.Input(0)).dtype == DType::kDouble) attributes["stash_type"] = int64_t{11};
  if (g.num_outputs() < 3) {
    g.ExtendNode("LayerNormalization", "", 3 - g.num_outputs(), attributes);
  }
  RETURN_IF_ERROR(g.status());
  *mean = g.Output(1);
  *inverse = g.Output(2);
  if (*mean == kNoValue || *inverse == kNoValue) {
    return g.context().Unsupported("one of its statistics is an output without the other");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BatchNormalizationGradient(GradientContext& g) {
  return g.context().Int("training_mode", 0) != 0 ? BatchTrainingGradient(g)
                                                  : BatchInferenceGradient(g);
}

absl::Status GroupNormalizationGradient(GradientContext& g) {
  if (!WantsAny(g, 3)) return absl::OkStatus();
  return SetGradients(g, "GroupNormalizationGrad", {g.OutputGradient(0), g.Input(0), g.Input(1)}, 3,
                      g.node().attributes, kMemplan);
}

absl::Status InstanceNormalizationGradient(GradientContext& g) {
  if (!WantsAny(g, 3)) return absl::OkStatus();
  Attributes attributes = g.node().attributes;
  attributes["num_groups"] = g.ShapeOf(g.Input(0))[1];
  return SetGradients(g, "GroupNormalizationGrad", {g.OutputGradient(0), g.Input(0), g.Input(1)}, 3,
                      attributes, kMemplan);
}

absl::Status LayerNormalizationGradient(GradientContext& g) {
  if (!WantsAny(g, 3)) return absl::OkStatus();
  ValueId mean = kNoValue;
  ValueId inverse = kNoValue;
  RETURN_IF_ERROR(RequestStatistics(g, &mean, &inverse));
  ASSIGN_OR_RETURN(const Rows rows, SplitRows(g.context()));
  const Attributes attributes = g.node().attributes;
  const ValueId scale = RowScale(g, rows.row_shape);
  SetRowGradients(g, g.AddMany("LayerNormalizationGrad",
                               {g.OutputGradient(0), g.Input(0), scale, mean, inverse}, 3,
                               attributes, kMicrosoft));
  return g.status();
}

absl::Status RmsNormalizationGradient(GradientContext& g) {
  if (!WantsAny(g, 2)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Rows rows, SplitRows(g.context()));
  const Attributes attributes = g.node().attributes;
  const ValueId scale = RowScale(g, rows.row_shape);
  SetRowGradients(g, g.AddMany("RmsNormalizationGrad", {g.OutputGradient(0), g.Input(0), scale}, 2,
                               attributes, kMemplan));
  return g.status();
}

absl::Status LpNormalizationGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  g.SetInputGradient(0, g.Add("LpNormalizationGrad", {g.OutputGradient(0), g.Input(0)},
                              g.node().attributes, kMemplan));
  return g.status();
}

absl::Status LrnGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  g.SetInputGradient(
      0, g.Add("LrnGrad", {g.OutputGradient(0), g.Input(0)}, g.node().attributes, kMemplan));
  return g.status();
}

// y = c / d with c = x - mean, deviation s = sqrt(mean(c^2)) and d = s + 1e-9; so, for the gradient
// of c, dy / d - c * mean(dy * c) / (d^2 * s), and that of x has no mean.
absl::Status MeanVarianceNormalizationGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  const ValueId dy = g.OutputGradient(0);
  const DType dtype = g.Type(dy).dtype;
  const ValueId axes = g.Ints(g.context().Ints("axes", {0, 2, 3}));
  const auto mean = [&](ValueId value) { return g.Add("ReduceMean", {value, axes}); };
  const ValueId centered = g.Add("Sub", {g.Input(0), mean(g.Input(0))});
  const ValueId deviation = g.Add("Sqrt", {mean(g.Add("Mul", {centered, centered}))});
  const ValueId divisor = g.Add("Add", {deviation, g.Scalar(1e-9, dtype)});
  const ValueId dot = mean(g.Add("Mul", {dy, centered}));
  const ValueId squares = g.Add("Mul", {g.Add("Mul", {divisor, divisor}), deviation});
  const ValueId slope = g.Add("Div", {dot, squares});
  const ValueId gradient =
      g.Add("Sub", {g.Add("Div", {dy, divisor}), g.Add("Mul", {centered, slope})});
  g.SetInputGradient(0, g.Add("Sub", {gradient, mean(gradient)}));
  return g.status();
}

extern const OpDef kBatchNormalizationGrad = {
    .type = "BatchNormalizationGrad",
    .domain = kMicrosoft,
    .min_inputs = 5,
    .max_inputs = 5,
    .max_outputs = 3,
    .infer = InferBatchGrad,
    .aliases = InPlaceGradient,
    .lower = LowerBatchGrad,
};

extern const OpDef kChannelScaleGrad = {
    .type = "ChannelScaleGrad",
    .domain = kMemplan,
    .min_inputs = 4,
    .max_inputs = 4,
    .infer = InferChannelScaleGrad,
    .lower = LowerChannelScaleGrad,
};

extern const OpDef kGroupNormalizationGrad = {
    .type = "GroupNormalizationGrad",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 3,
    .max_outputs = 3,
    .infer = InferGroupGrad,
    .aliases = InPlaceGradient,
    .lower = LowerGroupGrad,
};

extern const OpDef kLayerNormalizationGrad = {
    .type = "LayerNormalizationGrad",
    .domain = kMicrosoft,
    .min_inputs = 4,
    .max_inputs = 5,
    .max_outputs = 3,
    .infer = InferLayerGrad,
    .aliases = InPlaceGradient,
    .lower = LowerRowGrad<true>,
};

extern const OpDef kRmsNormalizationGrad = {
    .type = "RmsNormalizationGrad",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 3,
    .max_outputs = 2,
    .infer = InferRmsGrad,
    .aliases = InPlaceGradient,
    .lower = LowerRowGrad<false>,
};

extern const OpDef kLpNormalizationGrad = {
    .type = "LpNormalizationGrad",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferLpGrad,
    .aliases = InPlaceGradient,
    .lower = LowerLpGrad,
};

extern const OpDef kLrnGrad = {
    .type = "LrnGrad",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferLrnGrad,
    .aliases = InPlaceGradient,
    .lower = LowerLrnGrad,
};

}  // namespace onnx_memplan
