// softmax(scale * Q K^T + mask) V as one operator: the scores of all queries never exist together.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ops/op_def.h"
#include "passes/fuse.h"
#include "passes/match.h"
#include "passes/strided_view.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// A product of two values, with the transposition flags of FusedMatMul.
struct MatrixProduct {
  ValueId a = kNoValue;
  ValueId b = kNoValue;
  bool trans_a = false;
  bool trans_b = false;
  double alpha = 1;
};

std::optional<MatrixProduct> AsMatrixProduct(const GraphEditor& editor, int32_t n) {
  if (n < 0 || !editor.node(n).epilogue.empty()) return std::nullopt;
  const Node& node = editor.node(n);
  const bool fused = node.domain == kMicrosoft && node.op_type == "FusedMatMul";
  if (!fused && !node.Is("MatMul")) return std::nullopt;
  if (editor.type(node.inputs[0]).rank() < 2 || editor.type(node.inputs[1]).rank() < 2) {
    return std::nullopt;
  }
  MatrixProduct product = {node.inputs[0], node.inputs[1]};
  if (fused) {
    const NodeContext context = Context(editor, n);
    product.trans_a = context.Int("transA", 0) != 0;
    product.trans_b = context.Int("transB", 0) != 0;
    product.alpha = static_cast<double>(context.Float("alpha", 1.0F));
  }
  return product;
}

StridedView SwapLastTwo(StridedView view) {
  const size_t rank = view.sizes.size();
  std::swap(view.sizes[rank - 1], view.sizes[rank - 2]);
  std::swap(view.strides[rank - 1], view.strides[rank - 2]);
  return view;
}

// An operand of a product, with the batch axes of its result.
std::optional<StridedView> OperandView(const GraphEditor& editor, ValueId v, bool transposed,
                                       const Shape& result) {
  StridedView view = ViewOf(editor, v);
  if (transposed) view = SwapLastTwo(std::move(view));
  Shape sizes(result.begin(), result.end() - 2);
  sizes.insert(sizes.end(), view.sizes.end() - 2, view.sizes.end());
  return BroadcastTo(view, sizes);
}

// The batch axes of `view` become those of `result`; they have as many items.
std::optional<StridedView> WithBatchOf(const StridedView& view, const Shape& result) {
  Shape sizes(result.begin(), result.end() - 2);
  sizes.insert(sizes.end(), view.sizes.end() - 2, view.sizes.end());
  return Reshaped(view, sizes);
}

bool SameLast(const Shape& a, const Shape& b) {
  return !a.empty() && !b.empty() && a.back() == b.back();
}

bool SameLastTwo(const Shape& a, const Shape& b) {
  return a.size() >= 2 && b.size() >= 2 && SameLast(a, b) && a[a.size() - 2] == b[b.size() - 2];
}

// scale * product + mask.
struct Scores {
  int32_t product = -1;  // the node
  double scale = 1;
  std::optional<StridedView> mask;  // in the shape of the weights
};

// A constant whose every element is true.
bool IsTrue(const Tensor* tensor) {
  if (tensor == nullptr || tensor->dtype() != DType::kBool) return false;
  return std::all_of(tensor->data(), tensor->data() + tensor->Bytes(),
                     [](std::byte element) { return element != std::byte{0}; });
}

// What the steps between the product and the softmax do, last step first. Exporters of Softmax
// before opset 13 flatten all dimensions but the last one around it.
class ScoresMatcher {
 public:
  // shape: that of the weights, as the product with V reads them.
  ScoresMatcher(const GraphEditor& editor, const Shape& shape) : editor_(editor), shape_(shape) {}

  // The scores `v`, which only `reader` reads.
  std::optional<Scores> Match(ValueId v, int32_t reader) {
    while (editor_.OnlyConsumer(v) == reader) {
      const int32_t n = editor_.producer(v);
      if (const auto product = AsMatrixProduct(editor_, n)) {
        if (!SameLastTwo(editor_.shape(v), shape_)) return std::nullopt;
        scores_.product = n;
        scores_.scale *= product->alpha;
        return scores_;
      }
      const ValueId before = n < 0 ? kNoValue : Step(n);
      if (before == kNoValue) return std::nullopt;
      v = before;
      reader = n;
    }
    return std::nullopt;
  }

 private:
  // The operand of node `n` that the scores come from; kNoValue: another node.
  ValueId Step(int32_t n) {
    const Node& node = editor_.node(n);
    const ValueId result = node.outputs[0];
    if (IsPlain(editor_, n, "Reshape")) {
      const ValueId before = node.inputs[0];
      return SameLast(editor_.shape(before), editor_.shape(result)) ? before : kNoValue;
    }
    if (IsPlain(editor_, n, "Where") && IsTrue(editor_.constant(node.inputs[0]))) {
      const ValueId before = node.inputs[1];
      return editor_.type(before) == editor_.type(result) ? before : kNoValue;
    }
    if (IsPlain(editor_, n, "Add")) return AddStep(node);
    // Where the mask is already known, a factor would be one of the mask too.
    if (scores_.mask) return kNoValue;
    if (IsPlain(editor_, n, "Div")) return FactorStep(node, 0, /*divides=*/true);
    if (!IsPlain(editor_, n, "Mul")) return kNoValue;
    const ValueId first = FactorStep(node, 0, /*divides=*/false);
    return first != kNoValue ? first : FactorStep(node, 1, /*divides=*/false);
  }

  ValueId FactorStep(const Node& node, size_t operand, bool divides) {
    const ValueId before = node.inputs[operand];
    const std::optional<double> factor = UniformConstant(editor_, node.inputs[1 - operand]);
    if (!factor || editor_.type(before) != editor_.type(node.outputs[0])) return kNoValue;
    if (divides && *factor == 0) return kNoValue;
    scores_.scale *= divides ? 1 / *factor : *factor;
    return before;
  }

  ValueId AddStep(const Node& node) {
    if (scores_.mask) return kNoValue;
    const TensorType& type = editor_.type(node.outputs[0]);
    for (size_t i = 0; i < 2; ++i) {
      const ValueId before = node.inputs[i];
      if (editor_.type(before) != type || !LeadsToProduct(before)) continue;
      const auto mask = BroadcastTo(WholeView(editor_, node.inputs[1 - i]), type.shape);
      if (!mask) return kNoValue;
      scores_.mask = Reshaped(*mask, shape_);
      return scores_.mask ? before : kNoValue;
    }
    return kNoValue;
  }

  bool LeadsToProduct(ValueId v) const {
    while (v != kNoValue) {
      const int32_t n = editor_.producer(v);
      if (n < 0 || editor_.OnlyConsumer(v) < 0) return false;
      if (AsMatrixProduct(editor_, n)) return true;
      const Node& node = editor_.node(n);
      const bool steps = IsPlain(editor_, n, "Reshape") || IsPlain(editor_, n, "Div") ||
                         IsPlain(editor_, n, "Mul");
      if (!steps) return false;
      v = editor_.constant(node.inputs[0]) == nullptr ? node.inputs[0] : node.inputs[1];
    }
    return false;
  }

  const GraphEditor& editor_;
  const Shape& shape_;
  Scores scores_;
};

std::vector<int64_t> LayoutOf(const StridedView& view) {
  std::vector<int64_t> layout = {view.offset};
  layout.insert(layout.end(), view.strides.begin(), view.strides.end());
  return layout;
}

// The Transpose behind value `v` that leaves rows as they are; -1: none.
int32_t TransposeBehind(const GraphEditor& editor, ValueId v) {
  const int32_t n = editor.OnlyConsumer(v);
  if (n < 0) return -1;
  const auto perm = AsPermutation(editor, n);
  return perm && perm->back() == static_cast<int64_t>(perm->size()) - 1 ? n : -1;
}

// The result's elements in the value that the Transpose `n` makes of it (-1: in itself).
StridedView ResultView(const GraphEditor& editor, ValueId result, int32_t n) {
  if (n < 0) return WholeView(editor, result);
  const std::vector<int64_t> perm = *AsPermutation(editor, n);
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  return Permuted(WholeView(editor, editor.node(n).outputs[0]), inverse);
}

// The Softmax over the last dimension that makes `weights`, which only node `reader` reads; perhaps
// reshaped in the other dimensions. -1: none.
int32_t SoftmaxBehind(const GraphEditor& editor, ValueId weights, int32_t reader) {
  const Shape& shape = editor.shape(weights);
  while (editor.OnlyConsumer(weights) == reader) {
    const int32_t n = editor.producer(weights);
    if (n < 0) return -1;
    if (IsPlain(editor, n, "Softmax")) {
      const int64_t rank = editor.type(weights).rank();
      return WrapAxis(Context(editor, n).Int("axis", -1), rank) == rank - 1 ? n : -1;
    }
    weights = editor.node(n).inputs[0];
    if (!IsPlain(editor, n, "Reshape") || !SameLast(editor.shape(weights), shape)) return -1;
    reader = n;
  }
  return -1;
}

// Node `n`, a product of a softmax and values, with all before it that belongs to it.
std::optional<Node> AsAttention(const GraphEditor& editor, int32_t n, int32_t transpose) {
  const auto weighting = AsMatrixProduct(editor, n);
  if (!weighting || weighting->trans_a || weighting->alpha != 1) return std::nullopt;
  const ValueId result = editor.node(n).outputs[0];
  const Shape& shape = editor.shape(result);
  if (editor.type(result).dtype != DType::kFloat || editor.type(result).NumElements() == 0) {
    return std::nullopt;
  }
  const int32_t softmax = SoftmaxBehind(editor, weighting->a, n);
  if (softmax < 0) return std::nullopt;
  const Shape& weights = editor.shape(weighting->a);
  const bool same_batch = weights.size() == shape.size() &&
                          std::equal(weights.begin(), weights.end() - 2, shape.begin());
  if (!same_batch || weights.back() == 0) return std::nullopt;

  const auto scores = ScoresMatcher(editor, weights).Match(editor.node(softmax).inputs[0], softmax);
  if (!scores) return std::nullopt;
  const MatrixProduct product = *AsMatrixProduct(editor, scores->product);
  const Shape& product_shape = editor.shape(editor.node(scores->product).outputs[0]);
  auto q = OperandView(editor, product.a, product.trans_a, product_shape);
  auto k = OperandView(editor, product.b, !product.trans_b, product_shape);
  const auto v = OperandView(editor, weighting->b, weighting->trans_b, shape);
  if (q) q = WithBatchOf(*q, weights);
  if (k) k = WithBatchOf(*k, weights);
  if (!q || !k || !v || q->sizes.back() == 0) return std::nullopt;
  if (v->sizes.back() > 1 && v->strides.back() != 1) return std::nullopt;

  Node node = MakeNode("Attention", editor.node(n).name, {q->value, k->value, v->value});
  node.domain = kMemplan;
  if (scores->mask) node.inputs.push_back(scores->mask->value);
  const ValueId written = transpose < 0 ? result : editor.node(transpose).outputs[0];
  node.attributes = {
      {"shape", editor.shape(written)},
      {"batch", Shape(weights.begin(), weights.end() - 2)},
      {"rows", weights[weights.size() - 2]},
      {"keys", weights.back()},
      {"depth", q->sizes.back()},
      {"columns", shape.back()},
      {"scale", static_cast<float>(scores->scale)},
      {"q", LayoutOf(*q)},
      {"k", LayoutOf(*k)},
      {"v", LayoutOf(*v)},
      {"y", LayoutOf(ResultView(editor, result, transpose))},
  };
  if (scores->mask) node.attributes["mask"] = LayoutOf(*scores->mask);
  return node;
}

// Whether there is a kernel for `node`, whose output `result` has the type of, that works in less
// memory than all scores take.
bool IsWorthwhile(const GraphEditor& editor, Node node, ValueId result) {
  node.outputs = {result};
  const NodeContext context(editor.graph(), node);
  int64_t scores = context.Int("rows", 0) * context.Int("keys", 0);
  for (int64_t size : context.Ints("batch", {})) scores *= size;
  const absl::StatusOr<Lowering> lowering =
      LowerNode(editor.graph(), node, BuiltinTargets().front());
  return lowering.ok() && lowering->scratch_bytes < scores * static_cast<int64_t>(sizeof(float));
}

bool FuseAt(GraphEditor& editor, int32_t n) {
  if (!AsMatrixProduct(editor, n)) return false;
  for (const int32_t transpose : {TransposeBehind(editor, editor.node(n).outputs[0]), -1}) {
    std::optional<Node> node = AsAttention(editor, n, transpose);
    if (!node) return false;
    const ValueId result = editor.node(transpose < 0 ? n : transpose).outputs[0];
    if (!IsWorthwhile(editor, *node, result)) continue;
    editor.Replace(n, *std::move(node));
    if (transpose >= 0) editor.TakeOutput(n, transpose);
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<int64_t> FuseAttention(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (editor.alive(n) && FuseAt(editor, n)) ++rewrites;
  }
  return rewrites;
}

}  // namespace onnx_memplan
