#include <algorithm>

#include "passes/match.h"
#include "passes/simplify.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// A Transpose that keeps the order of all dimensions of more than one element.
bool MovesOnlyOnes(const GraphEditor& editor, int32_t n) {
  std::optional<std::vector<int64_t>> perm = AsPermutation(editor, n);
  if (!perm) return false;
  const Shape& shape = editor.shape(editor.node(n).inputs[0]);
  std::erase_if(*perm, [&](int64_t axis) { return shape[static_cast<size_t>(axis)] == 1; });
  return std::is_sorted(perm->begin(), perm->end());
}

bool IsView(const GraphEditor& editor, int32_t n) {
  return n >= 0 && editor.alive(n) && editor.node(n).epilogue.empty() &&
         (IsReshapeLike(editor.node(n)) || MovesOnlyOnes(editor, n));
}

// Already Reshape of `root` with every dimension said?
bool IsFinal(const GraphEditor& editor, int32_t n, ValueId root, const Shape& shape) {
  return editor.node(n).Is("Reshape") && editor.node(n).inputs[0] == root &&
         ConstantInts(editor, n, 1) == shape;
}

}  // namespace

absl::StatusOr<int64_t> MergeViews(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!IsView(editor, n)) continue;
    ValueId root = editor.node(n).inputs[0];
    while (IsView(editor, editor.producer(root))) {
      root = editor.node(editor.producer(root)).inputs[0];
    }
    const ValueId output = editor.node(n).outputs[0];
    const Shape shape = editor.shape(output);
    if (editor.shape(root) == shape && editor.ReplaceUses(output, root)) {
      ++rewrites;
      continue;
    }
    if (IsFinal(editor, n, root, shape)) continue;
    const ValueId dims =
        editor.AddConstant(editor.value(output).name + "_shape", Tensor::VectorInt64(shape));
    Node reshape = MakeNode("Reshape", editor.node(n).name, {root, dims});
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
      reshape.attributes["allowzero"] = int64_t{1};
    }
    editor.Replace(n, std::move(reshape));
    ++rewrites;
  }
  return rewrites;
}

}  // namespace onnx_memplan
