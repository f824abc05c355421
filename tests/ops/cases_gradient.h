// Cases of gradient operators of elementwise, reducing and moving operators, of masks, and of
// operators that only training graphs made elsewhere have.
#ifndef ONNX_MEMPLAN_TESTS_OPS_CASES_GRADIENT_H_
#define ONNX_MEMPLAN_TESTS_OPS_CASES_GRADIENT_H_

#include <cmath>
#include <limits>

#include "ops/cases.h"

namespace onnx_memplan::cases {

// A row for dX = dY * slope(saved), slope in double.
template <class Slope>
OpCase GradientOf(std::string op, std::string domain, const std::vector<float>& saved, Slope slope,
                  std::map<std::string, Attribute, std::less<>> attributes = {}) {
  std::vector<float> dy, dx;
  for (size_t i = 0; i < saved.size(); ++i) {
    dy.push_back(0.5F * static_cast<float>(i) - 1.75F);
    dx.push_back(static_cast<float>(static_cast<double>(dy[i]) *
                                    static_cast<double>(slope(static_cast<double>(saved[i])))));
  }
  const auto count = static_cast<int64_t>(saved.size());
  return {std::move(op),
          {Floats({1, count}, dy), Floats({1, count}, saved)},
          {Floats({1, count}, dx)},
          std::move(attributes),
          std::move(domain)};
}

inline std::vector<OpCase> ActivationGradientCases() {
  const std::string ort = "com.microsoft";
  const std::string own = "onnx_memplan";
  const std::vector<float> any = {-4, -2.5F, -1, -0.5F, 0, 0.25F, 0.5F, 1, 1.5F, 3, 10};
  const std::vector<float> unit = {-0.9F, -0.5F, 0, 0.1F, 0.5F, 0.75F, 0.9F};
  const std::vector<float> positive = {0.25F, 0.5F, 1, 1.5F, 2, 9, 100};
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto gelu = [](double x) {
    return (1 + std::erf(x / std::sqrt(2.0))) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
  };
  const auto gelu_tanh = [](double x) {
    const double root = std::sqrt(2 / M_PI);
    const double tanh = std::tanh(root * (x + 0.044715 * x * x * x));
    return (1 + tanh) / 2 + x / 2 * (1 - tanh * tanh) * root * (1 + 3 * 0.044715 * x * x);
  };
  const Tensor dy = Floats({2, 3}, {1, -2, 3, -4, 5, -6});
  const Tensor x = Floats({2, 3}, {0.5F, 0, -1, 1, -0.5F, 2});
  const Tensor bias = Floats({3}, {0.25F, -0.5F, 1});
  const auto biased = [&](auto slope) {
    std::vector<float> dx;
    for (size_t i = 0; i < 6; ++i) {
      const auto at = static_cast<double>(x.As<float>()[i] + bias.As<float>()[i % 3]);
      dx.push_back(static_cast<float>(static_cast<double>(dy.As<float>()[i]) * slope(at)));
    }
    return Floats({2, 3}, dx);
  };
  return {
      GradientOf("ReluGrad", ort, any, [](double y) { return y > 0; }),
      GradientOf("SigmoidGrad", ort, unit, [](double y) { return y * (1 - y); }),
      GradientOf("TanhGrad", ort, unit, [](double y) { return 1 - y * y; }),
      GradientOf("LeakyReluGrad", ort, any, [](double y) { return y > 0 ? 1 : 0.25; },
                 {{"alpha", 0.25F}}),
      GradientOf("QuickGeluGrad", ort, any,
                 [&](double v) { return sigmoid(2 * v) * (1 + 2 * v * (1 - sigmoid(2 * v))); },
                 {{"alpha", 2.0F}}),
      GradientOf("GeluGrad", ort, any, gelu),
      GradientOf("GeluGrad", "", any, gelu),
      GradientOf("FastGeluGrad", ort, any, gelu_tanh),
      GradientOf("AbsGrad", own, any, [](double v) { return (v > 0) - (v < 0); }),
      GradientOf("AcosGrad", own, unit, [](double v) { return -1 / std::sqrt(1 - v * v); }),
      GradientOf("AcoshGrad", own, {1.5F, 2, 9}, [](double v) { return 1 / std::sqrt(v * v - 1); }),
      GradientOf("AsinGrad", own, unit, [](double v) { return 1 / std::sqrt(1 - v * v); }),
      GradientOf("AsinhGrad", own, any, [](double v) { return 1 / std::sqrt(v * v + 1); }),
      GradientOf("AtanGrad", own, any, [](double v) { return 1 / (v * v + 1); }),
      GradientOf("AtanhGrad", own, unit, [](double v) { return 1 / (1 - v * v); }),
      GradientOf("CeluGrad", own, {-1.5F, -0.5F, 0.5F, 2},
                 [](double y) { return y > 0 ? 1 : y / 2 + 1; }, {{"alpha", 2.0F}}),
      GradientOf("CosGrad", own, any, [](double v) { return -std::sin(v); }),
      GradientOf("CoshGrad", own, any, [](double v) { return std::sinh(v); }),
      GradientOf("EluGrad", own, {-1.5F, -0.5F, 0.5F, 2},
                 [](double y) { return y > 0 ? 1 : y + 2; }, {{"alpha", 2.0F}}),
      GradientOf("ErfGrad", own, any,
                 [](double v) { return 2 / std::sqrt(M_PI) * std::exp(-v * v); }),
      GradientOf("HardSigmoidGrad", own, {0, 0.25F, 0.5F, 1},
                 [](double y) { return y > 0 && y < 1 ? 0.25 : 0; }, {{"alpha", 0.25F}}),
      GradientOf("HardSwishGrad", own, any,
                 [](double v) { return v < -3  ? 0
                                       : v > 3 ? 1
                                               : v / 3 + 0.5; }),
      GradientOf("MishGrad", own, any,
                 [&](double v) {
                   const double tanh = std::tanh(std::log1p(std::exp(v)));
                   return tanh + v * (1 - tanh * tanh) * sigmoid(v);
                 }),
      GradientOf("ReciprocalGrad", own, any, [](double y) { return -y * y; }),
      GradientOf("SeluGrad", own, {-5, -0.5F, 0.5F, 2}, [](double y) { return y > 0 ? 3 : y + 6; },
                 {{"alpha", 2.0F}, {"gamma", 3.0F}}),
      GradientOf("ShrinkGrad", own, any, [](double v) { return std::fabs(v) > 1; },
                 {{"lambd", 1.0F}}),
      GradientOf("SinGrad", own, any, [](double v) { return std::cos(v); }),
      GradientOf("SinhGrad", own, any, [](double v) { return std::cosh(v); }),
      GradientOf("SoftplusGrad", own, positive, [](double y) { return 1 - std::exp(-y); }),
      GradientOf("SoftsignGrad", own, unit,
                 [](double y) { return (1 - std::fabs(y)) * (1 - std::fabs(y)); }),
      GradientOf("SqrtGrad", own, positive, [](double y) { return 0.5 / y; }),
      GradientOf("TanGrad", own, any, [](double y) { return 1 + y * y; }),
      GradientOf("ThresholdedReluGrad", own, any, [](double v) { return v > -1; },
                 {{"alpha", -1.0F}}),
      {"BiasGeluGrad_dX", {dy, x, bias}, {biased(gelu)}, {}, ort},
      {"BiasFastGeluGrad_dX", {dy, x, bias}, {biased(gelu_tanh)}, {}, ort},
  };
}

inline std::vector<OpCase> MaskCases() {
  const std::string own = "onnx_memplan";
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor y = Floats({11}, {1, 0, -1, 2, inf, 0, 0.5F, -2, 3, 0, 6});
  const Tensor dy = Floats({11}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const Tensor zero = ScalarFloat(0);
  const Tensor six = ScalarFloat(6);
  return {
      {"SignMask", {y}, {Uint8s({2}, {0b01011001, 0b101})}, {}, own},
      {"SignMask", {Doubles({3}, {1, -1, 2})}, {Uint8s({1}, {0b101})}, {}, own},
      {"ClipMask", {y, zero, six}, {Uint8s({2}, {0b01001001, 0b001})}, {}, own},
      {"ClipMask", {y, std::nullopt, six}, {Uint8s({2}, {0b11101111, 0b011})}, {}, own},
      {"ClipMask", {Doubles({2}, {1, -1})}, {Uint8s({1}, {0b11})}, {}, own},
      {"MaskedGrad",
       {dy, Uint8s({2}, {0b01011001, 0b101})},
       {Floats({11}, {1, 0, 0, 4, 5, 0, 7, 0, 9, 0, 11})},
       {},
       own},
      {"MaskedGrad",
       {dy, Uint8s({2}, {0b10000000, 0b010})},
       {Floats({11}, {0, 0, 0, 0, 0, 0, 0, 16, 0, 20, 0})},
       {{"scale", 2.0F}},
       own},
      {"MaskedGrad",
       {Doubles({3}, {1, 2, 3}), Uint8s({1}, {0b110})},
       {Doubles({3}, {0, 2, 3})},
       {},
       own},
      {"ClipGrad", {dy, y, zero, six}, {Floats({11}, {1, 0, 0, 4, 0, 0, 7, 0, 9, 0, 0})}, {}, own},
      {"ClipGrad", {dy, y, zero}, {Floats({11}, {1, 0, 0, 4, 0, 0, 7, 0, 9, 0, 11})}, {}, own},
  };
}

inline std::vector<OpCase> ReduceGradientCases() {
  const std::string own = "onnx_memplan";
  const Tensor x = Floats({2, 3}, {1, 3, 3, 0, 2, -1});
  const Attribute last = std::vector<int64_t>{1};
  const Attribute first = std::vector<int64_t>{0};
  return {
      {"ReduceExtremeGrad",
       {Floats({2, 1}, {4, 5}), x, Floats({2, 1}, {3, 2})},
       {Floats({2, 3}, {0, 2, 2, 0, 5, 0})},
       {{"axes", last}},
       own},
      {"ReduceExtremeGrad",
       {Floats({1, 3}, {4, 5, 6}), x, Floats({1, 3}, {1, 3, 3})},
       {Floats({2, 3}, {4, 5, 6, 0, 0, 0})},
       {{"axes", first}},
       own},
      {"ReduceProdGrad",
       {Floats({2, 1}, {2, 5}), x},
       {Floats({2, 3}, {18, 6, 6, -10, 0, 0})},
       {{"axes", last}},
       own},
      {"ReduceProdGrad",
       {Floats({1, 3}, {1, 2, 3}), Floats({2, 3}, {0, 0, 4, 0, 5, 6})},
       {Floats({2, 3}, {0, 10, 18, 0, 0, 12})},
       {{"axes", first}},
       own},
  };
}

inline std::vector<OpCase> MovementGradientCases() {
  const std::string own = "onnx_memplan";
  const std::string ort = "com.microsoft";
  return {
      {"SliceGrad",
       {Floats({2}, {1, 2}), Ints({1}, {5}), Ints({1}, {3}), Ints({1}, {-6}), Ints({1}, {0}),
        Ints({1}, {-2})},
       {Floats({5}, {0, 2, 0, 1, 0})},
       {},
       ort},
      {"SliceGrad",
       {Floats({2, 1}, {1, 2}), Ints({2}, {2, 3}), Ints({1}, {1}), Ints({1}, {2}), Ints({1}, {1})},
       {Floats({2, 3}, {0, 1, 0, 0, 2, 0})},
       {},
       ort},
      {"PadGrad",
       {Floats({6}, {1, 2, 3, 4, 5, 6}), Ints({2}, {2, 1}), Ints({1}, {3})},
       {Floats({3}, {3, 2 + 4 + 6, 1 + 5})},
       {{"mode", std::string("reflect")}},
       own},
      {"PadGrad",
       {Floats({2, 3}, {1, 2, 3, 4, 5, 6}), Ints({4}, {0, 1, 0, 0}), Ints({2}, {2, 2})},
       {Floats({2, 2}, {3, 3, 9, 6})},
       {{"mode", std::string("edge")}},
       own},
      {"GatherGrad",
       {Ints({2}, {3, 2}), Ints({3}, {2, 0, 2}), Floats({3, 2}, {1, 2, 3, 4, 5, 6})},
       {Floats({3, 2}, {3, 4, 0, 0, 6, 8})},
       {},
       ort},
      {"GatherGrad",
       {Ints({2}, {2, 3}), Int32s({2}, {-1, 0}), Floats({2, 2}, {1, 2, 3, 4})},
       {Floats({2, 3}, {2, 0, 1, 4, 0, 3})},
       {{"axis", int64_t{1}}},
       ort},
      {"GatherElementsGrad",
       {Floats({2, 2}, {1, 2, 3, 4}), Ints({2}, {2, 3}), Ints({2, 2}, {0, 0, 2, 1})},
       {Floats({2, 3}, {3, 0, 0, 0, 4, 3})},
       {{"axis", int64_t{1}}},
       ort},
      {"GatherElementsGrad",
       {Floats({1, 2}, {1, 2}), Ints({2}, {2, 2}), Int32s({1, 2}, {1, 0})},
       {Floats({2, 2}, {0, 2, 1, 0})},
       {},
       ort},
      {"GatherNDGrad",
       {Ints({2}, {2, 2}), Ints({3, 1}, {1, 0, 1}), Floats({3, 2}, {1, 2, 3, 4, 5, 6})},
       {Floats({2, 2}, {3, 4, 6, 8})},
       {},
       ort},
      {"GatherNDGrad",
       {Ints({2}, {2, 3}), Ints({2, 1}, {2, 0}), Floats({2}, {5, 6})},
       {Floats({2, 3}, {0, 0, 5, 6, 0, 0})},
       {{"batch_dims", int64_t{1}}},
       ort},
      {"MaxUnpoolGrad",
       {Floats({1, 1, 2, 2}, {1, 2, 3, 4}), Ints({1, 1, 1, 1}, {2})},
       {Floats({1, 1, 1, 1}, {3})},
       {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}},
       own},
      {"GridSampleGrad",
       {Floats({1, 1, 1, 2}, {4, 8}), Floats({1, 1, 2, 2}, {0, 0, -1, -1}),
        Ints({4}, {1, 1, 2, 2})},
       {Floats({1, 1, 2, 2}, {9, 1, 1, 1})},
       {{"align_corners", int64_t{1}}},
       own},
      {"Im2Col",
       {Floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}), Ints({2}, {2, 3}), Ints({2}, {1, 2})},
       {Floats({1, 2, 4}, {1, 2, 4, 5, 2, 3, 5, 6})},
       {},
       own},
      {"ResizeGrad",
       {Floats({1, 4}, {1, 2, 3, 4}), std::nullopt, Floats({2}, {1, 2})},
       {Floats({1, 2}, {3, 7})},
       {{"input_shape", std::vector<int64_t>{1, 2}},
        {"coordinate_transformation_mode", std::string("asymmetric")},
        {"nearest_mode", std::string("floor")}},
       own},
      {"ResizeGrad",
       {Floats({1, 4}, {1, 2, 3, 4}), std::nullopt, Floats({2}, {1, 2})},
       {Floats({1, 2}, {1 + 1.5F + 0.75F, 0.5F + 2.25F + 4})},
       {{"input_shape", std::vector<int64_t>{1, 2}}, {"mode", std::string("linear")}},
       own},
  };
}

// Of ONNX Runtime's and Deeploy's training graphs.
inline std::vector<OpCase> TrainingGraphCases() {
  const std::string ort = "com.microsoft";
  const Tensor a = Floats({2}, {1, 2});
  const Tensor b = Floats({2}, {10, 20});
  const Tensor updated = Bools({1}, {1});
  return {
      {"SGD", {a, b}, {Floats({2}, {-1.5F, -3})}, {{"lr", 0.25F}}},
      {"InPlaceAccumulatorV2", {a, b}, {updated, Floats({2}, {11, 22})}, {}, ort},
      {"InPlaceAccumulatorV2", {a, b, Bools({1}, {1})}, {updated, b}, {}, ort},
      {"InPlaceAccumulatorV2", {a, b, Bools({1}, {0})}, {Tensor(), Floats({2}, {11, 22})}, {}, ort},
      {"BroadcastGradientArgs",
       {Ints({3}, {2, 1, 4}), Ints({2}, {3, 4})},
       {Ints({1}, {1}), Ints({1}, {0})},
       {},
       ort},
      {"BroadcastGradientArgs",
       {Ints({2}, {1, 4}), Ints({2}, {1, 4})},
       {Ints({0}, {}), Ints({0}, {})},
       {},
       ort},
      {"ConcatTraining",
       {a, Floats({1}, {3})},
       {Floats({3}, {1, 2, 3}), Ints({2}, {2, 1})},
       {{"axis", int64_t{0}}},
       ort},
      {"FastGelu",
       {Floats({2}, {1, -1})},
       {Floats({2}, {0.841191990608F, -0.158808009392F})},
       {},
       ort},
      {"FastGelu",
       {Floats({1, 2}, {0.5F, 0}), Floats({2}, {0.5F, -1})},
       {Floats({1, 2}, {0.841191990608F, -0.158808009392F})},
       {},
       ort},
  };
}

}  // namespace onnx_memplan::cases

#endif  // ONNX_MEMPLAN_TESTS_OPS_CASES_GRADIENT_H_
