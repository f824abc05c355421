// Weight gradients and the updates that use them as one operator. Domain kMemplan.
//
//   MatMulUpdate(a, b, rate, [step], [scale], [first moment], [second moment], w)
//   ConvWeightUpdate(x, dy, rate, [step], [scale], [first moment], [second moment], w)
//       -> w', [first moment'], [second moment']
//
// The gradient of w is alpha * a' b, where ' transposes if transA is set, or ConvWeightGrad(x, dy)
// with its attributes. The optimizer is that of attribute `optimizer`: "SgdUpdate" or "AdamUpdate",
// with their attributes. Each output may lie over the operand that it replaces. In float.
#include "ops/host_kernels.h"

#include "kernels/fused_updates.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/conv_gradient.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gemm_lowering.h"
#include "ops/optimizers.h"
#include "ops/parallel_axis.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr int32_t kRate = 2;
constexpr int32_t kStep = 3;
constexpr int32_t kScale = 4;
constexpr int32_t kFirstMoment = 5;
constexpr int32_t kSecondMoment = 6;
constexpr int32_t kWeight = 7;

enum class Rule : uint8_t { kSgd, kSgdMomentum, kAdam };

absl::StatusOr<Rule> RuleOf(const NodeContext& node) {
  const std::string optimizer = node.String("optimizer", "");
  if (optimizer == "AdamUpdate") {
    for (int32_t i : {kStep, kFirstMoment, kSecondMoment}) {
      if (!node.HasInput(i)) return node.Invalid(absl::StrCat("input ", i, " is missing"));
    }
    return Rule::kAdam;
  }
  if (optimizer != "SgdUpdate")
    return node.Invalid("the optimizer must be SgdUpdate or AdamUpdate");
  return node.HasInput(kFirstMoment) ? Rule::kSgdMomentum : Rule::kSgd;
}

absl::StatusOr<std::vector<TensorType>> InferWith(const NodeContext& node,
                                                  const TensorType& gradient) {
  RETURN_IF_ERROR(RuleOf(node).status());
  if (!node.HasInput(kRate) || !node.HasInput(kWeight)) {
    return node.Invalid("the rate or the weights are missing");
  }
  for (int32_t i = 1; i < node.num_outputs(); ++i) {
    if (!node.HasInput(kFirstMoment + i - 1)) {
      return node.Invalid(absl::StrCat("output ", i, " has no moment to replace"));
    }
  }
  if (gradient.dtype != DType::kFloat) return node.Unsupported("weights must be float");
  for (int32_t i : {kWeight, kFirstMoment, kSecondMoment}) {
    if (node.HasInput(i) && node.InputType(i) != gradient) {
      return node.Invalid(absl::StrCat("input ", i, " must be ", gradient.ToString()));
    }
  }
  if (node.InputType(kRate) != TensorType{DType::kFloat, {}}) {
    return node.Invalid("the rate must be a float scalar");
  }
  if (node.HasInput(kStep) && node.InputType(kStep) != TensorType{DType::kInt64, {}}) {
    return node.Invalid("the step must be an int64 scalar");
  }
  if (node.HasInput(kScale) && node.InputType(kScale) != TensorType{DType::kFloat, {}}) {
    return node.Invalid("the scale must be a float scalar");
  }
  return std::vector<TensorType>(static_cast<size_t>(node.num_outputs()), gradient);
}

std::vector<Alias> UpdateInPlace(const NodeContext& node) {
  std::vector<Alias> aliases = {{Alias::Kind::kInPlace, 0, kWeight, 0}};
  if (node.HasOutput(1)) aliases.push_back({Alias::Kind::kInPlace, 1, kFirstMoment, 0});
  if (node.HasOutput(2)) aliases.push_back({Alias::Kind::kInPlace, 2, kSecondMoment, 0});
  return aliases;
}

template <class Params>
void SetOptimizer(const NodeContext& node, Params* params) {
  kernels::OptimizerParams numbers = {};
  SetOptimizerNumbers(node, &numbers);
  params->beta1 = numbers.beta1;
  params->beta2 = numbers.beta2;
  params->momentum = numbers.momentum;
  params->weight_decay = numbers.weight_decay;
  params->epsilon = numbers.epsilon;
  params->nesterov = numbers.nesterov;
  params->decoupled = numbers.decoupled;
}

// Each moment that is read is also written.
absl::Status CheckMoments(const NodeContext& node) {
  for (int32_t i = 0; i < 2; ++i) {
    if (node.HasInput(kFirstMoment + i) != node.HasOutput(1 + i)) {
      return node.Invalid("moments must be inputs and outputs");
    }
  }
  return absl::OkStatus();
}

std::vector<KernelArg> Arguments(const NodeContext& node) {
  std::vector<KernelArg> args = {KernelArg::Input(kWeight), KernelArg::Input(0),
                                 KernelArg::Input(1), KernelArg::Input(kRate)};
  for (int32_t i = kStep; i <= kSecondMoment; ++i) args.push_back(OptionalInput(node, i));
  args.push_back(KernelArg::Scratch());
  for (int32_t i = 0; i < 3; ++i) {
    args.push_back(node.HasOutput(i) ? KernelArg::Output(i) : KernelArg::Null());
  }
  return args;
}

// The text of a rule, and the function that `pick` gives for it.
template <class Pick>
std::pair<std::string, KernelFunction> ForRule(Rule rule, Pick pick) {
  switch (rule) {
    case Rule::kSgd:
      return {"kernels::Sgd", pick.template operator()<kernels::Sgd>()};
    case Rule::kSgdMomentum:
      return {"kernels::SgdMomentum", pick.template operator()<kernels::SgdMomentum>()};
    case Rule::kAdam:
      break;
  }
  return {"kernels::Adam", pick.template operator()<kernels::Adam>()};
}

// ---- MatMulUpdate

absl::StatusOr<std::vector<TensorType>> InferMatMulUpdate(const NodeContext& node) {
  const Shape& a = node.InputShape(0);
  const Shape& b = node.InputShape(1);
  const bool transposed = node.Int("transA", 0) != 0;
  if (a.size() != 2 || b.size() != 2 || a[transposed ? 0 : 1] != b[0] ||
      node.InputDType(1) != node.InputDType(0)) {
    return node.Invalid("the factors must be matrices of one type that can be multiplied");
  }
  return InferWith(node, {node.InputDType(0), {a[transposed ? 1 : 0], b[1]}});
}

// Rows of a block: all blocks have at least `least`, and take about `most_bytes`. 0: there is none.
int32_t BlockRows(int32_t rows, int64_t row_bytes, int64_t most_bytes, int32_t least) {
  int64_t block = std::clamp<int64_t>(most_bytes / row_bytes, least, rows);
  while (block > least && rows % block != 0 && rows % block < least) --block;
  const bool fits = rows % block == 0 || rows % block >= least;
  return fits ? static_cast<int32_t>(block) : 0;
}

absl::StatusOr<Lowering> LowerMatMulUpdate(const NodeContext& node, const Target& target) {
  RETURN_IF_ERROR(CheckMoments(node));
  ASSIGN_OR_RETURN(const Rule rule, RuleOf(node));
  kernels::MatMulUpdateParams p = {};
  SetOptimizer(node, &p);
  const Shape& a = node.InputShape(0);
  const bool transposed = node.Int("transA", 0) != 0;
  ASSIGN_OR_RETURN(p.rows, ToInt32(node, node.OutputShape(0)[0], "the rows"));
  ASSIGN_OR_RETURN(p.columns, ToInt32(node, node.OutputShape(0)[1], "the columns"));
  ASSIGN_OR_RETURN(p.depth, ToInt32(node, node.InputShape(1)[0], "the depth"));
  ASSIGN_OR_RETURN(const int32_t a_columns, ToInt32(node, a[1], "the columns of a"));
  p.a_row_stride = transposed ? 1 : a_columns;
  p.a_depth_stride = transposed ? a_columns : 1;
  p.b_depth_stride = p.columns;
  p.scale = node.Float("alpha", 1);
  TileShape tile = ChooseTile(target, p.rows, p.columns, /*whole_rows=*/true, /*whole_lanes=*/true);
  const int64_t row_bytes = int64_t{p.columns} * 4;
  const int64_t budget = TrainingPanelBudgetBytes(node, target);
  if (tile.lanes > 0) p.block_rows = BlockRows(p.rows, row_bytes, budget, tile.rows);
  if (p.block_rows == 0) {
    // A tile of one row takes any blocks.
    tile = ChooseTile(target, 1, p.columns, /*whole_rows=*/true, /*whole_lanes=*/true);
    if (tile.lanes == 0) return node.Unsupported("rows of fewer elements than a vector has");
    p.block_rows = BlockRows(p.rows, row_bytes, budget, 1);
  }
  const auto [rule_name, function] = ForRule(rule, [&]<class R> {
    return FunctionForTile(tile, []<int L, int Rows, int C> {
      return FunctionOf<&kernels::MatMulUpdate<L, Rows, C, R>>();
    });
  });
  KernelCall call;
  call.header = "kernels/fused_updates.h";
  call.name = absl::StrCat("kernels::MatMulUpdate<", TileArguments(tile), ", ", rule_name, ">");
  call.function = function;
  Lowering lowering = OneCall(std::move(call), p, Arguments(node));
  lowering.scratch_bytes = kernels::MatMulUpdateScratchBytes(p.block_rows, p.columns);
  lowering.scratch_alignment = int64_t{4} * tile.lanes;
  lowering.macs = int64_t{p.rows} * p.columns * p.depth;
  lowering.calls.back().own_scratch_bytes = lowering.scratch_bytes;
  const int64_t row = p.columns;
  const int64_t work = lowering.macs;
  return InParallel(
      std::move(lowering), work,
      {AxisOf<&kernels::MatMulUpdateParams::rows>(
          p, p.block_rows, {row, p.a_row_stride, 0, 0, 0, 0, row, row, 0, row, row, row})});
}

// ---- ConvWeightUpdate

absl::StatusOr<std::vector<TensorType>> InferConvUpdate(const NodeContext& node) {
  ASSIGN_OR_RETURN(const TensorType gradient, ConvWeightGradType(node));
  return InferWith(node, gradient);
}

absl::StatusOr<Lowering> LowerConvUpdate(const NodeContext& node, const Target& target) {
  RETURN_IF_ERROR(CheckMoments(node));
  ASSIGN_OR_RETURN(const Rule rule, RuleOf(node));
  ASSIGN_OR_RETURN(const kernels::ConvWeightGradParams whole, MakeConvWeightGradParams(node));
  const WeightGradTiling tiling = TileWeightGrad(node, target, whole);
  const kernels::ConvWeightGradParams& from = tiling.params;
  kernels::ConvUpdateParams p = {};
  SetOptimizer(node, &p);
  p.batch = from.batch;
  p.groups = from.groups;
  p.in_channels = from.in_channels;
  p.out_channels = from.out_channels;
  std::copy_n(from.in_size, 3, p.in_size);
  std::copy_n(from.out_size, 3, p.out_size);
  std::copy_n(from.taps, 3, p.taps);
  std::copy_n(from.stride, 3, p.stride);
  std::copy_n(from.dilation, 3, p.dilation);
  std::copy_n(from.padding, 3, p.padding);
  p.block_channels = from.block_channels;
  p.x_channels = from.x_channels;
  p.dy_channels = from.dy_channels;
  const TileShape& tile = tiling.tile;
  const auto [rule_name, function] = ForRule(rule, [&]<class R> {
    return FunctionForTile(tile, []<int L, int Rows, int C> {
      return FunctionOf<&kernels::ConvWeightUpdate<L, Rows, C, R>>();
    });
  });
  KernelCall call;
  call.header = "kernels/fused_updates.h";
  call.name = absl::StrCat("kernels::ConvWeightUpdate<", TileArguments(tile), ", ", rule_name, ">");
  call.function = function;
  Lowering lowering = OneCall(std::move(call), p, Arguments(node));
  const int32_t taps = kernels::Volume(p.taps);
  lowering.scratch_bytes =
      kernels::ConvUpdateScratchBytes(p.block_channels, taps, tile.lanes, tile.columns);
  lowering.scratch_alignment = int64_t{4} * tile.lanes;
  lowering.macs = node.InputType(1).NumElements() * p.in_channels * int64_t{taps};
  lowering.calls.back().own_scratch_bytes = lowering.scratch_bytes;
  using enum WeightGradArg;
  return InParallel(
      std::move(lowering), WeightGradWork(p),
      {WeightGradAxis(p, tile.width(),
                      {kW, kX, kDy, kStays, kStays, kStays, kW, kW, kStays, kW, kW, kW})});
}

}  // namespace

extern const OpDef kMatMulUpdate = {
    .type = "MatMulUpdate",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 8,
    .max_outputs = 3,
    .infer = InferMatMulUpdate,
    .aliases = UpdateInPlace,
    .lower = LowerMatMulUpdate,
};

extern const OpDef kConvWeightUpdate = {
    .type = "ConvWeightUpdate",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 8,
    .max_outputs = 3,
    .infer = InferConvUpdate,
    .aliases = UpdateInPlace,
    .lower = LowerConvUpdate,
};

}  // namespace onnx_memplan
