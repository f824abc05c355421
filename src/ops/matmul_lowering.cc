#include "ops/host_kernels.h"

#include "ops/matmul_lowering.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/matmul.h"
#include "kernels/matmul_repacked.h"
#include "ops/dispatch.h"
#include "ops/parallel_axis.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Depth that runs through a tile at once, where the CPU has a cache: a panel of B of this depth
// stays in its first level while all rows pass.
constexpr int64_t kDepthBlock = 384;

// About the depth that the panels of MatMulRepacked have.
constexpr int64_t kRepackedDepth = 32;

// Merges batch axes that one stride can walk, so that few remain.
void CollapseBatch(MatMulSpec* spec) {
  std::vector<int64_t> sizes, a_strides, b_strides;
  for (size_t i = 0; i < spec->batch.size(); ++i) {
    const int64_t size = spec->batch[i];
    const int64_t a = spec->a_batch_strides[i];
    const int64_t b = spec->b_batch_strides[i];
    if (size == 1) continue;
    if (!sizes.empty() && a_strides.back() == a * size && b_strides.back() == b * size) {
      sizes.back() *= size;
      a_strides.back() = a;
      b_strides.back() = b;
    } else {
      sizes.push_back(size);
      a_strides.push_back(a);
      b_strides.push_back(b);
    }
  }
  // Matrices of A that follow each other are one of more rows, if all meet the same B and bias.
  if (sizes.size() == 1 && b_strides[0] == 0 && spec->bias_row_stride == 0 &&
      a_strides[0] == spec->rows * spec->a_row_stride) {
    spec->rows *= sizes[0];
    sizes.clear();
    a_strides.clear();
    b_strides.clear();
  }
  spec->batch = sizes;
  spec->a_batch_strides = a_strides;
  spec->b_batch_strides = b_strides;
}

absl::StatusOr<kernels::MatMulParams> MakeMatMulParams(const NodeContext& node,
                                                       const MatMulSpec& spec) {
  kernels::MatMulParams p = {};
  const size_t rank = spec.batch.size();
  if (rank > kernels::kMatMulBatchRank) {
    return node.Unsupported(
        absl::StrCat("its batch needs ", rank, " loops; kernels have ", kernels::kMatMulBatchRank));
  }
  for (int i = 0; i < kernels::kMatMulBatchRank; ++i) p.batch[i] = 1;
  for (size_t i = 0; i < rank; ++i) {
    const size_t at = kernels::kMatMulBatchRank - rank + i;
    ASSIGN_OR_RETURN(p.batch[at], ToInt32(node, spec.batch[i], "the batch"));
    ASSIGN_OR_RETURN(p.a_batch_stride[at], ToInt32(node, spec.a_batch_strides[i], "a stride"));
    ASSIGN_OR_RETURN(p.b_batch_stride[at], ToInt32(node, spec.b_batch_strides[i], "a stride"));
  }
  ASSIGN_OR_RETURN(p.rows, ToInt32(node, spec.rows, "the number of rows"));
  ASSIGN_OR_RETURN(p.columns, ToInt32(node, spec.columns, "the number of columns"));
  ASSIGN_OR_RETURN(p.depth, ToInt32(node, spec.depth, "the depth"));
  ASSIGN_OR_RETURN(p.a_row_stride, ToInt32(node, spec.a_row_stride, "a stride"));
  ASSIGN_OR_RETURN(p.a_depth_stride, ToInt32(node, spec.a_depth_stride, "a stride"));
  ASSIGN_OR_RETURN(p.b_depth_stride, ToInt32(node, spec.b_depth_stride, "a stride"));
  ASSIGN_OR_RETURN(p.b_column_stride, ToInt32(node, spec.b_column_stride, "a stride"));
  ASSIGN_OR_RETURN(p.bias_row_stride, ToInt32(node, spec.bias_row_stride, "a stride"));
  ASSIGN_OR_RETURN(p.bias_column_stride, ToInt32(node, spec.bias_column_stride, "a stride"));
  p.depth_block = p.depth;
  p.scale = spec.scale;
  p.bias_scale = spec.bias_scale;
  return p;
}

// ---- What threads may share

// The outermost axis of the batch.
ParallelAxis BatchAxis(const kernels::MatMulParams& p) {
  constexpr auto kSetBatch = [](kernels::MatMulParams& part, int32_t begin, int32_t end) {
    part.batch[OutermostLoop(part.batch)] = end - begin;
  };
  const size_t axis = OutermostLoop(p.batch);
  const int64_t items = kernels::BatchCount(p) / std::max(p.batch[axis], 1);
  return {
      .extent = p.batch[axis],
      .borders = {},
      .arg_steps = {p.a_batch_stride[axis], p.b_batch_stride[axis], 0, items * p.rows * p.columns},
      .restrict_to = &RestrictTo<kernels::MatMulParams, kSetBatch>};
}

// Rows by whole tiles.
ParallelAxis RowAxis(const kernels::MatMulParams& p, int32_t tile_rows) {
  ParallelAxis axis =
      AxisOf<&kernels::MatMulParams::rows>(p, 1, {p.a_row_stride, 0, p.bias_row_stride, p.columns});
  axis.borders = WholeTiles(p.rows, tile_rows);
  return axis;
}

// The columns of a single row, from one of `borders` to another; b_step: of B, from column to
// column.
ParallelAxis ColumnAxis(const kernels::MatMulParams& p, int64_t b_step,
                        std::vector<int32_t> borders) {
  ParallelAxis axis =
      AxisOf<&kernels::MatMulParams::columns>(p, 1, {0, b_step, p.bias_column_stride, 1});
  axis.borders = std::move(borders);
  return axis;
}

// Where the panels of a packed B begin. Any run of them is divided into the same ones again.
std::vector<int32_t> PanelBorders(const kernels::MatMulParams& p, const TileShape& tile) {
  std::vector<int32_t> borders;
  for (int32_t column = 0; column < p.columns;) {
    borders.push_back(column);
    const int32_t vectors_left = (p.columns - column + tile.lanes - 1) / tile.lanes;
    column += EqualBlocks(vectors_left, tile.columns) * tile.lanes;
  }
  return borders;
}

// The call of a product, of which threads may share the outermost axis of the batch or, of a single
// matrix, the rows by tiles of `tile_rows` or the columns of `column_axis`. args: A, B, bias, of
// some kernels the residual, C.
Lowering ProductCall(KernelCall call, const kernels::MatMulParams& p, int32_t tile_rows,
                     std::optional<ParallelAxis> column_axis, std::vector<KernelArg> args) {
  std::vector<ParallelAxis> axes;
  if (kernels::BatchCount(p) > 1) {
    axes.push_back(BatchAxis(p));
  } else {
    axes.push_back(RowAxis(p, tile_rows));
    if (column_axis && p.rows == 1) axes.push_back(*std::move(column_axis));
  }
  for (ParallelAxis& axis : axes) axis.arg_steps.resize(args.size(), axis.arg_steps.back());
  const int64_t work = int64_t{kernels::BatchCount(p)} * p.rows * p.columns * p.depth;
  return InParallel(OneCall(std::move(call), p, std::move(args)), work, std::move(axes));
}

// Depth in equal blocks of at most kDepthBlock.
int32_t DepthBlock(const Target& target, int32_t rows, int32_t depth) {
  if (target.vector_floats <= 4 || rows < 2 || depth <= kDepthBlock) return std::max(depth, 1);
  const int64_t blocks = (depth + kDepthBlock - 1) / kDepthBlock;
  return static_cast<int32_t>((depth + blocks - 1) / blocks);
}

// Folds the factor of a constant bias into it.
void ScaleBias(MatMulSpec* spec, KernelCall* call) {
  if (spec->bias_constant == nullptr || spec->bias_scale == 1.0F) return;
  std::vector<float> scaled;
  for (float value : spec->bias_constant->As<float>()) scaled.push_back(spec->bias_scale * value);
  spec->bias_scale = 1;
  spec->bias = KernelArg::Constant(static_cast<int32_t>(call->constants.size()));
  call->constants.push_back(Tensor::FromVector<float>(spec->bias_constant->shape(), scaled));
}

absl::StatusOr<Lowering> LowerPacked(const NodeContext& node, const Target& target, MatMulSpec spec,
                                     const FusedActivation& fused) {
  KernelCall call;
  const TileShape tile =
      ChooseProductTile(target, {spec.rows, spec.columns, std::min(spec.depth, kDepthBlock),
                                 /*packed=*/true, /*aligned=*/true});
  int64_t batch = 1;
  int64_t stride = spec.depth * ((spec.columns + tile.lanes - 1) / tile.lanes * tile.lanes);
  for (size_t i = spec.batch.size(); i-- > 0;) {
    if (spec.b_batch_strides[i] == 0) continue;
    spec.b_batch_strides[i] = batch * stride;
    batch *= spec.batch[i];
  }
  call.constants.push_back(PackColumns(spec.b_constant->As<float>(), batch, spec.depth,
                                       spec.columns, spec.b_depth_stride, spec.b_column_stride,
                                       spec.scale, tile));
  spec.scale = 1;
  spec.b_depth_stride = 0;
  spec.b_column_stride = 0;
  ScaleBias(&spec, &call);
  ASSIGN_OR_RETURN(kernels::MatMulParams p, MakeMatMulParams(node, spec));
  p.depth_block = DepthBlock(target, p.rows, p.depth);
  SetActivation(fused, &p);
  call.header = "kernels/matmul.h";
  call.name = absl::StrCat("kernels::MatMul<", TileArguments(tile), ", true>");
  call.function = FunctionForTile<kProductTileShapes>(
      tile, []<int L, int R, int C> { return FunctionOf<&kernels::MatMul<L, R, C, true>>(); });
  return ProductCall(std::move(call), p, tile.rows, ColumnAxis(p, p.depth, PanelBorders(p, tile)),
                     {spec.a, KernelArg::Constant(0), spec.bias, spec.residual, spec.c});
}

absl::StatusOr<Lowering> LowerUnpacked(const NodeContext& node, const Target& target,
                                       MatMulSpec spec, const FusedActivation& fused,
                                       const TileShape& tile) {
  KernelCall call;
  ScaleBias(&spec, &call);
  ASSIGN_OR_RETURN(kernels::MatMulParams p, MakeMatMulParams(node, spec));
  p.depth_block = DepthBlock(target, p.rows, p.depth);
  SetActivation(fused, &p);
  call.header = "kernels/matmul.h";
  call.name = absl::StrCat("kernels::MatMul<", TileArguments(tile), ", false>");
  call.function = FunctionForTile<kProductTileShapes>(
      tile, []<int L, int R, int C> { return FunctionOf<&kernels::MatMul<L, R, C, false>>(); });
  return ProductCall(std::move(call), p, tile.rows, std::nullopt,
                     {spec.a, spec.b, spec.bias, spec.residual, spec.c});
}

absl::StatusOr<Lowering> LowerRepacked(const NodeContext& node, const Target& target,
                                       MatMulSpec spec, const FusedActivation& fused) {
  KernelCall call;
  ScaleBias(&spec, &call);
  ASSIGN_OR_RETURN(kernels::MatMulParams p, MakeMatMulParams(node, spec));
  SetActivation(fused, &p);
  // Its panels have few steps of depth.
  const TileShape tile = ChooseProductTile(
      target, {spec.rows, spec.columns, std::min<int64_t>(spec.depth, kRepackedDepth),
               /*packed=*/true, /*aligned=*/true});
  call.header = "kernels/matmul_repacked.h";
  call.name = absl::StrCat("kernels::MatMulRepacked<", TileArguments(tile), ">");
  call.function = FunctionForTile<kProductTileShapes>(
      tile, []<int L, int R, int C> { return FunctionOf<&kernels::MatMulRepacked<L, R, C>>(); });
  return ProductCall(std::move(call), p, tile.rows, std::nullopt,
                     {spec.a, spec.b, spec.bias, spec.residual, spec.c});
}

absl::StatusOr<Lowering> LowerDot(const NodeContext& node, const Target& target, MatMulSpec spec,
                                  const FusedActivation& fused) {
  KernelCall call;
  ScaleBias(&spec, &call);
  ASSIGN_OR_RETURN(kernels::MatMulParams p, MakeMatMulParams(node, spec));
  SetActivation(fused, &p);
  const int32_t lanes = target.vector_floats >= 16 ? 16 : target.vector_floats >= 8 ? 8 : 4;
  call.header = "kernels/matmul.h";
  call.name = absl::StrCat("kernels::MatMulDot<", lanes, ">");
  call.function = lanes == 16  ? FunctionOf<&kernels::MatMulDot<16>>()
                  : lanes == 8 ? FunctionOf<&kernels::MatMulDot<8>>()
                               : FunctionOf<&kernels::MatMulDot<4>>();
  return ProductCall(std::move(call), p, 2,
                     ColumnAxis(p, p.b_column_stride, WholeTiles(p.columns, 4)),
                     {spec.a, spec.b, spec.bias, spec.residual, spec.c});
}

absl::StatusOr<Lowering> LowerPlain(const NodeContext& node, DType dtype, const MatMulSpec& spec) {
  ASSIGN_OR_RETURN(const kernels::MatMulParams p, MakeMatMulParams(node, spec));
  if (!node.node().epilogue.empty()) {
    return node.Unsupported("this matrix product has no kernel with a fused epilogue");
  }
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double, int32_t, int64_t, uint32_t, uint64_t>(
                       node, dtype, "kernels/matmul.h", "kernels::MatMulPlain<{T}>",
                       []<class T> { return FunctionOf<&kernels::MatMulPlain<T>>(); })));
  return ProductCall(std::move(call), p, 1,
                     ColumnAxis(p, p.b_column_stride, WholeTiles(p.columns, 1)),
                     {spec.a, spec.b, spec.bias, spec.c});
}

// Whether the vectors of a B whose columns are contiguous lie where the arena's tensors do.
bool VectorsAreAligned(const MatMulSpec& spec, const Target& target) {
  bool aligned = spec.b_depth_stride % target.vector_floats == 0;
  for (const int64_t stride : spec.b_batch_strides) {
    aligned = aligned && stride % target.vector_floats == 0;
  }
  return aligned;
}

// Whether a copy of B in the tiles' order pays: for all rows but a few, whose long inner products
// are as fast without it, and for orders that nothing else reads in vectors.
bool RepackingPays(const Target& target, const MatMulSpec& spec, bool contiguous_depth) {
  constexpr int64_t kFewRows = 8;
  constexpr int64_t kLongDepth = 64;
  if (target.vector_floats <= 4 || spec.rows < 2) return false;
  return !contiguous_depth || spec.rows >= kFewRows || spec.depth < kLongDepth;
}

}  // namespace

absl::StatusOr<Lowering> LowerMatMul(const NodeContext& node, const Target& target, DType dtype,
                                     MatMulSpec spec) {
  CollapseBatch(&spec);
  int64_t macs = spec.rows * spec.columns * spec.depth;
  for (int64_t size : spec.batch) macs *= size;
  const FusedActivation fused = FuseActivation(node.node().epilogue);
  const bool empty = macs == 0;
  const TileShape unpacked =
      ChooseProductTile(target, {spec.rows, spec.columns, std::min(spec.depth, kDepthBlock),
                                 /*packed=*/false, VectorsAreAligned(spec, target)});
  const bool contiguous_columns = spec.b_column_stride == 1 || spec.columns == 1;
  const bool contiguous_depth = (spec.a_depth_stride == 1 && spec.b_depth_stride == 1);
  absl::StatusOr<Lowering> lowering;
  if (dtype == DType::kFloat && !empty && spec.b_constant != nullptr) {
    lowering = LowerPacked(node, target, spec, fused);
  } else if (dtype == DType::kFloat && !empty && contiguous_columns && unpacked.lanes > 0) {
    lowering = LowerUnpacked(node, target, spec, fused, unpacked);
  } else if (dtype == DType::kFloat && !empty && RepackingPays(target, spec, contiguous_depth)) {
    lowering = LowerRepacked(node, target, spec, fused);
  } else if (dtype == DType::kFloat && contiguous_depth) {
    lowering = LowerDot(node, target, spec, fused);
  } else {
    lowering = LowerPlain(node, dtype, spec);
  }
  if (lowering.ok()) lowering->macs = macs;
  return lowering;
}

}  // namespace onnx_memplan
