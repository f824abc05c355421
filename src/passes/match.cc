#include "passes/match.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "ops/op_def.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {

bool IsPlain(const GraphEditor& editor, int32_t n, std::string_view op_type) {
  return n >= 0 && editor.alive(n) && editor.node(n).Is(op_type) && editor.node(n).epilogue.empty();
}

std::optional<std::vector<double>> ToDoubles(const Tensor& tensor) {
  std::vector<double> values;
  if (tensor.dtype() == DType::kFloat) {
    const auto data = tensor.As<float>();
    values.assign(data.begin(), data.end());
  } else if (tensor.dtype() == DType::kDouble) {
    const auto data = tensor.As<double>();
    values.assign(data.begin(), data.end());
  } else {
    return std::nullopt;
  }
  return values;
}

Tensor FromDoubles(DType dtype, Shape shape, const std::vector<double>& values) {
  if (dtype == DType::kDouble) return Tensor::FromVector(std::move(shape), values);
  MEMPLAN_CHECK(dtype == DType::kFloat);
  std::vector<float> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(),
                 [](double value) { return static_cast<float>(value); });
  return Tensor::FromVector(std::move(shape), rounded);
}

namespace {

template <class T>
std::optional<double> Uniform(const Tensor& tensor) {
  const auto data = tensor.As<T>();
  if (data.empty()) return std::nullopt;
  const bool uniform =
      std::all_of(data.begin(), data.end(), [&](T value) { return value == data[0]; });
  return uniform ? std::optional(static_cast<double>(data[0])) : std::nullopt;
}

}  // namespace

std::optional<double> UniformConstant(const GraphEditor& editor, ValueId v) {
  const Tensor* tensor = editor.constant(v);
  if (tensor == nullptr) return std::nullopt;
  if (tensor->dtype() == DType::kFloat) return Uniform<float>(*tensor);
  if (tensor->dtype() == DType::kDouble) return Uniform<double>(*tensor);
  return std::nullopt;
}

std::optional<std::vector<double>> AlongAxis(const Tensor& tensor, const Shape& full,
                                             int64_t axis) {
  const auto rank = static_cast<int64_t>(full.size());
  const int64_t own_rank = tensor.type().rank();
  if (axis < 0 || axis >= rank || own_rank > rank) return std::nullopt;
  std::optional<std::vector<double>> values = ToDoubles(tensor);
  if (!values) return std::nullopt;
  const auto channels = static_cast<size_t>(full[static_cast<size_t>(axis)]);
  if (channels == 0) return std::nullopt;
  // Where the axis is in the tensor's own shape; negative: in the leading part that it lacks.
  const int64_t own_axis = axis - (rank - own_rank);
  for (int64_t i = 0; i < own_rank; ++i) {
    const int64_t dim = tensor.shape()[static_cast<size_t>(i)];
    const int64_t wanted = full[static_cast<size_t>(i + rank - own_rank)];
    if (dim != 1 && (i != own_axis || dim != wanted)) return std::nullopt;
  }
  if (values->size() == 1) values->resize(channels, values->front());
  return values;
}

std::optional<std::vector<int64_t>> ConstantInts(const GraphEditor& editor, int32_t n, int32_t i) {
  const Tensor* tensor = Context(editor, n).InputConstant(i);
  return tensor == nullptr ? std::nullopt : tensor->ToInt64s();
}

bool AllAre(const std::vector<int64_t>& values, int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
}

int64_t WrapAxis(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

namespace {

bool Among(const Node& node, std::initializer_list<std::string_view> types) {
  return node.domain.empty() && std::find(types.begin(), types.end(), node.op_type) != types.end();
}

}  // namespace

bool IsElementwiseUnary(const Node& node) {
  return Among(node, {"Abs",       "Neg",  "Sqrt",     "Reciprocal", "Exp",  "Log",
                      "Erf",       "Sin",  "Cos",      "Floor",      "Ceil", "Round",
                      "Sign",      "Not",  "Cast",     "Relu",       "Clip", "LeakyRelu",
                      "Sigmoid",   "Tanh", "Elu",      "Selu",       "Celu", "HardSigmoid",
                      "HardSwish", "Gelu", "Softplus", "Softsign",   "Mish", "ThresholdedRelu"});
}

bool IsElementwiseBinary(const Node& node) {
  return node.inputs.size() == 2 && Among(node, {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min",
                                                 "Equal", "Less", "Greater", "And", "Or", "PRelu"});
}

bool IsReshapeLike(const Node& node) {
  return Among(node, {"Reshape", "Squeeze", "Unsqueeze", "Flatten"});
}

namespace {

// Operators whose results are not negative when their first operands are not.
bool KeepsSign(const Node& node) {
  return IsReshapeLike(node) ||
         Among(node, {"Transpose", "Identity", "MaxPool", "AveragePool", "GlobalAveragePool",
                      "GlobalMaxPool", "ReduceMax", "ReduceMean", "ReduceSum", "Slice", "Split",
                      "Expand", "Tile"});
}

bool IsNonNegativeBelow(const GraphEditor& editor, ValueId v, int depth) {
  constexpr int kMaxDepth = 8;
  const int32_t n = editor.producer(v);
  if (n < 0 || depth > kMaxDepth) return false;
  const Node& node = editor.node(n);
  const std::string& activation = node.epilogue.activation;
  if (activation == "Relu" || activation == "Sigmoid" || activation == "HardSigmoid") return true;
  if (activation == "Clip") return node.epilogue.alpha >= 0;
  if (!node.epilogue.empty()) return false;
  if (Among(node, {"Relu", "Sigmoid", "HardSigmoid", "Abs", "Softmax"})) return true;
  if (node.Is("Clip") && Context(editor, n).HasInput(1)) {
    const std::optional<double> low = UniformConstant(editor, node.inputs[1]);
    return low && *low >= 0;
  }
  const bool joins = Among(node, {"Concat", "Add", "Mul", "Sum"});
  if (!joins && !KeepsSign(node)) return false;
  const size_t operands = joins ? node.inputs.size() : 1;
  return std::all_of(node.inputs.begin(), node.inputs.begin() + static_cast<ptrdiff_t>(operands),
                     [&](ValueId input) { return IsNonNegativeBelow(editor, input, depth + 1); });
}

}  // namespace

bool IsNonNegative(const GraphEditor& editor, ValueId v) {
  return IsNonNegativeBelow(editor, v, 0);
}

std::optional<Reduction> AsReduction(const GraphEditor& editor, int32_t n) {
  const NodeContext context = Context(editor, n);
  const Node& node = context.node();
  if (!node.domain.empty() || !node.op_type.starts_with("Reduce") || !node.epilogue.empty()) {
    return std::nullopt;
  }
  const int64_t rank = context.InputType(0).rank();
  Reduction reduction;
  reduction.keep_dims = context.Int("keepdims", 1) != 0;
  std::optional<std::vector<int64_t>> axes = ConstantInts(editor, n, 1);
  if (context.HasInput(1) && !axes) return std::nullopt;
  if (!axes || axes->empty()) {
    if (context.Int("noop_with_empty_axes", 0) != 0) return std::nullopt;
    axes.emplace(static_cast<size_t>(rank));
    std::iota(axes->begin(), axes->end(), 0);
  }
  for (int64_t axis : *axes) reduction.axes.push_back(WrapAxis(axis, rank));
  std::sort(reduction.axes.begin(), reduction.axes.end());
  return reduction;
}

std::optional<std::vector<int64_t>> AsPermutation(const GraphEditor& editor, int32_t n) {
  if (!IsPlain(editor, n, "Transpose")) return std::nullopt;
  const NodeContext context = Context(editor, n);
  std::vector<int64_t> perm = context.Ints("perm", {});
  if (perm.empty()) {
    for (int64_t axis = context.InputType(0).rank() - 1; axis >= 0; --axis) perm.push_back(axis);
  }
  return perm;
}

Node MakeNode(std::string_view op_type, std::string_view name, std::vector<ValueId> inputs) {
  Node node;
  node.op_type = std::string(op_type);
  node.name = std::string(name);
  node.inputs = std::move(inputs);
  return node;
}

absl::StatusOr<ValueId> EmitReshape(GraphEditor& editor, int32_t anchor, ValueId v,
                                    const Shape& shape, std::string_view name) {
  if (editor.shape(v) == shape) return v;
  const ValueId dims = editor.AddConstant(std::string(name) + "_shape", Tensor::VectorInt64(shape));
  Node node = MakeNode("Reshape", name, {v, dims});
  // A dimension of zero elements is meant as such.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    node.attributes["allowzero"] = int64_t{1};
  }
  return editor.Emit(anchor, std::move(node), name);
}

}  // namespace onnx_memplan
