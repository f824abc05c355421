#include "passes/transposes.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "ops/op_def.h"
#include "passes/match.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

using Permutation = std::vector<int64_t>;  // output dimension i is input dimension perm[i]

// First `inner`, then `outer`.
Permutation Compose(const Permutation& inner, const Permutation& outer) {
  Permutation result;
  for (int64_t axis : outer) result.push_back(inner[static_cast<size_t>(axis)]);
  return result;
}

Permutation Inverse(const Permutation& perm) {
  Permutation result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    result[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  return result;
}

Node MakeTranspose(ValueId v, Permutation perm, std::string_view name) {
  Node node = MakeNode("Transpose", name, {v});
  node.attributes["perm"] = std::move(perm);
  return node;
}

// `tensor` with its dimensions in the order of `perm`.
Tensor Transposed(const Tensor& tensor, const Permutation& perm) {
  Graph graph;
  const ValueId x = graph.AddConstant("x", tensor);
  Node node = MakeTranspose(x, perm, "transpose");
  Shape shape;
  for (int64_t axis : perm) shape.push_back(tensor.shape()[static_cast<size_t>(axis)]);
  node.outputs = {graph.AddValue("y", TensorType{tensor.dtype(), shape})};
  return EvaluateNode(graph, node).value()[0];
}

bool MergeWithInner(GraphEditor& editor, int32_t n, const Permutation& perm) {
  const int32_t inner = editor.producer(editor.node(n).inputs[0]);
  if (inner < 0) return false;
  const std::optional<Permutation> first = AsPermutation(editor, inner);
  if (!first) return false;
  editor.Replace(
      n, MakeTranspose(editor.node(inner).inputs[0], Compose(*first, perm), editor.node(n).name));
  return true;
}

// The last two dimensions change places, and no others.
bool SwapsLastTwo(const Permutation& perm) {
  const auto rank = static_cast<int64_t>(perm.size());
  if (rank < 2) return false;
  for (int64_t i = 0; i < rank - 2; ++i) {
    if (perm[static_cast<size_t>(i)] != i) return false;
  }
  return perm.back() == rank - 2;
}

bool IsMatMul(const Node& node) {
  return node.Is("MatMul") || (node.domain == kMicrosoft && node.op_type == "FusedMatMul");
}

// Rows of the product up to which it is cheaper to run down the columns of B where they are than to
// bring B into rows first.
constexpr int64_t kFewRows = 8;

// Whether node `n`, a product, is still fast when operand `i` is read as it is before its
// Transpose: kernels want either the rows of an unknown B, or the rows of A and the columns of B,
// contiguous.
bool IsWorthwhile(const GraphEditor& editor, int32_t n, size_t i) {
  const NodeContext context = Context(editor, n);
  if (context.InputConstant(1) != nullptr) return true;
  if (i == 0) return context.Int("transB", 0) == 0;
  const Shape& product = context.OutputShape(0);
  const bool few_rows = product.size() < 2 || product[product.size() - 2] <= kFewRows;
  const bool straightens = context.Int("transB", 0) != 0;
  return straightens || (few_rows && context.Int("transA", 0) == 0);
}

// Gemm, MatMul, FusedMatMul.
bool AbsorbIntoProduct(GraphEditor& editor, int32_t n) {
  bool changed = false;
  for (const size_t i : {size_t{1}, size_t{0}}) {
    const int32_t transpose = editor.producer(editor.node(n).inputs[i]);
    if (transpose < 0) continue;
    const std::optional<Permutation> perm = AsPermutation(editor, transpose);
    if (!perm || !SwapsLastTwo(*perm) || !IsWorthwhile(editor, n, i)) continue;
    Node node = editor.node(n);
    const char* attribute = i == 0 ? "transA" : "transB";
    node.attributes[attribute] = 1 - Context(editor, n).Int(attribute, 0);
    if (!node.Is("Gemm")) {
      node.op_type = "FusedMatMul";
      node.domain = kMicrosoft;
    }
    node.inputs[i] = editor.node(transpose).inputs[0];
    editor.Replace(n, std::move(node));
    changed = true;
  }
  return changed;
}

// Gemm(Reshape(Transpose(x)), W), rows kept: Gemm(Reshape(x), W with its rows in x's order).
absl::StatusOr<bool> AbsorbIntoWeights(GraphEditor& editor, int32_t n) {
  const std::vector<ValueId> inputs = editor.node(n).inputs;
  const int32_t reshape = editor.ProducerIf(inputs[0], "Reshape");
  const Tensor* weights = editor.constant(inputs[1]);
  if (reshape < 0 || weights == nullptr || Context(editor, n).Int("transA", 0) != 0) return false;
  const ValueId moved = editor.node(reshape).inputs[0];
  const int32_t transpose = editor.producer(moved);
  if (transpose < 0 || editor.OnlyConsumer(inputs[0]) != n ||
      editor.OnlyConsumer(moved) != reshape) {
    return false;
  }
  const std::optional<Permutation> perm = AsPermutation(editor, transpose);
  const Shape& matrix = editor.shape(inputs[0]);
  const Shape& shape = editor.shape(moved);
  if (!perm || (*perm)[0] != 0 || matrix[0] != shape[0]) return false;
  const bool trans_b = Context(editor, n).Int("transB", 0) != 0;
  const int64_t columns = weights->shape()[trans_b ? 0 : 1];
  // The weights' rows as the dimensions that they stand for, put back into x's order.
  Shape split(shape.begin() + 1, shape.end());
  Permutation rows;
  for (size_t i = 1; i < perm->size(); ++i) rows.push_back((*perm)[i] - 1);
  rows = Inverse(rows);
  if (trans_b) {
    split.insert(split.begin(), columns);
    for (int64_t& axis : rows) ++axis;
    rows.insert(rows.begin(), 0);
  } else {
    split.push_back(columns);
    rows.push_back(static_cast<int64_t>(rows.size()));
  }
  if (split.size() > 8) return false;
  const Tensor ordered = Transposed(weights->Reshaped(split), rows).Reshaped(weights->shape());
  const ValueId x = editor.node(transpose).inputs[0];
  const Shape flat = matrix;
  const std::string name = editor.value(inputs[0]).name;
  const ValueId new_weights = editor.AddConstant(editor.value(inputs[1]).name, ordered);
  ASSIGN_OR_RETURN(const ValueId rows_of_x, EmitReshape(editor, n, x, flat, name));
  std::vector<ValueId> new_inputs = inputs;
  new_inputs[0] = rows_of_x;
  new_inputs[1] = new_weights;
  editor.SetInputs(n, std::move(new_inputs));
  return true;
}

}  // namespace

absl::StatusOr<int64_t> AbsorbTransposes(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n)) continue;
    if (const std::optional<Permutation> perm = AsPermutation(editor, n)) {
      if (MergeWithInner(editor, n, *perm)) ++rewrites;
    } else if (editor.node(n).Is("Gemm")) {
      if (AbsorbIntoProduct(editor, n)) ++rewrites;
      ASSIGN_OR_RETURN(const bool absorbed, AbsorbIntoWeights(editor, n));
      if (absorbed) ++rewrites;
    } else if (IsMatMul(editor.node(n)) && AbsorbIntoProduct(editor, n)) {
      ++rewrites;
    }
  }
  return rewrites;
}

namespace {

// How the operands of a node come out of one permutation.
struct Sunk {
  Permutation perm;
  std::vector<ValueId> inputs;  // kNoValue: a constant that is to be transposed back
};

// Every operand of node `n` that has `rank` dimensions is a Transpose by the same permutation which
// nothing else reads, or a constant; at least one is a Transpose.
std::optional<Sunk> AllTransposed(const GraphEditor& editor, int32_t n, size_t operands) {
  const Node& node = editor.node(n);
  Sunk sunk;
  for (size_t i = 0; i < operands; ++i) {
    const ValueId v = node.inputs[i];
    if (editor.constant(v) != nullptr) {
      sunk.inputs.push_back(kNoValue);
      continue;
    }
    const int32_t transpose = editor.producer(v);
    const auto perm = transpose < 0 ? std::nullopt : AsPermutation(editor, transpose);
    const std::vector<int32_t>& readers = editor.consumers(v);
    const bool ours = !editor.is_graph_output(v) && std::all_of(readers.begin(), readers.end(),
                                                                [&](int32_t r) { return r == n; });
    if (!perm || !ours || (!sunk.perm.empty() && sunk.perm != *perm)) return std::nullopt;
    sunk.perm = *perm;
    sunk.inputs.push_back(editor.node(transpose).inputs[0]);
  }
  if (sunk.perm.empty()) return std::nullopt;
  for (size_t i = 0; i < operands; ++i) {
    if (sunk.inputs[i] == kNoValue &&
        editor.type(node.inputs[i]).rank() > static_cast<int64_t>(sunk.perm.size())) {
      return std::nullopt;
    }
  }
  return sunk;
}

// Constants in the order of dimensions before the Transpose.
void TransposeConstants(GraphEditor& editor, int32_t n, Sunk* sunk) {
  const std::vector<ValueId> old = editor.node(n).inputs;
  for (size_t i = 0; i < sunk->inputs.size(); ++i) {
    if (sunk->inputs[i] != kNoValue) continue;
    const Tensor tensor = *editor.constant(old[i]);
    if (tensor.NumElements() == 1) {
      sunk->inputs[i] = old[i];
      continue;
    }
    Shape shape = tensor.shape();
    shape.insert(shape.begin(), sunk->perm.size() - shape.size(), 1);
    sunk->inputs[i] = editor.AddConstant(editor.value(old[i]).name,
                                         Transposed(tensor.Reshaped(shape), Inverse(sunk->perm)));
  }
}

// Node `n` becomes Transpose by `perm` of `inner`, which does its work before.
absl::Status PutTransposeBehind(GraphEditor& editor, int32_t n, Node inner,
                                const Permutation& perm) {
  const std::string base = editor.value(editor.node(n).outputs[0]).name;
  ASSIGN_OR_RETURN(const ValueId v, editor.Emit(n, std::move(inner), base + "_pre"));
  if (perm.empty()) {  // nothing is left to reorder
    editor.ReplaceUses(editor.node(n).outputs[0], v);
  } else {
    editor.Replace(n, MakeTranspose(v, perm, ""));
  }
  return absl::OkStatus();
}

// Elementwise, and Softmax, Concat with their axis.
absl::StatusOr<bool> SinkBelowPointwise(GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  const bool unary = IsElementwiseUnary(node);
  const bool binary = IsElementwiseBinary(node);
  const bool softmax = node.Is("Softmax") || node.Is("LogSoftmax");
  const bool concat = node.Is("Concat");
  if ((!unary && !binary && !softmax && !concat) || node.epilogue.has_residual) return false;
  const size_t operands = unary || softmax ? 1 : node.inputs.size();
  std::optional<Sunk> sunk = AllTransposed(editor, n, operands);
  // A slope of PRelu is aligned to the right like any operand of a broadcast.
  if (!sunk) return false;
  // A constant must not add dimensions, nor a Concat's constant miss some.
  if (editor.type(node.outputs[0]).rank() != static_cast<int64_t>(sunk->perm.size())) return false;
  Node inner = node;
  if (softmax || concat) {
    const auto rank = static_cast<int64_t>(sunk->perm.size());
    const int64_t axis = WrapAxis(Context(editor, n).Int("axis", softmax ? -1 : 0), rank);
    inner.attributes["axis"] = sunk->perm[static_cast<size_t>(axis)];
  }
  TransposeConstants(editor, n, &*sunk);
  inner.inputs = sunk->inputs;
  inner.inputs.insert(inner.inputs.end(),
                      editor.node(n).inputs.begin() + static_cast<ptrdiff_t>(operands),
                      editor.node(n).inputs.end());
  RETURN_IF_ERROR(PutTransposeBehind(editor, n, std::move(inner), sunk->perm));
  return true;
}

absl::StatusOr<bool> SinkBelowReduction(GraphEditor& editor, int32_t n) {
  const std::optional<Reduction> reduction = AsReduction(editor, n);
  if (!reduction) return false;
  const std::optional<Sunk> sunk = AllTransposed(editor, n, 1);
  if (!sunk) return false;
  std::vector<int64_t> axes;
  for (int64_t axis : reduction->axes) axes.push_back(sunk->perm[static_cast<size_t>(axis)]);
  std::sort(axes.begin(), axes.end());
  Permutation perm = sunk->perm;
  if (!reduction->keep_dims) {
    std::erase_if(perm,
                  [&](int64_t axis) { return std::binary_search(axes.begin(), axes.end(), axis); });
    for (int64_t& axis : perm) {
      axis -= std::lower_bound(axes.begin(), axes.end(), axis) - axes.begin();
    }
  }
  if (std::is_sorted(perm.begin(), perm.end())) perm.clear();
  Node inner = editor.node(n);
  const ValueId list = editor.AddConstant(editor.value(editor.node(n).outputs[0]).name + "_axes",
                                          Tensor::VectorInt64(axes));
  inner.inputs = {sunk->inputs[0], list};
  RETURN_IF_ERROR(PutTransposeBehind(editor, n, std::move(inner), perm));
  return true;
}

}  // namespace

absl::StatusOr<int64_t> SinkTransposes(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n)) continue;
    ASSIGN_OR_RETURN(bool sunk, SinkBelowPointwise(editor, n));
    if (!sunk) {
      ASSIGN_OR_RETURN(sunk, SinkBelowReduction(editor, n));
    }
    if (sunk) ++rewrites;
  }
  return rewrites;
}

}  // namespace onnx_memplan
