#include "passes/fold_affine.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "ops/op_def.h"
#include "passes/affine.h"
#include "passes/match.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

bool IsPlainFloat(const Tensor* tensor) {
  return tensor != nullptr &&
         (tensor->dtype() == DType::kFloat || tensor->dtype() == DType::kDouble);
}

// The channel of each element of some weights: groups of `group_elements`, each with `channels` of
// its own, which change every `inner` elements.
struct ChannelMap {
  size_t inner = 1;
  size_t channels = 1;
  size_t group_elements = SIZE_MAX;

  size_t Of(size_t i) const { return i / inner % channels + i / group_elements * channels; }
};

template <class T>
Tensor ScaledAs(const Tensor& weights, const Affine& affine, const ChannelMap& map) {
  std::byte* data = nullptr;
  Tensor scaled = Tensor::Zeros(weights.type(), &data);
  const std::span<const T> in = weights.As<T>();
  T* out = reinterpret_cast<T*>(data);
  for (size_t i = 0; i < in.size();) {
    // Runs of one channel.
    const double scale = affine.ScaleAt(map.Of(i));
    const size_t end = std::min(in.size(), i + map.inner);
    for (; i < end; ++i) out[i] = static_cast<T>(static_cast<double>(in[i]) * scale);
  }
  return scaled;
}

Tensor Scaled(const Tensor& weights, const Affine& affine, const ChannelMap& map) {
  return weights.dtype() == DType::kFloat ? ScaledAs<float>(weights, affine, map)
                                          : ScaledAs<double>(weights, affine, map);
}

std::string NameOf(const GraphEditor& editor, ValueId v, const char* fallback, int32_t n) {
  if (v != kNoValue) return editor.value(v).name;
  return editor.value(editor.node(n).outputs[0]).name + fallback;
}

// The bias input of linear node `n` as one value for each of `channels`, before the node's own
// factor; zeros where it is omitted. nullopt: not constant, or of another form.
std::optional<std::vector<double>> BiasOf(const GraphEditor& editor, int32_t n, int32_t index,
                                          size_t channels) {
  const NodeContext context = Context(editor, n);
  if (!context.HasInput(index)) return std::vector<double>(channels, 0.0);
  const Tensor* bias = context.InputConstant(index);
  if (!IsPlainFloat(bias)) return std::nullopt;
  // Of Gemm's C, only what varies along the columns.
  Shape full(std::max<size_t>(bias->shape().size(), 1), 1);
  full.back() = static_cast<int64_t>(channels);
  return AlongAxis(*bias, full, static_cast<int64_t>(full.size()) - 1);
}

void SetWeights(GraphEditor& editor, int32_t n, size_t index, Tensor weights) {
  const std::string name = editor.value(editor.node(n).inputs[index]).name;
  const ValueId v = editor.AddConstant(name, std::move(weights));
  editor.SetInput(n, index, v);
}

void SetBias(GraphEditor& editor, int32_t n, size_t index, DType dtype,
             const std::vector<double>& bias) {
  std::vector<ValueId> inputs = editor.node(n).inputs;
  inputs.resize(std::max(inputs.size(), index + 1), kNoValue);
  const std::string name = NameOf(editor, inputs[index], "_bias", n);
  inputs[index] =
      editor.AddConstant(name, FromDoubles(dtype, {static_cast<int64_t>(bias.size())}, bias));
  editor.SetInputs(n, std::move(inputs));
}

// What the fold needs to know of a linear operator.
struct Linear {
  int64_t axis = 1;  // of its output, along which the weights' channels run
  size_t channels = 0;
  size_t weights = 1;  // input
  size_t bias = 2;     // input; 0: the operator has none
  double bias_factor = 1;
};

// Conv: M x C/g x k...; ConvTranspose: C x M/g x k...; Gemm: K x N, or N x K with transB; MatMul:
// ... x K x N; normalisations: C.
ChannelMap MapOf(const NodeContext& node, const Linear& linear) {
  const Shape& shape = node.InputShape(1);
  const auto elements = static_cast<size_t>(node.InputType(1).NumElements());
  if (elements == 0) return {};
  if (node.node().Is("Conv")) {
    return {.inner = elements / linear.channels, .channels = linear.channels};
  }
  if (node.node().Is("ConvTranspose")) {
    const auto channels = static_cast<size_t>(shape[1]);
    return {.inner = elements / (static_cast<size_t>(shape[0]) * channels),
            .channels = channels,
            .group_elements = elements / static_cast<size_t>(node.Int("group", 1))};
  }
  const bool transposed = node.node().Is("Gemm") && node.Int("transB", 0) != 0;
  return {.inner = transposed ? static_cast<size_t>(shape[1]) : 1, .channels = linear.channels};
}

std::optional<Linear> AsLinear(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  if (!node.epilogue.empty() || node.outputs.empty()) return std::nullopt;
  const Shape& shape = editor.shape(node.outputs[0]);
  const auto channels = [&](int64_t axis) {
    return static_cast<size_t>(shape[static_cast<size_t>(axis)]);
  };
  const auto rank = static_cast<int64_t>(shape.size());
  Linear linear;
  if (node.Is("Conv") || node.Is("ConvTranspose")) {
    linear = {.axis = 1, .channels = channels(1)};
  } else if (node.Is("Gemm")) {
    const double beta = static_cast<double>(Context(editor, n).Float("beta", 1));
    linear = {.axis = 1, .channels = channels(1), .bias_factor = beta};
  } else if (node.Is("MatMul") && editor.type(node.inputs[1]).rank() >= 2 && rank >= 1) {
    linear = {.axis = rank - 1, .channels = channels(rank - 1), .bias = 0};
  } else if (node.Is("InstanceNormalization") || node.Is("GroupNormalization")) {
    linear = {.axis = 1, .channels = channels(1)};
  } else if (node.Is("BatchNormalization")) {
    if (node.outputs.size() != 1 || Context(editor, n).Int("training_mode", 0) != 0) {
      return std::nullopt;
    }
    linear = {.axis = 1, .channels = channels(1)};
  } else if (node.Is("LayerNormalization") && node.outputs.size() == 1 && rank >= 1 &&
             WrapAxis(Context(editor, n).Int("axis", -1), rank) == rank - 1) {
    linear = {.axis = rank - 1, .channels = channels(rank - 1)};
  } else {
    return std::nullopt;
  }
  return linear.channels == 0 ? std::nullopt : std::optional(linear);
}

// The scale of a normalisation has one value for each channel.
bool IsNormalization(const Node& node) { return node.op_type.ends_with("Normalization"); }

bool FoldIntoLinear(GraphEditor& editor, int32_t n, const Linear& linear, const Affine& affine) {
  const NodeContext context = Context(editor, n);
  const Tensor* weights = context.InputConstant(static_cast<int32_t>(linear.weights));
  if (affine.scales() && !IsPlainFloat(weights)) return false;
  const DType dtype = context.OutputType(0).dtype;
  if (dtype != DType::kFloat && dtype != DType::kDouble) return false;
  const bool has_bias = linear.bias != 0 && context.HasInput(static_cast<int32_t>(linear.bias));
  std::vector<double> bias;
  if (affine.shifts() || has_bias) {
    if (linear.bias == 0) return false;
    const auto old = BiasOf(editor, n, static_cast<int32_t>(linear.bias), linear.channels);
    if (!old || old->size() != linear.channels) return false;
    for (size_t c = 0; c < linear.channels; ++c) {
      bias.push_back((*old)[c] * linear.bias_factor * affine.ScaleAt(c) + affine.ShiftAt(c));
    }
  }
  if (affine.scales()) {
    const bool norm = IsNormalization(context.node());
    if (norm && weights->NumElements() != static_cast<int64_t>(linear.channels)) return false;
    SetWeights(editor, n, linear.weights, Scaled(*weights, affine, MapOf(context, linear)));
  }
  if (!bias.empty()) {
    SetBias(editor, n, linear.bias, dtype, bias);
    if (editor.node(n).Is("Gemm")) editor.attributes(n).erase("beta");
  }
  return true;
}

// Where dimension `axis` of `to` is in `from`, when one is a reshape of the other; -1: it is not
// there as one dimension.
int64_t AxisThroughReshape(const Shape& to, int64_t axis, const Shape& from) {
  int64_t before = 1;
  for (int64_t i = 0; i < axis; ++i) before *= to[static_cast<size_t>(i)];
  int64_t product = 1;
  for (size_t i = 0; i < from.size(); ++i) {
    if (product == before && from[i] == to[static_cast<size_t>(axis)] && from[i] != 1) {
      return static_cast<int64_t>(i);
    }
    product *= from[i];
  }
  return -1;
}

bool IsMatMul(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  return node.epilogue.empty() &&
         (node.Is("MatMul") || (node.domain == kMicrosoft && node.op_type == "FusedMatMul"));
}

// A MatMul of two tensors that are not known takes the factor as an attribute.
bool ScaleMatMul(GraphEditor& editor, int32_t n, double factor) {
  if (editor.type(editor.node(n).outputs[0]).dtype != DType::kFloat) return false;
  const double alpha = static_cast<double>(Context(editor, n).Float("alpha", 1));
  Node node = editor.node(n);
  node.op_type = "FusedMatMul";
  node.domain = kMicrosoft;
  node.attributes["alpha"] = static_cast<float>(alpha * factor);
  editor.Replace(n, std::move(node));
  return true;
}

constexpr int kMaxDepth = 16;

// Makes `v`, which only the affine node (or the chain below it) reads, hold the result already.
bool FoldInto(GraphEditor& editor, ValueId v, Affine affine, int depth) {
  const int32_t n = editor.producer(v);
  if (n < 0 || editor.OnlyConsumer(v) < 0 || depth > kMaxDepth) return false;
  if (editor.node(n).outputs[0] != v) return false;
  if (const std::optional<Linear> linear = AsLinear(editor, n);
      linear && (affine.uniform() || affine.axis == linear->axis) &&
      FoldIntoLinear(editor, n, *linear, affine)) {
    return true;
  }
  const std::vector<ValueId> inputs = editor.node(n).inputs;
  if (IsPlain(editor, n, "Reshape")) {
    if (!affine.uniform()) {
      affine.axis = AxisThroughReshape(editor.shape(v), affine.axis, editor.shape(inputs[0]));
      if (affine.axis < 0) return false;
    }
    return FoldInto(editor, inputs[0], std::move(affine), depth + 1);
  }
  if (const std::optional<std::vector<int64_t>> perm = AsPermutation(editor, n)) {
    if (!affine.uniform()) affine.axis = (*perm)[static_cast<size_t>(affine.axis)];
    return FoldInto(editor, inputs[0], std::move(affine), depth + 1);
  }
  // (a * s) b = a (b * s) = (a b) * s
  if (IsMatMul(editor, n) && affine.uniform() && !affine.shifts()) {
    if (FoldInto(editor, inputs[0], affine, depth + 1) ||
        FoldInto(editor, inputs[1], affine, depth + 1)) {
      return true;
    }
    return ScaleMatMul(editor, n, affine.ScaleAt(0));
  }
  return false;
}

}  // namespace

absl::StatusOr<int64_t> FoldAffineIntoProducer(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    const std::optional<Affine> affine = AsAffine(editor, n);
    if (!affine || !FoldInto(editor, affine->input, *affine, 0)) continue;
    // The value below takes the name of a graph output over; it is none itself.
    const int32_t direct = editor.producer(affine->input);
    if (AsLinear(editor, direct) || IsMatMul(editor, direct)) {
      editor.TakeOutput(direct, n);
    } else {
      editor.ReplaceUses(editor.node(n).outputs[0], affine->input);
    }
    ++rewrites;
  }
  return rewrites;
}

namespace {

bool IsUnpadded(const NodeContext& conv) {
  const std::string auto_pad = conv.String("auto_pad", "NOTSET");
  if (auto_pad == "VALID") return true;
  const std::vector<int64_t> pads = conv.Ints("pads", {});
  return auto_pad == "NOTSET" &&
         std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
}

// Input channel of weight `i`, and its output channel, of a Conv or Gemm whose operand is input 0.
struct WeightIndex {
  size_t input = 0;
  size_t output = 0;
};

WeightIndex IndexOf(const NodeContext& node, size_t i) {
  const Shape& shape = node.InputShape(1);
  const auto rows = static_cast<size_t>(shape[0]);
  const auto columns = static_cast<size_t>(shape[1]);
  if (node.node().Is("Conv")) {
    const size_t spatial = static_cast<size_t>(node.InputType(1).NumElements()) / (rows * columns);
    const size_t output = i / (columns * spatial);
    const size_t group = output / (rows / static_cast<size_t>(node.Int("group", 1)));
    return {group * columns + i / spatial % columns, output};
  }
  const bool transposed = node.Int("transB", 0) != 0;
  return transposed ? WeightIndex{i % columns, i / columns} : WeightIndex{i / columns, i % columns};
}

// A mere factor goes on through reshapes and transposes into a MatMul of two tensors.
bool ScaleForward(GraphEditor& editor, const Affine& affine, int32_t n, ValueId from) {
  if (!affine.uniform() || affine.shifts()) return false;
  while (n >= 0 && (IsPlain(editor, n, "Reshape") || IsPlain(editor, n, "Transpose"))) {
    from = editor.node(n).outputs[0];
    n = editor.OnlyConsumer(from);
  }
  return n >= 0 && IsMatMul(editor, n) && ScaleMatMul(editor, n, affine.ScaleAt(0));
}

bool FoldForward(GraphEditor& editor, const Affine& affine, int32_t n, ValueId from) {
  const bool conv = IsPlain(editor, n, "Conv");
  const bool gemm = IsPlain(editor, n, "Gemm");
  if ((!conv && !gemm) || editor.node(n).inputs[0] != from) return false;
  const NodeContext context = Context(editor, n);
  const Tensor* weights = context.InputConstant(1);
  if (!IsPlainFloat(weights) || weights->NumElements() == 0) return false;
  if (!affine.uniform() && affine.axis != 1) return false;
  if (gemm && context.Int("transA", 0) != 0) return false;
  if (conv && affine.shifts() && !IsUnpadded(context)) return false;
  const double alpha = gemm ? static_cast<double>(context.Float("alpha", 1)) : 1;
  const double beta = gemm ? static_cast<double>(context.Float("beta", 1)) : 1;
  const auto channels = static_cast<size_t>(context.OutputShape(0)[1]);
  std::optional<std::vector<double>> bias = BiasOf(editor, n, 2, channels);
  if (affine.shifts() && (!bias || bias->size() != channels)) return false;
  std::vector<double> values = *ToDoubles(*weights);
  if (affine.shifts()) {
    for (double& value : *bias) value *= beta;
    for (size_t i = 0; i < values.size(); ++i) {
      const WeightIndex index = IndexOf(context, i);
      (*bias)[index.output] += alpha * values[i] * affine.ShiftAt(index.input);
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] *= affine.ScaleAt(IndexOf(context, i).input);
  }
  const DType dtype = weights->dtype();
  const Shape shape = weights->shape();
  SetWeights(editor, n, 1, FromDoubles(dtype, shape, values));
  if (affine.shifts()) {
    SetBias(editor, n, 2, dtype, *bias);
    if (gemm) editor.attributes(n).erase("beta");
  }
  editor.SetInput(n, 0, affine.input);
  return true;
}

}  // namespace

absl::StatusOr<int64_t> FoldAffineIntoConsumer(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    const std::optional<Affine> affine = AsAffine(editor, n);
    if (!affine) continue;
    const ValueId output = editor.node(n).outputs[0];
    const int32_t consumer = editor.OnlyConsumer(output);
    if (consumer < 0) continue;
    if (FoldForward(editor, *affine, consumer, output)) {
      ++rewrites;
    } else if (ScaleForward(editor, *affine, consumer, output)) {
      editor.ReplaceUses(output, affine->input);
      ++rewrites;
    }
  }
  return rewrites;
}

}  // namespace onnx_memplan
