// Matrix products of any rank, and the plain loops that they are tested against.
#ifndef MEMPLAN_KERNELS_MATMUL_H_
#define MEMPLAN_KERNELS_MATMUL_H_

#include "element.h"
#include "gemm_tile.h"

namespace kernels {

constexpr int kMatMulBatchRank = 4;

// c = activation(scale * a b + bias_scale * bias + residual) for every matrix of a batch.
// Strides count elements. c and residual are contiguous: [batch...][rows][columns].
struct MatMulParams {
  int32_t batch[kMatMulBatchRank];
  int32_t a_batch_stride[kMatMulBatchRank];
  int32_t b_batch_stride[kMatMulBatchRank];
  int32_t rows;
  int32_t columns;
  int32_t depth;
  int32_t a_row_stride;
  int32_t a_depth_stride;
  int32_t b_depth_stride;
  int32_t b_column_stride;
  int32_t bias_row_stride;  // of one matrix; all of the batch have the same bias
  int32_t bias_column_stride;
  int32_t depth_block;  // depth that runs before the next tile's turn
  int32_t clamps;       // 1: the result is brought into [lowest, highest]
  int32_t activation;   // an ActivationKind, applied after that
  float lowest;
  float highest;
  float scale;
  float bias_scale;
  float alpha;  // of the activation
  float beta;
};
MEMPLAN_FIELDS(MatMulParams, batch, a_batch_stride, b_batch_stride, rows, columns, depth,
               a_row_stride, a_depth_stride, b_depth_stride, b_column_stride, bias_row_stride,
               bias_column_stride, depth_block, clamps, activation, lowest, highest, scale,
               bias_scale, alpha, beta);

// Columns of B packed in panels [depth][width], whose widths are those of NextColumns, the last one
// filled up to whole vectors of `lanes`.
constexpr int64_t PackedColumns(int64_t columns, int64_t lanes) {
  return (columns + lanes - 1) / lanes * lanes;
}

// Where the matrices of batch item `index` begin.
MEMPLAN_INLINE void BatchOffsets(const MatMulParams& p, int32_t index, ptrdiff_t* a, ptrdiff_t* b) {
  *a = 0;
  *b = 0;
  for (int i = kMatMulBatchRank - 1; i >= 0; --i) {
    const int32_t at = index % p.batch[i];
    index /= p.batch[i];
    *a += static_cast<ptrdiff_t>(at) * p.a_batch_stride[i];
    *b += static_cast<ptrdiff_t>(at) * p.b_batch_stride[i];
  }
}

MEMPLAN_INLINE int32_t BatchCount(const MatMulParams& p) {
  int32_t count = 1;
  for (int i = 0; i < kMatMulBatchRank; ++i) count *= p.batch[i];
  return count;
}

// What all tiles of a product share; the caller sets depth, B's stride, pointers and `clamps`.
MEMPLAN_INLINE TileArgs MatMulTileArgs(const MatMulParams& p) {
  // Not `= {}`: GCC clears structs of this size by an instruction that takes longer than a tile.
  TileArgs t;
  t.row_begin = 0;
  t.row_end = 0;
  t.column_begin = 0;
  t.column_end = 0;
  t.column_offsets = nullptr;
  t.a_row_stride = p.a_row_stride;
  t.a_depth_stride = p.a_depth_stride;
  t.b_depth_stride = p.b_depth_stride;
  t.bias_row_stride = p.bias_row_stride;
  t.bias_column_stride = p.bias_column_stride;
  t.c_row_stride = p.columns;
  t.alpha = p.scale;
  t.beta = p.bias_scale;
  t.lowest = p.lowest;
  t.highest = p.highest;
  return t;
}

// One matrix by tiles of Rows x (Columns * Lanes). Each panel of columns is activated while a cache
// still has it.
template <int Lanes, int Rows, int Columns, bool PackedB>
MEMPLAN_SHARED_FUNCTION void MatMulTiles(const MatMulParams& p, ActivateFunction activate,
                                         const float* a, const float* b, const float* bias,
                                         const float* residual, float* c) {
  TileArgs t = MatMulTileArgs(p);
  for (int32_t column = 0; column < p.columns;) {
    // A packed B is filled up to whole vectors; they must not reach past an unpacked one.
    const ColumnTile tile = NextColumns<Lanes, Columns>(column, p.columns, !PackedB);
    if constexpr (PackedB) t.b_depth_stride = (tile.count + Lanes - 1) / Lanes * Lanes;
    t.column_begin = column - tile.start;
    t.column_end = t.column_begin + tile.count;
    t.c = c + tile.start;
    t.a = a;
    t.b = b + (PackedB ? static_cast<ptrdiff_t>(column) * p.depth : tile.start);
    t.bias = bias == nullptr ? nullptr
                             : bias + static_cast<ptrdiff_t>(tile.start) * p.bias_column_stride;
    t.residual = residual == nullptr ? nullptr : residual + tile.start;
    t.depth = p.depth_block;
    t.clamps = false;
    for (int32_t depth_left = p.depth;; depth_left -= p.depth_block) {
      const bool last = depth_left <= p.depth_block;
      if (last) {
        t.depth = depth_left;
        t.clamps = p.clamps != 0;
      }
      GemmPanel<Lanes, Rows, Columns, false>(p.rows, 0, t);
      if (last) break;
      t.a += static_cast<ptrdiff_t>(p.depth_block) * p.a_depth_stride;
      t.b += static_cast<ptrdiff_t>(p.depth_block) * t.b_depth_stride;
      // Later blocks add to what the first one wrote.
      t.bias = nullptr;
      t.residual = t.c;
    }
    if (activate != nullptr) {
      activate(p.rows, tile.count, p.columns, p.alpha, p.beta, c + column);
    }
    column += tile.count;
  }
}

// Tiles of Rows >= p.rows or fewer; B packed as [batch...] of panels (see PackedColumns), or
// unpacked with b_column_stride 1 and columns >= Lanes.
template <int Lanes, int Rows, int Columns, bool PackedB>
MEMPLAN_INLINE void MatMul(const MatMulParams& p, const float* a, const float* b, const float* bias,
                           const float* residual, float* c) {
  const ActivateFunction activate = ActivateFunctionOf(p.activation);
  const ptrdiff_t matrix = static_cast<ptrdiff_t>(p.rows) * p.columns;
  for (int32_t i = 0; i < BatchCount(p); ++i) {
    ptrdiff_t a_at;
    ptrdiff_t b_at;
    BatchOffsets(p, i, &a_at, &b_at);
    MatMulTiles<Lanes, Rows, Columns, PackedB>(
        p, activate, a + a_at, b + b_at, bias,
        residual == nullptr ? nullptr : residual + i * matrix, c + i * matrix);
  }
}

// A tile of inner products of Rows contiguous rows of A and Columns contiguous columns of B: lanes
// run along the depth. t.b_depth_stride is the distance between columns of B.
template <int Lanes, int Rows, int Columns>
MEMPLAN_SHARED_FUNCTION void DotTile(const TileArgs& t) {
  constexpr int kWidth = VectorLanes(Lanes);
  using V = typename Vector<kWidth>::Type;
  using InArray = typename Vector<kWidth>::InArray;
  V sums[Rows][Columns];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < Columns; ++c) sums[r][c] = V{};
  }
  const ptrdiff_t a_stride = t.a_row_stride;
  const ptrdiff_t b_stride = t.b_depth_stride;
  int32_t k = 0;
  for (; k + kWidth <= t.depth; k += kWidth) {
    V column[Columns];
#pragma GCC unroll 4
    for (int c = 0; c < Columns; ++c) {
      column[c] = *reinterpret_cast<const InArray*>(t.b + c * b_stride + k);
    }
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const V row = *reinterpret_cast<const InArray*>(t.a + r * a_stride + k);
#pragma GCC unroll 4
      for (int c = 0; c < Columns; ++c) sums[r][c] += row * column[c];
    }
  }
  float part[Rows * Columns];
  for (int r = 0; r < Rows; ++r) {
    for (int c = 0; c < Columns; ++c) {
      float lanes[kWidth];
      *reinterpret_cast<InArray*>(lanes) = sums[r][c];
      float sum = 0;
      for (int32_t i = k; i < t.depth; ++i) sum += t.a[r * a_stride + i] * t.b[c * b_stride + i];
      for (int i = 0; i < kWidth; ++i) sum += lanes[i];
      part[r * Columns + c] = sum;
    }
  }
  StoreTilePart(t, TileRows{0, t.row_begin, t.row_end}, part, Columns);
}

// All columns for Rows rows from `row` on.
template <int Lanes, int Rows>
MEMPLAN_INLINE void DotRows(const MatMulParams& p, int32_t row, const TileArgs& first) {
  TileArgs t = first;
  t.row_end = Rows;
  t.a = first.a + static_cast<ptrdiff_t>(row) * p.a_row_stride;
  const ptrdiff_t c_at = static_cast<ptrdiff_t>(row) * p.columns;
  for (int32_t column = 0; column < p.columns;) {
    t.column_end = column + 4 <= p.columns ? 4 : 1;
    t.b = first.b + static_cast<ptrdiff_t>(column) * p.b_column_stride;
    if (first.bias != nullptr) {
      t.bias = first.bias + static_cast<ptrdiff_t>(row) * p.bias_row_stride +
               static_cast<ptrdiff_t>(column) * p.bias_column_stride;
    }
    if (first.residual != nullptr) t.residual = first.residual + c_at + column;
    t.c = first.c + c_at + column;
    if (t.column_end == 4) {
      DotTile<Lanes, Rows, 4>(t);
    } else {
      DotTile<Lanes, Rows, 1>(t);
    }
    column += t.column_end;
  }
}

// MatMul for rows of A and columns of B that are contiguous (a_depth_stride and b_depth_stride 1).
template <int Lanes>
MEMPLAN_INLINE void MatMulDot(const MatMulParams& p, const float* a, const float* b,
                              const float* bias, const float* residual, float* c) {
  const ActivateFunction activate = ActivateFunctionOf(p.activation);
  const ptrdiff_t matrix = static_cast<ptrdiff_t>(p.rows) * p.columns;
  TileArgs t = MatMulTileArgs(p);
  t.depth = p.depth;
  t.b_depth_stride = p.b_column_stride;
  t.bias = bias;
  t.clamps = p.clamps != 0;
  for (int32_t i = 0; i < BatchCount(p); ++i) {
    ptrdiff_t a_at;
    ptrdiff_t b_at;
    BatchOffsets(p, i, &a_at, &b_at);
    t.a = a + a_at;
    t.b = b + b_at;
    t.residual = residual == nullptr ? nullptr : residual + i * matrix;
    t.c = c + i * matrix;
    int32_t row = 0;
    for (; row + 2 <= p.rows; row += 2) DotRows<Lanes, 2>(p, row, t);
    if (row < p.rows) DotRows<Lanes, 1>(p, row, t);
    if (activate != nullptr) {
      activate(p.rows, p.columns, p.columns, p.alpha, p.beta, t.c);
    }
  }
}

// c = scale * a b + bias_scale * bias by the definition, for any strides.
template <class T>
MEMPLAN_KERNEL void MatMulPlain(const MatMulParams& p, const T* a, const T* b, const T* bias,
                                T* c) {
  for (int32_t i = 0; i < BatchCount(p); ++i) {
    ptrdiff_t a_at;
    ptrdiff_t b_at;
    BatchOffsets(p, i, &a_at, &b_at);
    for (int32_t row = 0; row < p.rows; ++row) {
      for (int32_t column = 0; column < p.columns; ++column) {
        T sum = T(0);
        for (int32_t k = 0; k < p.depth; ++k) {
          const T left = a[a_at + static_cast<ptrdiff_t>(row) * p.a_row_stride +
                           static_cast<ptrdiff_t>(k) * p.a_depth_stride];
          const T right = b[b_at + static_cast<ptrdiff_t>(k) * p.b_depth_stride +
                            static_cast<ptrdiff_t>(column) * p.b_column_stride];
          sum = WrapAdd(sum, WrapMul(left, right));
        }
        if (p.scale != 1.0F) sum = WrapMul(static_cast<T>(p.scale), sum);
        if (bias != nullptr) {
          const T value = bias[static_cast<ptrdiff_t>(row) * p.bias_row_stride +
                               static_cast<ptrdiff_t>(column) * p.bias_column_stride];
          sum = WrapAdd(sum, WrapMul(static_cast<T>(p.bias_scale), value));
        }
        *c++ = sum;
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_MATMUL_H_
