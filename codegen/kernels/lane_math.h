// Elementary functions of vectors of floats, without branches, tables or calls. Errors are a few
// units in the last place, about those of a C library; infinities and NaN behave as there. For
// scalars the same names are the C library's functions.
//
// Each function reduces its argument to an interval where a polynomial is enough. The coefficients
// are Chebyshev fits of the functions that the comments name, made for this file.
#ifndef MEMPLAN_KERNELS_LANE_MATH_H_
#define MEMPLAN_KERNELS_LANE_MATH_H_

#include "base.h"
#include "lanes.h"

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

#if MEMPLAN_NATIVE_LANES > 1

// 2^n for n in [-126, 127].
MEMPLAN_INLINE FloatLanes PowerOfTwo(IntLanes n) { return BitCast<FloatLanes>((n + 127) << 23); }

// The magnitude of `magnitude`, which is not negative, with the sign of `sign`.
MEMPLAN_INLINE FloatLanes WithSign(FloatLanes magnitude, FloatLanes sign) {
  return BitCast<FloatLanes>(BitCast<IntLanes>(magnitude) | (BitCast<IntLanes>(sign) & INT32_MIN));
}

// x = n log 2 + r, e^x = 2^n e^r.
MEMPLAN_INLINE FloatLanes ExpOf(FloatLanes x) {
  // Outside, the result is 0 or infinity in float. NaN becomes the bound, and NaN again at the end.
  const FloatLanes lowest = Splat<FloatLanes>(-104.0F);
  const FloatLanes highest = Splat<FloatLanes>(89.0F);
  const FloatLanes above = x > lowest ? x : lowest;
  const FloatLanes c = above < highest ? above : highest;
  const FloatLanes scaled = c * 1.44269504F;  // 1 / log 2
  const IntLanes n =
      __builtin_convertvector(scaled + WithSign(Splat<FloatLanes>(0.5F), scaled), IntLanes);
  const FloatLanes n_float = __builtin_convertvector(n, FloatLanes);
  // log 2 in two parts; the first has few enough bits that its product with n is exact.
  const FloatLanes r = (c - n_float * 0.693359375F) - n_float * -2.12194440e-4F;
  // (e^r - 1 - r) / r^2 on |r| < 0.35.
  FloatLanes p = Splat<FloatLanes>(0.001392692661F);
  p = p * r + 0.008363773874F;
  p = p * r + 0.04166655011F;
  p = p * r + 0.1666657338F;
  p = p * r + 0.5F;
  const FloatLanes exp_r = p * r * r + r + 1.0F;
  // In two factors, so that results near the ends of the range of float neither overflow early nor
  // lose their last bits.
  const IntLanes half = n >> 1;
  const FloatLanes result = exp_r * PowerOfTwo(half) * PowerOfTwo(n - half);
  return x == x ? result : x;
}

// x + x z P(z) with z = x^2 near 0, else 1 - 2 / (e^2|x| + 1) with x's sign.
MEMPLAN_INLINE FloatLanes TanhOf(FloatLanes x) {
  const FloatLanes magnitude = AbsOf(x);
  const FloatLanes z = x * x;
  // (tanh(x) / x - 1) / z on z < 0.36.
  FloatLanes p = Splat<FloatLanes>(-0.00626911972F);
  p = p * z + 0.02111095905F;
  p = p * z - 0.05387394885F;
  p = p * z + 0.1333291537F;
  p = p * z - 0.3333333033F;
  const FloatLanes near_zero = x + x * z * p;
  const FloatLanes far = 1.0F - 2.0F / (ExpOf(2.0F * magnitude) + 1.0F);
  return magnitude < Splat<FloatLanes>(0.6F) ? near_zero : WithSign(far, x);
}

// x + x P(x^2) for |x| < 1, else 1 - e^Q(|x|) with x's sign.
MEMPLAN_INLINE FloatLanes ErfOf(FloatLanes x) {
  const FloatLanes magnitude = AbsOf(x);
  const FloatLanes z = x * x;
  // erf(x) / x - 1 on z < 1.
  FloatLanes p = Splat<FloatLanes>(7.875875063e-5F);
  p = p * z - 0.0008016864287F;
  p = p * z + 0.005189087423F;
  p = p * z - 0.02685421201F;
  p = p * z + 0.1128359472F;
  p = p * z - 0.3761262667F;
  p = p * z + 0.1283791658F;
  const FloatLanes near_zero = x + x * p;
  // log(1 - erf(x)) on [1, 4]; beyond, erf is 1 in float.
  const FloatLanes bound = Splat<FloatLanes>(4.0F);
  const FloatLanes m = magnitude < bound ? magnitude : bound;
  FloatLanes q = Splat<FloatLanes>(-1.327236181e-5F);
  q = q * m + 0.0003169370225F;
  q = q * m - 0.003432351381F;
  q = q * m + 0.02260477224F;
  q = q * m - 0.1032811176F;
  q = q * m - 0.6391412576F;
  q = q * m - 1.125893652F;
  q = q * m - 0.0007658977797F;
  const FloatLanes far = WithSign(1.0F - ExpOf(q), x);
  // NaN, which is not above 1, comes from near_zero.
  return magnitude >= Splat<FloatLanes>(1.0F) ? far : near_zero;
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

// 1 / (1 + e^-x).
template <class T>
MEMPLAN_INLINE T SigmoidOf(T x) {
  return Splat<T>(1) / (Splat<T>(1) + ExpOf(-x));
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_LANE_MATH_H_
