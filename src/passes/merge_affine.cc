#include <algorithm>
#include <string>
#include <utility>

#include "passes/affine.h"
#include "passes/fold_affine.h"
#include "passes/match.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Adds `inner`'s node and `outer`'s together when both only scale, or both only shift.
bool MergePair(GraphEditor& editor, int32_t n, const Affine& outer, const Affine& inner) {
  const bool scale = !outer.shifts() && !inner.shifts();
  const bool shift = !outer.scales() && !inner.scales();
  if (!scale && !shift) return false;
  const double merged = scale ? outer.scale[0] * inner.scale[0] : outer.shift[0] + inner.shift[0];
  const ValueId output = editor.node(n).outputs[0];
  const ValueId constant =
      editor.AddConstant(editor.value(output).name + (scale ? "_scale" : "_shift"),
                         FromDoubles(editor.type(output).dtype, {}, {merged}));
  editor.Replace(n, MakeNode(scale ? "Mul" : "Add", editor.node(n).name, {inner.input, constant}));
  return true;
}

}  // namespace

absl::StatusOr<int64_t> MergeScalars(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    const std::optional<Affine> outer = AsAffine(editor, n);
    if (!outer || !outer->uniform() || editor.OnlyConsumer(outer->input) < 0) continue;
    const std::optional<Affine> inner = AsAffine(editor, editor.producer(outer->input));
    if (inner && inner->uniform() && MergePair(editor, n, *outer, *inner)) ++rewrites;
  }
  return rewrites;
}

namespace {

// The operand of node `n`, and what it computes from the channels of that, as one affine function
// of the operand of the node before it, when nothing else reads the value in between.
std::optional<Affine> AsPairAlongChannels(const GraphEditor& editor, int32_t n) {
  const std::optional<Affine> outer = AsAffine(editor, n);
  if (!outer || editor.OnlyConsumer(outer->input) < 0) return std::nullopt;
  const std::optional<Affine> inner = AsAffine(editor, editor.producer(outer->input));
  if (!inner) return std::nullopt;
  const Shape& shape = editor.shape(inner->input);
  const auto along_channels = [](const Affine& affine) {
    return affine.uniform() || affine.axis == 1;
  };
  if (shape.size() < 2 || shape[1] == 0 || !along_channels(*outer) || !along_channels(*inner)) {
    return std::nullopt;
  }
  Affine pair = {.input = inner->input, .axis = 1, .scale = {}, .shift = {}};
  for (size_t c = 0; c < static_cast<size_t>(shape[1]); ++c) {
    pair.scale.push_back(outer->ScaleAt(c) * inner->ScaleAt(c));
    pair.shift.push_back(outer->ScaleAt(c) * inner->ShiftAt(c) + outer->ShiftAt(c));
  }
  return pair;
}

}  // namespace

absl::StatusOr<int64_t> MergeAffine(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    const std::optional<Affine> pair = AsPairAlongChannels(editor, n);
    if (!pair) continue;
    const ValueId output = editor.node(n).outputs[0];
    const std::string base = editor.value(output).name;
    const DType dtype = editor.type(output).dtype;
    const Shape channels = {static_cast<int64_t>(pair->scale.size())};
    const auto constant = [&](const char* suffix, const std::vector<double>& values) {
      return editor.AddConstant(base + suffix, FromDoubles(dtype, channels, values));
    };
    const ValueId scale = constant("_scale", pair->scale);
    const ValueId shift = constant("_shift", pair->shift);
    const ValueId mean = constant("_mean", std::vector<double>(pair->scale.size(), 0.0));
    const ValueId variance = constant("_variance", std::vector<double>(pair->scale.size(), 1.0));
    Node node = MakeNode("BatchNormalization", editor.node(n).name,
                         {pair->input, scale, shift, mean, variance});
    node.attributes["epsilon"] = 0.0F;
    editor.Replace(n, std::move(node));
    ++rewrites;
  }
  return rewrites;
}

absl::StatusOr<int64_t> FactorGates(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!IsPlain(editor, n, "Add")) continue;
    const std::vector<ValueId> terms = editor.node(n).inputs;
    for (size_t i = 0; i < 2; ++i) {
      const ValueId x = terms[i];
      const int32_t product = editor.ProducerIf(terms[1 - i], "Mul");
      if (product < 0 || editor.OnlyConsumer(terms[1 - i]) != n) continue;
      const std::vector<ValueId> factors = editor.node(product).inputs;
      const auto it = std::find(factors.begin(), factors.end(), x);
      if (it == factors.end()) continue;
      const ValueId gate = factors[it == factors.begin() ? 1 : 0];
      const TensorType type = editor.type(gate);
      // The sum with 1 must cost less than the sum that it takes the place of.
      if (type.dtype != DType::kFloat || editor.type(x) != editor.type(editor.node(n).outputs[0]) ||
          type.NumElements() * 2 > editor.type(x).NumElements()) {
        continue;
      }
      const std::string base = editor.value(gate).name;
      const ValueId one = editor.AddConstant(base + "_one", FromDoubles(type.dtype, {}, {1.0}));
      ASSIGN_OR_RETURN(const ValueId sum,
                       editor.Emit(n, MakeNode("Add", "", {gate, one}), base + "_plus_one"));
      editor.Replace(n, MakeNode("Mul", editor.node(product).name, {x, sum}));
      ++rewrites;
      break;
    }
  }
  return rewrites;
}

}  // namespace onnx_memplan
