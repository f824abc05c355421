// LayerNormalization and Softmax written as reductions and arithmetic.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "passes/match.h"
#include "passes/recognise.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

bool IsFloatOrDouble(const GraphEditor& editor, ValueId v) {
  const DType dtype = editor.type(v).dtype;
  return dtype == DType::kFloat || dtype == DType::kDouble;
}

// The node that makes `v` as Sub(x, Reduce(x)), where Reduce keeps the dimensions.
struct Centred {
  ValueId x = kNoValue;
  std::vector<int64_t> axes;  // ascending
};

std::optional<Centred> AsCentred(const GraphEditor& editor, ValueId v, std::string_view reduce) {
  const int32_t sub = editor.ProducerIf(v, "Sub");
  if (sub < 0) return std::nullopt;
  const ValueId x = editor.node(sub).inputs[0];
  const int32_t n = editor.ProducerIf(editor.node(sub).inputs[1], reduce);
  if (n < 0 || editor.node(n).inputs[0] != x) return std::nullopt;
  const std::optional<Reduction> reduction = AsReduction(editor, n);
  if (!reduction || !reduction->keep_dims) return std::nullopt;
  return Centred{x, reduction->axes};
}

// d * d: the deviation d; kNoValue otherwise.
ValueId AsSquareOf(const GraphEditor& editor, ValueId v) {
  if (const int32_t mul = editor.ProducerIf(v, "Mul"); mul >= 0) {
    const std::vector<ValueId>& inputs = editor.node(mul).inputs;
    return inputs[0] == inputs[1] ? inputs[0] : kNoValue;
  }
  const int32_t pow = editor.ProducerIf(v, "Pow");
  if (pow < 0) return kNoValue;
  const ValueId exponent = editor.node(pow).inputs[1];
  const auto integers = ConstantInts(editor, pow, 1);
  const bool two = UniformConstant(editor, exponent) == 2.0 ||
                   (integers && *integers == std::vector<int64_t>{2});
  return two ? editor.node(pow).inputs[0] : kNoValue;
}

struct Variance {
  ValueId deviation = kNoValue;
  std::vector<int64_t> axes;
  double epsilon = 0;
};

// mean(d * d) + epsilon.
std::optional<Variance> AsVariance(const GraphEditor& editor, ValueId v) {
  const int32_t add = editor.ProducerIf(v, "Add");
  if (add < 0) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const auto epsilon = UniformConstant(editor, editor.node(add).inputs[1 - i]);
    const int32_t mean = editor.ProducerIf(editor.node(add).inputs[i], "ReduceMean");
    if (!epsilon || mean < 0) continue;
    const std::optional<Reduction> reduction = AsReduction(editor, mean);
    const ValueId deviation = AsSquareOf(editor, editor.node(mean).inputs[0]);
    if (!reduction || !reduction->keep_dims || deviation == kNoValue) continue;
    return Variance{deviation, reduction->axes, *epsilon};
  }
  return std::nullopt;
}

// The value whose square root `v` is (times -1 in the exponent, for `inverse`).
ValueId AsRootOf(const GraphEditor& editor, ValueId v, bool inverse) {
  if (inverse) {
    if (const int32_t n = editor.ProducerIf(v, "Reciprocal"); n >= 0) {
      return AsRootOf(editor, editor.node(n).inputs[0], false);
    }
    if (const int32_t n = editor.ProducerIf(v, "Div"); n >= 0) {
      const bool one = UniformConstant(editor, editor.node(n).inputs[0]) == 1.0;
      return one ? AsRootOf(editor, editor.node(n).inputs[1], false) : kNoValue;
    }
  } else if (const int32_t n = editor.ProducerIf(v, "Sqrt"); n >= 0) {
    return editor.node(n).inputs[0];
  }
  const int32_t pow = editor.ProducerIf(v, "Pow");
  if (pow < 0) return kNoValue;
  const bool matches =
      UniformConstant(editor, editor.node(pow).inputs[1]) == (inverse ? -0.5 : 0.5);
  return matches ? editor.node(pow).inputs[0] : kNoValue;
}

// The deviation and the value under the root, when node `n` divides the one by the other's root.
std::optional<std::pair<ValueId, ValueId>> AsNormalised(const GraphEditor& editor, int32_t n) {
  const bool quotient = IsPlain(editor, n, "Div");
  if (!quotient && !IsPlain(editor, n, "Mul")) return std::nullopt;
  for (size_t i = 0; i < (quotient ? size_t{1} : size_t{2}); ++i) {
    const ValueId radicand = AsRootOf(editor, editor.node(n).inputs[1 - i], !quotient);
    if (radicand != kNoValue) return std::pair(editor.node(n).inputs[i], radicand);
  }
  return std::nullopt;
}

bool RecogniseNorm(GraphEditor& editor, int32_t n) {
  const auto parts = AsNormalised(editor, n);
  if (!parts || !IsFloatOrDouble(editor, parts->first)) return false;
  const std::optional<Variance> variance = AsVariance(editor, parts->second);
  const std::optional<Centred> centred = AsCentred(editor, parts->first, "ReduceMean");
  if (!variance || !centred || variance->axes != centred->axes) return false;
  if (variance->deviation != parts->first) {
    const auto other = AsCentred(editor, variance->deviation, "ReduceMean");
    if (!other || other->x != centred->x || other->axes != centred->axes) return false;
  }
  if (editor.type(editor.node(n).outputs[0]) != editor.type(centred->x)) return false;
  const Shape shape = editor.shape(centred->x);
  const auto rank = static_cast<int64_t>(shape.size());
  // The last dimensions, all of them from some axis on.
  const auto count = static_cast<int64_t>(centred->axes.size());
  if (count == 0 || centred->axes.front() != rank - count) return false;
  const Shape norm(shape.end() - count, shape.end());
  const ValueId output = editor.node(n).outputs[0];
  const std::vector<double> ones(static_cast<size_t>(TensorType{DType::kFloat, norm}.NumElements()),
                                 1.0);
  const ValueId scale = editor.AddConstant(editor.value(output).name + "_scale",
                                           FromDoubles(editor.type(output).dtype, norm, ones));
  Node node = MakeNode("LayerNormalization", editor.node(n).name, {centred->x, scale});
  node.attributes["axis"] = rank - count;
  node.attributes["epsilon"] = static_cast<float>(variance->epsilon);
  editor.Replace(n, std::move(node));
  return true;
}

bool RecogniseExpOverSum(GraphEditor& editor, int32_t n) {
  if (!IsPlain(editor, n, "Div")) return false;
  const ValueId numerator = editor.node(n).inputs[0];
  const int32_t exp = editor.ProducerIf(numerator, "Exp");
  const int32_t sum = editor.ProducerIf(editor.node(n).inputs[1], "ReduceSum");
  if (exp < 0 || sum < 0 || editor.node(sum).inputs[0] != numerator) return false;
  const std::optional<Reduction> reduction = AsReduction(editor, sum);
  if (!reduction || !reduction->keep_dims || reduction->axes.size() != 1) return false;
  ValueId x = editor.node(exp).inputs[0];
  if (!IsFloatOrDouble(editor, x)) return false;
  const auto centred = AsCentred(editor, x, "ReduceMax");
  if (centred && centred->axes == reduction->axes) x = centred->x;
  Node node = MakeNode("Softmax", editor.node(n).name, {x});
  node.attributes["axis"] = reduction->axes[0];
  editor.Replace(n, std::move(node));
  return true;
}

bool RecogniseLogSoftmax(GraphEditor& editor, int32_t n) {
  if (!IsPlain(editor, n, "Log")) return false;
  const ValueId input = editor.node(n).inputs[0];
  const int32_t softmax = editor.ProducerIf(input, "Softmax");
  if (softmax < 0 || editor.OnlyConsumer(input) != n) return false;
  Node node = editor.node(softmax);
  node.op_type = "LogSoftmax";
  editor.Replace(n, std::move(node));
  return true;
}

}  // namespace

absl::StatusOr<int64_t> RecogniseLayerNormalization(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) rewrites += RecogniseNorm(editor, n) ? 1 : 0;
  return rewrites;
}

absl::StatusOr<int64_t> RecogniseSoftmax(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (RecogniseExpOverSum(editor, n) || RecogniseLogSoftmax(editor, n)) ++rewrites;
  }
  return rewrites;
}

}  // namespace onnx_memplan
