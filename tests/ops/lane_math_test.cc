// The vector functions of codegen/kernels/lane_math.h against the C library in double.
#include "ops/host_kernels.h"

#include "kernels/lane_math.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include "gtest/gtest.h"

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

TEST(LaneMathTest, ErrorsAreAFewUnitsInTheLastPlace) {
  ExpectWithin(1.5, LargestError([](FloatLanes x) { return kernels::ExpOf(x); },
                                 [](double x) { return std::exp(x); }, -INFINITY, INFINITY));
  ExpectWithin(2, LargestError([](FloatLanes x) { return kernels::TanhOf(x); },
                               [](double x) { return std::tanh(x); }, -INFINITY, INFINITY));
  ExpectWithin(2.5, LargestError([](FloatLanes x) { return kernels::ErfOf(x); },
                                 [](double x) { return std::erf(x); }, -INFINITY, INFINITY));
  ExpectWithin(1.5, LargestError([](FloatLanes x) { return kernels::LogOf(x); },
                                 [](double x) { return std::log(x); }, -INFINITY, INFINITY));
  ExpectWithin(3, LargestError([](FloatLanes x) { return kernels::Log1pOfUnit(x); },
                               [](double x) { return std::log1p(x); }, 0, 1));
  ExpectWithin(3, LargestError([](FloatLanes x) { return kernels::SigmoidOf(x); },
                               [](double x) { return 1 / (1 + std::exp(-x)); }, -80, INFINITY));
}

TEST(LaneMathTest, NanStaysNan) {
  const FloatLanes nan = FloatLanes{} + NAN;
  for (const FloatLanes& result :
       {kernels::ExpOf(nan), kernels::TanhOf(nan), kernels::ErfOf(nan), kernels::LogOf(nan),
        kernels::Log1pOfUnit(nan), kernels::SigmoidOf(nan)}) {
    EXPECT_TRUE(std::isnan(result[0]));
  }
}

#endif  // MEMPLAN_NATIVE_LANES > 1

}  // namespace
}  // namespace onnx_memplan
