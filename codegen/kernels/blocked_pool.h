// Pools over images in blocks of channels.
#ifndef MEMPLAN_KERNELS_BLOCKED_POOL_H_
#define MEMPLAN_KERNELS_BLOCKED_POOL_H_

#include "blocked_window.h"
#include "pool.h"

namespace kernels {

// Arrays are height, width.
struct BlockedPoolParams {
  int32_t planes;  // batch * blocks of channels
  int32_t in_size[2];
  int32_t out_size[2];
  int32_t taps[2];
  int32_t stride[2];
  int32_t dilation[2];
  int32_t padding[2];        // before the first element
  int32_t padding_after[2];  // behind the last one: counted by counts_padding
  int32_t counts_padding;    // 1: an average counts the padding (as zeros)
};
MEMPLAN_FIELDS(BlockedPoolParams, planes, in_size, out_size, taps, stride, dilation, padding,
               padding_after, counts_padding);

// One group of outputs, the first at (qy, qx), written at y; y and the group's image begin with the
// vector of channels in question. rows: of taps that an average counts.
template <int Width, class Pool, int Taps, int Stride, int Edge>
MEMPLAN_INLINE void BlockedPoolGroup(const BlockedPoolParams& p, const BlockedGroup& group,
                                     int32_t rows, int32_t qx, float* y) {
  using V = typename Vector<Width>::Type;
  using InArray = typename Vector<Width>::InArray;
  V sums[kBlockedGroup];
#pragma GCC unroll 8
  for (int i = 0; i < kBlockedGroup; ++i) sums[i] = Pool::template Init<float>() - V{};
  if constexpr (Taps > 0) {
    VisitBlockedColumns<Width, Taps, Stride, kBlockedGroup, Edge>(
        p, group, sums, [](int32_t) {},
        [](V & sum, int, const V& v) __attribute__((always_inline)) { Pool::Add(sum, v); });
  } else {
    VisitBlockedWindows<kBlockedGroup, Edge>(
        p, group, [&](int i, int32_t, const float* x) __attribute__((always_inline)) {
          const V v = *reinterpret_cast<const InArray*>(x);
          Pool::Add(sums[i], v);
        });
  }
#pragma GCC unroll 8
  for (int i = 0; i < kBlockedGroup; ++i) {
    if (Edge == kPartial && i >= group.count) break;
    if constexpr (Pool::kAverages) {
      const int32_t columns = Edge == kInside ? p.taps[1] : CountedTaps(p, 1, qx + i);
      sums[i] *= 1.0F / static_cast<float>(rows * columns);
    }
    *reinterpret_cast<InArray*>(y + i * kChannelBlock) = sums[i];
  }
}

// y = the maximum (PoolMax) or the average (PoolSum) of each window. x, y: images in blocks of
// channels. Taps, Stride: p.taps[1] and p.stride[1], without dilation of columns; or 0 for any.
template <int Lanes, class Pool, int Taps, int Stride>
MEMPLAN_SHARED_FUNCTION void BlockedPoolAll(const BlockedPoolParams& p, const float* x, float* y) {
  constexpr int kWidth = VectorLanes(Lanes);
  const ptrdiff_t in_floats = static_cast<ptrdiff_t>(p.in_size[0]) * p.in_size[1] * kChannelBlock;
  for (int32_t i = 0; i < p.planes; ++i, x += in_floats) {
    for (int32_t qy = 0; qy < p.out_size[0]; ++qy) {
      const int32_t rows = Pool::kAverages ? CountedTaps(p, 0, qy) : 0;
#pragma GCC unroll 1
      for (int lane = 0; lane < kChannelBlock; lane += kWidth) {
        VisitBlockedRow<kBlockedGroup>(
            p, x + lane, qy,
            [&](auto kind, const BlockedGroup& group, int32_t qx) __attribute__((always_inline)) {
              BlockedPoolGroup<kWidth, Pool, Taps, Stride, decltype(kind)::kEdge>(
                  p, group, rows, qx, y + lane + static_cast<ptrdiff_t>(qx) * kChannelBlock);
            });
      }
      y += static_cast<ptrdiff_t>(p.out_size[1]) * kChannelBlock;
    }
  }
}

template <int Lanes, int Taps, int Stride>
MEMPLAN_KERNEL void BlockedMaxPool(const BlockedPoolParams& p, const float* x, float* y) {
  BlockedPoolAll<Lanes, PoolMax, Taps, Stride>(p, x, y);
}

template <int Lanes, int Taps, int Stride>
MEMPLAN_KERNEL void BlockedAveragePool(const BlockedPoolParams& p, const float* x, float* y) {
  BlockedPoolAll<Lanes, PoolSum, Taps, Stride>(p, x, y);
}

// Pools of whole planes.
struct BlockedGlobalPoolParams {
  int32_t planes;  // batch * blocks of channels
  int32_t pixels;
};
MEMPLAN_FIELDS(BlockedGlobalPoolParams, planes, pixels);

// y[plane][8] = the maximum (PoolMax) or the average (PoolSum) of all pixels, taken in chains.
template <int Lanes, class Pool>
MEMPLAN_SHARED_FUNCTION void BlockedGlobalPool(int32_t planes, int32_t pixels, const float* x,
                                               float* y) {
  constexpr int kWidth = VectorLanes(Lanes);
  constexpr int kChains = 8;
  using V = typename Vector<kWidth>::Type;
  using InArray = typename Vector<kWidth>::InArray;
  const ptrdiff_t floats = static_cast<ptrdiff_t>(pixels) * kChannelBlock;
  for (int32_t i = 0; i < planes; ++i, x += floats, y += kChannelBlock) {
#pragma GCC unroll 1
    for (int lane = 0; lane < kChannelBlock; lane += kWidth) {
      V chains[kChains];
#pragma GCC unroll 8
      for (int j = 0; j < kChains; ++j) chains[j] = Pool::template Init<float>() - V{};
      const float* at = x + lane;
      int32_t left = pixels;
      for (; left >= kChains; left -= kChains, at += kChains * kChannelBlock) {
#pragma GCC unroll 8
        for (int j = 0; j < kChains; ++j) {
          const V v = *reinterpret_cast<const InArray*>(at + j * kChannelBlock);
          Pool::Add(chains[j], v);
        }
      }
      for (; left > 0; --left, at += kChannelBlock) {
        const V v = *reinterpret_cast<const InArray*>(at);
        Pool::Add(chains[0], v);
      }
#pragma GCC unroll 8
      for (int j = 1; j < kChains; ++j) Pool::Add(chains[0], chains[j]);
      if (Pool::kAverages) chains[0] *= 1.0F / static_cast<float>(pixels);
      *reinterpret_cast<InArray*>(y + lane) = chains[0];
    }
  }
}

template <int Lanes>
MEMPLAN_KERNEL void BlockedGlobalAveragePool(const BlockedGlobalPoolParams& p, const float* x,
                                             float* y) {
  BlockedGlobalPool<Lanes, PoolSum>(p.planes, p.pixels, x, y);
}

template <int Lanes>
MEMPLAN_KERNEL void BlockedGlobalMaxPool(const BlockedGlobalPoolParams& p, const float* x,
                                         float* y) {
  BlockedGlobalPool<Lanes, PoolMax>(p.planes, p.pixels, x, y);
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_POOL_H_
