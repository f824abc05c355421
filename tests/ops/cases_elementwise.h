// Cases of the elementwise operators.
#ifndef ONNX_MEMPLAN_TESTS_OPS_CASES_ELEMENTWISE_H_
#define ONNX_MEMPLAN_TESTS_OPS_CASES_ELEMENTWISE_H_

#include <cmath>
#include <limits>

#include "ops/cases.h"

namespace onnx_memplan::cases {

// A row for an operator of one float operand whose values are those of `function`, in double.
template <class Function>
OpCase Mapped(std::string op, const std::vector<float>& values, Function function,
              std::map<std::string, Attribute, std::less<>> attributes = {},
              std::string domain = {}) {
  std::vector<float> expected;
  for (float value : values) {
    expected.push_back(static_cast<float>(function(static_cast<double>(value))));
  }
  const auto count = static_cast<int64_t>(values.size());
  return {std::move(op),
          {Floats({1, count}, values)},
          {Floats({1, count}, expected)},
          std::move(attributes),
          std::move(domain)};
}

inline std::vector<OpCase> UnaryCases() {
  const std::vector<float> any = {-2.5F, -1, -0.5F, 0, 0.25F, 0.5F, 1, 1.5F, 3, 10};
  const std::vector<float> unit = {-0.9F, -0.5F, 0, 0.1F, 0.5F, 0.75F, 0.9F};
  const std::vector<float> positive = {0.01F, 0.5F, 1, 1.5F, 2, 9, 100};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto softplus = [](double x) { return std::log1p(std::exp(x)); };
  const auto gelu = [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); };
  const auto clamp01 = [](double x) { return std::fmin(1, std::fmax(0, x)); };
  return {
      Mapped("Abs", any, [](double x) { return std::fabs(x); }),
      {"Abs", {Int8s({3}, {-128, -5, 7})}, {Int8s({3}, {-128, 5, 7})}},
      Mapped("Neg", any, [](double x) { return -x; }),
      {"Neg", {Ints({2}, {INT64_MIN, 3})}, {Ints({2}, {INT64_MIN, -3})}},
      Mapped("Sign", {-3, 0, 2}, [](double x) { return (x > 0) - (x < 0); }),
      {"Sign", {Uint8s({3}, {0, 1, 200})}, {Uint8s({3}, {0, 1, 1})}},
      Mapped("Ceil", any, [](double x) { return std::ceil(x); }),
      Mapped("Floor", any, [](double x) { return std::floor(x); }),
      {"Round",
       {Floats({6}, {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 0.9F})},
       {Floats({6}, {0, 2, 2, 0, -2, 1})}},
      Mapped("Sqrt", positive, [](double x) { return std::sqrt(x); }),
      Mapped("Reciprocal", positive, [](double x) { return 1 / x; }),
      Mapped("Exp", any, [](double x) { return std::exp(x); }),
      Mapped("Log", positive, [](double x) { return std::log(x); }),
      Mapped("Sin", any, [](double x) { return std::sin(x); }),
      Mapped("Cos", any, [](double x) { return std::cos(x); }),
      Mapped("Tan", unit, [](double x) { return std::tan(x); }),
      Mapped("Asin", unit, [](double x) { return std::asin(x); }),
      Mapped("Acos", unit, [](double x) { return std::acos(x); }),
      Mapped("Atan", any, [](double x) { return std::atan(x); }),
      Mapped("Sinh", any, [](double x) { return std::sinh(x); }),
      Mapped("Cosh", any, [](double x) { return std::cosh(x); }),
      Mapped("Asinh", any, [](double x) { return std::asinh(x); }),
      Mapped("Acosh", {1, 1.5F, 2, 50}, [](double x) { return std::acosh(x); }),
      Mapped("Atanh", unit, [](double x) { return std::atanh(x); }),
      Mapped("Erf", any, [](double x) { return std::erf(x); }),
      {"Erf", {Doubles({1}, {0.3})}, {Doubles({1}, {std::erf(0.3)})}, {}, "", 1e-15},
      {"Not", {Bools({3}, {1, 0, 1})}, {Bools({3}, {0, 1, 0})}},
      {"BitwiseNot", {Uint8s({3}, {0, 1, 255})}, {Uint8s({3}, {255, 254, 0})}},
      {"IsNaN", {Floats({3}, {nan, inf, 1})}, {Bools({3}, {1, 0, 0})}},
      {"IsInf", {Floats({4}, {nan, inf, -inf, 1})}, {Bools({4}, {0, 1, 1, 0})}},
      {"IsInf",
       {Floats({4}, {nan, inf, -inf, 1})},
       {Bools({4}, {0, 0, 1, 0})},
       {{"detect_positive", int64_t{0}}}},
      Mapped("Relu", any, [](double x) { return std::fmax(x, 0); }),
      {"Relu", {Floats({2}, {nan, -inf})}, {Floats({2}, {nan, 0})}},
      {"Relu", {Int32s({2}, {-4, 4})}, {Int32s({2}, {0, 4})}},
      Mapped("LeakyRelu", any, [](double x) { return x < 0 ? 0.25 * x : x; }, {{"alpha", 0.25F}}),
      Mapped("ThresholdedRelu", any, [](double x) { return x > 1 ? x : 0; }),
      Mapped("Elu", any, [](double x) { return x < 0 ? 2 * std::expm1(x) : x; }, {{"alpha", 2.0F}}),
      Mapped("Selu", any, [](double x) { return 3 * (x < 0 ? 2 * std::expm1(x) : x); },
             {{"alpha", 2.0F}, {"gamma", 3.0F}}),
      Mapped("Celu", any, [](double x) { return x < 0 ? 2 * std::expm1(x / 2) : x; },
             {{"alpha", 2.0F}}),
      Mapped("Sigmoid", any, sigmoid),
      Mapped("Sigmoid", {-1000, 1000}, sigmoid),
      Mapped("Tanh", any, [](double x) { return std::tanh(x); }),
      Mapped("HardSigmoid", any, [&](double x) { return clamp01(0.25 * x + 0.5); },
             {{"alpha", 0.25F}}),
      Mapped("HardSwish", any, [&](double x) { return x * clamp01(x / 6 + 0.5); }),
      Mapped("Softplus", any, softplus),
      Mapped("Softplus", {500}, [](double x) { return x; }),
      Mapped("Softsign", any, [](double x) { return x / (1 + std::fabs(x)); }),
      Mapped("Mish", any, [&](double x) { return x * std::tanh(softplus(x)); }),
      Mapped("Swish", any, [&](double x) { return x * sigmoid(2 * x); }, {{"alpha", 2.0F}}),
      Mapped(
          "QuickGelu", any, [&](double x) { return x * sigmoid(1.702 * x); }, {}, "com.microsoft"),
      Mapped("Gelu", any, gelu),
      Mapped("Gelu", any, gelu, {}, "com.microsoft"),
      Mapped("Gelu", any,
             [](double x) {
               const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
               return x / 2 * (1 + std::tanh(inner));
             },
             {{"approximate", std::string("tanh")}}),
      Mapped("Shrink", any, [](double x) { return x < -1  ? x + 0.5
                                                  : x > 1 ? x - 0.5
                                                          : 0; },
             {{"lambd", 1.0F}, {"bias", 0.5F}}),
  };
}

inline std::vector<OpCase> BinaryCases() {
  const Tensor a = Floats({2, 3}, {1, -2, 3, -4, 5, -6});
  const Tensor row = Floats({3}, {2, 4, -8});
  const Tensor column = Floats({2, 1}, {10, 20});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return {
      {"Add", {a, a}, {Floats({2, 3}, {2, -4, 6, -8, 10, -12})}},
      {"Add", {a, row}, {Floats({2, 3}, {3, 2, -5, -2, 9, -14})}},
      {"Add", {column, row}, {Floats({2, 3}, {12, 14, 2, 22, 24, 12})}},
      {"Add", {ScalarFloat(1), a}, {Floats({2, 3}, {2, -1, 4, -3, 6, -5})}},
      {"Add", {Uint8s({2}, {250, 1}), Uint8s({2}, {10, 2})}, {Uint8s({2}, {4, 3})}},
      {"Sub", {a, column}, {Floats({2, 3}, {-9, -12, -7, -24, -15, -26})}},
      {"Sub", {row, a}, {Floats({2, 3}, {1, 6, -11, 6, -1, -2})}},
      {"Mul", {a, row}, {Floats({2, 3}, {2, -8, -24, -8, 20, 48})}},
      {"Div", {a, row}, {Floats({2, 3}, {0.5F, -0.5F, -0.375F, -2, 1.25F, 0.75F})}},
      {"Div",
       {Int32s({4}, {7, -7, 5, INT32_MIN}), Int32s({4}, {2, 2, 0, -1})},
       {Int32s({4}, {3, -3, 0, INT32_MIN})}},
      {"Mod", {Int32s({3}, {7, -7, 7}), Int32s({3}, {3, 3, -3})}, {Int32s({3}, {1, 2, -2})}},
      {"Mod",
       {Floats({2}, {5.5F, -5.5F}), Floats({2}, {2, 2})},
       {Floats({2}, {1.5F, -1.5F})},
       {{"fmod", int64_t{1}}}},
      {"Pow", {Floats({3}, {2, 3, -2}), ScalarFloat(2)}, {Floats({3}, {4, 9, 4})}},
      {"Pow", {Floats({3}, {2, 3, -2}), ScalarFloat(3)}, {Floats({3}, {8, 27, -8})}},
      {"Pow", {Floats({2}, {2, 9}), Floats({2}, {-1, 0.5F})}, {Floats({2}, {0.5F, 3})}},
      {"Pow",
       {Ints({4}, {2, -1, 3, 0}), Int32s({4}, {10, -3, -1, 0})},
       {Ints({4}, {1024, -1, 0, 1})}},
      {"PRelu", {a, row}, {Floats({2, 3}, {1, -8, 3, -8, 5, 48})}},
      {"BiasGelu",
       {Floats({1, 1}, {1}), Floats({1}, {-1})},
       {Floats({1, 1}, {0})},
       {},
       "com.microsoft"},
      {"BitShift",
       {Uint8s({3}, {1, 255, 3}), Uint8s({3}, {3, 4, 8})},
       {Uint8s({3}, {8, 240, 0})},
       {{"direction", std::string("LEFT")}}},
      {"BitShift",
       {Uint8s({3}, {8, 255, 3}), Uint8s({3}, {3, 4, 9})},
       {Uint8s({3}, {1, 15, 0})},
       {{"direction", std::string("RIGHT")}}},
      {"BitwiseAnd", {Int32s({2}, {12, -1}), Int32s({2}, {10, 7})}, {Int32s({2}, {8, 7})}},
      {"BitwiseOr", {Int32s({2}, {12, -1}), Int32s({2}, {10, 7})}, {Int32s({2}, {14, -1})}},
      {"BitwiseXor", {Int32s({2}, {12, -1}), Int32s({2}, {10, 7})}, {Int32s({2}, {6, -8})}},
      {"Sum", {a, row, column}, {Floats({2, 3}, {13, 12, 5, 18, 29, 6})}},
      {"Sum", {a, row, a}, {Floats({2, 3}, {4, 0, -2, -6, 14, -20})}},
      {"Sum", {a}, {a}},
      {"Max", {a, ScalarFloat(0), row}, {Floats({2, 3}, {2, 4, 3, 2, 5, 0})}},
      {"Max", {Floats({2}, {nan, 1}), Floats({2}, {1, nan})}, {Floats({2}, {nan, nan})}},
      {"Min", {a, row}, {Floats({2, 3}, {1, -2, -8, -4, 4, -8})}},
      {"Mean", {a, row, column}, {Floats({2, 3}, {13 / 3.0F, 4, 5 / 3.0F, 6, 29 / 3.0F, 2})}},
  };
}

inline std::vector<OpCase> LogicCases() {
  const Tensor a = Ints({2, 2}, {1, 2, 3, 4});
  const Tensor b = Ints({2}, {1, 4});
  const Tensor p = Bools({4}, {0, 0, 1, 1});
  const Tensor q = Bools({4}, {0, 1, 0, 1});
  return {
      {"Equal", {a, b}, {Bools({2, 2}, {1, 0, 0, 1})}},
      {"Equal", {p, q}, {Bools({4}, {1, 0, 0, 1})}},
      {"Greater", {a, b}, {Bools({2, 2}, {0, 0, 1, 0})}},
      {"GreaterOrEqual", {a, b}, {Bools({2, 2}, {1, 0, 1, 1})}},
      {"Less", {a, b}, {Bools({2, 2}, {0, 1, 0, 0})}},
      {"Less", {Uint8s({2}, {1, 2}), Uint8s({2}, {2, 1})}, {Bools({2}, {1, 0})}},
      {"LessOrEqual", {a, b}, {Bools({2, 2}, {1, 1, 0, 1})}},
      {"And", {p, q}, {Bools({4}, {0, 0, 0, 1})}},
      {"Or", {p, q}, {Bools({4}, {0, 1, 1, 1})}},
      {"Xor", {p, q}, {Bools({4}, {0, 1, 1, 0})}},
  };
}

inline std::vector<OpCase> WhereClipCastCases() {
  const Tensor x = Floats({2, 2}, {-3, -1, 1, 3});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto to = [](int64_t number) {
    return std::map<std::string, Attribute, std::less<>>{{"to", number}};
  };
  return {
      {"Where", {Bools({2, 1}, {1, 0}), x, ScalarFloat(9)}, {Floats({2, 2}, {-3, -1, 9, 9})}},
      {"Where",
       {Bools({2, 2}, {1, 0, 0, 1}), Bools({2, 2}, {0, 0, 1, 1}), Bools({2, 2}, {1, 1, 0, 0})},
       {Bools({2, 2}, {0, 1, 0, 1})}},
      {"Clip", {x, ScalarFloat(-2), ScalarFloat(2)}, {Floats({2, 2}, {-2, -1, 1, 2})}},
      {"Clip", {x, std::nullopt, ScalarFloat(0)}, {Floats({2, 2}, {-3, -1, 0, 0})}},
      {"Clip", {Int8s({3}, {-5, 0, 5}), Int8s({}, {-1})}, {Int8s({3}, {-1, 0, 5})}},
      {"Cast", {x}, {Int32s({2, 2}, {-3, -1, 1, 3})}, to(6)},
      {"Cast", {x}, {Bools({2, 2}, {1, 1, 1, 1})}, to(9)},
      {"Cast", {x}, {x}, to(1)},
      {"Cast",
       {Floats({4}, {1.9F, -1.9F, nan, 1e20F})},
       {Ints({4}, {1, -1, INT64_MIN, INT64_MIN})},
       to(7)},
      {"Cast", {Ints({2}, {300, -1})}, {Uint8s({2}, {44, 255})}, to(2)},
      {"Cast", {Bools({2}, {0, 1})}, {Floats({2}, {0, 1})}, to(1)},
      {"CastLike", {x, Int8s({1}, {0})}, {Int8s({2, 2}, {-3, -1, 1, 3})}},
      {"Dropout", {x}, {x, Bools({2, 2}, {1, 1, 1, 1})}},
      {"Dropout", {x, ScalarFloat(0.5F), Bools({}, {0})}, {x}},
  };
}

}  // namespace onnx_memplan::cases

#endif  // ONNX_MEMPLAN_TESTS_OPS_CASES_ELEMENTWISE_H_
