#include "passes/polynomial.h"

#include <algorithm>
#include <cmath>

#include "passes/match.h"

namespace onnx_memplan {
namespace {

// Deep enough for every known way to write Gelu; the tree is walked without memory, so not deeper.
constexpr int kMaxDepth = 10;

std::optional<Polynomial> Product(const Polynomial& a, const Polynomial& b) {
  Polynomial result = {};
  for (size_t i = 0; i < kPolynomialTerms; ++i) {
    for (size_t j = 0; j < kPolynomialTerms; ++j) {
      if (a[i] == 0 || b[j] == 0) continue;
      if (i + j >= kPolynomialTerms) return std::nullopt;
      result[i + j] += a[i] * b[j];
    }
  }
  return result;
}

Polynomial Sum(const Polynomial& a, const Polynomial& b, double factor) {
  Polynomial result = a;
  for (size_t i = 0; i < kPolynomialTerms; ++i) result[i] += factor * b[i];
  return result;
}

bool IsZero(const Polynomial& a) {
  return std::all_of(a.begin(), a.end(), [](double term) { return term == 0; });
}

std::optional<GatedPolynomial> Product(const GatedPolynomial& a, const GatedPolynomial& b) {
  if (!IsZero(a.gated) && !IsZero(b.gated)) return std::nullopt;  // g squared
  const std::optional<Polynomial> free = Product(a.free, b.free);
  const std::optional<Polynomial> left = Product(a.gated, b.free);
  const std::optional<Polynomial> right = Product(a.free, b.gated);
  if (!free || !left || !right) return std::nullopt;
  return GatedPolynomial{*free, Sum(*left, *right, 1)};
}

class Walk {
 public:
  Walk(const GraphEditor& editor, ValueId x, ValueId g) : editor_(editor), x_(x), g_(g) {}

  std::optional<GatedPolynomial> Of(ValueId v, int depth) const {
    if (v == x_) return GatedPolynomial{{0, 1, 0, 0}, {}};
    if (v == g_ && v != kNoValue) return GatedPolynomial{{}, {1, 0, 0, 0}};
    if (const std::optional<double> constant = UniformConstant(editor_, v)) {
      return GatedPolynomial{{*constant, 0, 0, 0}, {}};
    }
    const int32_t n = editor_.producer(v);
    if (n < 0 || depth > kMaxDepth || !editor_.node(n).epilogue.empty()) return std::nullopt;
    if (editor_.type(v) != editor_.type(x_)) return std::nullopt;
    return OfNode(editor_.node(n), depth + 1);
  }

 private:
  std::optional<GatedPolynomial> OfNode(const Node& node, int depth) const {
    if (node.inputs.empty()) return std::nullopt;
    if (node.Is("Identity")) return Of(node.inputs[0], depth);
    if (node.Is("Neg")) return Scaled(node.inputs[0], -1, depth);
    if (node.inputs.size() != 2) return std::nullopt;
    if (node.Is("Div")) {
      const std::optional<double> divisor = UniformConstant(editor_, node.inputs[1]);
      if (!divisor || *divisor == 0) return std::nullopt;
      return Scaled(node.inputs[0], 1 / *divisor, depth);
    }
    if (node.Is("Pow")) return OfPower(node, depth);
    const bool sum = node.Is("Add") || node.Is("Sub");
    if (!sum && !node.Is("Mul")) return std::nullopt;
    const std::optional<GatedPolynomial> a = Of(node.inputs[0], depth);
    if (!a) return std::nullopt;
    const std::optional<GatedPolynomial> b = Of(node.inputs[1], depth);
    if (!b) return std::nullopt;
    if (!sum) return Product(*a, *b);
    const double factor = node.Is("Add") ? 1 : -1;
    return GatedPolynomial{Sum(a->free, b->free, factor), Sum(a->gated, b->gated, factor)};
  }

  std::optional<GatedPolynomial> Scaled(ValueId v, double factor, int depth) const {
    const std::optional<GatedPolynomial> a = Of(v, depth);
    if (!a) return std::nullopt;
    return GatedPolynomial{Sum({}, a->free, factor), Sum({}, a->gated, factor)};
  }

  std::optional<GatedPolynomial> OfPower(const Node& node, int depth) const {
    std::optional<double> exponent = UniformConstant(editor_, node.inputs[1]);
    if (const Tensor* tensor = editor_.constant(node.inputs[1]); tensor != nullptr && !exponent) {
      const std::optional<std::vector<int64_t>> integers = tensor->ToInt64s();
      if (integers && integers->size() == 1) exponent = static_cast<double>(integers->front());
    }
    if (!exponent || (*exponent != 2 && *exponent != 3)) return std::nullopt;
    const std::optional<GatedPolynomial> base = Of(node.inputs[0], depth);
    if (!base) return std::nullopt;
    std::optional<GatedPolynomial> power = Product(*base, *base);
    if (power && *exponent == 3) power = Product(*power, *base);
    return power;
  }

  const GraphEditor& editor_;
  ValueId x_;
  ValueId g_;
};

}  // namespace

std::optional<GatedPolynomial> AsPolynomial(const GraphEditor& editor, ValueId v, ValueId x,
                                            ValueId g) {
  return Walk(editor, x, g).Of(v, 0);
}

bool Near(const Polynomial& a, const Polynomial& b) {
  // Exporters write constants with 4 to 9 digits (0.7071, 0.044715, 0.797885).
  constexpr double kRelative = 2e-6;
  for (size_t i = 0; i < kPolynomialTerms; ++i) {
    if (std::abs(a[i] - b[i]) > kRelative * std::max(std::abs(a[i]), std::abs(b[i]))) return false;
  }
  return true;
}

}  // namespace onnx_memplan
