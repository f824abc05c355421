// The vector functions of codegen/kernels/lane_math.h against the C library in double.
#include "ops/host_kernels.h"

#include "kernels/lane_math.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include "gtest/gtest.h"
#include "kernels/activation.h"

namespace onnx_memplan {
namespace {

#if MEMPLAN_NATIVE_LANES > 1

using kernels::FloatLanes;

struct Error {
  double ulps = 0;
  float at = 0;
};

// The largest error in units in the last place of the exact result, over floats of every magnitude
// and both signs in [low, high]. Infinities and NaN must be exact.
template <class Function>
Error LargestError(Function function, const std::function<double(double)>& exact, float low,
                   float high) {
  constexpr uint32_t kInfinityBits = 0x7f800000;
  constexpr uint32_t kStep = 10007;
  constexpr int kLanes = MEMPLAN_NATIVE_LANES;
  Error largest;
  for (const uint32_t sign : {0U, 0x80000000U}) {
    for (uint32_t begin = 0; begin <= kInfinityBits; begin += kLanes * kStep) {
      float x[kLanes];
      float y[kLanes];
      for (uint32_t l = 0; l < kLanes; ++l) {
        const uint32_t bits = std::min(begin + l * kStep, kInfinityBits) | sign;
        std::memcpy(&x[l], &bits, sizeof bits);
      }
      kernels::Store(function(kernels::Load<FloatLanes>(x)), y);
      for (int l = 0; l < kLanes; ++l) {
        if (!(x[l] >= low && x[l] <= high)) continue;
        const double wanted = exact(static_cast<double>(x[l]));
        const auto rounded = static_cast<float>(wanted);
        if (y[l] == rounded || (std::isnan(y[l]) && std::isnan(rounded))) continue;
        const double unit = static_cast<double>(std::nextafter(std::fabs(rounded), INFINITY)) -
                            static_cast<double>(std::fabs(rounded));
        const double ulps = std::fabs(static_cast<double>(y[l]) - wanted) / unit;
        // Not a number, or infinite where only one side is.
        if (!(ulps <= largest.ulps)) largest = {ulps, x[l]};
      }
    }
  }
  return largest;
}

void ExpectWithin(double ulps, const Error& error) {
  EXPECT_LE(error.ulps, ulps) << "at " << error.at;
}

double ExactSigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The bounds are those that lane_math.h states.
TEST(LaneMathTest, ErrorsAreAFewUnitsInTheLastPlace) {
  ExpectWithin(1.1, LargestError([](FloatLanes x) { return kernels::ExpOf(x); },
                                 [](double x) { return std::exp(x); }, -INFINITY, INFINITY));
  ExpectWithin(2.5, LargestError([](FloatLanes x) { return kernels::FastExpOf<1>(x); },
                                 [](double x) { return std::exp(x); }, -87.3F, 88.3F));
  ExpectWithin(2.5, LargestError([](FloatLanes x) { return kernels::FastExpOf<-1>(x); },
                                 [](double x) { return std::exp(-x); }, -88.3F, 87.3F));
  ExpectWithin(3, LargestError([](FloatLanes x) { return kernels::TanhOf(x); },
                               [](double x) { return std::tanh(x); }, -INFINITY, INFINITY));
  ExpectWithin(6, LargestError([](FloatLanes x) { return kernels::ErfOf(x); },
                               [](double x) { return std::erf(x); }, -INFINITY, INFINITY));
  ExpectWithin(1.5, LargestError([](FloatLanes x) { return kernels::LogOf(x); },
                                 [](double x) { return std::log(x); }, -INFINITY, INFINITY));
  ExpectWithin(3, LargestError([](FloatLanes x) { return kernels::Log1pOfUnit(x); },
                               [](double x) { return std::log1p(x); }, 0, 1));
  ExpectWithin(4, LargestError([](FloatLanes x) { return kernels::SigmoidOf(x); }, ExactSigmoid,
                               -87.3F, INFINITY));
}

TEST(LaneMathTest, ActivationsMadeOfThemAreAFewUnitsInTheLastPlaceOff) {
  ExpectWithin(4, LargestError([](FloatLanes x) { return kernels::Silu::Apply(x, 0, 0); },
                               [](double x) { return x * ExactSigmoid(x); }, -87, INFINITY));
  const double slope = 2 * std::sqrt(2 / std::acos(-1.0));
  ExpectWithin(4, LargestError([](FloatLanes x) { return kernels::GeluTanh::Apply(x, 0, 0); },
                               [slope](double x) {
                                 return x * ExactSigmoid(slope * (x + 0.044715 * x * x * x));
                               },
                               -1, 1e10F));
  ExpectWithin(7, LargestError([](FloatLanes x) { return kernels::Gelu::Apply(x, 0, 0); },
                               [](double x) { return x * std::erfc(-x * std::sqrt(0.5)) / 2; }, -1,
                               INFINITY));
}

// Where 1 + erf(x) loses digits, what is lost is small against x.
TEST(LaneMathTest, GeluOfNegativeNumbersIsSmallWhereItIsNotExact) {
  for (float x = -1; x > -1e6F; x *= 1.0001F) {
    const double exact =
        static_cast<double>(x) * std::erfc(static_cast<double>(-x) * std::sqrt(0.5)) / 2;
    const FloatLanes y = kernels::Gelu::Apply(FloatLanes{} + x, 0, 0);
    ASSERT_NEAR(static_cast<double>(y[0]), exact, 2e-7 * static_cast<double>(-x)) << x;
    if (x < -6) {
      ASSERT_EQ(y[0], 0.0F) << x;
    }
  }
}

TEST(LaneMathTest, ResultsOutsideTheNormalRangeAreZeroOrInfinite) {
  for (const float x : {88.8F, 100.0F, 1e30F, INFINITY}) {
    const FloatLanes up = FloatLanes{} + x;
    const FloatLanes down = FloatLanes{} - x;
    EXPECT_EQ(kernels::FastExpOf<1>(up)[0], INFINITY);
    EXPECT_EQ(kernels::FastExpOf<-1>(down)[0], INFINITY);
    EXPECT_EQ(kernels::FastExpOf<1>(down)[0], 0.0F);
    EXPECT_EQ(kernels::FastExpOf<-1>(up)[0], 0.0F);
    EXPECT_EQ(kernels::SigmoidOf(up)[0], 1.0F);
    EXPECT_EQ(kernels::SigmoidOf(down)[0], 0.0F);
    EXPECT_EQ(kernels::TanhOf(up)[0], 1.0F);
    EXPECT_EQ(kernels::TanhOf(down)[0], -1.0F);
    EXPECT_EQ(kernels::ErfOf(up)[0], 1.0F);
    EXPECT_EQ(kernels::ErfOf(down)[0], -1.0F);
    EXPECT_EQ(kernels::Silu::Apply(up, 0, 0)[0], x);
    EXPECT_EQ(kernels::Gelu::Apply(up, 0, 0)[0], x);
    EXPECT_EQ(kernels::GeluTanh::Apply(up, 0, 0)[0], x);
  }
}

TEST(LaneMathTest, NanStaysNan) {
  const FloatLanes nan = FloatLanes{} + NAN;
  for (const FloatLanes& result :
       {kernels::ExpOf(nan), kernels::FastExpOf<1>(nan), kernels::FastExpOf<-1>(nan),
        kernels::TanhOf(nan), kernels::ErfOf(nan), kernels::LogOf(nan), kernels::Log1pOfUnit(nan),
        kernels::SigmoidOf(nan), kernels::Silu::Apply(nan, 0, 0), kernels::Gelu::Apply(nan, 0, 0),
        kernels::GeluTanh::Apply(nan, 0, 0), kernels::HardSwish::Apply(nan, 0, 0)}) {
    EXPECT_TRUE(std::isnan(result[0]));
  }
}

#endif  // MEMPLAN_NATIVE_LANES > 1

}  // namespace
}  // namespace onnx_memplan
