// softmax(scale * Q K^T + mask) V without the matrix of all scores.
//
// A block of queries (rows of Q) runs through all keys at once. The block is copied with its rows
// side by side, so that the lanes of vectors are queries: the scores come out as [key][query], the
// softmax of a query stays in its lane, and the scores then are the left operand of the product
// with V as they lie. Q, K, V, the mask and the result are read and written where they are, by
// strides, so that heads need not be moved together first.
//
// The result may lie over Q where the two have the same strides: a block is copied before its
// results are written, and no other block reads it.
#ifndef MEMPLAN_KERNELS_ATTENTION_H_
#define MEMPLAN_KERNELS_ATTENTION_H_

#include "gemm_tile.h"
#include "lane_math.h"
#include "lanes.h"
#include "transpose_four.h"

namespace kernels {

constexpr int kAttentionBatchRank = 3;

// Strides and offsets count elements.
struct AttentionParams {
  int32_t batch[kAttentionBatchRank];
  int32_t q_batch_stride[kAttentionBatchRank];
  int32_t k_batch_stride[kAttentionBatchRank];
  int32_t v_batch_stride[kAttentionBatchRank];
  int32_t mask_batch_stride[kAttentionBatchRank];
  int32_t y_batch_stride[kAttentionBatchRank];
  int32_t q_offset;
  int32_t k_offset;
  int32_t v_offset;
  int32_t mask_offset;
  int32_t rows;     // queries
  int32_t keys;     // of each query
  int32_t depth;    // of a query and of a key
  int32_t columns;  // of a row of V and of the result
  int32_t q_row_stride;
  int32_t q_depth_stride;
  int32_t k_row_stride;
  int32_t k_depth_stride;
  int32_t v_row_stride;     // elements of a row follow each other
  int32_t mask_row_stride;  // 0: all queries have one mask
  int32_t mask_key_stride;
  // 1: mask_row_stride is 1, and whole vectors may be read where rows end.
  int32_t mask_in_lanes;
  int32_t y_row_stride;
  int32_t block_rows;  // most queries of a block: whole vectors, at most a tile
  float scale;
};
MEMPLAN_FIELDS(AttentionParams, batch, q_batch_stride, k_batch_stride, v_batch_stride,
               mask_batch_stride, y_batch_stride, q_offset, k_offset, v_offset, mask_offset, rows,
               keys, depth, columns, q_row_stride, q_depth_stride, k_row_stride, k_depth_stride,
               v_row_stride, mask_row_stride, mask_key_stride, mask_in_lanes, y_row_stride,
               block_rows, scale);

// A block of queries, and its scores.
constexpr int64_t AttentionScratchBytes(int64_t depth, int64_t keys, int64_t block_rows) {
  return (depth + keys) * block_rows * static_cast<int64_t>(sizeof(float));
}

// to[i * to_stride + j] = from[j * row_stride + i * column_stride] for i < columns, j < rows; 0 for
// j from `rows` to `padded_rows`.
MEMPLAN_SHARED_FUNCTION void PackQueries(const float* from, ptrdiff_t row_stride,
                                         ptrdiff_t column_stride, int32_t rows, int32_t columns,
                                         int32_t padded_rows, ptrdiff_t to_stride, float* to) {
  int32_t j = 0;
  if (column_stride == 1) {
    for (; j + 4 <= rows; j += 4) {
      const float* block = from + j * row_stride;
      int32_t i = 0;
      for (; i + 4 <= columns; i += 4) {
        TransposeFour(block + i, row_stride, to + i * to_stride + j, to_stride);
      }
      for (; i < columns; ++i) {
        for (int r = 0; r < 4; ++r) to[i * to_stride + j + r] = block[r * row_stride + i];
      }
    }
  }
  for (; j < rows; ++j) {
    for (int32_t i = 0; i < columns; ++i) {
      to[i * to_stride + j] = from[j * row_stride + i * column_stride];
    }
  }
  for (; j < padded_rows; ++j) {
    for (int32_t i = 0; i < columns; ++i) to[i * to_stride + j] = 0;
  }
}

// scores[k * stride + r] += mask[r * row_stride + k * key_stride] for r < rows, k < keys.
MEMPLAN_SHARED_FUNCTION void AddMask(const float* mask, ptrdiff_t row_stride, ptrdiff_t key_stride,
                                     int32_t rows, int32_t keys, ptrdiff_t stride, float* scores) {
  int32_t r = 0;
  if (key_stride == 1) {
    for (; r + 4 <= rows; r += 4) {
      const float* block = mask + r * row_stride;
      int32_t k = 0;
      for (; k + 4 <= keys; k += 4) {
        float part[16];
        TransposeFour(block + k, row_stride, part, 4);
        for (int i = 0; i < 4; ++i) {
          for (int l = 0; l < 4; ++l) scores[(k + i) * stride + r + l] += part[4 * i + l];
        }
      }
      for (; k < keys; ++k) {
        for (int l = 0; l < 4; ++l) scores[k * stride + r + l] += block[l * row_stride + k];
      }
    }
  }
  for (; r < rows; ++r) {
    for (int32_t k = 0; k < keys; ++k) {
      scores[k * stride + r] += mask[r * row_stride + k * key_stride];
    }
  }
}

// *x becomes e^*x, for vectors of any width. Scores are brought to at most 0 first, and what is so
// far below that e^x leaves the normal range is nothing beside the 1 of the highest.
template <int Width, class V>
MEMPLAN_INLINE void ExpInPlace(V* x) {
  if constexpr (Width == LanesOf<float>::kCount) {
    *x = FastExpOf<1>(*x);
  } else {
    using InArray = typename Vector<Width>::InArray;
    float lanes[Width];
    *reinterpret_cast<InArray*>(lanes) = *x;
    MapInLanes(Width, lanes, lanes, [](auto value) { return FastExpOf<1>(value); });
    *x = *reinterpret_cast<const InArray*>(lanes);
  }
}

// The softmax of each column of a matrix of `keys` rows, the distance of which is `stride`; columns
// are whole vectors.
template <int Lanes>
MEMPLAN_SHARED_FUNCTION void SoftmaxDown(int32_t keys, int32_t columns, ptrdiff_t stride,
                                         float* scores) {
  constexpr int kWidth = VectorLanes(Lanes);
  using V = typename Vector<kWidth>::Type;
  using InArray = typename Vector<kWidth>::InArray;
  for (int32_t c = 0; c < columns; c += kWidth) {
    float* const column = scores + c;
    V highest = *reinterpret_cast<const InArray*>(column);
    for (int32_t k = 1; k < keys; ++k) {
      const V x = *reinterpret_cast<const InArray*>(column + k * stride);
      highest = x > highest ? x : highest;
    }
    V sum = {};
    for (int32_t k = 0; k < keys; ++k) {
      InArray& score = *reinterpret_cast<InArray*>(column + k * stride);
      V term = score - highest;
      ExpInPlace<kWidth>(&term);
      score = term;
      sum += term;
    }
    const V scale = 1.0F / sum;
    for (int32_t k = 0; k < keys; ++k) {
      *reinterpret_cast<InArray*>(column + k * stride) *= scale;
    }
  }
}

// y[r] = sum over k of scores[k][r] * v[k], for `rows` rows by tiles of Rows x (Columns * Lanes).
// scores has as many columns as whole tiles have rows.
template <int Lanes, int Rows, int Columns>
MEMPLAN_INLINE void WeightValues(const AttentionParams& p, int32_t rows, const float* scores,
                                 const float* v, float* y) {
  TileArgs t = {};
  t.depth = p.keys;
  t.a_row_stride = 1;
  t.a_depth_stride = p.block_rows;
  t.b_depth_stride = p.v_row_stride;
  t.c_row_stride = p.y_row_stride;
  t.alpha = 1;
  for (int32_t column = 0; column < p.columns;) {
    const ColumnTile tile = NextColumns<Lanes, Columns>(column, p.columns, true);
    t.column_begin = column - tile.start;
    t.column_end = t.column_begin + tile.count;
    t.b = v + tile.start;
    for (int32_t row = 0; row < rows; row += Rows) {
      t.row_end = rows - row < Rows ? rows - row : Rows;
      t.a = scores + row;
      t.c = y + static_cast<ptrdiff_t>(row) * p.y_row_stride + tile.start;
      GemmTileOf<Lanes, Rows, Columns, false>(t.column_end, t);
    }
    column += tile.count;
  }
}

// One batch item (a head). Scores by tiles of Rows keys (at most p.keys) x (Columns * Lanes)
// queries, results by tiles of VRows queries x (VColumns * VLanes) columns (VLanes at most
// p.columns).
template <int Lanes, int Rows, int Columns, int VLanes, int VRows, int VColumns>
MEMPLAN_SHARED_FUNCTION void AttentionHead(const AttentionParams& p, const float* q, const float* k,
                                           const float* v, const float* mask, float* scratch,
                                           float* y) {
  float* const queries = scratch;
  float* const scores = scratch + static_cast<ptrdiff_t>(p.depth) * p.block_rows;
  TileArgs t = {};
  t.depth = p.depth;
  t.a = k;
  t.a_row_stride = p.k_row_stride;
  t.a_depth_stride = p.k_depth_stride;
  t.b = queries;
  t.b_depth_stride = p.block_rows;
  t.c = scores;
  t.c_row_stride = p.block_rows;
  t.alpha = p.scale;
  t.beta = 1;
  // As the bias of the scores, if it is one number for a key, or lies as they do.
  const bool as_bias = mask != nullptr && (p.mask_row_stride == 0 || p.mask_in_lanes != 0);
  t.bias_row_stride = p.mask_key_stride;
  t.bias_column_stride = p.mask_in_lanes;
  for (int32_t row = 0; row < p.rows;) {
    // Blocks are about as wide as each other.
    const int32_t vectors_left = (p.rows - row + Lanes - 1) / Lanes;
    const int32_t blocks_left = (vectors_left * Lanes + p.block_rows - 1) / p.block_rows;
    const int32_t width = (vectors_left + blocks_left - 1) / blocks_left * Lanes;
    const int32_t count = p.rows - row < width ? p.rows - row : width;
    PackQueries(q + static_cast<ptrdiff_t>(row) * p.q_row_stride, p.q_row_stride, p.q_depth_stride,
                count, p.depth, width, p.block_rows, queries);
    t.column_end = width;
    const float* const row_mask =
        mask == nullptr ? nullptr : mask + static_cast<ptrdiff_t>(row) * p.mask_row_stride;
    t.bias = as_bias ? row_mask : nullptr;
    GemmPanel<Lanes, Rows, Columns, false>(p.keys, 0, t);
    if (mask != nullptr && !as_bias) {
      AddMask(row_mask, p.mask_row_stride, p.mask_key_stride, count, p.keys, p.block_rows, scores);
    }
    SoftmaxDown<Lanes>(p.keys, width, p.block_rows, scores);
    WeightValues<VLanes, VRows, VColumns>(p, count, scores, v,
                                          y + static_cast<ptrdiff_t>(row) * p.y_row_stride);
    row += count;
  }
}

// scratch: AttentionScratchBytes. mask may be null.
template <int Lanes, int Rows, int Columns, int VLanes, int VRows, int VColumns>
MEMPLAN_INLINE void Attention(const AttentionParams& p, const float* q, const float* k,
                              const float* v, const float* mask, float* scratch, float* y) {
  static_assert(Lanes % VRows == 0, "tiles of results must not reach past the scores");
  const int32_t heads = p.batch[0] * p.batch[1] * p.batch[2];
  for (int32_t head = 0; head < heads; ++head) {
    ptrdiff_t q_at = p.q_offset, k_at = p.k_offset, v_at = p.v_offset, mask_at = p.mask_offset;
    ptrdiff_t y_at = 0;
    int32_t index = head;
    for (int i = kAttentionBatchRank - 1; i >= 0; --i) {
      const ptrdiff_t at = index % p.batch[i];
      index /= p.batch[i];
      q_at += at * p.q_batch_stride[i];
      k_at += at * p.k_batch_stride[i];
      v_at += at * p.v_batch_stride[i];
      mask_at += at * p.mask_batch_stride[i];
      y_at += at * p.y_batch_stride[i];
    }
    AttentionHead<Lanes, Rows, Columns, VLanes, VRows, VColumns>(
        p, q + q_at, k + k_at, v + v_at, mask == nullptr ? nullptr : mask + mask_at, scratch,
        y + y_at);
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_ATTENTION_H_
