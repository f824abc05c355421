// Normalisations. Statistics are taken in the element type of the input.
#include "ops/host_kernels.h"

#include "kernels/normalization.h"

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "ops/broadcast.h"
#include "ops/data_movement.h"
#include "ops/epilogue.h"
#include "ops/families.h"
#include "ops/normalization_lowering.h"
#include "ops/parallel_axis.h"
#include "ops/reduce_loops.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {

absl::Status CheckVectors(const NodeContext& node, int32_t last, int64_t channels) {
  const TensorType expected = {node.InputDType(0), {channels}};
  for (int32_t i = 1; i <= last; ++i) {
    if (node.InputDType(i) != expected.dtype) {
      return node.Unsupported("inputs of different element types have no kernel");
    }
    if (node.InputShape(i) != expected.shape) {
      return node.Invalid(
          absl::StrCat("input ", i, " must be of shape ", ShapeToString(expected.shape)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AxisSplit> SplitAtChannels(const NodeContext& node) {
  if (node.InputType(0).rank() >= 2) return SplitAtAxis(node, node.InputShape(0), 1);
  AxisSplit split;
  ASSIGN_OR_RETURN(split.outer, ToInt32(node, node.InputType(0).NumElements(), "the batch"));
  return split;
}

absl::StatusOr<Rows> SplitRows(const NodeContext& node) {
  const Shape& shape = node.InputShape(0);
  ASSIGN_OR_RETURN(const int64_t axis,
                   node.NormalizeAxis(node.Int("axis", -1), node.InputType(0).rank()));
  const auto at = shape.begin() + static_cast<ptrdiff_t>(axis);
  return Rows{Shape(shape.begin(), at), Shape(at, shape.end())};
}

absl::StatusOr<kernels::LayerNormalizationParams> RowParams(const NodeContext& node,
                                                            const Rows& rows) {
  kernels::LayerNormalizationParams params = {};
  const auto elements = [](const Shape& shape) {
    return TensorType{DType::kInt8, shape}.NumElements();
  };
  ASSIGN_OR_RETURN(params.outer, ToInt32(node, elements(rows.outer_shape), "the number of rows"));
  ASSIGN_OR_RETURN(params.count, ToInt32(node, elements(rows.row_shape), "the length of a row"));
  params.epsilon = node.Float("epsilon", 1e-5F);
  return params;
}

absl::StatusOr<kernels::LrnParams> MakeLrnParams(const NodeContext& node) {
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtAxis(node, node.InputShape(0), 1));
  ASSIGN_OR_RETURN(const int32_t window, ToInt32(node, node.Int("size", 1), "size"));
  kernels::LrnParams params = {};
  params.outer = split.outer;
  params.channels = split.count;
  params.inner = split.inner;
  params.before = (window - 1) / 2;
  params.after = window / 2;
  params.scale = node.Float("alpha", 1e-4F) / static_cast<float>(window);
  params.beta = node.Float("beta", 0.75F);
  params.bias = node.Float("bias", 1);
  return params;
}

namespace {

// Inputs 1 to `last` are vectors of as many elements as input 0 has channels (dimension 1).
absl::Status CheckPerChannel(const NodeContext& node, int32_t last) {
  if (node.InputType(0).rank() < 2) return node.Invalid("input 0 must have a channel dimension");
  return CheckVectors(node, last, node.InputShape(0)[1]);
}

KernelArg OutputOrNull(const NodeContext& node, int32_t i) {
  return node.HasOutput(i) ? KernelArg::Output(i) : KernelArg::Null();
}

// ---- BatchNormalization

bool IsTraining(const NodeContext& node) { return node.Int("training_mode", 0) != 0; }

absl::StatusOr<std::vector<TensorType>> InferBatchNormalization(const NodeContext& node) {
  // A rank of 1 is the batch alone, with one channel.
  RETURN_IF_ERROR(node.InputType(0).rank() == 1 ? CheckVectors(node, 4, 1)
                                                : CheckPerChannel(node, 4));
  if (node.num_outputs() > 1 && !IsTraining(node)) {
    return node.Invalid("running statistics are outputs of training mode only");
  }
  return std::vector<TensorType>{node.InputType(0), node.InputType(3), node.InputType(4)};
}

// With the statistics of the batch, mean and 1 / deviation, as further outputs.
absl::StatusOr<std::vector<TensorType>> InferBatchNormInternal(const NodeContext& node) {
  if (!IsTraining(node)) return node.Invalid("statistics are outputs of training mode only");
  ASSIGN_OR_RETURN(std::vector<TensorType> types, InferBatchNormalization(node));
  types.push_back(node.InputType(3));
  types.push_back(node.InputType(3));
  return types;
}

// Y over X, and in training the running statistics over the old ones.
std::vector<Alias> BatchAliases(const NodeContext& node) {
  std::vector<Alias> aliases = rules::InPlaceFirstInput(node);
  if (!IsTraining(node)) return aliases;
  for (int32_t i = 1; i < 3; ++i) {
    if (node.HasOutput(i)) aliases.push_back({Alias::Kind::kInPlace, i, i + 2, 0});
  }
  return aliases;
}

absl::StatusOr<kernels::BatchNormalizationParams> BatchParams(const NodeContext& node) {
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtChannels(node));
  return kernels::BatchNormalizationParams{split.outer, split.count, split.inner,
                                           node.Float("epsilon", 1e-5F)};
}

// Constant scale, bias, mean and variance as one factor and one offset by channel.
template <class T>
std::array<Tensor, 2> FoldStatistics(const NodeContext& node) {
  const std::span<const T> scale = node.InputConstant(1)->As<T>();
  const std::span<const T> bias = node.InputConstant(2)->As<T>();
  const std::span<const T> mean = node.InputConstant(3)->As<T>();
  const std::span<const T> variance = node.InputConstant(4)->As<T>();
  const double epsilon = static_cast<double>(node.Float("epsilon", 1e-5F));
  std::vector<T> factors, offsets;
  for (size_t c = 0; c < scale.size(); ++c) {
    const double factor =
        static_cast<double>(scale[c]) / std::sqrt(static_cast<double>(variance[c]) + epsilon);
    factors.push_back(static_cast<T>(factor));
    offsets.push_back(
        static_cast<T>(static_cast<double>(bias[c]) - static_cast<double>(mean[c]) * factor));
  }
  const Shape shape = {static_cast<int64_t>(factors.size())};
  return {Tensor::FromVector(shape, factors), Tensor::FromVector(shape, offsets)};
}

bool AllConstant(const NodeContext& node, int32_t first, int32_t last) {
  for (int32_t i = first; i <= last; ++i) {
    if (node.InputConstant(i) == nullptr) return false;
  }
  return true;
}

// The last call may be shared out by images or, of a single one, by channels, of which the
// arguments move by `channel_steps`: all of an image, or a number.
template <class Params>
Lowering ByPlanes(Lowering lowering, const Params& p, std::vector<int64_t> channel_steps) {
  const int64_t image = int64_t{p.channels} * p.inner;
  std::vector<int64_t> image_steps(channel_steps.size(), 0);
  image_steps.front() = image_steps.back() = image;
  ParallelAxis axis = p.outer == 1 ? AxisOf<&Params::channels>(p, 1, std::move(channel_steps))
                                   : AxisOf<&Params::outer>(p, 1, std::move(image_steps));
  return InParallel(std::move(lowering), p.outer * image * kElementWork, {std::move(axis)});
}

absl::StatusOr<Lowering> LowerBatchTraining(const NodeContext& node,
                                            const kernels::BatchNormalizationParams& shape) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/normalization.h",
                               "kernels::BatchNormalizationTraining<{T}>", "", []<class T> {
                                 return FunctionOf<&kernels::BatchNormalizationTraining<T>>();
                               }));
  kernels::BatchTrainingParams params = {};
  params.outer = shape.outer;
  params.channels = shape.channels;
  params.inner = shape.inner;
  params.epsilon = shape.epsilon;
  params.momentum = node.Float("momentum", 0.9F);
  params.unbiased = node.Int("unbiased_running_variance", 0) != 0 ? 1 : 0;
  std::vector<KernelArg> args;
  for (int32_t i = 0; i < 5; ++i) args.push_back(KernelArg::Input(i));
  for (int32_t i = 0; i < 5; ++i) args.push_back(OutputOrNull(node, i));
  Lowering lowering = OneCall(std::move(call), params, std::move(args));
  // Statistics are of all images.
  if (params.outer != 1) return lowering;
  return ByPlanes(std::move(lowering), params,
                  {params.inner, 1, 1, 1, 1, params.inner, 1, 1, 1, 1});
}

absl::StatusOr<Lowering> LowerBatchNormalization(const NodeContext& node, const Target&) {
  const DType dtype = node.InputDType(0);
  ASSIGN_OR_RETURN(const kernels::BatchNormalizationParams params, BatchParams(node));
  constexpr std::string_view kHeader = "kernels/normalization.h";
  std::vector<KernelArg> args;
  for (int32_t i = 0; i < 5; ++i) args.push_back(KernelArg::Input(i));
  const bool constant = !IsTraining(node) && AllConstant(node, 1, 4) && IsFloatingPoint(dtype);
  if (!constant && !node.node().epilogue.empty()) {
    return node.Unsupported("only known statistics leave room for a fused activation");
  }
  if (IsTraining(node)) return LowerBatchTraining(node, params);
  if (constant) {
    ASSIGN_OR_RETURN(KernelCall call,
                     TypedCallOf(FloatTypes(), node, dtype, kHeader, "kernels::ScaleShift<{T}>", "",
                                 []<class T> { return FunctionOf<&kernels::ScaleShift<T>>(); }));
    const std::array<Tensor, 2> folded =
        dtype == DType::kFloat ? FoldStatistics<float>(node) : FoldStatistics<double>(node);
    call.constants = {folded[0], folded[1]};
    const ActivationParams fused = EpilogueParams(node.node().epilogue);
    const kernels::ScaleShiftParams scaled = {params.outer, params.channels, params.inner,
                                              fused.kind,   fused.alpha,     fused.beta};
    return ByPlanes(OneCall(std::move(call), scaled,
                            {KernelArg::Input(0), KernelArg::Constant(0), KernelArg::Constant(1),
                             KernelArg::Output(0)}),
                    scaled, {scaled.inner, 1, 1, scaled.inner});
  }
  ASSIGN_OR_RETURN(
      KernelCall call,
      TypedCallOf(FloatTypes(), node, dtype, kHeader, "kernels::BatchNormalization<{T}>", "",
                  []<class T> { return FunctionOf<&kernels::BatchNormalization<T>>(); }));
  args.push_back(KernelArg::Output(0));
  return ByPlanes(OneCall(std::move(call), params, std::move(args)), params,
                  {params.inner, 1, 1, 1, 1, params.inner});
}

// ---- InstanceNormalization, GroupNormalization

absl::StatusOr<std::vector<TensorType>> InferInstanceNormalization(const NodeContext& node) {
  RETURN_IF_ERROR(CheckPerChannel(node, 2));
  return rules::SameTypeAsInput(node);
}

absl::StatusOr<std::vector<TensorType>> InferGroupNormalization(const NodeContext& node) {
  RETURN_IF_ERROR(CheckPerChannel(node, 2));
  ASSIGN_OR_RETURN(const int64_t groups, node.RequiredInt("num_groups"));
  if (groups <= 0 || node.InputShape(0)[1] % groups != 0) {
    return node.Invalid(absl::StrCat("num_groups is ", groups, ", which must divide the channels"));
  }
  return rules::SameTypeAsInput(node);
}

absl::StatusOr<Lowering> LowerByGroups(const NodeContext& node, int64_t num_groups) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/normalization.h",
                               "kernels::GroupNormalization<{T}>", "", []<class T> {
                                 return FunctionOf<&kernels::GroupNormalization<T>>();
                               }));
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtAxis(node, node.InputShape(0), 1));
  kernels::GroupNormalizationParams params = {};
  params.outer = split.outer;
  params.num_groups = static_cast<int32_t>(num_groups);
  params.group_channels = num_groups == 0 ? 0 : split.count / params.num_groups;
  params.inner = split.inner;
  params.epsilon = node.Float("epsilon", 1e-5F);
  return OneCall(
      std::move(call), params,
      {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2), KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerInstanceNormalization(const NodeContext& node, const Target&) {
  return LowerByGroups(node, node.InputShape(0)[1]);
}

absl::StatusOr<Lowering> LowerGroupNormalization(const NodeContext& node, const Target&) {
  return LowerByGroups(node, node.Int("num_groups", 1));
}

// ---- LayerNormalization, RMSNormalization

// Scale and bias broadcast to a row and have its element type.
absl::Status CheckRowOperands(const NodeContext& node, const Rows& rows) {
  for (int32_t i = 1; i < node.num_inputs(); ++i) {
    if (!node.HasInput(i)) continue;
    if (node.InputDType(i) != node.InputDType(0)) {
      return node.Unsupported("inputs of different element types have no kernel");
    }
    if (rules::Broadcast(rows.row_shape, node.InputShape(i)) != rows.row_shape) {
      return node.Invalid(
          absl::StrCat("input ", i, " does not broadcast to ", ShapeToString(rows.row_shape)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorType>> InferLayerNormalization(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Rows rows, SplitRows(node));
  RETURN_IF_ERROR(CheckRowOperands(node, rows));
  Shape statistics = rows.outer_shape;
  statistics.resize(node.InputShape(0).size(), 1);
  const DType stash = node.Int("stash_type", 1) == 1 ? DType::kFloat : node.InputDType(0);
  return std::vector<TensorType>{node.InputType(0), {stash, statistics}, {stash, statistics}};
}

absl::StatusOr<std::vector<TensorType>> InferRmsNormalization(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Rows rows, SplitRows(node));
  RETURN_IF_ERROR(CheckRowOperands(node, rows));
  return rules::SameTypeAsInput(node);
}

// A constant repeated to `shape`.
template <class T>
Tensor Expanded(const Tensor& tensor, const Shape& shape) {
  const std::array operands = {tensor.shape()};
  const BroadcastLoops loops = CollapseBroadcast(shape, operands);
  std::vector<T> values;
  const int64_t count = TensorType{tensor.dtype(), shape}.NumElements();
  for (int64_t i = 0; i < count; ++i) {
    int64_t flat = i;
    int64_t offset = 0;
    for (size_t d = loops.dims.size(); d-- > 0;) {
      offset += flat % loops.dims[d] * loops.strides[0][d];
      flat /= loops.dims[d];
    }
    values.push_back(tensor.As<T>()[static_cast<size_t>(offset)]);
  }
  return Tensor::FromVector(shape, values);
}

// The copy that repeats input `i` to `shape`.
StridedCopySpec RepeatCopy(const NodeContext& node, int32_t i, const Shape& shape) {
  const Shape& from = node.InputShape(i);
  const std::vector<int64_t> from_strides = RowMajorStrides(from);
  std::vector<int64_t> strides(shape.size(), 0);
  const size_t added = shape.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] != 1) strides[added + d] = from_strides[d];
  }
  return GatheringCopy(shape, std::move(strides), 0);
}

// Input `i` as an operand of `call` with an element for each one of a row. What is only known at
// run time is repeated in scratch, by a call that is appended to `lowering`.
absl::StatusOr<KernelArg> RowOperand(const NodeContext& node, int32_t i, const Rows& rows,
                                     KernelCall* call, Lowering* lowering) {
  if (!node.HasInput(i)) return KernelArg::Null();
  const TensorType row = {node.InputDType(0), rows.row_shape};
  if (node.InputType(i).NumElements() == row.NumElements()) return KernelArg::Input(i);
  if (const Tensor* constant = node.InputConstant(i); constant != nullptr) {
    call->constants.push_back(row.dtype == DType::kFloat ? Expanded<float>(*constant, row.shape)
                                                         : Expanded<double>(*constant, row.shape));
    return KernelArg::Constant(static_cast<int32_t>(call->constants.size()) - 1);
  }
  ASSIGN_OR_RETURN(const int32_t offset, ToInt32(node, lowering->scratch_bytes, "the scratch"));
  const KernelArg repeated = KernelArg::Scratch(offset);
  RETURN_IF_ERROR(AppendStridedCopy(node, row.dtype, RepeatCopy(node, i, rows.row_shape),
                                    KernelArg::Input(i), repeated, lowering));
  lowering->scratch_bytes += row.Bytes();
  lowering->scratch_alignment = DTypeBytes(row.dtype);
  return repeated;
}

// The last call may be shared out by rows.
Lowering ByRows(Lowering lowering, const kernels::LayerNormalizationParams& params,
                std::vector<int64_t> arg_steps) {
  constexpr int64_t kNormalizationWork = 2 * kElementWork;
  return InParallel(
      std::move(lowering), int64_t{params.outer} * params.count * kNormalizationWork,
      {AxisOf<&kernels::LayerNormalizationParams::outer>(params, 1, std::move(arg_steps))});
}

absl::StatusOr<Lowering> LowerLayerNormalization(const NodeContext& node, const Target&) {
  for (int32_t i = 1; i < 3; ++i) {
    if (node.HasOutput(i) && node.OutputType(i).dtype != node.InputDType(0)) {
      return node.Unsupported("statistics of another element type than the input have no kernel");
    }
  }
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/normalization.h",
                               "kernels::LayerNormalization<{T}>", "", []<class T> {
                                 return FunctionOf<&kernels::LayerNormalization<T>>();
                               }));
  ASSIGN_OR_RETURN(const Rows rows, SplitRows(node));
  ASSIGN_OR_RETURN(const kernels::LayerNormalizationParams params, RowParams(node, rows));
  Lowering lowering;
  ASSIGN_OR_RETURN(const KernelArg scale, RowOperand(node, 1, rows, &call, &lowering));
  ASSIGN_OR_RETURN(const KernelArg bias, RowOperand(node, 2, rows, &call, &lowering));
  call.params = MakeParams(params);
  call.args = {KernelArg::Input(0),  scale, bias, OutputOrNull(node, 0), OutputOrNull(node, 1),
               OutputOrNull(node, 2)};
  lowering.calls.push_back(std::move(call));
  return ByRows(std::move(lowering), params, {params.count, 0, 0, params.count, 1, 1});
}

absl::StatusOr<Lowering> LowerRmsNormalization(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/normalization.h",
                               "kernels::RmsNormalization<{T}>", "", []<class T> {
                                 return FunctionOf<&kernels::RmsNormalization<T>>();
                               }));
  ASSIGN_OR_RETURN(const Rows rows, SplitRows(node));
  ASSIGN_OR_RETURN(const kernels::LayerNormalizationParams params, RowParams(node, rows));
  Lowering lowering;
  ASSIGN_OR_RETURN(const KernelArg scale, RowOperand(node, 1, rows, &call, &lowering));
  call.params = MakeParams(params);
  call.args = {KernelArg::Input(0), scale, KernelArg::Output(0)};
  lowering.calls.push_back(std::move(call));
  return ByRows(std::move(lowering), params, {params.count, 0, params.count});
}

// ---- LpNormalization

absl::StatusOr<std::vector<TensorType>> InferLpNormalization(const NodeContext& node) {
  const int64_t p = node.Int("p", 2);
  if (p != 1 && p != 2) return node.Invalid(absl::StrCat("p is ", p, ", which must be 1 or 2"));
  RETURN_IF_ERROR(node.NormalizeAxis(node.Int("axis", -1), node.InputType(0).rank()).status());
  return rules::SameTypeAsInput(node);
}

absl::StatusOr<Lowering> LowerLpNormalization(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/normalization.h",
                               "kernels::LpNormalization<{T}>", "",
                               []<class T> { return FunctionOf<&kernels::LpNormalization<T>>(); }));
  ASSIGN_OR_RETURN(const AxisSplit split,
                   SplitAtAxis(node, node.InputShape(0), node.Int("axis", -1)));
  const kernels::LpNormalizationParams params = {split.outer, split.count, split.inner,
                                                 static_cast<int32_t>(node.Int("p", 2))};
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

// ---- MeanVarianceNormalization

absl::StatusOr<std::vector<TensorType>> InferMeanVariance(const NodeContext& node) {
  RETURN_IF_ERROR(MarkAxes(node, node.Ints("axes", {0, 2, 3}), false).status());
  return rules::SameTypeAsInput(node);
}

absl::StatusOr<Lowering> LowerMeanVariance(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const std::vector<bool> reduced,
                   MarkAxes(node, node.Ints("axes", {0, 2, 3}), false));
  ASSIGN_OR_RETURN(const ReduceLoops loops, CollapseReduction(node, node.InputShape(0), reduced));
  const DType dtype = node.InputDType(0);
  absl::StatusOr<KernelCall> call =
      loops.innermost_reduced
          ? TypedCallOf(FloatTypes(), node, dtype, "kernels/normalization.h",
                        "kernels::MeanVarianceRows<{T}>", "",
                        []<class T> { return FunctionOf<&kernels::MeanVarianceRows<T>>(); })
          : TypedCallOf(FloatTypes(), node, dtype, "kernels/normalization.h",
                        "kernels::MeanVarianceColumns<{T}>", "",
                        []<class T> { return FunctionOf<&kernels::MeanVarianceColumns<T>>(); });
  RETURN_IF_ERROR(call.status());
  return OneCall(*std::move(call), loops.params, {KernelArg::Input(0), KernelArg::Output(0)});
}

// ---- LRN

absl::StatusOr<std::vector<TensorType>> InferLrn(const NodeContext& node) {
  ASSIGN_OR_RETURN(const int64_t window, node.RequiredInt("size"));
  if (window < 1) return node.Invalid(absl::StrCat("size is ", window, ", which must be positive"));
  if (node.InputType(0).rank() < 2) return node.Invalid("input 0 must have a channel dimension");
  return rules::SameTypeAsInput(node);
}

absl::StatusOr<Lowering> LowerLrn(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(
      KernelCall call,
      TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/normalization.h",
                  "kernels::Lrn<{T}>", "", []<class T> { return FunctionOf<&kernels::Lrn<T>>(); }));
  ASSIGN_OR_RETURN(const kernels::LrnParams params, MakeLrnParams(node));
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

}  // namespace

extern const OpDef kBatchNormalization = {
    .type = "BatchNormalization",
    .min_inputs = 5,
    .max_inputs = 5,
    .max_outputs = 3,
    .infer = InferBatchNormalization,
    .aliases = BatchAliases,
    .lower = LowerBatchNormalization,
    .gradient = BatchNormalizationGradient,
    .fuses_activation = true,
};

// ONNX Runtime's operator of this name: BatchNormalization in training mode, and the statistics of
// the batch. Either has a further attribute here, unbiased_running_variance: 1 is PyTorch's rule.
extern const OpDef kBatchNormInternal = {
    .type = "BatchNormInternal",
    .domain = kMicrosoft,
    .min_inputs = 5,
    .max_inputs = 5,
    .max_outputs = 5,
    .infer = InferBatchNormInternal,
    .aliases = BatchAliases,
    .lower = LowerBatchNormalization,
    .gradient = BatchNormalizationGradient,
};

extern const OpDef kInstanceNormalization = {
    .type = "InstanceNormalization",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferInstanceNormalization,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerInstanceNormalization,
    .gradient = InstanceNormalizationGradient,
};

extern const OpDef kGroupNormalization = {
    .type = "GroupNormalization",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferGroupNormalization,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerGroupNormalization,
    .gradient = GroupNormalizationGradient,
};

extern const OpDef kLayerNormalization = {
    .type = "LayerNormalization",
    .min_inputs = 2,
    .max_inputs = 3,
    .max_outputs = 3,
    .infer = InferLayerNormalization,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerLayerNormalization,
    .gradient = LayerNormalizationGradient,
};

extern const OpDef kRMSNormalization = {
    .type = "RMSNormalization",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferRmsNormalization,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerRmsNormalization,
    .gradient = RmsNormalizationGradient,
};

extern const OpDef kLpNormalization = {
    .type = "LpNormalization",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferLpNormalization,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerLpNormalization,
    .gradient = LpNormalizationGradient,
};

extern const OpDef kMeanVarianceNormalization = {
    .type = "MeanVarianceNormalization",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferMeanVariance,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerMeanVariance,
    .gradient = MeanVarianceNormalizationGradient,
};

extern const OpDef kLRN = {
    .type = "LRN",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferLrn,
    .lower = LowerLrn,
    .gradient = LrnGradient,
};

}  // namespace onnx_memplan
