// Gemm, MatMul and FusedMatMul.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/families.h"
#include "ops/gemm_lowering.h"
#include "ops/matmul_lowering.h"
#include "ops/spatial.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// ---- Gemm: alpha * A' B' + beta * C

struct GemmSizes {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
};

absl::StatusOr<GemmSizes> ReadGemmSizes(const NodeContext& node) {
  const Shape& a = node.InputShape(0);
  const Shape& b = node.InputShape(1);
  if (a.size() != 2 || b.size() != 2) return node.Invalid("A and B must have rank 2");
  const bool trans_a = node.Int("transA", 0) != 0;
  const bool trans_b = node.Int("transB", 0) != 0;
  const GemmSizes sizes = {a[trans_a ? 1 : 0], b[trans_b ? 0 : 1], a[trans_a ? 0 : 1]};
  if (b[trans_b ? 1 : 0] != sizes.depth) {
    return node.Invalid(absl::StrCat("A has ", sizes.depth, " columns and B ", b[trans_b ? 1 : 0],
                                     " rows (after transposition)"));
  }
  if (node.InputDType(0) != node.InputDType(1)) {
    return node.Invalid("A and B have different element types");
  }
  return sizes;
}

absl::StatusOr<std::vector<TensorType>> InferGemm(const NodeContext& node) {
  ASSIGN_OR_RETURN(const GemmSizes sizes, ReadGemmSizes(node));
  const Shape shape = {sizes.rows, sizes.columns};
  if (node.HasInput(2) && node.InputDType(2) != node.InputDType(0)) {
    return node.Invalid("C must have the element type of A");
  }
  if (node.HasInput(2) && rules::Broadcast(node.InputShape(2), shape) != shape) {
    return node.Invalid(absl::StrCat("C of shape ", ShapeToString(node.InputShape(2)),
                                     " does not broadcast to ", ShapeToString(shape)));
  }
  return std::vector<TensorType>{{node.InputDType(0), shape}};
}

absl::StatusOr<Lowering> LowerGemm(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const GemmSizes sizes, ReadGemmSizes(node));
  const bool trans_a = node.Int("transA", 0) != 0;
  const bool trans_b = node.Int("transB", 0) != 0;
  MatMulSpec spec;
  spec.rows = sizes.rows;
  spec.columns = sizes.columns;
  spec.depth = sizes.depth;
  spec.a_row_stride = trans_a ? 1 : sizes.depth;
  spec.a_depth_stride = trans_a ? sizes.rows : 1;
  spec.b_depth_stride = trans_b ? 1 : sizes.columns;
  spec.b_column_stride = trans_b ? sizes.depth : 1;
  spec.scale = node.Float("alpha", 1.0F);
  spec.bias_scale = node.Float("beta", 1.0F);
  spec.a = KernelArg::Input(0);
  spec.b = KernelArg::Input(1);
  spec.residual = ResidualArg(node);
  if (node.HasInput(2) && spec.bias_scale != 0.0F) {
    Shape c = node.InputShape(2);
    c.insert(c.begin(), 2 - c.size(), 1);
    spec.bias = KernelArg::Input(2);
    spec.bias_column_stride = c[1] == 1 ? 0 : 1;
    spec.bias_row_stride = c[0] == 1 ? 0 : c[1];
    spec.bias_constant = node.InputConstant(2);
  }
  spec.b_constant = node.InputConstant(1);
  return LowerMatMul(node, target, node.InputDType(0), spec);
}

// ---- MatMul: numpy's, of any rank

struct MatMulShapes {
  Shape a;  // [batch...][rows][depth]
  Shape b;  // [batch...][depth][columns], as many axes
  Shape batch;
  Shape output;
};

absl::StatusOr<MatMulShapes> ReadMatMulShapes(const NodeContext& node, bool trans_a, bool trans_b) {
  MatMulShapes shapes = {node.InputShape(0), node.InputShape(1), {}, {}};
  Shape& a = shapes.a;
  Shape& b = shapes.b;
  if (a.empty() || b.empty()) return node.Invalid("the inputs must have at least one axis");
  if (node.InputDType(0) != node.InputDType(1)) {
    return node.Invalid("the inputs have different element types");
  }
  const bool a_is_vector = a.size() == 1;
  const bool b_is_vector = b.size() == 1;
  if (a_is_vector) a.insert(a.begin(), 1);
  if (b_is_vector) b.push_back(1);
  if (trans_a && !a_is_vector) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (trans_b && !b_is_vector) std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (a[a.size() - 1] != b[b.size() - 2]) {
    return node.Invalid(absl::StrCat("the first input has ", a[a.size() - 1],
                                     " columns and the second ", b[b.size() - 2], " rows"));
  }
  const size_t rank = std::max(a.size(), b.size());
  a.insert(a.begin(), rank - a.size(), 1);
  b.insert(b.begin(), rank - b.size(), 1);
  const auto batch_axes = static_cast<ptrdiff_t>(rank) - 2;
  const std::optional<Shape> batch = rules::Broadcast(Shape(a.begin(), a.begin() + batch_axes),
                                                      Shape(b.begin(), b.begin() + batch_axes));
  if (!batch) return node.Invalid("the batch axes do not broadcast");
  shapes.batch = *batch;
  shapes.output = *batch;
  if (!a_is_vector) shapes.output.push_back(a[rank - 2]);
  if (!b_is_vector) shapes.output.push_back(b[rank - 1]);
  return shapes;
}

// Strides of the batch axes of an operand of `shape`: 0 where it is repeated.
std::vector<int64_t> BatchStrides(const Shape& shape) {
  const size_t axes = shape.size() - 2;
  std::vector<int64_t> strides(axes, 0);
  int64_t stride = shape[axes] * shape[axes + 1];
  for (size_t i = axes; i-- > 0;) {
    if (shape[i] != 1) strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

absl::StatusOr<Lowering> LowerMatMulOf(const NodeContext& node, const Target& target, bool trans_a,
                                       bool trans_b, float scale) {
  ASSIGN_OR_RETURN(const MatMulShapes shapes, ReadMatMulShapes(node, trans_a, trans_b));
  RETURN_IF_ERROR(CheckCountable(node));
  const size_t rank = shapes.a.size();
  MatMulSpec spec;
  spec.batch = shapes.batch;
  spec.a_batch_strides = BatchStrides(shapes.a);
  spec.b_batch_strides = BatchStrides(shapes.b);
  spec.rows = shapes.a[rank - 2];
  spec.depth = shapes.a[rank - 1];
  spec.columns = shapes.b[rank - 1];
  trans_a = trans_a && node.InputShape(0).size() > 1;
  trans_b = trans_b && node.InputShape(1).size() > 1;
  spec.a_row_stride = trans_a ? 1 : spec.depth;
  spec.a_depth_stride = trans_a ? spec.rows : 1;
  spec.b_depth_stride = trans_b ? 1 : spec.columns;
  spec.b_column_stride = trans_b ? spec.depth : 1;
  spec.scale = scale;
  spec.a = KernelArg::Input(0);
  spec.b = KernelArg::Input(1);
  spec.residual = ResidualArg(node);
  spec.b_constant = node.InputConstant(1);
  return LowerMatMul(node, target, node.InputDType(0), spec);
}

absl::StatusOr<std::vector<TensorType>> InferMatMul(const NodeContext& node) {
  ASSIGN_OR_RETURN(const MatMulShapes shapes, ReadMatMulShapes(node, false, false));
  return std::vector<TensorType>{{node.InputDType(0), shapes.output}};
}

absl::StatusOr<Lowering> LowerPlainMatMul(const NodeContext& node, const Target& target) {
  return LowerMatMulOf(node, target, false, false, 1.0F);
}

// ---- com.microsoft FusedMatMul: alpha * A' B', where ' swaps the last two axes

absl::StatusOr<std::vector<TensorType>> InferFusedMatMul(const NodeContext& node) {
  if (node.Int("transBatchA", 0) != 0 || node.Int("transBatchB", 0) != 0) {
    return node.Unsupported("transBatchA and transBatchB are not supported");
  }
  ASSIGN_OR_RETURN(const MatMulShapes shapes,
                   ReadMatMulShapes(node, node.Int("transA", 0) != 0, node.Int("transB", 0) != 0));
  return std::vector<TensorType>{{node.InputDType(0), shapes.output}};
}

absl::StatusOr<Lowering> LowerFusedMatMul(const NodeContext& node, const Target& target) {
  return LowerMatMulOf(node, target, node.Int("transA", 0) != 0, node.Int("transB", 0) != 0,
                       node.Float("alpha", 1.0F));
}

}  // namespace

extern const OpDef kGemm = {
    .type = "Gemm",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferGemm,
    .aliases = InPlaceResidual,
    .lower = LowerGemm,
    .fuses_activation = true,
    .fuses_residual = true,
};

extern const OpDef kMatMul = {
    .type = "MatMul",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferMatMul,
    .aliases = InPlaceResidual,
    .lower = LowerPlainMatMul,
    .fuses_activation = true,
    .fuses_residual = true,
};

extern const OpDef kMicrosoftFusedMatMul = {
    .type = "FusedMatMul",
    .domain = kMicrosoft,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferFusedMatMul,
    .aliases = InPlaceResidual,
    .lower = LowerFusedMatMul,
    .fuses_activation = true,
    .fuses_residual = true,
};

}  // namespace onnx_memplan
