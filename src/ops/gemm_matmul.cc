// Gemm, MatMul and FusedMatMul.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/families.h"
#include "ops/gemm_lowering.h"
#include "ops/gradient_context.h"
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

absl::StatusOr<Lowering> LowerGemmOfMatrices(const NodeContext& node, const Target& target) {
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

// ---- Products of any rank, as numpy has them

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

// scale * A' B', where ' swaps the last two axes.
absl::StatusOr<MatMulSpec> MatMulSpecOf(const NodeContext& node, bool trans_a, bool trans_b,
                                        float scale) {
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
  return spec;
}

absl::StatusOr<Lowering> LowerMatMulOf(const NodeContext& node, const Target& target, bool trans_a,
                                       bool trans_b, float scale) {
  ASSIGN_OR_RETURN(const MatMulSpec spec, MatMulSpecOf(node, trans_a, trans_b, scale));
  return LowerMatMul(node, target, node.InputDType(0), spec);
}

// ---- Gemm of other ranks than ONNX has it of, as Deeploy's training graphs have it: with MatMul's
// meaning of them, ' swapping the last two axes, and C broadcast. Pass "gemm-to-matmul" rewrites
// those that depend on data.

absl::StatusOr<std::vector<TensorType>> InferGemm(const NodeContext& node) {
  ASSIGN_OR_RETURN(const MatMulShapes shapes,
                   ReadMatMulShapes(node, node.Int("transA", 0) != 0, node.Int("transB", 0) != 0));
  const Shape& shape = shapes.output;
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
  const size_t a_rank = node.InputShape(0).size();
  const size_t b_rank = node.InputShape(1).size();
  if (a_rank == 2 && b_rank == 2) return LowerGemmOfMatrices(node, target);
  ASSIGN_OR_RETURN(MatMulSpec spec,
                   MatMulSpecOf(node, node.Int("transA", 0) != 0, node.Int("transB", 0) != 0,
                                node.Float("alpha", 1.0F)));
  spec.bias_scale = node.Float("beta", 1.0F);
  if (node.HasInput(2) && spec.bias_scale != 0.0F) {
    const int64_t elements = node.InputType(2).NumElements();
    if (b_rank < 2 || (elements != 1 && elements != node.InputShape(2).back())) {
      return node.Unsupported("C must be one number, or a row; pass gemm-to-matmul serves others");
    }
    spec.bias = KernelArg::Input(2);
    spec.bias_column_stride = elements == 1 ? 0 : 1;
    spec.bias_constant = node.InputConstant(2);
  }
  return LowerMatMul(node, target, node.InputDType(0), spec);
}

// ---- MatMul and its lowering

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

// ---- Gradients of alpha * A' B': dA' = alpha * dY B'^T and dB' = alpha * A'^T dY

// A matrix operand of a product, as it is stored and whether the product transposes it.
struct Factor {
  ValueId value;
  bool transposed;
};

Factor Transposed(Factor factor) { return {factor.value, !factor.transposed}; }

// The product of two factors as an operator with transposition flags.
ValueId Product(GradientContext& g, std::string_view op_type, std::string_view domain, Factor left,
                Factor right, float alpha) {
  return g.Add(op_type, {left.value, right.value},
               {{"transA", int64_t{left.transposed}},
                {"transB", int64_t{right.transposed}},
                {"alpha", alpha}},
               domain);
}

// The gradient of `left` or of `right` (as stored) from that of their product.
template <class Multiply>
ValueId LeftGradient(Factor left, Factor right, Factor dy, Multiply multiply) {
  return left.transposed ? multiply(right, Transposed(dy)) : multiply(dy, Transposed(right));
}
template <class Multiply>
ValueId RightGradient(Factor left, Factor right, Factor dy, Multiply multiply) {
  return right.transposed ? multiply(Transposed(dy), left) : multiply(Transposed(left), dy);
}

absl::Status GemmGradient(GradientContext& g) {
  const NodeContext node = g.context();
  if (node.InputShape(0).size() != 2 || node.InputShape(1).size() != 2) {
    return node.Unsupported("A and B must be matrices; keep pass gemm-to-matmul on");
  }
  const Factor a = {g.Input(0), node.Int("transA", 0) != 0};
  const Factor b = {g.Input(1), node.Int("transB", 0) != 0};
  const float alpha = node.Float("alpha", 1.0F);
  const float beta = node.Float("beta", 1.0F);
  const Factor dy = {g.OutputGradient(0), false};
  const auto multiply = [&](Factor left, Factor right) {
    return Product(g, "Gemm", "", left, right, alpha);
  };
  if (g.Wants(0)) g.SetInputGradient(0, LeftGradient(a, b, dy, multiply));
  if (g.Wants(1)) g.SetInputGradient(1, RightGradient(a, b, dy, multiply));
  if (g.Wants(2)) {
    const Shape shape = g.ShapeOf(g.Input(2));
    const ValueId sum = g.SumTo(dy.value, shape);
    const DType dtype = g.Type(g.Input(2)).dtype;
    g.SetInputGradient(
        2, beta == 1.0F ? sum : g.Add("Mul", {sum, g.Scalar(static_cast<double>(beta), dtype)}));
  }
  return g.status();
}

// `value` of shape `shape` as a matrix: all dimensions but the last become rows.
ValueId AsMatrix(GradientContext& g, ValueId value, const Shape& shape) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return g.ReshapeTo(value, {rows, shape.back()});
}

// MatMul and FusedMatMul. Vectors are matrices of one row or column here.
absl::Status MatMulGradient(GradientContext& g) {
  const bool trans_a = g.context().Int("transA", 0) != 0 && g.ShapeOf(g.Input(0)).size() > 1;
  const bool trans_b = g.context().Int("transB", 0) != 0 && g.ShapeOf(g.Input(1)).size() > 1;
  const float alpha = g.context().Float("alpha", 1.0F);
  const Shape a_shape = g.ShapeOf(g.Input(0));
  const Shape b_shape = g.ShapeOf(g.Input(1));
  Shape a_matrix = a_shape;
  Shape b_matrix = b_shape;
  Shape dy_shape = g.ShapeOf(g.OutputGradient(0));
  if (b_shape.size() == 1) b_matrix.push_back(1);
  if (b_shape.size() == 1) dy_shape.push_back(1);
  if (a_shape.size() == 1) a_matrix.insert(a_matrix.begin(), 1);
  if (a_shape.size() == 1) dy_shape.insert(dy_shape.end() - 1, 1);
  const Factor a = {g.ReshapeTo(g.Input(0), a_matrix), trans_a};
  const Factor b = {g.ReshapeTo(g.Input(1), b_matrix), trans_b};
  const Factor dy = {g.ReshapeTo(g.OutputGradient(0), dy_shape), false};
  const auto batched = [&](Factor left, Factor right) {
    return Product(g, "FusedMatMul", kMicrosoft, left, right, alpha);
  };
  const auto flat = [&](Factor left, Factor right) {
    return Product(g, "Gemm", "", left, right, alpha);
  };
  // Rows of a batch that all meet one B are rows of one matrix: no batch of weight gradients is
  // summed up.
  const bool is_flat = b_matrix.size() == 2 && (a_matrix.size() == 2 || !trans_a);
  if (g.Wants(0)) {
    const ValueId da = LeftGradient(a, b, dy, batched);
    g.SetInputGradient(0, g.ReshapeTo(g.SumTo(da, a_matrix), a_shape));
  }
  if (g.Wants(1)) {
    const ValueId db = is_flat ? RightGradient({AsMatrix(g, a.value, a_matrix), trans_a}, b,
                                               {AsMatrix(g, dy.value, dy_shape), false}, flat)
                               : g.SumTo(RightGradient(a, b, dy, batched), b_matrix);
    g.SetInputGradient(1, g.ReshapeTo(db, b_shape));
  }
  return g.status();
}

}  // namespace

extern const OpDef kGemm = {
    .type = "Gemm",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferGemm,
    .aliases = InPlaceResidual,
    .lower = LowerGemm,
    .gradient = GemmGradient,
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
    .gradient = MatMulGradient,
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
    .gradient = MatMulGradient,
    .fuses_activation = true,
    .fuses_residual = true,
};

}  // namespace onnx_memplan
