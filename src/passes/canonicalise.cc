#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/families.h"
#include "passes/match.h"
#include "passes/recognise.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

bool IsSpatialMean(const GraphEditor& editor, int32_t n) {
  if (!IsPlain(editor, n, "ReduceMean")) return false;
  const TensorType& type = editor.type(editor.node(n).inputs[0]);
  const std::optional<Reduction> reduction = AsReduction(editor, n);
  // Of rank 3 it is as likely part of a normalisation, which is written with ReduceMean.
  if (!reduction || type.rank() < 4 || type.dtype != DType::kFloat) return false;
  std::vector<int64_t> spatial(static_cast<size_t>(type.rank() - 2));
  std::iota(spatial.begin(), spatial.end(), 2);
  return reduction->axes == spatial;
}

// AveragePool whose one window is the whole image.
bool IsWholePool(const GraphEditor& editor, int32_t n) {
  if (!IsPlain(editor, n, "AveragePool")) return false;
  const NodeContext context = Context(editor, n);
  const Shape& input = context.InputShape(0);
  const Shape& output = context.OutputShape(0);
  const std::vector<int64_t> pads = context.Ints("pads", {});
  const std::vector<int64_t> dilations = context.Ints("dilations", {});
  const auto all = [](const std::vector<int64_t>& values, int64_t wanted) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == wanted; });
  };
  const std::string auto_pad = context.String("auto_pad", "NOTSET");
  return context.InputDType(0) == DType::kFloat && input.size() >= 3 &&
         context.Ints("kernel_shape", {}) == Shape(input.begin() + 2, input.end()) &&
         all(Shape(output.begin() + 2, output.end()), 1) && all(pads, 0) && all(dilations, 1) &&
         (auto_pad == "NOTSET" || auto_pad == "VALID");
}

absl::Status ReplaceByGlobalPool(GraphEditor& editor, int32_t n) {
  const ValueId input = editor.node(n).inputs[0];
  const ValueId output = editor.node(n).outputs[0];
  const Shape shape = editor.shape(output);
  Node pool = MakeNode("GlobalAveragePool", editor.node(n).name, {input});
  if (shape.size() == editor.shape(input).size()) {
    editor.Replace(n, std::move(pool));
    return absl::OkStatus();
  }
  const std::string base = editor.value(output).name;
  ASSIGN_OR_RETURN(const ValueId mean, editor.Emit(n, std::move(pool), base + "_mean"));
  const ValueId dims = editor.AddConstant(base + "_shape", Tensor::VectorInt64(shape));
  editor.Replace(n, MakeNode("Reshape", "", {mean, dims}));
  return absl::OkStatus();
}

// Gemm of matrices is as ONNX has it; of other ranks it is a batch of them.
bool IsBatchedGemm(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
  return IsPlain(editor, n, "Gemm") &&
         (editor.type(node.inputs[0]).rank() != 2 || editor.type(node.inputs[1]).rank() != 2);
}

// alpha * A' B' as a product with flags, of com.microsoft where MatMul has none.
Node ProductOfGemm(const NodeContext& gemm) {
  const Node& node = gemm.node();
  Node product = MakeNode("MatMul", node.name, {node.inputs[0], node.inputs[1]});
  const bool trans_a = gemm.Int("transA", 0) != 0;
  const bool trans_b = gemm.Int("transB", 0) != 0;
  const float alpha = gemm.Float("alpha", 1.0F);
  if (!trans_a && !trans_b && alpha == 1.0F) return product;
  product.op_type = "FusedMatMul";
  product.domain = kMicrosoft;
  product.attributes = {
      {"transA", int64_t{trans_a}}, {"transB", int64_t{trans_b}}, {"alpha", alpha}};
  return product;
}

absl::Status ReplaceByMatMul(GraphEditor& editor, int32_t n) {
  const NodeContext gemm = Context(editor, n);
  const float beta = gemm.Float("beta", 1.0F);
  Node product = ProductOfGemm(gemm);
  if (!gemm.HasInput(2) || beta == 0.0F) {
    editor.Replace(n, std::move(product));
    return absl::OkStatus();
  }
  ValueId c = editor.node(n).inputs[2];
  const std::string name = editor.node(n).name;
  const std::string base = editor.value(editor.node(n).outputs[0]).name;
  ASSIGN_OR_RETURN(const ValueId ab, editor.Emit(n, std::move(product), base + "_product"));
  if (beta != 1.0F) {
    const DType dtype = editor.type(c).dtype;
    if (dtype != DType::kFloat) {
      return Context(editor, n).Unsupported("beta other than 0 and 1 of this element type");
    }
    const ValueId scale = editor.AddConstant(base + "_beta", Tensor::FromVector<float>({}, {beta}));
    ASSIGN_OR_RETURN(c, editor.Emit(n, MakeNode("Mul", "", {c, scale}), base + "_c"));
  }
  editor.Replace(n, MakeNode("Add", name, {ab, c}));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> GemmToMatMul(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n) || !IsBatchedGemm(editor, n)) continue;
    RETURN_IF_ERROR(ReplaceByMatMul(editor, n));
    ++rewrites;
  }
  return rewrites;
}

absl::StatusOr<int64_t> Canonicalise(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (IsSpatialMean(editor, n) || IsWholePool(editor, n)) {
      RETURN_IF_ERROR(ReplaceByGlobalPool(editor, n));
      ++rewrites;
    } else if (IsPlain(editor, n, "Sum") && editor.node(n).inputs.size() == 2) {
      editor.Replace(n, MakeNode("Add", editor.node(n).name, editor.node(n).inputs));
      ++rewrites;
    }
  }
  return rewrites;
}

}  // namespace onnx_memplan
