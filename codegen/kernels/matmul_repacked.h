// Matrix products whose B is in an order that the tiles cannot read, and only known at run time: B
// transposed, or too narrow for a vector. Small panels of B are copied into the tiles' order, on
// the stack; every row of A meets a panel, which pays for the copy.
#ifndef MEMPLAN_KERNELS_MATMUL_REPACKED_H_
#define MEMPLAN_KERNELS_MATMUL_REPACKED_H_

#include "gemm_tile.h"
#include "matmul.h"

namespace kernels {

// Floats of a panel.
constexpr int RepackedPanelFloats(int lanes) { return lanes >= 8 ? 1024 : 256; }

// to[i * Width + j] = from[j * stride + i] for i, j < 4.
template <int Width>
MEMPLAN_INLINE void TransposeFourByFour(const float* from, ptrdiff_t stride, float* to) {
  if constexpr (VectorLanes(4) == 4 && kHasShuffles) {
    using V = typename Vector<4>::Type;
    using InArray = typename Vector<4>::InArray;
    const V a = *reinterpret_cast<const InArray*>(from);
    const V b = *reinterpret_cast<const InArray*>(from + stride);
    const V c = *reinterpret_cast<const InArray*>(from + 2 * stride);
    const V d = *reinterpret_cast<const InArray*>(from + 3 * stride);
    const V ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const V ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const V cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const V cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *reinterpret_cast<InArray*>(to) = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *reinterpret_cast<InArray*>(to + Width) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *reinterpret_cast<InArray*>(to + 2 * Width) =
        __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *reinterpret_cast<InArray*>(to + 3 * Width) =
        __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
  } else {
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) to[i * Width + j] = from[j * stride + i];
    }
  }
}

// panel[k][j] = b[k * depth_stride + j * column_stride] for k < depth, j < columns; 0 from
// `columns` to the end of the row.
template <int Width>
MEMPLAN_SHARED_FUNCTION void RepackPanel(const float* b, ptrdiff_t depth_stride,
                                         ptrdiff_t column_stride, int32_t depth, int32_t columns,
                                         float* panel) {
  int32_t j = 0;
  if (depth_stride == 1) {
    for (; j + 4 <= columns; j += 4) {
      const float* from = b + j * column_stride;
      int32_t k = 0;
      for (; k + 4 <= depth; k += 4) {
        TransposeFourByFour<Width>(from + k, column_stride, panel + k * Width + j);
      }
      for (; k < depth; ++k) {
        for (int i = 0; i < 4; ++i) panel[k * Width + j + i] = from[i * column_stride + k];
      }
    }
  }
  for (; j < columns; ++j) {
    const float* from = b + j * column_stride;
    for (int32_t k = 0; k < depth; ++k) panel[k * Width + j] = from[k * depth_stride];
  }
  for (; j < Width; ++j) {
    for (int32_t k = 0; k < depth; ++k) panel[k * Width + j] = 0;
  }
}

// One matrix by tiles of Rows x (Columns * Lanes).
template <int Lanes, int Rows, int Columns>
MEMPLAN_SHARED_FUNCTION void MatMulRepackedTiles(const MatMulParams& p, const float* a,
                                                 const float* b, const float* bias,
                                                 const float* residual, float* c) {
  constexpr int kWidth = Lanes * Columns;
  constexpr int kDepth = RepackedPanelFloats(Lanes) / kWidth;
  float panel[kDepth * kWidth];
  TileArgs t = MatMulTileArgs(p);
  t.b = panel;
  t.b_depth_stride = kWidth;
  t.column_begin = 0;
  for (int32_t column = 0; column < p.columns; column += t.column_end) {
    t.column_end = NextColumns<Lanes, Columns>(column, p.columns, false).count;
    t.c = c + column;
    // At least once, so that products of depth 0 are written too.
    int32_t k = 0;
    do {
      t.depth = p.depth - k < kDepth ? p.depth - k : kDepth;
      RepackPanel<kWidth>(b + static_cast<ptrdiff_t>(k) * p.b_depth_stride +
                              static_cast<ptrdiff_t>(column) * p.b_column_stride,
                          p.b_depth_stride, p.b_column_stride, t.depth, t.column_end, panel);
      t.a = a + static_cast<ptrdiff_t>(k) * p.a_depth_stride;
      // Later blocks add to what the first one wrote.
      t.bias = k > 0 || bias == nullptr
                   ? nullptr
                   : bias + static_cast<ptrdiff_t>(column) * p.bias_column_stride;
      t.residual = k > 0 ? t.c : residual == nullptr ? nullptr : residual + column;
      t.clamps = p.clamps != 0 && k + t.depth == p.depth;
      GemmPanel<Lanes, Rows, Columns, false>(p.rows, 0, t);
      k += t.depth;
    } while (k < p.depth);
  }
}

// MatMul for any strides of B, with p.rows >= Rows.
template <int Lanes, int Rows, int Columns>
MEMPLAN_INLINE void MatMulRepacked(const MatMulParams& p, const float* a, const float* b,
                                   const float* bias, const float* residual, float* c) {
  const ActivateFunction activate = ActivateFunctionOf(p.activation);
  const ptrdiff_t matrix = static_cast<ptrdiff_t>(p.rows) * p.columns;
  for (int32_t i = 0; i < BatchCount(p); ++i) {
    ptrdiff_t a_at;
    ptrdiff_t b_at;
    BatchOffsets(p, i, &a_at, &b_at);
    MatMulRepackedTiles<Lanes, Rows, Columns>(p, a + a_at, b + b_at, bias,
                                              residual == nullptr ? nullptr : residual + i * matrix,
                                              c + i * matrix);
    if (activate != nullptr) {
      activate(p.rows, p.columns, p.columns, p.alpha, p.beta, c + i * matrix);
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_MATMUL_REPACKED_H_
