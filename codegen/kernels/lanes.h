// Vectors as wide as the CPU that is compiled for, so that one text of an elementwise function
// serves single elements and whole vectors, at any level of optimisation.
#ifndef MEMPLAN_KERNELS_LANES_H_
#define MEMPLAN_KERNELS_LANES_H_

#include "base.h"
#include "element.h"
#include "vector.h"

// Floats in a vector register; 1: none.
#if defined(__AVX512F__)
#define MEMPLAN_NATIVE_LANES 16
#elif defined(__AVX__)
#define MEMPLAN_NATIVE_LANES 8
#elif defined(__SSE2__) || defined(__ARM_NEON) || defined(__wasm_simd128__)
#define MEMPLAN_NATIVE_LANES 4
#else
#define MEMPLAN_NATIVE_LANES 1
#endif

namespace kernels {

// How many elements of T are worked on at once, and as what type.
template <class T>
struct LanesOf {
  using Type = T;
  static constexpr int32_t kCount = 1;
};

// `value` in every lane; a conversion where T is an element type.
template <class T>
struct SplatTo {
  template <class Value>
  static T Make(Value value) {
    return static_cast<T>(value);
  }
};

template <class T>
MEMPLAN_INLINE T AbsOf(T x) {
  return WrapAbs(x);
}

#if MEMPLAN_NATIVE_LANES > 1

using FloatLanes = Vector<MEMPLAN_NATIVE_LANES>::Type;
typedef int32_t IntLanes __attribute__((vector_size(MEMPLAN_NATIVE_LANES * 4)));
typedef uint32_t UintLanes __attribute__((vector_size(MEMPLAN_NATIVE_LANES * 4)));

template <>
struct LanesOf<float> {
  using Type = FloatLanes;
  static constexpr int32_t kCount = MEMPLAN_NATIVE_LANES;
};

template <>
struct Element<FloatLanes> {
  using Wide = FloatLanes;
  static constexpr bool kIsFloat = true;
  static constexpr bool kIsSigned = true;
};

template <>
struct SplatTo<FloatLanes> {
  template <class Value>
  static inline __attribute__((always_inline)) FloatLanes Make(Value value) {
    return FloatLanes{} + static_cast<float>(value);
  }
};

// The same bits as another vector type.
template <class To, class From>
MEMPLAN_INLINE To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "vectors of one width");
  return reinterpret_cast<To>(from);
}

MEMPLAN_INLINE FloatLanes AbsOf(FloatLanes x) {
  return BitCast<FloatLanes>(BitCast<IntLanes>(x) & INT32_MAX);
}

#endif  // MEMPLAN_NATIVE_LANES > 1

template <class T, class Value>
MEMPLAN_INLINE T Splat(Value value) {
  return SplatTo<T>::Make(value);
}

// A vector (or one element) in memory that is aligned for elements only.
template <class V, class T>
MEMPLAN_INLINE V Load(const T* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

template <class V, class T>
MEMPLAN_INLINE void Store(const V& value, T* to) {
  __builtin_memcpy(to, &value, sizeof value);
}

// Calls visit(V, i) so that the V at i, i + 1, ... cover [0, count) once: vectors, then elements.
// The first argument only carries the type. Compilers need not see that results do not overlap
// operands.
template <class T, class Visit>
MEMPLAN_INLINE void ForLanes(int32_t count, Visit visit) {
  using V = typename LanesOf<T>::Type;
  constexpr int32_t kStep = LanesOf<T>::kCount;
  int32_t i = 0;
  for (; kStep > 1 && i + kStep <= count; i += kStep) visit(V{}, i);
  for (; i < count; ++i) visit(T(0), i);
}

// The sum of term(V, 0), term(V, kStep), ... over [0, count), in vectors as ForLanes has them. As
// ReduceElements of reduce.h, whatever the compiler makes of loops: chains over blocks of bounded
// length, which are then added up.
template <class T, class Term>
MEMPLAN_INLINE T SumLanes(int32_t count, Term term) {
  using V = typename LanesOf<T>::Type;
  constexpr int32_t kStep = LanesOf<T>::kCount;
  constexpr int32_t kChains = 4;
  constexpr int32_t kBlock = 64 * kChains * kStep;
  const int32_t whole = count - count % (kChains * kStep);
  T total = T(0);
  for (int32_t begin = 0; begin < whole; begin += kBlock) {
    const int32_t end = whole - begin < kBlock ? whole : begin + kBlock;
    V a = Splat<V>(0);
    V b = a;
    V c = a;
    V d = a;
    for (int32_t i = begin; i < end; i += kChains * kStep) {
      a += term(V{}, i);
      b += term(V{}, i + kStep);
      c += term(V{}, i + 2 * kStep);
      d += term(V{}, i + 3 * kStep);
    }
    T lanes[kStep];
    Store((a + b) + (c + d), lanes);
    T sum = T(0);
    for (int32_t l = 0; l < kStep; ++l) sum += lanes[l];
    total += sum;
  }
  T rest = T(0);
  for (int32_t i = whole; i < count; ++i) rest += term(T(0), i);
  return total + rest;
}

// Base classes of functors: whether Apply takes vectors too.
struct TakesElements {
  static constexpr bool kTakesLanes = false;
};
struct TakesLanes {
  static constexpr bool kTakesLanes = true;
};

// y[i] = function(x[i]), where `function` maps vectors. y may be x. The rest that fills no vector
// is padded to one, so that an element's result does not depend on its place.
template <class T, class Mapping>
MEMPLAN_INLINE void MapInLanes(int32_t count, const T* x, T* y, Mapping function) {
  using V = typename LanesOf<T>::Type;
  constexpr int32_t kStep = LanesOf<T>::kCount;
  int32_t i = 0;
  for (; i + kStep <= count; i += kStep) Store(function(Load<V>(x + i)), y + i);
  if (kStep == 1 || i == count) return;
  T rest[kStep] = {};
  for (int32_t l = 0; l < count - i; ++l) rest[l] = x[i + l];
  Store(function(Load<V>(rest)), rest);
  for (int32_t l = 0; l < count - i; ++l) y[i + l] = rest[l];
}

// y[i] = Function::Apply(x[i], arguments...). y may be x.
template <class Function, class T, class... Arguments>
MEMPLAN_INLINE void MapRow(int32_t count, const T* x, T* y, Arguments... arguments) {
  if constexpr (Function::kTakesLanes) {
    MapInLanes(count, x, y, [=](auto value) { return Function::Apply(value, arguments...); });
  } else {
    for (int32_t i = 0; i < count; ++i) y[i] = Function::Apply(x[i], arguments...);
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_LANES_H_
