// Windows that slide over images in blocks of channels: what depthwise convolutions and pools
// share.
//
// A row of outputs is made in groups of neighbouring pixels, whose sums stay in registers. Groups
// whose windows lie inside the row test nothing; those at its ends test columns, with the same
// outcome in every row. There is no scratch.
#ifndef MEMPLAN_KERNELS_BLOCKED_WINDOW_H_
#define MEMPLAN_KERNELS_BLOCKED_WINDOW_H_

#include "blocked.h"

namespace kernels {

// Outputs of a group: what fills sixteen vector registers beside inputs and weights.
constexpr int kBlockedGroup = 8;

// The windows of a group of outputs, of which the part inside the image counts.
struct BlockedGroup {
  const float* image;  // the plane: [in_size][8]
  ptrdiff_t at;        // of the first window's first tap, in floats; may lie outside
  ptrdiff_t row_step;  // from one row of taps to the next, in floats
  int32_t row_begin;   // rows of taps inside the image, half open
  int32_t row_end;
  int32_t column;  // of the first window's first tap; may be negative
  int32_t count;   // outputs that exist
};

// The columns between the first taps of the first and last of `pixels` windows, and their taps.
template <class Params>
MEMPLAN_INLINE int32_t BlockedGroupColumns(const Params& p, int32_t pixels) {
  return (pixels - 1) * p.stride[1] + (p.taps[1] - 1) * p.dilation[1] + 1;
}

// What is known of a group of outputs at compile time.
enum BlockedGroupEdge : int {
  kInside,   // whole, with windows whose columns are inside the image
  kAtEdge,   // whole; a window may reach less than its taps over an end of the row
  kPartial,  // any
};
template <int Edge>
struct BlockedGroupKind {
  static constexpr int kEdge = Edge;
};

// Calls visit(BlockedGroupKind<...>(), group, qx) for each group of Pixels outputs of row qy, where
// qx is the first output. p: a struct of parameters with the windows' fields.
template <int Pixels, class Params, class Visit>
MEMPLAN_INLINE void VisitBlockedRow(const Params& p, const float* image, int32_t qy, Visit visit) {
  const ptrdiff_t row_floats = static_cast<ptrdiff_t>(p.in_size[1]) * kChannelBlock;
  const int32_t row = qy * p.stride[0] - p.padding[0];
  BlockedGroup group = {};
  group.image = image;
  group.row_step = p.dilation[0] * row_floats;
  InsideRange(row, p.dilation[0], p.in_size[0], p.taps[0], &group.row_begin, &group.row_end);
  // The last column at which the windows of a group are inside.
  const int32_t last = p.in_size[1] - BlockedGroupColumns(p, Pixels);
  group.column = -p.padding[1];
  group.at = row * row_floats + static_cast<ptrdiff_t>(group.column) * kChannelBlock;
  for (int32_t qx = 0; qx < p.out_size[1]; qx += Pixels) {
    group.count = p.out_size[1] - qx;
    if (group.count < Pixels || group.column <= -p.taps[1] || group.column >= last + p.taps[1]) {
      visit(BlockedGroupKind<kPartial>(), group, qx);
    } else if (group.column < 0 || group.column > last) {
      visit(BlockedGroupKind<kAtEdge>(), group, qx);
    } else {
      visit(BlockedGroupKind<kInside>(), group, qx);
    }
    group.column += Pixels * p.stride[1];
    group.at += static_cast<ptrdiff_t>(Pixels) * p.stride[1] * kChannelBlock;
  }
}

// Calls begin(ty) for each row of taps inside the image, and then add(sum, tx, v) for its taps: the
// sum of each output, and what it sees there. p.taps[1] == Taps, p.stride[1] == Stride, and no
// dilation of columns: each column is loaded once.
template <int Width, int Taps, int Stride, int Pixels, int Edge, class Params, class V, class Begin,
          class Add>
MEMPLAN_INLINE void VisitBlockedColumns(const Params& p, const BlockedGroup& group,
                                        V (&sums)[Pixels], Begin begin, Add add) {
  using InArray = typename Vector<Width>::InArray;
  constexpr int kColumns = (Pixels - 1) * Stride + Taps;
  // Columns of the image, counted from the group's first one.
  const int32_t low = -group.column;
  const int32_t high = p.in_size[1] - group.column;
  for (int32_t ty = group.row_begin; ty < group.row_end; ++ty) {
    const ptrdiff_t at = group.at + ty * group.row_step;
    begin(ty);
#pragma GCC unroll 24
    for (int j = 0; j < kColumns; ++j) {
      if ((Edge == kPartial || (Edge == kAtEdge && j < Taps - 1)) && j < low) continue;
      if ((Edge == kPartial || (Edge == kAtEdge && j > kColumns - Taps)) && j >= high) continue;
      const V v = *reinterpret_cast<const InArray*>(group.image + at + j * kChannelBlock);
#pragma GCC unroll 8
      for (int t = 0; t < Taps; ++t) {
        if (j < t || (j - t) % Stride != 0 || (j - t) / Stride >= Pixels) continue;
        add(sums[(j - t) / Stride], t, v);
      }
    }
  }
}

// Calls add(i, tap, x) for each tap and each of Pixels outputs i, where x is what output i sees
// there.
template <int Pixels, int Edge, class Params, class Add>
MEMPLAN_INLINE void VisitBlockedWindows(const Params& p, const BlockedGroup& group, Add add) {
  const int32_t taps = p.taps[1];
  const int32_t width = p.in_size[1];
  const int32_t stride = p.stride[1];
  const int32_t dilation = p.dilation[1];
  const ptrdiff_t step = static_cast<ptrdiff_t>(stride) * kChannelBlock;
  for (int32_t ty = group.row_begin; ty < group.row_end; ++ty) {
    ptrdiff_t at = group.at + ty * group.row_step;
    for (int32_t tx = 0; tx < taps; ++tx) {
      const int32_t column = group.column + tx * dilation;
#pragma GCC unroll 8
      for (int i = 0; i < Pixels; ++i) {
        if (Edge != kInside && (column + i * stride < 0 || column + i * stride >= width)) continue;
        add(i, ty * taps + tx, group.image + at + i * step);
      }
      at += static_cast<ptrdiff_t>(dilation) * kChannelBlock;
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_WINDOW_H_
