// Which operators that move pixels or channels can work on images in blocks of channels.
#include <algorithm>
#include <string>
#include <utility>

#include "ops/op_def.h"
#include "passes/blocked_rule.h"
#include "passes/match.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr int64_t kBlock = kernels::kChannelBlock;

// A plan for input 0 in blocks, all others as they are.
BlockedPlan PlanForFirst(const Node& node) {
  BlockedPlan plan;
  plan.operands.assign(node.inputs.size(), BlockedOperand::kAsIs);
  plan.operands[0] = BlockedOperand::kImage;
  return plan;
}

absl::StatusOr<std::vector<ValueId>> EmitOne(GraphEditor& editor, int32_t n, Node node) {
  ASSIGN_OR_RETURN(const ValueId y,
                   editor.Emit(n, std::move(node), editor.value(editor.node(n).outputs[0]).name));
  return std::vector<ValueId>{y};
}

// ---- Resize of height and width

bool IsGivenConstant(const GraphEditor& editor, const Node& node, size_t i) {
  const Tensor* tensor = i < node.inputs.size() ? editor.constant(node.inputs[i]) : nullptr;
  return tensor != nullptr && tensor->NumElements() > 0;
}

std::optional<BlockedPlan> PlanResize(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  if (!node.Is("Resize") || node.epilogue.has_residual || !node.epilogue.activation.empty()) {
    return std::nullopt;
  }
  if (!IsLargeImage(editor, node.outputs[0]) || !IsImage(editor, node.inputs[0])) {
    return std::nullopt;
  }
  const NodeContext context = Context(editor, n);
  const bool crops =
      context.String("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
  const bool stretches = context.String("keep_aspect_ratio_policy", "stretch") == "stretch";
  if (crops || !stretches || node.attributes.contains("axes")) return std::nullopt;
  const Shape& x = editor.shape(node.inputs[0]);
  const Shape& y = editor.shape(node.outputs[0]);
  if (x[0] != y[0] || x[1] != y[1]) return std::nullopt;
  const bool sizes = IsGivenConstant(editor, node, 3);
  if (sizes == IsGivenConstant(editor, node, 2)) return std::nullopt;
  if (!sizes) {
    const std::optional<std::vector<double>> scales = ToDoubles(*editor.constant(node.inputs[2]));
    if (!scales || scales->size() != 4 || (*scales)[0] != 1 || (*scales)[1] != 1) {
      return std::nullopt;
    }
  }
  return PlanForFirst(node);
}

absl::StatusOr<std::vector<ValueId>> EmitResize(GraphEditor& editor, int32_t n, Node node) {
  const std::string base = editor.value(editor.node(n).outputs[0]).name;
  const bool sizes = IsGivenConstant(editor, node, 3);
  if (sizes) {
    const Shape y = editor.shape(editor.node(n).outputs[0]);
    node.inputs.resize(3, kNoValue);
    node.inputs[2] = kNoValue;
    node.inputs.push_back(editor.AddConstant(base + "_sizes", Tensor::VectorInt64({y[2], y[3]})));
  } else {
    std::vector<double> scales = *ToDoubles(*editor.constant(node.inputs[2]));
    scales.erase(scales.begin(), scales.begin() + 2);
    node.inputs.resize(2);
    node.inputs.push_back(
        editor.AddConstant(base + "_scales", FromDoubles(DType::kFloat, {2}, scales)));
  }
  node.inputs[1] = kNoValue;
  node.attributes["axes"] = std::vector<int64_t>{2, 3};
  return EmitOne(editor, n, std::move(node));
}

// ---- Gather of channels

std::optional<BlockedPlan> PlanGather(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  if (!node.Is("Gather") || !IsLargeImage(editor, node.inputs[0])) return std::nullopt;
  if (WrapAxis(Context(editor, n).Int("axis", 0), 4) != 1) return std::nullopt;
  if (editor.type(node.inputs[1]).rank() != 1 || !ConstantInts(editor, n, 1)) return std::nullopt;
  if (!IsImage(editor, node.outputs[0])) return std::nullopt;
  return PlanForFirst(node);
}

absl::StatusOr<std::vector<ValueId>> EmitGather(GraphEditor& editor, int32_t n, Node node) {
  std::vector<int64_t> channels = *ConstantInts(editor, n, 1);
  for (int64_t& channel : channels) {
    if (channel < 0) channel += editor.shape(editor.node(n).inputs[0])[1];
  }
  Node gather = MakeNode("BlockedGatherChannels", node.name, {node.inputs[0]});
  gather.domain = kMemplan;
  gather.attributes["channels"] = std::move(channels);
  return EmitOne(editor, n, std::move(gather));
}

// ---- Slice of channels, whole blocks

// [begin, end) of the channels that node `n` takes; nullopt where it takes anything else.
std::optional<std::pair<int64_t, int64_t>> SlicedChannels(const GraphEditor& editor, int32_t n) {
  const auto begin = ConstantInts(editor, n, 1);
  const auto axes = ConstantInts(editor, n, 3);
  const auto steps = ConstantInts(editor, n, 4);
  if (!begin || begin->size() != 1 || !axes || WrapAxis((*axes)[0], 4) != 1) return std::nullopt;
  if (editor.node(n).inputs.size() > 4 && (!steps || (*steps)[0] != 1)) return std::nullopt;
  const int64_t count = editor.shape(editor.node(n).inputs[0])[1];
  int64_t first = (*begin)[0] < 0 ? (*begin)[0] + count : (*begin)[0];
  first = std::clamp<int64_t>(first, 0, count);
  return std::pair(first, first + editor.shape(editor.node(n).outputs[0])[1]);
}

std::optional<BlockedPlan> PlanSlice(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  if (!node.Is("Slice") || !IsLargeImage(editor, node.inputs[0])) return std::nullopt;
  if (!IsImage(editor, node.outputs[0])) return std::nullopt;
  const auto channels = SlicedChannels(editor, n);
  if (!channels || channels->first % kBlock != 0) return std::nullopt;
  const int64_t count = editor.shape(node.inputs[0])[1];
  if (channels->second % kBlock != 0 && channels->second != count) return std::nullopt;
  return PlanForFirst(node);
}

absl::StatusOr<std::vector<ValueId>> EmitSlice(GraphEditor& editor, int32_t n, Node node) {
  const auto [begin, end] = *SlicedChannels(editor, n);
  const std::string name = editor.value(editor.node(n).outputs[0]).name;
  const auto constant = [&](const char* suffix, int64_t value) {
    return editor.AddConstant(name + suffix, Tensor::VectorInt64({value}));
  };
  return EmitOne(editor, n,
                 MakeNode("Slice", node.name,
                          {node.inputs[0], constant("_begin", begin / kBlock),
                           constant("_end", (end + kBlock - 1) / kBlock), constant("_axis", 1)}));
}

// ---- ConvTranspose

std::optional<BlockedPlan> PlanConvTranspose(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  const ValueId output = node.outputs[0];
  if (!node.Is("ConvTranspose") || !IsLargeImage(editor, output)) return std::nullopt;
  if (!IsImage(editor, node.inputs[0])) return std::nullopt;
  const NodeContext context = Context(editor, n);
  const std::string auto_pad = context.String("auto_pad", "NOTSET");
  if (context.Int("group", 1) != 1 || (auto_pad != "NOTSET" && !auto_pad.empty()) ||
      node.attributes.contains("output_shape")) {
    return std::nullopt;
  }
  for (const int64_t dilation : context.Ints("dilations", {})) {
    if (dilation != 1) return std::nullopt;
  }
  const size_t operands = node.inputs.size() - (node.epilogue.has_residual ? 1 : 0);
  for (size_t i = 1; i < operands; ++i) {
    if (node.inputs[i] != kNoValue && editor.constant(node.inputs[i]) == nullptr) {
      return std::nullopt;
    }
  }
  // Empty lanes are computed too.
  const int64_t channels = editor.shape(output)[1];
  if (BlockedShape(editor.shape(output))[1] * kBlock * 2 > channels * 3) return std::nullopt;
  BlockedPlan plan = PlanForFirst(node);
  if (node.epilogue.has_residual) plan.operands.back() = BlockedOperand::kImage;
  const Shape& w = editor.shape(node.inputs[1]);
  plan.macs = editor.type(node.inputs[0]).NumElements() * w[1] * w[2] * w[3];
  return plan;
}

absl::StatusOr<std::vector<ValueId>> EmitConvTranspose(GraphEditor& editor, int32_t n, Node node) {
  const NodeContext context = Context(editor, n);
  const std::vector<int64_t> pads = context.Ints("pads", {0, 0, 0, 0});
  const std::vector<int64_t> strides = context.Ints("strides", {1, 1});
  const Shape& y = editor.shape(node.outputs[0]);
  node.op_type = "BlockedConvTranspose";
  node.domain = kMemplan;
  node.attributes.clear();
  node.attributes["strides"] = strides;
  node.attributes["padding"] = std::vector<int64_t>{pads[0], pads[1]};
  node.attributes["output_size"] = std::vector<int64_t>{y[2], y[3]};
  return EmitOne(editor, n, std::move(node));
}

constexpr BlockedRule kRules[] = {
    {PlanResize, EmitResize},
    {PlanGather, EmitGather},
    {PlanSlice, EmitSlice},
    {PlanConvTranspose, EmitConvTranspose},
};

// The image that node `n`, the last of Reshape, Transpose, Reshape, shuffles, and the number of
// groups; kNoValue if it does not.
std::pair<ValueId, int64_t> ShuffledBy(const GraphEditor& editor, int32_t n) {
  const std::pair<ValueId, int64_t> none = {kNoValue, 0};
  const Node& last = editor.node(n);
  if (!IsReshapeLike(last) || !IsImage(editor, last.outputs[0])) return none;
  const int32_t transpose = editor.ProducerIf(last.inputs[0], "Transpose");
  if (transpose < 0) return none;
  const auto permutation = AsPermutation(editor, transpose);
  if (!permutation || *permutation != std::vector<int64_t>{0, 2, 1, 3, 4}) return none;
  const ValueId split = editor.node(transpose).inputs[0];
  const int32_t first = editor.producer(split);
  if (first < 0 || !IsReshapeLike(editor.node(first))) return none;
  const ValueId image = editor.node(first).inputs[0];
  if (!IsImage(editor, image) || editor.shape(image) != editor.shape(last.outputs[0])) return none;
  const Shape& x = editor.shape(image);
  const Shape& parts = editor.shape(split);
  if (parts[0] != x[0] || parts[1] * parts[2] != x[1] || parts[3] != x[2]) return none;
  return {image, parts[1]};
}

}  // namespace

std::span<const BlockedRule> BlockedMovementRules() { return kRules; }

absl::StatusOr<int64_t> GatherShuffledChannels(GraphEditor& editor) {
  int64_t found = 0;
  const int32_t count = editor.num_nodes();
  for (int32_t n = 0; n < count; ++n) {
    if (!editor.alive(n)) continue;
    const auto [image, groups] = ShuffledBy(editor, n);
    if (image == kNoValue) continue;
    const ValueId old = editor.node(n).outputs[0];
    if (editor.is_graph_output(old)) continue;
    const int64_t channels = editor.shape(image)[1];
    std::vector<int64_t> order;
    for (int64_t c = 0; c < channels; ++c) {
      order.push_back(c % groups * (channels / groups) + c / groups);
    }
    const std::string name = editor.value(old).name;
    const ValueId indices = editor.AddConstant(name + "_channels", Tensor::VectorInt64(order));
    Node gather = MakeNode("Gather", editor.node(n).name, {image, indices});
    gather.attributes["axis"] = int64_t{1};
    ASSIGN_OR_RETURN(const ValueId y, editor.Emit(n, std::move(gather), name));
    editor.ReplaceUses(old, y);
    ++found;
  }
  return found;
}

}  // namespace onnx_memplan
