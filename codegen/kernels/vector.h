// Vectors of floats, and rows of elements that a window slides over.
#ifndef MEMPLAN_KERNELS_VECTOR_H_
#define MEMPLAN_KERNELS_VECTOR_H_

#include "base.h"

// A function that all layers call, not a copy in each of them: its body is large, and knowing a
// layer's numbers would not make it faster.
#define MEMPLAN_SHARED_FUNCTION static __attribute__((noinline, unused))
// A part of such a function; it may take vectors, which a real call could not pass everywhere.
#define MEMPLAN_INLINE static inline __attribute__((always_inline, unused))

namespace kernels {

// Lanes floats, as GCC and Clang know them on any CPU: as a value, and in an array of floats.
template <int Lanes>
struct Vector {
  typedef float Type __attribute__((vector_size(Lanes * 4)));
  typedef float InArray __attribute__((vector_size(Lanes * 4), aligned(4), may_alias));
  typedef int32_t Ints __attribute__((vector_size(Lanes * 4)));
  typedef int32_t IntsInArray __attribute__((vector_size(Lanes * 4), aligned(4), may_alias));
};
template <>
struct Vector<1> {
  typedef float Type;
  typedef float InArray;
};

// The larger of x and `lower`, the smaller of x and `upper`, of elements or in each lane. NaN in x
// stays.
template <class V>
MEMPLAN_INLINE V AtLeast(V x, V lower) {
  return x < lower ? lower : x;
}
template <class V>
MEMPLAN_INLINE V AtMost(V x, V upper) {
  return x > upper ? upper : x;
}

// *x between the bounds, for vectors of any width: by reference, since those that are wider than
// the CPU's cannot be passed everywhere.
template <class V>
MEMPLAN_INLINE void Clamp(const V& lower, const V& upper, V* x) {
  const V above = *x < lower ? lower : *x;
  *x = above > upper ? upper : above;
}

// GCC makes a comparison and a blend of these; the instructions for them keep x where it is NaN if
// it comes second.
#if defined(__GNUC__) && !defined(__clang__)
#define MEMPLAN_BOUNDS_(lanes, larger, smaller)                                                  \
  MEMPLAN_INLINE Vector<lanes>::Type AtLeast(Vector<lanes>::Type x, Vector<lanes>::Type lower) { \
    return larger;                                                                               \
  }                                                                                              \
  MEMPLAN_INLINE Vector<lanes>::Type AtMost(Vector<lanes>::Type x, Vector<lanes>::Type upper) {  \
    return smaller;                                                                              \
  }                                                                                              \
  MEMPLAN_INLINE void Clamp(const Vector<lanes>::Type& lower, const Vector<lanes>::Type& upper,  \
                            Vector<lanes>::Type* x) {                                            \
    *x = AtMost(AtLeast(*x, lower), upper);                                                      \
  }
#ifdef __SSE2__
MEMPLAN_BOUNDS_(4, __builtin_ia32_maxps(lower, x), __builtin_ia32_minps(upper, x))
#endif
#ifdef __AVX__
MEMPLAN_BOUNDS_(8, __builtin_ia32_maxps256(lower, x), __builtin_ia32_minps256(upper, x))
#endif
#ifdef __AVX512F__
// All lanes, in the present rounding mode.
MEMPLAN_BOUNDS_(16, __builtin_ia32_maxps512_mask(lower, x, x, -1, 4),
                __builtin_ia32_minps512_mask(upper, x, x, -1, 4))
#endif
#undef MEMPLAN_BOUNDS_
#endif

constexpr int32_t kLaneNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// Sets to 0 the lanes of the vector at `values` from `count` on.
template <int Width>
MEMPLAN_INLINE void KeepFirst(int32_t count, float* values) {
  using Ints = typename Vector<Width>::Ints;
  using V = typename Vector<Width>::Type;
  const Ints lanes = *reinterpret_cast<const typename Vector<Width>::IntsInArray*>(kLaneNumbers);
  const V all = *reinterpret_cast<const typename Vector<Width>::InArray*>(values);
  const V kept = lanes < Ints{} + count ? all : V{};
  *reinterpret_cast<typename Vector<Width>::InArray*>(values) = kept;
}

// Floats in one vector where a kernel asks for `lanes`. Compilers keep vectors in memory where the
// CPU has no vector unit; there, single floats fill its registers.
constexpr int VectorLanes(int lanes) {
#if defined(__SSE__) || defined(__ARM_NEON) || defined(__ALTIVEC__) || \
    defined(__wasm_simd128__) || defined(__riscv_vector) ||            \
    (defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2))
  return lanes;
#else
  return lanes > 0 ? 1 : 0;
#endif
}

// The places [*low, *high) of `count` in a row whose input element start + i * stride is inside
// [0, in_size).
MEMPLAN_INLINE void InsideRange(int32_t start, int32_t stride, int32_t in_size, int32_t count,
                                int32_t* low, int32_t* high) {
  int32_t begin = start >= 0 ? 0 : -start;
  int32_t end = start >= in_size ? 0 : in_size - start;
  if (stride > 1) {
    begin = (begin + stride - 1) / stride;
    end = (end + stride - 1) / stride;
  }
  if (end > count) end = count;
  if (begin > end) begin = end;
  *low = begin;
  *high = end;
}

// The even elements of two vectors that follow each other.
template <int Width>
struct EvenLanes;
#define MEMPLAN_EVEN_LANES(width, ...)                                                     \
  template <>                                                                              \
  struct EvenLanes<width> {                                                                \
    static inline __attribute__((always_inline)) void Copy(const float* from, float* to) { \
      using V = Vector<width>::Type;                                                       \
      using InArray = Vector<width>::InArray;                                              \
      const V low = *reinterpret_cast<const InArray*>(from);                               \
      const V high = *reinterpret_cast<const InArray*>(from + width);                      \
      *reinterpret_cast<InArray*>(to) = __builtin_shufflevector(low, high, __VA_ARGS__);   \
    }                                                                                      \
  }
#if defined(__clang__) || __GNUC__ >= 12
MEMPLAN_EVEN_LANES(4, 0, 2, 4, 6);
MEMPLAN_EVEN_LANES(8, 0, 2, 4, 6, 8, 10, 12, 14);
MEMPLAN_EVEN_LANES(16, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
constexpr bool kHasShuffles = true;
#else
constexpr bool kHasShuffles = false;
#endif
#undef MEMPLAN_EVEN_LANES

// to[i] = from[i * stride] for i in [low, high), 0 elsewhere in [0, count).
template <int Width>
MEMPLAN_INLINE void CopyRun(const float* from, int32_t stride, int32_t low, int32_t high,
                            int32_t count, float* to) {
  using InArray = typename Vector<Width>::InArray;
  int32_t i = 0;
  for (; i < low; ++i) to[i] = 0;
  if (stride == 1) {
    for (; i + Width <= high; i += Width) {
      *reinterpret_cast<InArray*>(to + i) = *reinterpret_cast<const InArray*>(from + i);
    }
  }
  if constexpr (Width > 1 && kHasShuffles) {
    // Not up to the last element: the vectors also read what follows each element.
    for (; stride == 2 && i + Width < high; i += Width) {
      EvenLanes<Width>::Copy(from + static_cast<ptrdiff_t>(i) * 2, to + i);
    }
  }
  for (; i < high; ++i) to[i] = from[static_cast<ptrdiff_t>(i) * stride];
  for (; i < count; ++i) to[i] = 0;
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_VECTOR_H_
