#include <algorithm>

#include "passes/match.h"
#include "passes/simplify.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

bool AllEqual(const std::optional<std::vector<int64_t>>& values, int64_t wanted) {
  return values && std::all_of(values->begin(), values->end(),
                               [&](int64_t value) { return value == wanted; });
}

// All elements of constant input `i`, of any type, equal `wanted`.
bool IsConstantOf(const GraphEditor& editor, int32_t n, int32_t i, int64_t wanted) {
  const ValueId v = editor.node(n).inputs[static_cast<size_t>(i)];
  if (const std::optional<double> uniform = UniformConstant(editor, v)) {
    return *uniform == static_cast<double>(wanted);
  }
  const std::optional<std::vector<int64_t>> integers = ConstantInts(editor, n, i);
  return integers && !integers->empty() && AllEqual(integers, wanted);
}

// Input that the node passes through when another operand is neutral; -1: none.
int32_t NeutralArithmetic(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  if (node.inputs.size() != 2) return -1;
  const bool sum = node.Is("Add");
  const bool product = node.Is("Mul");
  const bool right_only = node.Is("Sub") || node.Is("Div") || node.Is("Pow");
  if (!sum && !product && !right_only) return -1;
  const int64_t neutral = sum || node.Is("Sub") ? 0 : 1;
  if (IsConstantOf(editor, n, 1, neutral)) return 0;
  return !right_only && IsConstantOf(editor, n, 0, neutral) ? 1 : -1;
}

bool IsInferenceDropout(const GraphEditor& editor, int32_t n) {
  const NodeContext context = Context(editor, n);
  if (!context.node().Is("Dropout")) return false;
  const auto training = ConstantInts(editor, n, 2);
  const bool off = !context.HasInput(2) || AllEqual(training, 0);
  const bool mask_unread =
      !context.HasOutput(1) || (editor.consumers(context.node().outputs[1]).empty() &&
                                !editor.is_graph_output(context.node().outputs[1]));
  return off && mask_unread;
}

bool IsIdentityPermutation(const GraphEditor& editor, int32_t n) {
  const std::optional<std::vector<int64_t>> perm = AsPermutation(editor, n);
  return perm && std::is_sorted(perm->begin(), perm->end());
}

// The input that is the node's output; -1: none.
int32_t PassedInput(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  if (node.Is("Identity") || IsInferenceDropout(editor, n)) return 0;
  if (IsIdentityPermutation(editor, n)) return 0;
  if (node.inputs.empty() || node.inputs[0] == kNoValue) return -1;
  if (const int32_t passed = NeutralArithmetic(editor, n); passed >= 0) return passed;
  if (node.Is("Relu") && IsNonNegative(editor, node.inputs[0])) return 0;
  const bool by_type =
      node.Is("Cast") || node.Is("Expand") || node.Is("Tile") || IsReshapeLike(node);
  if (by_type) return 0;  // the caller compares types
  if (node.Is("Pad") && AllEqual(ConstantInts(editor, n, 1), 0)) return 0;
  if (node.Is("Slice")) {
    const NodeContext context = Context(editor, n);
    return !context.HasInput(4) || AllEqual(ConstantInts(editor, n, 4), 1) ? 0 : -1;
  }
  const bool of_one =
      node.inputs.size() == 1 && (node.Is("Concat") || node.Is("Sum") || node.Is("Max") ||
                                  node.Is("Min") || node.Is("Mean") || node.Is("Clip"));
  if (of_one) return 0;
  const bool one_part = node.Is("Split") && node.outputs.size() == 1;
  return one_part ? 0 : -1;
}

// Inputs of Concat without elements add nothing.
bool DropEmptyParts(GraphEditor& editor, int32_t n) {
  if (!IsPlain(editor, n, "Concat")) return false;
  std::vector<ValueId> kept;
  for (ValueId v : editor.node(n).inputs) {
    if (editor.type(v).NumElements() != 0) kept.push_back(v);
  }
  if (kept.empty() || kept.size() == editor.node(n).inputs.size()) return false;
  editor.SetInputs(n, std::move(kept));
  return true;
}

}  // namespace

absl::StatusOr<int64_t> EliminateNoOps(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n) || !editor.node(n).epilogue.empty()) continue;
    if (DropEmptyParts(editor, n)) ++rewrites;
    const int32_t passed = PassedInput(editor, n);
    if (passed < 0) continue;
    const ValueId from = editor.node(n).outputs[0];
    const ValueId to = editor.node(n).inputs[static_cast<size_t>(passed)];
    if (editor.type(from) != editor.type(to)) continue;
    if (editor.ReplaceUses(from, to)) ++rewrites;
  }
  return rewrites;
}

}  // namespace onnx_memplan
