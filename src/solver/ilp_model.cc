#include "solver/ilp_model.h"

#include <algorithm>
#include <cmath>

namespace onnx_memplan {
namespace {
constexpr double kTolerance = 1e-6;

bool Within(double lower, double value, double upper, double scale) {
  const double slack = kTolerance * std::max(1.0, scale);
  return value >= lower - slack && value <= upper + slack;
}
}  // namespace

bool IsFeasible(const IlpModel& model, const std::vector<double>& values) {
  if (values.size() != model.variables.size()) return false;
  for (size_t v = 0; v < values.size(); ++v) {
    const IlpVariable& variable = model.variables[v];
    if (!Within(variable.lower, values[v], variable.upper, std::abs(values[v]))) return false;
    if (variable.is_integer && std::abs(values[v] - std::round(values[v])) > kTolerance) {
      return false;
    }
  }
  return std::ranges::all_of(model.rows, [&](const IlpRow& row) {
    double sum = 0, scale = 0;
    for (const auto& [variable, coefficient] : row.terms) {
      const double term = coefficient * values[variable];
      sum += term;
      scale = std::max(scale, std::abs(term));
    }
    return Within(row.lower, sum, row.upper, scale);
  });
}

}  // namespace onnx_memplan
