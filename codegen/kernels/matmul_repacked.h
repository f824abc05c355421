// Matrix products whose B is in an order that the tiles cannot read, and only known at run time: B
// transposed, or too narrow for a vector. Small panels of B are copied into the tiles' order, on
// the stack; every row of A meets a panel, which pays for the copy.
#ifndef MEMPLAN_KERNELS_MATMUL_REPACKED_H_
#define MEMPLAN_KERNELS_MATMUL_REPACKED_H_

#include "gemm_tile.h"
#include "matmul.h"
#include "transpose_four.h"

namespace kernels {

// Floats of a panel.
constexpr int RepackedPanelFloats(int lanes) { return lanes >= 8 ? 1024 : 256; }

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
        TransposeFour(from + k, column_stride, panel + k * Width + j, Width);
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
MEMPLAN_SHARED_FUNCTION void MatMulRepackedTiles(const MatMulParams& p, ActivateFunction activate,
                                                 const float* a, const float* b, const float* bias,
                                                 const float* residual, float* c) {
  constexpr int kWidth = Lanes * Columns;
  constexpr int kDepth = RepackedPanelFloats(Lanes) / kWidth;
  alignas(VectorLanes(Lanes) * sizeof(float)) float panel[kDepth * kWidth];
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
    if (activate != nullptr) {
      activate(p.rows, t.column_end, p.columns, p.alpha, p.beta, c + column);
    }
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
    MatMulRepackedTiles<Lanes, Rows, Columns>(p, activate, a + a_at, b + b_at, bias,
                                              residual == nullptr ? nullptr : residual + i * matrix,
                                              c + i * matrix);
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_MATMUL_REPACKED_H_
