#include "passes/blocked_rules.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ops/blocked.h"
#include "ops/op_def.h"
#include "passes/affine.h"
#include "passes/blocked_rule.h"
#include "passes/match.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr int64_t kBlock = kernels::kChannelBlock;

// ---- Convolutions

// Input 0 of a first layer stays as it is.
constexpr int64_t kFewChannels = 4;

std::optional<BlockedPlan> PlanConv(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  if (!node.Is("Conv")) return std::nullopt;
  const ValueId output = node.outputs[0];
  if (!IsLargeImage(editor, node.inputs[0]) || !IsLargeImage(editor, output)) return std::nullopt;
  if (editor.constant(node.inputs[1]) == nullptr) return std::nullopt;
  const bool has_bias = Context(editor, n).HasInput(2);
  if (has_bias && editor.constant(node.inputs[2]) == nullptr) return std::nullopt;
  const Shape& weights = editor.shape(node.inputs[1]);
  const int64_t group = Context(editor, n).Int("group", 1);
  if (group != 1 && (weights[1] != 1 || weights[0] != group)) return std::nullopt;
  const int64_t channels = editor.shape(node.inputs[0])[1];
  if (group != 1 && !FillsBlocks(editor, output)) return std::nullopt;
  BlockedPlan plan;
  plan.operands.assign(node.inputs.size(), BlockedOperand::kAsIs);
  plan.operands[0] = BlockedOperand::kImage;
  if (node.epilogue.has_residual) plan.operands.back() = BlockedOperand::kImage;
  plan.takes_plain_image = group == 1 && channels <= kFewChannels;
  plan.macs = editor.type(output).NumElements() * weights[1] * weights[2] * weights[3];
  return plan;
}

// Adds `node` under the name of the output of node `n`.
absl::StatusOr<std::vector<ValueId>> EmitSame(GraphEditor& editor, int32_t n, Node node) {
  ASSIGN_OR_RETURN(const ValueId y,
                   editor.Emit(n, std::move(node), editor.value(editor.node(n).outputs[0]).name));
  return std::vector<ValueId>{y};
}

absl::StatusOr<std::vector<ValueId>> EmitConv(GraphEditor& editor, int32_t n, Node node) {
  node.op_type = "BlockedConv";
  node.domain = kMemplan;
  return EmitSame(editor, n, std::move(node));
}

// ---- BatchNormalization: a depthwise convolution of one tap

std::optional<BlockedPlan> PlanAffine(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  if (node.epilogue.has_residual || !AsBatchNormalization(Context(editor, n))) return std::nullopt;
  if (!IsLargeImage(editor, node.inputs[0]) || !FillsBlocks(editor, node.inputs[0])) {
    return std::nullopt;
  }
  BlockedPlan plan;
  plan.operands.assign(node.inputs.size(), BlockedOperand::kAsIs);
  plan.operands[0] = BlockedOperand::kImage;
  return plan;
}

absl::StatusOr<std::vector<ValueId>> EmitAffine(GraphEditor& editor, int32_t n, Node node) {
  const std::optional<Affine> affine = AsBatchNormalization(Context(editor, n));
  MEMPLAN_CHECK(affine.has_value());
  const std::string base = editor.value(editor.node(n).outputs[0]).name;
  const auto channels = static_cast<int64_t>(affine->scale.size());
  const ValueId weights = editor.AddConstant(
      base + "_scale", FromDoubles(DType::kFloat, {channels, 1, 1, 1}, affine->scale));
  const ValueId bias =
      editor.AddConstant(base + "_shift", FromDoubles(DType::kFloat, {channels}, affine->shift));
  Node conv = MakeNode("BlockedConv", node.name, {node.inputs[0], weights, bias});
  conv.domain = kMemplan;
  conv.attributes["group"] = channels;
  conv.epilogue = node.epilogue;
  return EmitSame(editor, n, std::move(conv));
}

// ---- Elementwise

// Whatever stands in the lanes behind the last channel, the result is finite.
bool KeepsLanesFinite(const Node& node) {
  static constexpr std::string_view kTypes[] = {
      "Relu",     "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Gelu",
      "Softplus", "Mish", "Elu",       "Add",     "Sub",  "Mul",         "Max",       "Min"};
  return std::find(std::begin(kTypes), std::end(kTypes), node.op_type) != std::end(kTypes);
}

// What an operand of shape `shape` is to a result of shape `full`.
std::optional<BlockedOperand> OperandOf(const GraphEditor& editor, ValueId v, const Shape& full) {
  Shape shape = editor.shape(v);
  const bool has_rank = shape.size() == 4;
  if (shape.size() > 4) return std::nullopt;
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  if (editor.type(v).NumElements() == 1) return BlockedOperand::kAsIs;
  if (shape == full && has_rank) return BlockedOperand::kImage;
  const bool constant = editor.constant(v) != nullptr;
  if (shape[1] == full[1] && shape[2] == 1 && shape[3] == 1) {
    if (constant && shape[0] == 1) return BlockedOperand::kPerChannel;
    if (has_rank && IsImage(editor, v)) return BlockedOperand::kImage;
  }
  if (constant && shape[0] == 1 && shape[1] == 1) return BlockedOperand::kPerPixel;
  return std::nullopt;
}

std::optional<BlockedPlan> PlanElementwise(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  const bool unary = IsElementwiseUnary(node) && node.op_type != "Cast" && node.op_type != "Not";
  if (!unary && !IsElementwiseBinary(node)) return std::nullopt;
  const ValueId output = node.outputs[0];
  if (!IsLargeImage(editor, output)) return std::nullopt;
  if (!FillsBlocks(editor, output) && !KeepsLanesFinite(node)) return std::nullopt;
  BlockedPlan plan;
  plan.operands.assign(node.inputs.size(), BlockedOperand::kAsIs);
  const size_t count = unary ? 1 : 2;
  bool any_image = false;
  for (size_t i = 0; i < count; ++i) {
    const auto operand = OperandOf(editor, node.inputs[i], editor.shape(output));
    if (!operand) return std::nullopt;
    plan.operands[i] = *operand;
    any_image |=
        *operand == BlockedOperand::kImage && editor.shape(node.inputs[i]) == editor.shape(output);
  }
  if (!any_image) return std::nullopt;
  if (node.epilogue.has_residual) plan.operands.back() = BlockedOperand::kImage;
  return plan;
}

// ---- Pools

std::optional<BlockedPlan> PlanPool(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  const bool global = node.Is("GlobalAveragePool") || node.Is("GlobalMaxPool");
  if (!global && !node.Is("MaxPool") && !node.Is("AveragePool")) return std::nullopt;
  if (node.outputs.size() != 1 || !IsLargeImage(editor, node.inputs[0])) return std::nullopt;
  if (FindOp("Blocked" + node.op_type, kMemplan) == nullptr) return std::nullopt;
  BlockedPlan plan;
  plan.operands = {BlockedOperand::kImage};
  return plan;
}

absl::StatusOr<std::vector<ValueId>> EmitPool(GraphEditor& editor, int32_t n, Node node) {
  node.op_type = "Blocked" + node.op_type;
  node.domain = kMemplan;
  return EmitSame(editor, n, std::move(node));
}

// ---- Concat and Split of whole blocks

std::optional<BlockedPlan> PlanConcat(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  if (!node.Is("Concat") || !IsLargeImage(editor, node.outputs[0])) return std::nullopt;
  if (WrapAxis(Context(editor, n).Int("axis", 0), 4) != 1) return std::nullopt;
  for (const ValueId v : node.inputs) {
    if (!IsImage(editor, v) || !FillsBlocks(editor, v)) return std::nullopt;
  }
  BlockedPlan plan;
  plan.operands.assign(node.inputs.size(), BlockedOperand::kImage);
  return plan;
}

absl::StatusOr<std::vector<ValueId>> EmitConcat(GraphEditor& editor, int32_t n, Node node) {
  node.attributes["axis"] = int64_t{1};
  return EmitSame(editor, n, std::move(node));
}

std::optional<BlockedPlan> PlanSplit(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  if (!node.Is("Split") || !IsLargeImage(editor, node.inputs[0])) return std::nullopt;
  if (WrapAxis(Context(editor, n).Int("axis", 0), 4) != 1) return std::nullopt;
  for (const ValueId v : node.outputs) {
    if (v == kNoValue || !FillsBlocks(editor, v)) return std::nullopt;
  }
  BlockedPlan plan;
  plan.operands.assign(node.inputs.size(), BlockedOperand::kAsIs);
  plan.operands[0] = BlockedOperand::kImage;
  return plan;
}

absl::StatusOr<std::vector<ValueId>> EmitSplit(GraphEditor& editor, int32_t n, Node node) {
  std::vector<ValueId> parts;
  int64_t begin = 0;
  for (const ValueId old : editor.node(n).outputs) {
    const std::string name = editor.value(old).name;
    const int64_t end = begin + editor.shape(old)[1] / kBlock;
    const auto constant = [&](const char* suffix, int64_t value) {
      return editor.AddConstant(name + suffix, Tensor::VectorInt64({value}));
    };
    Node slice = MakeNode(
        "Slice", node.name,
        {node.inputs[0], constant("_begin", begin), constant("_end", end), constant("_axis", 1)});
    ASSIGN_OR_RETURN(const ValueId part, editor.Emit(n, std::move(slice), name));
    parts.push_back(part);
    begin = end;
  }
  return parts;
}

// ---- The table

constexpr BlockedRule kRules[] = {
    {PlanConv, EmitConv}, {PlanAffine, EmitAffine}, {PlanElementwise, EmitSame},
    {PlanPool, EmitPool}, {PlanConcat, EmitConcat}, {PlanSplit, EmitSplit},
};

// The constant [1, channels, 1, 1] (or fewer axes) as [1, channels / 8, 1, 1, 8]. The lanes behind
// the last channel become 1, by which one may also divide.
ValueId BlockConstant(GraphEditor& editor, ValueId v) {
  const Tensor tensor = *editor.constant(v);
  std::vector<float> values(tensor.As<float>().begin(), tensor.As<float>().end());
  const Shape shape = BlockedShape({1, static_cast<int64_t>(values.size()), 1, 1});
  values.resize(static_cast<size_t>(shape[1] * kBlock), 1.0F);
  return editor.AddConstant(editor.value(v).name + "_blocked", Tensor::FromVector(shape, values));
}

// The constant [1, 1, height, width] (or fewer axes) with a last axis of 1.
ValueId PixelConstant(GraphEditor& editor, ValueId v) {
  const Tensor tensor = *editor.constant(v);
  Shape shape = tensor.shape();
  shape.push_back(1);
  return editor.AddConstant(editor.value(v).name + "_pixels", tensor.Reshaped(shape));
}

}  // namespace

std::optional<BlockedPlan> PlanBlocked(const GraphEditor& editor, int32_t n) {
  for (const auto rules : {std::span<const BlockedRule>(kRules), BlockedMovementRules()}) {
    for (const BlockedRule& rule : rules) {
      std::optional<BlockedPlan> plan = rule.plan(editor, n);
      if (!plan) continue;
      plan->rule = &rule;
      return plan;
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<ValueId>> EmitBlocked(GraphEditor& editor, int32_t n,
                                                 const BlockedPlan& plan,
                                                 const BlockedValue& blocked) {
  Node node = editor.node(n);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ValueId& input = node.inputs[i];
    switch (plan.operands[i]) {
      case BlockedOperand::kAsIs:
        break;
      case BlockedOperand::kImage: {
        ASSIGN_OR_RETURN(input, blocked(input));
        break;
      }
      case BlockedOperand::kPerChannel:
        input = BlockConstant(editor, input);
        break;
      case BlockedOperand::kPerPixel:
        input = PixelConstant(editor, input);
        break;
    }
  }
  return plan.rule->emit(editor, n, std::move(node));
}

}  // namespace onnx_memplan
