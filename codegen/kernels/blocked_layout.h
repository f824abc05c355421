// Images to blocks of channels and back, and channels to other places in their blocks.
#ifndef MEMPLAN_KERNELS_BLOCKED_LAYOUT_H_
#define MEMPLAN_KERNELS_BLOCKED_LAYOUT_H_

#include "blocked.h"
#include "transpose_four.h"

namespace kernels {

struct BlockLayoutParams {
  int32_t batch;
  int32_t channels;
  int32_t pixels;
};
MEMPLAN_FIELDS(BlockLayoutParams, batch, channels, pixels);

// The transpose of eight vectors: rows[i][j] becomes rows[j][i].
template <class V>
MEMPLAN_INLINE void TransposeRows(V (&rows)[8]) {
#if defined(__clang__) || __GNUC__ >= 12
  V pairs[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  // Columns c and c + 4 of rows 0 to 3 (c) and of rows 4 to 7 (4 + c).
  V fours[8];
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const V& low = pairs[i + j];
      const V& high = pairs[i + 2 + j];
      fours[i + 2 * j] = __builtin_shufflevector(low, high, 0, 1, 8, 9, 4, 5, 12, 13);
      fours[i + 2 * j + 1] = __builtin_shufflevector(low, high, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    rows[c] = __builtin_shufflevector(fours[c], fours[4 + c], 0, 1, 2, 3, 8, 9, 10, 11);
    rows[4 + c] = __builtin_shufflevector(fours[c], fours[4 + c], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#else
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < i; ++j) {
      const float moved = rows[i][j];
      rows[i][j] = rows[j][i];
      rows[j][i] = moved;
    }
  }
#endif
}

// Lanes pixels of one block of channels, of which `count` exist. x: [8][plane]; y: [Lanes][8].
template <int Lanes>
MEMPLAN_INLINE void BlockPixels(const float* x, ptrdiff_t plane, int32_t count, float* y) {
  if constexpr (VectorLanes(Lanes) == kChannelBlock) {
    using V = Vector<kChannelBlock>::Type;
    using InArray = Vector<kChannelBlock>::InArray;
    V rows[kChannelBlock];
#pragma GCC unroll 8
    for (int l = 0; l < kChannelBlock; ++l) {
      if (l < count) {
        rows[l] = *reinterpret_cast<const InArray*>(x + l * plane);
      } else {
        rows[l] = V{};
      }
    }
    TransposeRows(rows);
#pragma GCC unroll 8
    for (int l = 0; l < kChannelBlock; ++l) {
      *reinterpret_cast<InArray*>(y + l * kChannelBlock) = rows[l];
    }
    return;
  }
  for (int i = 0; i < Lanes; i += 4, x += 4, y += 4 * kChannelBlock) {
    for (int32_t l = 0; l < kChannelBlock; l += 4) {
      if (l + 4 <= count) {
        TransposeFour(x + l * plane, plane, y + l, kChannelBlock);
        continue;
      }
      for (int j = 0; j < 4; ++j) {
        for (int32_t k = l; k < l + 4; ++k) {
          y[j * kChannelBlock + k] = k < count ? x[k * plane + j] : 0.0F;
        }
      }
    }
  }
}

// The inverse of BlockPixels.
template <int Lanes>
MEMPLAN_INLINE void UnblockPixels(const float* x, ptrdiff_t plane, int32_t count, float* y) {
  if constexpr (VectorLanes(Lanes) == kChannelBlock) {
    using V = Vector<kChannelBlock>::Type;
    using InArray = Vector<kChannelBlock>::InArray;
    V rows[kChannelBlock];
#pragma GCC unroll 8
    for (int l = 0; l < kChannelBlock; ++l) {
      rows[l] = *reinterpret_cast<const InArray*>(x + l * kChannelBlock);
    }
    TransposeRows(rows);
#pragma GCC unroll 8
    for (int l = 0; l < kChannelBlock; ++l) {
      if (l < count) *reinterpret_cast<InArray*>(y + l * plane) = rows[l];
    }
    return;
  }
  for (int i = 0; i < Lanes; i += 4, x += 4 * kChannelBlock, y += 4) {
    for (int32_t l = 0; l < count; l += 4) {
      if (l + 4 <= count) {
        TransposeFour(x + l, kChannelBlock, y + l * plane, plane);
        continue;
      }
      for (int32_t k = l; k < count; ++k) {
        for (int j = 0; j < 4; ++j) y[k * plane + j] = x[j * kChannelBlock + k];
      }
    }
  }
}

// x: [batch][channels][pixels]; y: [batch][channels / 8][pixels][8], missing channels 0.
template <int Lanes>
MEMPLAN_SHARED_FUNCTION void BlockAll(const BlockLayoutParams& p, const float* x, float* y) {
  const int32_t pixels = p.pixels;
  for (int32_t image = 0; image < p.batch; ++image) {
    for (int32_t c = 0; c < p.channels; c += kChannelBlock) {
      const int32_t count = p.channels - c < kChannelBlock ? p.channels - c : kChannelBlock;
      int32_t i = 0;
      if (count == kChannelBlock) {
        for (; i + Lanes <= pixels; i += Lanes) {
          BlockPixels<Lanes>(x + i, pixels, kChannelBlock, y + i * kChannelBlock);
        }
      } else {
        for (; i + Lanes <= pixels; i += Lanes) {
          BlockPixels<Lanes>(x + i, pixels, count, y + i * kChannelBlock);
        }
      }
      for (; i < pixels; ++i) {
        for (int32_t l = 0; l < kChannelBlock; ++l) {
          y[i * kChannelBlock + l] = l < count ? x[static_cast<ptrdiff_t>(l) * pixels + i] : 0.0F;
        }
      }
      x += static_cast<ptrdiff_t>(count) * pixels;
      y += static_cast<ptrdiff_t>(kChannelBlock) * pixels;
    }
  }
}

template <int Lanes>
MEMPLAN_SHARED_FUNCTION void UnblockAll(const BlockLayoutParams& p, const float* x, float* y) {
  const int32_t pixels = p.pixels;
  for (int32_t image = 0; image < p.batch; ++image) {
    for (int32_t c = 0; c < p.channels; c += kChannelBlock) {
      const int32_t count = p.channels - c < kChannelBlock ? p.channels - c : kChannelBlock;
      int32_t i = 0;
      if (count == kChannelBlock) {
        for (; i + Lanes <= pixels; i += Lanes) {
          UnblockPixels<Lanes>(x + i * kChannelBlock, pixels, kChannelBlock, y + i);
        }
      } else {
        for (; i + Lanes <= pixels; i += Lanes) {
          UnblockPixels<Lanes>(x + i * kChannelBlock, pixels, count, y + i);
        }
      }
      for (; i < pixels; ++i) {
        for (int32_t l = 0; l < count; ++l) {
          y[static_cast<ptrdiff_t>(l) * pixels + i] =
              x[static_cast<ptrdiff_t>(i) * kChannelBlock + l];
        }
      }
      x += static_cast<ptrdiff_t>(kChannelBlock) * pixels;
      y += static_cast<ptrdiff_t>(count) * pixels;
    }
  }
}

// x: [batch][channels][pixels]; y: [batch][channels / 8][pixels][8], missing channels 0.
template <int Lanes>
MEMPLAN_KERNEL void BlockChannels(const BlockLayoutParams& p, const float* x, float* y) {
  BlockAll<Lanes>(p, x, y);
}

// The inverse of BlockChannels.
template <int Lanes>
MEMPLAN_KERNEL void UnblockChannels(const BlockLayoutParams& p, const float* x, float* y) {
  UnblockAll<Lanes>(p, x, y);
}

struct GatherChannelsParams {
  int32_t batch;
  int32_t in_blocks;
  int32_t out_blocks;
  int32_t pixels;
};
MEMPLAN_FIELDS(GatherChannelsParams, batch, in_blocks, out_blocks, pixels);

// One block of outputs from two blocks of inputs: y[.][l] = first[.][l'] or second[.][l'], where
// l' = lanes[l] or lanes[l] - 8.
MEMPLAN_SHARED_FUNCTION void GatherFromTwo(int32_t pixels, const int32_t* lanes, const float* first,
                                           const float* second, float* y) {
#if defined(__GNUC__) && !defined(__clang__)
  if constexpr (VectorLanes(kChannelBlock) == kChannelBlock) {
    using V = Vector<kChannelBlock>::Type;
    using InArray = Vector<kChannelBlock>::InArray;
    const Vector<kChannelBlock>::Ints order =
        *reinterpret_cast<const Vector<kChannelBlock>::IntsInArray*>(lanes);
    for (int32_t i = 0; i < pixels; ++i, y += kChannelBlock) {
      const V a = *reinterpret_cast<const InArray*>(first + i * kChannelBlock);
      const V b = *reinterpret_cast<const InArray*>(second + i * kChannelBlock);
      *reinterpret_cast<InArray*>(y) = __builtin_shuffle(a, b, order);
    }
    return;
  }
#endif
  const float* from[kChannelBlock];
  for (int32_t l = 0; l < kChannelBlock; ++l) {
    from[l] = lanes[l] < kChannelBlock ? first + lanes[l] : second + lanes[l] - kChannelBlock;
  }
  for (int32_t i = 0; i < pixels; ++i, y += kChannelBlock) {
    for (int32_t l = 0; l < kChannelBlock; ++l) y[l] = from[l][i * kChannelBlock];
  }
}

// y: images whose channels are some of x's. table: for each block of y, [number of a block of x,
// number of another, then 8 lanes in these two].
MEMPLAN_KERNEL void GatherChannelsFromTwo(const GatherChannelsParams& p, const float* x,
                                          const int32_t* table, float* y) {
  const ptrdiff_t plane = static_cast<ptrdiff_t>(p.pixels) * kChannelBlock;
  for (int32_t image = 0; image < p.batch; ++image, x += p.in_blocks * plane) {
    for (int32_t block = 0; block < p.out_blocks; ++block, y += plane) {
      const int32_t* row = table + block * (2 + kChannelBlock);
      GatherFromTwo(p.pixels, row + 2, x + row[0] * plane, x + row[1] * plane, y);
    }
  }
}

// The same from any blocks. table: for each lane of y, the channel of x.
MEMPLAN_KERNEL void GatherChannels(const GatherChannelsParams& p, const float* x,
                                   const int32_t* table, float* y) {
  const ptrdiff_t plane = static_cast<ptrdiff_t>(p.pixels) * kChannelBlock;
  for (int32_t image = 0; image < p.batch; ++image, x += p.in_blocks * plane) {
    for (int32_t block = 0; block < p.out_blocks; ++block, y += plane) {
      for (int32_t l = 0; l < kChannelBlock; ++l) {
        const float* from = x + BlockedChannelAt(table[block * kChannelBlock + l], p.pixels);
        for (int32_t i = 0; i < p.pixels; ++i) y[i * kChannelBlock + l] = from[i * kChannelBlock];
      }
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_LAYOUT_H_
