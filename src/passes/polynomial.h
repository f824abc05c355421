// What a small tree of arithmetic computes, as a polynomial, so that a pattern need not know in
// which order its factors and terms were written.
#ifndef ONNX_MEMPLAN_PASSES_POLYNOMIAL_H_
#define ONNX_MEMPLAN_PASSES_POLYNOMIAL_H_

#include <array>
#include <optional>

#include "passes/editor.h"

namespace onnx_memplan {

// Coefficients of 1, x, x^2, x^3.
constexpr size_t kPolynomialTerms = 4;
using Polynomial = std::array<double, kPolynomialTerms>;

// free(x) + gated(x) * g.
struct GatedPolynomial {
  Polynomial free = {};
  Polynomial gated = {};
};

// Value `v` as a polynomial in the values `x` and `g` (kNoValue: no g), made of Add, Sub, Mul, Neg,
// Div by and Pow to constants, and constants of one value. nullopt when it is anything else, of a
// higher degree, or has other operands. Every part has the shape of x.
std::optional<GatedPolynomial> AsPolynomial(const GraphEditor& editor, ValueId v, ValueId x,
                                            ValueId g);

// Equal but for the rounding of constants to float.
bool Near(const Polynomial& a, const Polynomial& b);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_POLYNOMIAL_H_
