// Elementary functions of vectors of floats, without branches, tables or calls. Errors are a few
// units in the last place, about those of a C library; infinities and NaN behave as there. For
// scalars the same names are the C library's functions.
//
// Each function reduces its argument to an interval where a polynomial is enough. The coefficients
// are minimax fits of the functions that the comments name, made for this file. The errors that are
// stated were measured over floats of every magnitude; lane_math_test.cc keeps them.
#ifndef MEMPLAN_KERNELS_LANE_MATH_H_
#define MEMPLAN_KERNELS_LANE_MATH_H_

#include "base.h"
#include "lanes.h"
#include "vector.h"

namespace kernels {

inline float ExpOf(float x) { return std::exp(x); }
inline float LogOf(float x) { return std::log(x); }
inline float Log1pOfUnit(float x) { return std::log1p(x); }
inline float TanhOf(float x) { return std::tanh(x); }
inline float ErfOf(float x) { return std::erf(x); }
inline double ExpOf(double x) { return std::exp(x); }
inline double LogOf(double x) { return std::log(x); }
inline double Log1pOfUnit(double x) { return std::log1p(x); }
inline double TanhOf(double x) { return std::tanh(x); }
inline double ErfOf(double x) { return std::erf(x); }
template <int Sign, class T>
inline T FastExpOf(T x) {
  return std::exp(Sign > 0 ? x : -x);
}

#if MEMPLAN_NATIVE_LANES > 1

// The magnitude of `magnitude`, which is not negative, with the sign of `sign`.
MEMPLAN_INLINE FloatLanes WithSign(FloatLanes magnitude, FloatLanes sign) {
  return BitCast<FloatLanes>(BitCast<IntLanes>(magnitude) | (BitCast<IntLanes>(sign) & INT32_MIN));
}

// 2^n in the exponent's place, from a float's bits whose lowest eight are n + 127. n = -127 gives 0
// and n = 128 infinity.
MEMPLAN_INLINE FloatLanes PowerOfTwo(UintLanes biased) { return BitCast<FloatLanes>(biased << 23); }

// s x = n log 2 + s r with |r| < 0.3466, s = 1 or -1.
struct ReducedLanes {
  FloatLanes r;
  UintLanes biased;  // lowest eight bits: n + 127, if that is in [0, 255]
};

template <int Sign>
MEMPLAN_INLINE ReducedLanes ReduceByLog2(FloatLanes x) {
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the lowest bits of the sum.
  constexpr float kRound = 12582912.0F + 127.0F;
  const FloatLanes sum = x * (Sign * 1.44269504F) + kRound;  // 1 / log 2
  const FloatLanes n = sum - kRound;
  // log 2 in two parts; the first has few enough bits that its product with n is exact.
  const FloatLanes r = (x - n * (Sign * 0.693359375F)) - n * (Sign * -2.12194440e-4F);
  return {r, BitCast<UintLanes>(sum)};
}

// NaN stays.
MEMPLAN_INLINE FloatLanes Between(float lowest, FloatLanes x, float highest) {
  return AtMost(AtLeast(x, Splat<FloatLanes>(lowest)), Splat<FloatLanes>(highest));
}

// (e^(s r) - 1 - s r) / r on |r| < 0.3473, for s = 1 or -1.
template <int Sign>
MEMPLAN_INLINE FloatLanes ExpRestOverR(FloatLanes r) {
  FloatLanes p = Splat<FloatLanes>(0.001394668123F);
  p = p * r + Sign * 0.008366717056F;
  p = p * r + 0.04166627893F;
  p = p * r + Sign * 0.16666542F;
  p = p * r + 0.5000000063F;
  return p * r;
}

// e^x. At most 1.1 units in the last place off, below the normal range too.
MEMPLAN_INLINE FloatLanes ExpOf(FloatLanes x) {
  // Outside, the result is 0 or infinity in float.
  const ReducedLanes reduced = ReduceByLog2<1>(Between(-104.0F, x, 89.0F));
  const FloatLanes exp_r = ExpRestOverR<1>(reduced.r) * reduced.r + reduced.r + 1.0F;
  // In two factors, so that results near the ends of the range of float neither overflow early nor
  // lose their last bits.
  const IntLanes n = BitCast<IntLanes>(reduced.biased) - (0x4b400000 + 127);
  const IntLanes half = n >> 1;
  const FloatLanes low = PowerOfTwo(BitCast<UintLanes>(half + 127));
  return exp_r * low * PowerOfTwo(BitCast<UintLanes>(n - half + 127));
}

// e^(Sign x), a third cheaper than ExpOf: at most 2.5 units in the last place off, but results
// below the normal range are 0, and those above 2^127.5 infinity.
template <int Sign>
MEMPLAN_INLINE FloatLanes FastExpOf(FloatLanes x) {
  const ReducedLanes reduced =
      ReduceByLog2<Sign>(Sign > 0 ? Between(-88.0F, x, 89.0F) : Between(-89.0F, x, 88.0F));
  const FloatLanes r = reduced.r;
  // (e^r - 1 - r) / r^2.
  FloatLanes p = Splat<FloatLanes>(Sign * 0.008312425785F);
  p = p * r + 0.04189102922F;
  p = p * r + Sign * 0.1666711835F;
  p = p * r + 0.4999922557F;
  p = p * r + Sign * 1.0F;
  p = p * r + 1.0F;
  return p * PowerOfTwo(reduced.biased);
}

// m / (m + 2) with m = e^2x - 1. At most 3 units in the last place off.
MEMPLAN_INLINE FloatLanes TanhOf(FloatLanes x) {
  // Beyond, the quotient is 1 in float.
  const ReducedLanes reduced = ReduceByLog2<1>(Between(-20.0F, x + x, 20.0F));
  const FloatLanes rest = ExpRestOverR<1>(reduced.r) * reduced.r + reduced.r;
  const FloatLanes scale = PowerOfTwo(reduced.biased);
  const FloatLanes m = rest * scale + (scale - 1.0F);
  return m / (m + 2.0F);
}

// x P(x^2) / Q(x^2), fitted on [0, 3.93]; beyond, erf is 1 in float. At most 6 units in the last
// place off.
MEMPLAN_INLINE FloatLanes ErfOf(FloatLanes x) {
  const FloatLanes z = x * x;
  FloatLanes p = Splat<FloatLanes>(2.04197227e-6F);
  p = p * z + 0.0002848074212F;
  p = p * z + 0.003779572464F;
  p = p * z + 0.05279017057F;
  p = p * z + 0.1907830259F;
  p = p * z + 1.128379145F;
  FloatLanes q = Splat<FloatLanes>(3.800402857e-5F);
  q = q * z + 0.001165203153F;
  q = q * z + 0.01499736372F;
  q = q * z + 0.1142571816F;
  q = q * z + 0.5024097742F;
  q = q * z + 1.0F;
  const FloatLanes one = Splat<FloatLanes>(1.0F);
  // NaN, which is not above the bound, comes from the quotient.
  return AbsOf(x) > Splat<FloatLanes>(3.92F) ? WithSign(one, x) : x * p / q;
}

// n log 2 + log(1 + t), where x = 2^n (1 + t) with 1 + t in [sqrt(1/2), sqrt(2)].
MEMPLAN_INLINE FloatLanes LogOf(FloatLanes x) {
  const FloatLanes one = Splat<FloatLanes>(1.0F);
  const FloatLanes infinity = Splat<FloatLanes>(INFINITY);
  // Numbers below the normal range are brought into it.
  const IntLanes is_tiny = x < Splat<FloatLanes>(1.17549435e-38F);  // lanes of 0 and -1
  const UintLanes bits = BitCast<UintLanes>(x * (is_tiny ? Splat<FloatLanes>(8388608.0F) : one));
  // The exponent, rounded so that the mantissa lies around 1.
  constexpr uint32_t kOne = 0x3f800000;
  constexpr uint32_t kRootOfHalf = 0x3f3504f3;
  const UintLanes biased = bits + (kOne - kRootOfHalf);
  const IntLanes n = BitCast<IntLanes>(biased >> 23) - 127 + 23 * is_tiny;
  const FloatLanes t = BitCast<FloatLanes>((biased & 0x007fffffU) + kRootOfHalf) - 1.0F;
  // (log(1 + t) - t + t^2 / 2) / t^3.
  FloatLanes p = Splat<FloatLanes>(-0.07903643705F);
  p = p * t + 0.1262373853F;
  p = p * t - 0.1299849062F;
  p = p * t + 0.1421435652F;
  p = p * t - 0.1664124746F;
  p = p * t + 0.200010484F;
  p = p * t - 0.2500030703F;
  p = p * t + 0.3333333072F;
  const FloatLanes n_float = __builtin_convertvector(n, FloatLanes);
  const FloatLanes rest = (p * t - 0.5F) * t * t + n_float * -2.12194440e-4F;
  const FloatLanes result = n_float * 0.693359375F + (rest + t);
  const FloatLanes zero = Splat<FloatLanes>(0.0F);
  const FloatLanes of_positive = x < infinity ? result : x;  // infinity and NaN stay
  return x > zero ? of_positive : (x == zero ? -infinity : Splat<FloatLanes>(NAN));
}

// log(1 + x) for x in [0, 1].
MEMPLAN_INLINE FloatLanes Log1pOfUnit(FloatLanes x) {
  // log(u) x / (u - 1), where u = 1 + x rounded, corrects the rounding (Goldberg 1991, theorem 4).
  const FloatLanes zero = Splat<FloatLanes>(0.0F);
  const FloatLanes u = 1.0F + x;
  const FloatLanes difference = u - 1.0F;
  const FloatLanes divisor = difference == zero ? Splat<FloatLanes>(1.0F) : difference;
  const FloatLanes quotient = LogOf(u) * (x / divisor);
  return difference == zero ? x : quotient;
}

#endif  // MEMPLAN_NATIVE_LANES > 1

// 1 / (1 + e^-x). At most 4 units in the last place off for vectors, whose results below the normal
// range are 0.
template <class T>
MEMPLAN_INLINE T SigmoidOf(T x) {
  return Splat<T>(1) / (Splat<T>(1) + FastExpOf<-1>(x));
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_LANE_MATH_H_
