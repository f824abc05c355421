// The register-blocked inner product that convolutions and matrix products share.
//
// A tile is Rows x (Columns * Lanes) elements of C = A B. Its sums stay in registers while the
// depth runs: for each k, Columns vectors of B and Rows scalars of A give Rows * Columns
// multiply-adds. What rows and columns mean is the caller's: output channels and pixels for a
// convolution, rows of A and columns of B for a matrix product. One function for each tile shape,
// shared by all layers.
#ifndef MEMPLAN_KERNELS_GEMM_TILE_H_
#define MEMPLAN_KERNELS_GEMM_TILE_H_

#include "activation.h"
#include "base.h"
#include "vector.h"

namespace kernels {

// The work of one tile.
struct TileArgs {
  int32_t depth;
  // Element (row, k) of A is a[row * a_row_stride + k * a_depth_stride]; (k, column) of B is
  // b[k * b_depth_stride + column]. All Rows and whole vectors are read.
  int32_t a_row_stride;
  int32_t a_depth_stride;
  int32_t b_depth_stride;
  // Added: beta * bias[row * bias_row_stride + column * bias_column_stride]; the latter stride is
  // 0 or 1. nullptr: none.
  int32_t bias_row_stride;
  int32_t bias_column_stride;
  // Of c and of the residual, which is added where c is written (they may be one); nullptr: none.
  int32_t c_row_stride;
  // The part of the tile that is written, half open.
  int32_t row_begin;
  int32_t row_end;
  int32_t column_begin;
  int32_t column_end;
  const float* a;
  const float* b;
  const float* bias;
  const float* residual;
  float* c;
  // Column j of c and residual lies at column_offsets[j]; nullptr: at j.
  const int32_t* column_offsets;
  // A B counts alpha times.
  float alpha;
  float beta;
  // The result is brought into [lowest, highest] if `clamps`.
  float lowest;
  float highest;
  bool clamps;
};

// Copies of the sums that take turns and are added at the end, so that a small tile too keeps
// enough independent additions in flight. All tiles of a matrix have as many, whatever their width:
// equal columns then give equal results, to the bit. A CPU of narrow vectors has few registers and
// few additions in flight.
#ifdef __AVX__
constexpr bool kHasWideVectors = true;
#else
constexpr bool kHasWideVectors = false;
#endif
constexpr int TileChains(int lanes, int rows, int columns) {
  return (lanes < 8 && !kHasWideVectors) || rows * columns >= 6 ? 1 : rows * columns >= 3 ? 2 : 4;
}

// Bytes of the widest vector that KeepInRegister can name.
#if defined(__clang__) || !defined(__GNUC__)
constexpr int kNamedRegisterBytes = 0;
#elif defined(__AVX512F__)
constexpr int kNamedRegisterBytes = 64;
#elif defined(__AVX__)
constexpr int kNamedRegisterBytes = 32;
#else
constexpr int kNamedRegisterBytes = 0;
#endif

// Makes a vector that was loaded stay in its register. GCC would read it from memory again for each
// of up to three uses; that saves an instruction, but loads are what limits tiles of few rows.
template <class V>
MEMPLAN_INLINE void KeepInRegister([[maybe_unused]] V* x) {
  if constexpr (sizeof(V) >= 16 && sizeof(V) <= kNamedRegisterBytes) {
    asm("" : "+v"(*x));
  }
}

// sums[r][c] += A[r] * B[c] for one k.
template <int Width, int Rows, int Vectors, class V>
MEMPLAN_INLINE void MultiplyAdd(V (&sums)[Rows][Vectors], const float* a, ptrdiff_t a_row_stride,
                                const float* b) {
  using InArray = typename Vector<Width>::InArray;
  if constexpr (Width > 1 && Rows > 1 && Rows < Vectors) {
    // All scalars at once take fewer registers than all of the row.
    V scalars[Rows];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      scalars[r] = a[r * a_row_stride] - V{};
      KeepInRegister(&scalars[r]);
    }
#pragma GCC unroll 16
    for (int c = 0; c < Vectors; ++c) {
      V vector = *reinterpret_cast<const InArray*>(b + c * Width);
      KeepInRegister(&vector);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) sums[r][c] += scalars[r] * vector;
    }
    return;
  }
  V row[Vectors];
#pragma GCC unroll 16
  for (int c = 0; c < Vectors; ++c) {
    row[c] = *reinterpret_cast<const InArray*>(b + c * Width);
    if constexpr (Rows == 2 || Rows == 3) KeepInRegister(&row[c]);
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    const float scalar = a[r * a_row_stride];
#pragma GCC unroll 16
    for (int c = 0; c < Vectors; ++c) sums[r][c] += scalar * row[c];
  }
}

// sums[r][c] += values[r * row_stride + c].
template <int Width, int Rows, int Vectors, class V>
MEMPLAN_INLINE void AddMatrix(V (&sums)[Rows][Vectors], const float* values, ptrdiff_t row_stride) {
  using InArray = typename Vector<Width>::InArray;
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < Vectors; ++c) {
      sums[r][c] += *reinterpret_cast<const InArray*>(values + r * row_stride + c * Width);
    }
  }
}

// sums[r][c] += values[r * row_stride].
template <int Rows, int Vectors, class V>
MEMPLAN_INLINE void AddColumn(V (&sums)[Rows][Vectors], const float* values, ptrdiff_t row_stride) {
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < Vectors; ++c) sums[r][c] += values[r * row_stride];
  }
}

template <int Rows, int Vectors, class V>
MEMPLAN_INLINE void ScaleSums(V (&sums)[Rows][Vectors], float scale) {
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < Vectors; ++c) sums[r][c] *= scale;
  }
}

template <int Rows, int Vectors, class V>
MEMPLAN_INLINE void ClampSums(V (&sums)[Rows][Vectors], float lowest, float highest) {
  const V lower = lowest - V{};
  const V upper = highest - V{};
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < Vectors; ++c) Clamp(lower, upper, &sums[r][c]);
  }
}

template <int Width, int Rows, int Vectors, class V>
MEMPLAN_INLINE void StoreSums(const V (&sums)[Rows][Vectors], float* c, ptrdiff_t row_stride) {
  using InArray = typename Vector<Width>::InArray;
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < Vectors; ++i) {
      *reinterpret_cast<InArray*>(c + r * row_stride + i * Width) = sums[r][i];
    }
  }
}

// c[place(j)] = the finished element for j of [begin, end) of a row whose products are `sums`.
template <class Place>
MEMPLAN_INLINE void StoreRowPart(const TileArgs& t, const float* sums, const float* bias,
                                 const float* residual, float* c, Place place) {
  // Copies: stores to c might change what t points to, for all that the compiler knows.
  const int32_t begin = t.column_begin;
  const int32_t end = t.column_end;
  const float alpha = t.alpha;
  const float beta = t.beta;
  const int32_t bias_stride = t.bias_column_stride;
  if (bias == nullptr && !t.clamps && alpha == 1.0F) {
    if (residual == nullptr) {
      for (int32_t j = begin; j < end; ++j) c[place(j)] = sums[j];
    } else {
      for (int32_t j = begin; j < end; ++j) c[place(j)] = sums[j] + residual[place(j)];
    }
    return;
  }
  const bool clamps = t.clamps;
  const float lowest = t.lowest;
  const float highest = t.highest;
  for (int32_t j = begin; j < end; ++j) {
    float value = alpha * sums[j];
    if (bias != nullptr) value += beta * bias[static_cast<ptrdiff_t>(j) * bias_stride];
    if (residual != nullptr) value += residual[place(j)];
    c[place(j)] = clamps ? Clip::Apply(value, lowest, highest) : value;
  }
}

// The rows of a tile, counted from t's first one: where it starts, and those [begin, end) to write.
struct TileRows {
  int32_t start;
  int32_t begin;
  int32_t end;
};

// Writes any part of a tile, element by element. sums: [Rows][row_elements].
MEMPLAN_SHARED_FUNCTION void StoreTilePart(const TileArgs& t, TileRows rows, const float* sums,
                                           int32_t row_elements) {
  const int32_t* offsets = t.column_offsets;
  for (int32_t r = rows.begin; r < rows.end; ++r) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(r) * t.c_row_stride;
    const float* bias =
        t.bias == nullptr ? nullptr : t.bias + static_cast<ptrdiff_t>(r) * t.bias_row_stride;
    const float* residual = t.residual == nullptr ? nullptr : t.residual + at;
    const float* row = sums + (r - rows.start) * row_elements;
    if (offsets == nullptr) {
      StoreRowPart(t, row, bias, residual, t.c + at, [](int32_t j) { return j; });
    } else {
      StoreRowPart(t, row, bias, residual, t.c + at, [offsets](int32_t j) { return offsets[j]; });
    }
  }
}

// Whether the tile covers whole vectors of c, which FinishTile writes as such.
template <int Width>
MEMPLAN_INLINE bool WholeColumns(const TileArgs& t) {
  return t.column_begin == 0 && t.column_end == Width && t.column_offsets == nullptr &&
         (t.bias == nullptr || t.beta == 1.0F);
}

// Writes the tile whose products are `sums`. whole_columns: as WholeColumns says.
template <int Lanes, int Rows, int Columns, class V, int Vectors>
MEMPLAN_INLINE void FinishTile(const TileArgs& t, TileRows rows, bool whole_columns,
                               V (&sums)[Rows][Vectors]) {
  constexpr int kWidth = VectorLanes(Lanes);
  if (!whole_columns || rows.end - rows.begin != Rows) {
    float part[Rows * Columns * Lanes];
    StoreSums<kWidth>(sums, part, Columns * Lanes);
    StoreTilePart(t, rows, part, Columns * Lanes);
    return;
  }
  const ptrdiff_t start = rows.start;
  const ptrdiff_t c_row_stride = t.c_row_stride;
  if (t.alpha != 1.0F) ScaleSums(sums, t.alpha);
  if (t.bias != nullptr) {
    const ptrdiff_t bias_row_stride = t.bias_row_stride;
    const float* bias = t.bias + start * bias_row_stride;
    if (t.bias_column_stride == 0) {
      AddColumn(sums, bias, bias_row_stride);
    } else {
      AddMatrix<kWidth>(sums, bias, bias_row_stride);
    }
  }
  if (t.residual != nullptr) {
    AddMatrix<kWidth>(sums, t.residual + start * c_row_stride, c_row_stride);
  }
  if (t.clamps) ClampSums(sums, t.lowest, t.highest);
  StoreSums<kWidth>(sums, t.c + start * c_row_stride, c_row_stride);
}

template <int Lanes, int Rows, int Columns, class V, int Vectors>
MEMPLAN_INLINE void FinishTile(const TileArgs& t, V (&sums)[Rows][Vectors]) {
  FinishTile<Lanes, Rows, Columns>(t, TileRows{0, t.row_begin, t.row_end},
                                   WholeColumns<Columns * Lanes>(t), sums);
}

// sums = A B. Packed: A is [depth][Rows], whatever the strides say.
template <int Width, int Rows, bool Packed, int kChains, class V, int Vectors>
MEMPLAN_INLINE void MultiplyTile(const TileArgs& t, const float* a, V (&sums)[Rows][Vectors]) {
  const ptrdiff_t a_row_stride = Packed ? 1 : t.a_row_stride;
  const ptrdiff_t a_depth_stride = Packed ? Rows : t.a_depth_stride;
  const ptrdiff_t b_depth_stride = t.b_depth_stride;
  V chains[kChains][Rows][Vectors];
#pragma GCC unroll 4
  for (int s = 0; s < kChains; ++s) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < Vectors; ++c) chains[s][r][c] = V{};
    }
  }
  constexpr int kFloatsAhead = 64;
  const float* b = t.b;
  int32_t k = t.depth;
  for (; k >= kChains; k -= kChains) {
#pragma GCC unroll 4
    for (int s = 0; s < kChains; ++s) {
      if constexpr (Rows == 2 && Width >= 8) {
        // Two rows wait for B, most of all where the second level of cache does not hold it.
#pragma GCC unroll 16
        for (int i = 0; i < Vectors * Width; i += 16) __builtin_prefetch(b + kFloatsAhead + i);
      }
      MultiplyAdd<Width>(chains[s], a, a_row_stride, b);
      a += a_depth_stride;
      b += b_depth_stride;
    }
  }
  if (kChains > 1) {
    for (; k > 0; --k) {
      MultiplyAdd<Width>(chains[0], a, a_row_stride, b);
      a += a_depth_stride;
      b += b_depth_stride;
    }
#pragma GCC unroll 4
    for (int s = 1; s < kChains; ++s) {
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
        for (int c = 0; c < Vectors; ++c) chains[0][r][c] += chains[s][r][c];
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < Vectors; ++c) sums[r][c] = chains[0][r][c];
  }
}

// Computes and writes one tile. Packed: A is [depth][Rows], whatever the strides say.
template <int Lanes, int Rows, int Columns, bool Packed, int kChains>
MEMPLAN_SHARED_FUNCTION void GemmTile(const TileArgs& t) {
  constexpr int kWidth = VectorLanes(Lanes);
  typename Vector<kWidth>::Type sums[Rows][Columns * Lanes / kWidth];
  MultiplyTile<kWidth, Rows, Packed, kChains>(t, t.a, sums);
  FinishTile<Lanes, Rows, Columns>(t, sums);
}

// The tile function with as many of the Columns vectors as `columns` needs.
template <int Lanes, int Rows, int Columns, bool Packed,
          int Chains = TileChains(Lanes, Rows, Columns)>
MEMPLAN_INLINE void GemmTileOf(int32_t columns, const TileArgs& t) {
  if constexpr (Columns > 1) {
    if (columns <= (Columns - 1) * Lanes) {
      GemmTileOf<Lanes, Rows, Columns - 1, Packed, Chains>(columns, t);
      return;
    }
  }
  GemmTile<Lanes, Rows, Columns, Packed, Chains>(t);
}

// GemmPanel for tiles of as many vectors as the panel has. What tiles of a small product share is
// computed once here, not by a call for each.
template <int Lanes, int Rows, int Columns, bool Packed, int kChains>
MEMPLAN_SHARED_FUNCTION void GemmPanelTiles(int32_t rows, ptrdiff_t a_block_elements,
                                            const TileArgs& t) {
  constexpr int kWidth = VectorLanes(Lanes);
  const bool whole_columns = WholeColumns<Columns * Lanes>(t);
  for (int32_t row = 0; row < rows; row += Rows) {
    const bool last_part = rows - row < Rows;
    const int32_t start = last_part && !Packed ? rows - Rows : row;
    typename Vector<kWidth>::Type sums[Rows][Columns * Lanes / kWidth];
    MultiplyTile<kWidth, Rows, Packed, kChains>(
        t, t.a + (Packed ? row / Rows * a_block_elements : ptrdiff_t{start} * t.a_row_stride),
        sums);
    // Without a residual, which may be c, the rows that overlap are written once more: the same.
    const int32_t begin = t.residual == nullptr ? start : row;
    FinishTile<Lanes, Rows, Columns>(t, TileRows{start, begin, last_part ? rows : row + Rows},
                                     whole_columns, sums);
  }
}

// Computes and writes `rows` rows of a panel of columns. t: the panel's first row; its row range
// does not count. Packed: A is [ceil(rows / Rows)][a_block_elements], the last block filled up.
// Else rows >= Rows, and the last tile overlaps the one before, writing only what is new.
template <int Lanes, int Rows, int Columns, bool Packed,
          int Chains = TileChains(Lanes, Rows, Columns)>
MEMPLAN_INLINE void GemmPanel(int32_t rows, ptrdiff_t a_block_elements, const TileArgs& t) {
  if constexpr (Columns > 1) {
    if (t.column_end <= (Columns - 1) * Lanes) {
      GemmPanel<Lanes, Rows, Columns - 1, Packed, Chains>(rows, a_block_elements, t);
      return;
    }
  }
  GemmPanelTiles<Lanes, Rows, Columns, Packed, Chains>(rows, a_block_elements, t);
}

// The next tile of a panel of `total` columns, of which the first `done` are.
struct ColumnTile {
  int32_t count;  // columns that are new
  int32_t start;  // where its vectors start: `done`, or before it
};

// Tiles of at most Columns vectors, all about as wide. Exact: vectors must not reach past `total`
// (at least Lanes). The last tile then starts earlier; where that is not possible, because it is
// the first too, it has whole vectors only, and another one follows.
template <int Lanes, int Columns>
MEMPLAN_INLINE ColumnTile NextColumns(int32_t done, int32_t total, bool exact) {
  const int32_t vectors_left = (total - done + Lanes - 1) / Lanes;
  const int32_t tiles_left = (vectors_left + Columns - 1) / Columns;
  // The division takes as long as a tile of small depth: not where all fit.
  const int32_t width =
      (tiles_left == 1 ? vectors_left : (vectors_left + tiles_left - 1) / tiles_left) * Lanes;
  ColumnTile tile = {total - done < width ? total - done : width, done};
  if (!exact) return tile;
  if (width > total) {
    tile.count = tile.count / Lanes * Lanes;
  } else if (done + width > total) {
    tile.start = total - width;
  }
  return tile;
}

// Applies the activation `Kind` to a matrix in place.
template <int Kind>
MEMPLAN_SHARED_FUNCTION void ActivateRows(int32_t rows, int32_t columns, ptrdiff_t row_stride,
                                          float alpha, float beta, float* y) {
  for (int32_t r = 0; r < rows; ++r, y += row_stride) ActivateRow(Kind, columns, alpha, beta, y);
}

// ActivateRows for one ActivationKind, or nullptr where there is nothing to apply. In generated
// code `kind` is a constant, and only its function is left: the kernels that call this do little
// else than to call shared functions, and are inlined even where kernels are not.
using ActivateFunction = void (*)(int32_t rows, int32_t columns, ptrdiff_t row_stride, float alpha,
                                  float beta, float* y);
MEMPLAN_INLINE ActivateFunction ActivateFunctionOf(int32_t kind) {
  switch (kind) {
    case kRelu:
      return &ActivateRows<kRelu>;
    case kClip:
      return &ActivateRows<kClip>;
    case kLeakyRelu:
      return &ActivateRows<kLeakyRelu>;
    case kThresholdedRelu:
      return &ActivateRows<kThresholdedRelu>;
    case kElu:
      return &ActivateRows<kElu>;
    case kSelu:
      return &ActivateRows<kSelu>;
    case kCelu:
      return &ActivateRows<kCelu>;
    case kSigmoid:
      return &ActivateRows<kSigmoid>;
    case kTanh:
      return &ActivateRows<kTanh>;
    case kHardSigmoid:
      return &ActivateRows<kHardSigmoid>;
    case kHardSwish:
      return &ActivateRows<kHardSwish>;
    case kSilu:
      return &ActivateRows<kSilu>;
    case kQuickGelu:
      return &ActivateRows<kQuickGelu>;
    case kGelu:
      return &ActivateRows<kGelu>;
    case kGeluTanh:
      return &ActivateRows<kGeluTanh>;
    case kSoftplus:
      return &ActivateRows<kSoftplus>;
    case kSoftsign:
      return &ActivateRows<kSoftsign>;
    case kMish:
      return &ActivateRows<kMish>;
    default:
      return nullptr;
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_GEMM_TILE_H_
