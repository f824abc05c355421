// Dropout in training. Which elements are kept is a hash of the seed, the step and the element's
// index: nothing is stored, and every target draws the same.
#ifndef MEMPLAN_KERNELS_DROPOUT_H_
#define MEMPLAN_KERNELS_DROPOUT_H_

#include "base.h"
#include "lanes.h"

namespace kernels {

// Mixes 32 bits so that each bit of the result depends on all of them: the function "lowbias32" of
// Chris Wellons' hash prospector.
template <class Bits>
MEMPLAN_INLINE Bits MixBits(Bits x) {
  x ^= x >> 16;
  x *= UINT32_C(0x7feb352d);
  x ^= x >> 15;
  x *= UINT32_C(0x846ca68b);
  x ^= x >> 16;
  return x;
}

// Numbers of as many bits as there are elements in a V of elements.
template <class V>
struct BitsOf {
  using Type = uint32_t;
  // i, i + 1, ...
  static uint32_t From(int32_t i) { return static_cast<uint32_t>(i); }
};
#if MEMPLAN_NATIVE_LANES > 1
template <>
struct BitsOf<FloatLanes> {
  using Type = UintLanes;
  static inline __attribute__((always_inline)) UintLanes From(int32_t i) {
    return Load<UintLanes>(kLaneNumbers) + static_cast<uint32_t>(i);
  }
};
#endif

struct DropoutParams {
  int64_t seed;
  double scale;        // of the elements that are kept
  int32_t count;       // elements
  uint32_t threshold;  // the probability to be dropped, times 2^31
};
MEMPLAN_FIELDS(DropoutParams, seed, scale, count, threshold);

// y = 0 where an element is dropped, x * scale elsewhere. y may be x. The same for a gradient dy in
// place of x.
template <class T>
MEMPLAN_KERNEL void Dropout(const DropoutParams& p, const T* x, const int64_t* step, T* y) {
  const auto seed = static_cast<uint64_t>(p.seed);
  const auto at = static_cast<uint64_t>(*step);
  uint32_t key = MixBits<uint32_t>(static_cast<uint32_t>(seed) ^ UINT32_C(0x9e3779b9));
  key = MixBits<uint32_t>(key ^ static_cast<uint32_t>(seed >> 32));
  key = MixBits<uint32_t>(key ^ static_cast<uint32_t>(at));
  key = MixBits<uint32_t>(key ^ static_cast<uint32_t>(at >> 32));
  // Neighbours differ in many bits: multiples of an odd constant.
  ForLanes<T>(p.count, [&p, x, y, key](auto zero, int32_t i) {
    using V = decltype(zero);
    using Bits = typename BitsOf<V>::Type;
    const Bits bits = MixBits<Bits>(BitsOf<V>::From(i) * UINT32_C(0x9e3779b9) + key);
    const V scaled = Load<V>(x + i) * T(p.scale);
    const V kept = bits >> 1 >= p.threshold ? scaled : zero;
    Store(kept, y + i);
  });
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_DROPOUT_H_
