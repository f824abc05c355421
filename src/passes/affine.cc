#include "passes/affine.h"

#include <algorithm>
#include <cmath>

#include "passes/match.h"

namespace onnx_memplan {

bool Affine::scales() const {
  return std::any_of(scale.begin(), scale.end(), [](double value) { return value != 1; });
}

bool Affine::shifts() const {
  return std::any_of(shift.begin(), shift.end(), [](double value) { return value != 0; });
}

std::optional<Affine> AsBatchNormalization(const NodeContext& context) {
  if (!context.node().Is("BatchNormalization") || context.num_inputs() != 5 ||
      context.num_outputs() != 1 || context.Int("training_mode", 0) != 0 ||
      context.InputType(0).rank() < 2) {
    return std::nullopt;
  }
  std::vector<std::vector<double>> parameters;
  for (int32_t i = 1; i < 5; ++i) {
    const Tensor* tensor = context.InputConstant(i);
    std::optional<std::vector<double>> values =
        tensor == nullptr ? std::nullopt : ToDoubles(*tensor);
    if (!values) return std::nullopt;
    parameters.push_back(*std::move(values));
  }
  const double epsilon = static_cast<double>(context.Float("epsilon", 1e-5F));
  Affine affine = {.input = context.node().inputs[0], .axis = 1, .scale = {}, .shift = {}};
  for (size_t c = 0; c < parameters[0].size(); ++c) {
    const double scale = parameters[0][c] / std::sqrt(parameters[3][c] + epsilon);
    affine.scale.push_back(scale);
    affine.shift.push_back(parameters[1][c] - parameters[2][c] * scale);
  }
  return affine;
}

namespace {

// The only dimension of the constant, aligned to `full` at the right, that has more than one
// element; -1: none; -2: several.
int64_t VaryingAxis(const Shape& shape, const Shape& full) {
  int64_t axis = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (axis >= 0) return -2;
    axis = static_cast<int64_t>(i + full.size() - shape.size());
  }
  return axis;
}

// The constant operand as values along one axis of `full`; sets `axis`.
std::optional<std::vector<double>> Operand(const GraphEditor& editor, ValueId v, const Shape& full,
                                           int64_t* axis) {
  const Tensor* tensor = editor.constant(v);
  if (tensor == nullptr || tensor->type().rank() > static_cast<int64_t>(full.size())) {
    return std::nullopt;
  }
  if (const std::optional<double> uniform = UniformConstant(editor, v)) {
    // Broadcasting must not enlarge the other operand; the caller has compared its shape.
    *axis = -1;
    return std::vector<double>{*uniform};
  }
  *axis = VaryingAxis(tensor->shape(), full);
  return *axis < 0 ? std::nullopt : AlongAxis(*tensor, full, *axis);
}

std::optional<Affine> FromArithmetic(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  const bool known = node.Is("Add") || node.Is("Sub") || node.Is("Mul") || node.Is("Div");
  if (!known || node.inputs.size() != 2) return std::nullopt;
  const size_t constant = editor.constant(node.inputs[1]) != nullptr ? 1 : 0;
  const ValueId x = node.inputs[1 - constant];
  if (editor.constant(x) != nullptr || editor.type(x) != editor.type(node.outputs[0])) {
    return std::nullopt;
  }
  Affine affine = {.input = x, .axis = -1, .scale = {}, .shift = {}};
  const auto values = Operand(editor, node.inputs[constant], editor.shape(x), &affine.axis);
  if (!values || (node.Is("Div") && constant == 0)) return std::nullopt;
  for (double value : *values) {
    if (node.Is("Div") && value == 0) return std::nullopt;
    affine.scale.push_back(node.Is("Mul")                    ? value
                           : node.Is("Div")                  ? 1 / value
                           : node.Is("Sub") && constant == 0 ? -1
                                                             : 1);
    affine.shift.push_back(node.Is("Add")   ? value
                           : node.Is("Sub") ? (constant == 1 ? -value : value)
                                            : 0);
  }
  return affine;
}

// A depthwise Conv of one tap scales each channel, and adds its bias.
std::optional<Affine> FromDepthwise(const GraphEditor& editor, int32_t n) {
  const NodeContext context = Context(editor, n);
  const Tensor* weights = context.InputConstant(1);
  if (weights == nullptr || context.InputType(0) != context.OutputType(0) ||
      weights->NumElements() != context.InputShape(0)[1] ||
      context.Int("group", 1) != context.InputShape(0)[1] ||
      !AllAre(context.Ints("strides", {}), 1) || !AllAre(context.Ints("pads", {}), 0)) {
    return std::nullopt;
  }
  Affine affine = {.input = context.node().inputs[0], .axis = 1, .scale = {}, .shift = {}};
  std::optional<std::vector<double>> scale = ToDoubles(*weights);
  if (!scale) return std::nullopt;
  affine.scale = *std::move(scale);
  affine.shift.resize(affine.scale.size(), 0);
  if (context.HasInput(2)) {
    const Tensor* bias = context.InputConstant(2);
    if (bias == nullptr) return std::nullopt;
    affine.shift = *ToDoubles(*bias);
  }
  return affine;
}

}  // namespace

std::optional<Affine> AsAffine(const GraphEditor& editor, int32_t n) {
  if (n < 0 || !editor.alive(n) || !editor.node(n).epilogue.empty()) return std::nullopt;
  const Node& node = editor.node(n);
  if (node.Is("BatchNormalization")) return AsBatchNormalization(Context(editor, n));
  if (node.Is("Conv")) return FromDepthwise(editor, n);
  const DType dtype = node.outputs.empty() || node.outputs[0] == kNoValue
                          ? DType::kBool
                          : editor.type(node.outputs[0]).dtype;
  if (dtype != DType::kFloat && dtype != DType::kDouble) return std::nullopt;
  if (node.Is("Neg")) {
    return Affine{.input = node.inputs[0], .axis = -1, .scale = {-1}, .shift = {0}};
  }
  return FromArithmetic(editor, n);
}

}  // namespace onnx_memplan
