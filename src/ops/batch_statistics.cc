// BatchNormalization in training as two operators of domain kMemplan:
//
//   BatchStatistics(X, running mean, running variance)
//       -> mean, 1 / deviation, [running mean', running variance']
//   NormalizeByStatistics(X, scale, bias, mean, 1 / deviation) -> Y
//
// Attributes: epsilon, momentum, unbiased_running_variance as BatchNormInternal's.
#include "ops/host_kernels.h"

#include "kernels/batch_statistics.h"

#include "absl/strings/str_cat.h"
#include "ops/families.h"
#include "ops/normalization_lowering.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr std::string_view kHeader = "kernels/batch_statistics.h";

absl::StatusOr<int64_t> Channels(const NodeContext& node) {
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtChannels(node));
  RETURN_IF_ERROR(CheckVectors(node, node.num_inputs() - 1, split.count));
  return int64_t{split.count};
}

absl::StatusOr<std::vector<TensorType>> InferStatistics(const NodeContext& node) {
  ASSIGN_OR_RETURN(const int64_t channels, Channels(node));
  return std::vector<TensorType>(4, {node.InputDType(0), {channels}});
}

std::vector<Alias> RunningInPlace(const NodeContext& node) {
  std::vector<Alias> aliases;
  if (node.HasOutput(2)) aliases.push_back({Alias::Kind::kInPlace, 2, 1, 0});
  if (node.HasOutput(3)) aliases.push_back({Alias::Kind::kInPlace, 3, 2, 0});
  return aliases;
}

absl::StatusOr<Lowering> LowerStatistics(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call, TypedCallOf(FloatTypes(), node, node.InputDType(0), kHeader,
                                                "kernels::BatchStatistics<{T}>", "", []<class T> {
                                                  return FunctionOf<&kernels::BatchStatistics<T>>();
                                                }));
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtChannels(node));
  const kernels::BatchTrainingParams params = {
      split.outer,
      split.count,
      split.inner,
      node.Float("epsilon", 1e-5F),
      node.Float("momentum", 0.9F),
      static_cast<int32_t>(node.Int("unbiased_running_variance", 0))};
  std::vector<KernelArg> args = {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2)};
  for (int32_t i = 0; i < 4; ++i) {
    args.push_back(node.HasOutput(i) ? KernelArg::Output(i) : KernelArg::Null());
  }
  return OneCall(std::move(call), params, std::move(args));
}

absl::StatusOr<std::vector<TensorType>> InferNormalize(const NodeContext& node) {
  RETURN_IF_ERROR(Channels(node).status());
  return std::vector<TensorType>{node.InputType(0)};
}

absl::StatusOr<Lowering> LowerNormalize(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), kHeader,
                               "kernels::NormalizeByStatistics<{T}>", "", []<class T> {
                                 return FunctionOf<&kernels::NormalizeByStatistics<T>>();
                               }));
  ASSIGN_OR_RETURN(const AxisSplit split, SplitAtChannels(node));
  const kernels::BatchNormalizationParams params = {split.outer, split.count, split.inner, 0};
  std::vector<KernelArg> args;
  for (int32_t i = 0; i < 5; ++i) args.push_back(KernelArg::Input(i));
  args.push_back(KernelArg::Output(0));
  return OneCall(std::move(call), params, std::move(args));
}

}  // namespace

extern const OpDef kBatchStatistics = {
    .type = "BatchStatistics",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 2,
    .max_outputs = 4,
    .infer = InferStatistics,
    .aliases = RunningInPlace,
    .lower = LowerStatistics,
};

extern const OpDef kNormalizeByStatistics = {
    .type = "NormalizeByStatistics",
    .domain = kMemplan,
    .min_inputs = 5,
    .max_inputs = 5,
    .infer = InferNormalize,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerNormalize,
};

}  // namespace onnx_memplan
