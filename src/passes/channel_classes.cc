#include "passes/channel_classes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/op_def.h"
#include "passes/affine.h"
#include "passes/match.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

// Tensors beyond are left alone: their channels would cost more to follow than they can give.
constexpr int64_t kMostChannels = int64_t{1} << 16;

// Weights that decayed towards zero in training (1e-30) are as good as zero where they cannot
// change the bias in float, whatever the input is below this bound.
constexpr double kLargestInput = 1LL << 40;
constexpr double kHalfUnit = 1.0 / (1 << 25);  // of a float, at the least

// `magnitudes`: the sum of the weights' magnitudes.
bool IsNegligible(double magnitudes, double bias) {
  return magnitudes * kLargestInput <= std::fabs(bias) * kHalfUnit;
}

// What `node` makes of operands that have one value in all elements; nullopt: no kernel says so.
// `operands`: by input, the values to try, each with the same number; an empty one stands for an
// input of the node that is constant.
std::optional<std::vector<float>> Evaluate(const NodeContext& node,
                                           const std::vector<std::vector<float>>& operands) {
  Graph graph;
  Node copy = node.node();
  for (size_t i = 0; i < copy.inputs.size(); ++i) {
    if (copy.inputs[i] == kNoValue) continue;
    const std::string name = "operand_" + std::to_string(i);
    if (i < operands.size() && !operands[i].empty()) {
      const auto count = static_cast<int64_t>(operands[i].size());
      copy.inputs[i] = graph.AddConstant(name, Tensor::FromVector({count}, operands[i]));
    } else {
      const Tensor& constant = *node.InputConstant(static_cast<int32_t>(i));
      copy.inputs[i] = graph.AddConstant(name, constant);
    }
  }
  copy.outputs = {kNoValue};
  const absl::StatusOr<std::vector<TensorType>> types = InferTypes(graph, copy);
  if (!types.ok() || types->front().dtype != DType::kFloat) return std::nullopt;
  copy.outputs = {graph.AddValue("result", types->front())};
  const absl::StatusOr<std::vector<Tensor>> results = EvaluateNode(graph, copy);
  if (!results.ok()) return std::nullopt;
  const std::span<const float> values = results->front().As<float>();
  return std::vector<float>(values.begin(), values.end());
}

}  // namespace

ChannelClasses::ChannelClasses(const Graph& graph) {
  int32_t slots = 0;
  for (const Value& value : graph.values) {
    const bool has = !value.constant && value.type && value.type->dtype == DType::kFloat &&
                     value.type->rank() >= 2 && value.type->NumElements() > 0 &&
                     value.type->shape[1] <= kMostChannels && slots < INT32_MAX - kMostChannels;
    first_.push_back(slots);
    count_.push_back(has ? value.type->shape[1] : 0);
    slots += static_cast<int32_t>(count_.back());
  }
  parent_.resize(static_cast<size_t>(slots));
  std::iota(parent_.begin(), parent_.end(), 0);
  known_.resize(static_cast<size_t>(slots));
  needed_.resize(static_cast<size_t>(slots));
  for (ValueId v : graph.inputs) Need(v);
  for (ValueId v : graph.outputs) Need(v);
  for (const State& state : graph.states) {
    Need(state.in);
    if (state.out != kNoValue) Need(state.out);
  }
  for (const Node& node : graph.nodes) {
    if (Visit(NodeContext(graph, node))) continue;
    for (ValueId v : node.inputs) Need(v);
    for (ValueId v : node.outputs) Need(v);
  }
  std::vector<bool> by_class(parent_.size());
  for (int32_t slot = 0; slot < slots; ++slot) {
    if (needed_[static_cast<size_t>(slot)]) by_class[static_cast<size_t>(Root(slot))] = true;
  }
  needed_ = std::move(by_class);
}

int64_t ChannelClasses::num_channels(ValueId v) const {
  return v == kNoValue ? 0 : count_[static_cast<size_t>(v)];
}

std::optional<float> ChannelClasses::ValueOf(ValueId v, int64_t c) const {
  return known_[static_cast<size_t>(SlotOf(v, c))];
}

int32_t ChannelClasses::ClassOf(ValueId v, int64_t c) const { return Root(SlotOf(v, c)); }

int32_t ChannelClasses::Root(int32_t slot) const {
  while (parent_[static_cast<size_t>(slot)] != slot) {
    int32_t& parent = parent_[static_cast<size_t>(slot)];
    parent = parent_[static_cast<size_t>(parent)];
    slot = parent;
  }
  return slot;
}

void ChannelClasses::Join(int32_t a, int32_t b) {
  a = Root(a);
  b = Root(b);
  parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
}

void ChannelClasses::Need(ValueId v) {
  for (int64_t c = 0; c < num_channels(v); ++c) Need(v, c);
}

void ChannelClasses::Need(ValueId v, int64_t c) {
  needed_[static_cast<size_t>(SlotOf(v, c))] = true;
}

void ChannelClasses::SetValue(ValueId v, int64_t c, double value) {
  if (!std::isfinite(value)) return;
  known_[static_cast<size_t>(SlotOf(v, c))] = static_cast<float>(value);
}

bool ChannelClasses::HasChannels(const NodeContext& node, int32_t input) const {
  return node.HasInput(input) && num_channels(node.node().inputs[static_cast<size_t>(input)]) > 0;
}

bool ChannelClasses::Visit(const NodeContext& node) {
  const Node& n = node.node();
  if (!n.domain.empty() || !n.epilogue.empty() || n.outputs.size() != 1 ||
      num_channels(n.outputs[0]) == 0) {
    return false;
  }
  if (n.Is("Conv") || n.Is("Gemm")) return VisitLinear(node);
  if (n.Is("Concat")) return VisitConcat(node);
  if (n.Is("Reshape")) return VisitReshape(node);
  if (n.Is("BatchNormalization")) return VisitBatchNormalization(node);
  if (n.Is("MaxPool") || n.Is("AveragePool") || n.Is("GlobalAveragePool") ||
      n.Is("GlobalMaxPool")) {
    return VisitPool(node);
  }
  if (IsElementwiseUnary(n)) return VisitUnary(node);
  if (n.Is("Add") || n.Is("Sub") || n.Is("Mul")) return VisitBinary(node);
  return false;
}

// Output channel `o`: its value if it is known, else what it needs.
void ChannelClasses::FollowRow(ValueId x, ValueId y, const ChannelMatrix& matrix, int64_t o) {
  double sum = matrix.BiasOf(o);
  double weights = 0;  // the magnitudes of those that are not a part of the bias
  std::vector<int64_t> read;
  for (int64_t i = 0; i < matrix.inputs(); ++i) {
    const int64_t input = matrix.depthwise() ? o : i;
    const double magnitude = matrix.MagnitudeOf(o, i);
    if (magnitude == 0) continue;
    const std::optional<float> value = ValueOf(x, input);
    if (value && (*value == 0.0F || matrix.unpadded())) {
      sum += static_cast<double>(*value) * matrix.SumOf(o, i);
    } else {
      weights += magnitude;
      read.push_back(input);
    }
  }
  if (IsNegligible(weights, sum)) {
    SetValue(y, o, sum);
  } else if (!matrix.depthwise()) {
    for (int64_t input : read) Need(x, input);
  }
}

bool ChannelClasses::VisitLinear(const NodeContext& node) {
  const std::optional<ChannelMatrix> matrix = ChannelMatrix::Of(node);
  if (!matrix || !HasChannels(node, 0)) return false;
  const ValueId x = node.node().inputs[0];
  const ValueId y = node.node().outputs[0];
  const std::vector<double> magnitudes = matrix->MagnitudesByOutput();
  bool plain = !matrix->depthwise();
  for (int64_t c = 0; plain && c < num_channels(x); ++c) plain = !ValueOf(x, c);
  for (int64_t o = 0; plain && o < matrix->outputs(); ++o) {
    plain = !IsNegligible(magnitudes[static_cast<size_t>(o)], matrix->BiasOf(o));
  }
  if (plain) {
    // The usual case, in the order of memory.
    const std::vector<double> by_input = matrix->MagnitudesByInput();
    for (int64_t i = 0; i < matrix->inputs(); ++i) {
      if (by_input[static_cast<size_t>(i)] != 0) Need(x, i);
    }
    return true;
  }
  for (int64_t o = 0; o < matrix->outputs(); ++o) {
    if (matrix->depthwise()) Join(SlotOf(x, o), SlotOf(y, o));
    FollowRow(x, y, *matrix, o);
  }
  return true;
}

bool ChannelClasses::VisitInStep(const NodeContext& node, bool keeps_values) {
  const ValueId x = node.node().inputs[0];
  const ValueId y = node.node().outputs[0];
  if (num_channels(x) != num_channels(y)) return false;
  for (int64_t c = 0; c < num_channels(x); ++c) {
    Join(SlotOf(x, c), SlotOf(y, c));
    const std::optional<float> value = ValueOf(x, c);
    if (value && (keeps_values || *value == 0.0F)) SetValue(y, c, static_cast<double>(*value));
  }
  return true;
}

bool ChannelClasses::VisitPool(const NodeContext& node) {
  // An average may count padding, which is 0, and a maximum never does.
  const bool counts_padding =
      node.node().Is("AveragePool") &&
      (node.Int("count_include_pad", 0) != 0 || node.Int("ceil_mode", 0) != 0);
  return VisitInStep(node, !counts_padding);
}

bool ChannelClasses::VisitUnary(const NodeContext& node) {
  for (int32_t i = 1; i < node.num_inputs(); ++i) {
    if (node.HasInput(i) && node.InputConstant(i) == nullptr) return false;
  }
  const ValueId x = node.node().inputs[0];
  const ValueId y = node.node().outputs[0];
  if (num_channels(x) != num_channels(y)) return false;
  std::vector<int64_t> channels;
  std::vector<float> operands;
  for (int64_t c = 0; c < num_channels(x); ++c) {
    Join(SlotOf(x, c), SlotOf(y, c));
    if (!ValueOf(x, c)) continue;
    channels.push_back(c);
    operands.push_back(*ValueOf(x, c));
  }
  if (channels.empty()) return true;
  const std::optional<std::vector<float>> results = Evaluate(node, {operands});
  for (size_t i = 0; results && i < channels.size(); ++i) {
    SetValue(y, channels[i], static_cast<double>((*results)[i]));
  }
  return true;
}

bool ChannelClasses::VisitBinary(const NodeContext& node) {
  const ValueId y = node.node().outputs[0];
  for (int32_t i = 0; i < 2; ++i) {
    const Tensor* constant = node.InputConstant(i);
    const ValueId x = node.node().inputs[static_cast<size_t>(i)];
    const bool in_step =
        num_channels(x) == num_channels(y) && node.InputType(i).rank() == node.OutputType(0).rank();
    if (constant != nullptr ? constant->NumElements() != 1 : !in_step) return false;
  }
  std::vector<int64_t> channels;
  std::vector<std::vector<float>> operands(2);
  for (int64_t c = 0; c < num_channels(y); ++c) {
    float values[2] = {};
    bool known = true;
    bool is_zero = false;
    for (int32_t i = 0; i < 2; ++i) {
      const ValueId x = node.node().inputs[static_cast<size_t>(i)];
      const Tensor* constant = node.InputConstant(i);
      if (constant == nullptr) Join(SlotOf(x, c), SlotOf(y, c));
      const std::optional<float> value =
          constant != nullptr ? std::optional(constant->As<float>()[0]) : ValueOf(x, c);
      known = known && value.has_value();
      is_zero = is_zero || (value && *value == 0.0F);
      values[i] = value.value_or(0.0F);
    }
    if (node.node().Is("Mul") && is_zero) {
      SetValue(y, c, 0);
    } else if (known) {
      channels.push_back(c);
      for (size_t i = 0; i < 2; ++i) operands[i].push_back(values[i]);
    }
  }
  if (channels.empty()) return true;
  const std::optional<std::vector<float>> results = Evaluate(node, operands);
  for (size_t i = 0; results && i < channels.size(); ++i) {
    SetValue(y, channels[i], static_cast<double>((*results)[i]));
  }
  return true;
}

bool ChannelClasses::VisitBatchNormalization(const NodeContext& node) {
  const std::optional<Affine> affine = AsBatchNormalization(node);
  if (!affine || !VisitInStep(node, false)) return false;
  const ValueId x = node.node().inputs[0];
  const ValueId y = node.node().outputs[0];
  for (int64_t c = 0; c < num_channels(x); ++c) {
    const std::optional<float> value = ValueOf(x, c);
    if (!value) continue;
    const auto at = static_cast<size_t>(c);
    SetValue(y, c, static_cast<double>(*value) * affine->ScaleAt(at) + affine->ShiftAt(at));
  }
  return true;
}

bool ChannelClasses::VisitConcat(const NodeContext& node) {
  const ValueId y = node.node().outputs[0];
  const int64_t rank = node.OutputType(0).rank();
  if (WrapAxis(node.Int("axis", 0), rank) != 1) return false;
  for (int32_t i = 0; i < node.num_inputs(); ++i) {
    if (!HasChannels(node, i)) return false;
  }
  int64_t at = 0;
  for (ValueId x : node.node().inputs) {
    for (int64_t c = 0; c < num_channels(x); ++c, ++at) {
      Join(SlotOf(x, c), SlotOf(y, at));
      if (ValueOf(x, c)) SetValue(y, at, static_cast<double>(*ValueOf(x, c)));
    }
  }
  return true;
}

bool ChannelClasses::VisitReshape(const NodeContext& node) {
  const ValueId x = node.node().inputs[0];
  const ValueId y = node.node().outputs[0];
  const Shape& from = node.InputShape(0);
  const Shape& to = node.OutputShape(0);
  if (!HasChannels(node, 0) || from[0] != to[0]) return false;
  if (from[1] == to[1]) return VisitInStep(node, true);
  if (to.size() != 2) return false;
  // Each channel's elements become channels.
  const int64_t inner = to[1] / from[1];
  for (int64_t c = 0; c < to[1]; ++c) {
    Join(SlotOf(x, c / inner), SlotOf(y, c));
    const std::optional<float> value = ValueOf(x, c / inner);
    if (value) SetValue(y, c, static_cast<double>(*value));
  }
  return true;
}

}  // namespace onnx_memplan
