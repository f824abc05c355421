// Gradients of functions that pass an element or stop it, by a saved tensor or by a saved mask of
// one bit for each element. Bit i % 8 of byte i / 8 belongs to element i; the bits behind the last
// element are 0. Gradients are in-place safe: element i is read before it is written.
#ifndef MEMPLAN_KERNELS_MASK_H_
#define MEMPLAN_KERNELS_MASK_H_

#include "activation_gradient.h"
#include "base.h"
#include "element.h"
#include "lanes.h"
#include "vector.h"

namespace kernels {

struct MaskParams {
  int32_t count;  // elements
};
MEMPLAN_FIELDS(MaskParams, count);

struct MaskedGradParams {
  int32_t count;  // elements
  float scale;    // of those that pass
};
MEMPLAN_FIELDS(MaskedGradParams, count, scale);

// passes(x[i]) of `count` elements, 8 at most, as bits.
template <class T, class Predicate>
MEMPLAN_INLINE uint8_t MaskBits(int32_t count, const T* x, Predicate passes) {
  uint32_t bits = 0;
  for (int32_t k = 0; k < count; ++k) bits |= static_cast<uint32_t>(passes(x[k])) << k;
  return static_cast<uint8_t>(bits);
}

// Of a whole byte.
template <class T, class Predicate>
MEMPLAN_INLINE uint8_t MaskByte(const T* x, Predicate passes) {
  return MaskBits(8, x, passes);
}

#if defined(__AVX__)
template <class Predicate>
MEMPLAN_INLINE uint8_t MaskByte(const float* x, Predicate passes) {
  const Vector<8>::Type v = *reinterpret_cast<const Vector<8>::InArray*>(x);
  const auto bits = reinterpret_cast<Vector<8>::Type>(passes(v));
  return static_cast<uint8_t>(__builtin_ia32_movmskps256(bits));
}
#endif

template <class T, class Predicate>
MEMPLAN_INLINE void MaskOf(int32_t count, const T* x, uint8_t* mask, Predicate passes) {
  int32_t i = 0;
  for (; i + 8 <= count; i += 8) *mask++ = MaskByte(x + i, passes);
  if (i < count) *mask = MaskBits(count - i, x + i, passes);
}

// Bit i of `mask` is y[i] > 0.
template <class T>
MEMPLAN_KERNEL void SignMask(const MaskParams& p, const T* y, uint8_t* mask) {
  MaskOf(p.count, y, mask, [](auto v) { return v > T(0); });
}

// The bounds of a Clip, in memory; a null bound is absent, and then infinities do not pass.
template <class T>
struct Bounds {
  T low;
  T high;
};

template <class T>
MEMPLAN_INLINE Bounds<T> BoundsOf(const T* low, const T* high) {
  return {low != nullptr ? *low : Element<T>::kLowest,
          high != nullptr ? *high : Element<T>::kHighest};
}

// Bit i of `mask` is *low < y[i] < *high.
template <class T>
MEMPLAN_KERNEL void ClipMask(const MaskParams& p, const T* y, const T* low, const T* high,
                             uint8_t* mask) {
  const Bounds<T> bounds = BoundsOf(low, high);
  MaskOf(p.count, y, mask, [=](auto v) { return (v > bounds.low) & (v < bounds.high); });
}

// dx[i] = *low < y[i] < *high ? dy[i] : 0.
template <class T>
MEMPLAN_KERNEL void ClipGrad(const MaskParams& p, const T* dy, const T* y, const T* low,
                             const T* high, T* dx) {
  const Bounds<T> bounds = BoundsOf(low, high);
  MapTogether(
      p.count, dx,
      [=](auto g, auto v) {
        using V = decltype(g);
        const V below = v < Splat<V>(bounds.high) ? g : Splat<V>(0);
        return v > Splat<V>(bounds.low) ? below : Splat<V>(0);
      },
      dy, y);
}

// dx[i] = bit i of `mask` ? scale * dy[i] : 0.
template <class T>
MEMPLAN_KERNEL void MaskedGrad(const MaskedGradParams& p, const T* dy, const uint8_t* mask, T* dx) {
  const T scale = static_cast<T>(p.scale);
  int32_t done = 0;
#if MEMPLAN_NATIVE_LANES > 1
  if constexpr (sizeof(T) == sizeof(float)) {
    constexpr int kWidth = MEMPLAN_NATIVE_LANES >= 8 ? 8 : 4;
    using InArray = typename Vector<kWidth>::InArray;
    using Ints = typename Vector<kWidth>::Ints;
    using V = typename Vector<kWidth>::Type;
    constexpr int32_t kBits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    done = p.count / 8 * 8;
    for (int32_t i = 0; i < done; i += 8) {
      const int32_t byte = mask[i / 8];
      for (int half = 0; half < 8; half += kWidth) {
        const Ints bit_of_lane =
            *reinterpret_cast<const typename Vector<kWidth>::IntsInArray*>(kBits + half);
        const Ints passes = ((Ints{} + byte) & bit_of_lane) != 0;
        const V scaled = *reinterpret_cast<const InArray*>(dy + i + half) * scale;
        *reinterpret_cast<InArray*>(dx + i + half) =
            reinterpret_cast<V>(reinterpret_cast<Ints>(scaled) & passes);
      }
    }
  }
#endif
  for (int32_t i = done; i < p.count; ++i) {
    const T scaled = scale * dy[i];
    dx[i] = ((mask[i / 8] >> (i % 8)) & 1) != 0 ? scaled : T(0);
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_MASK_H_
