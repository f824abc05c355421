// A mixed integer linear program as data, and a solver for it.
#ifndef ONNX_MEMPLAN_SOLVER_ILP_MODEL_H_
#define ONNX_MEMPLAN_SOLVER_ILP_MODEL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace onnx_memplan {

inline constexpr double kIlpInfinity = std::numeric_limits<double>::infinity();

struct IlpVariable {
  double lower = 0;
  double upper = 1;
  // Coefficient in the objective, which is minimised.
  double cost = 0;
  bool is_integer = false;
};

// lower <= sum of coefficient x variable <= upper. A variable occurs at most once.
struct IlpRow {
  double lower = -kIlpInfinity;
  double upper = kIlpInfinity;
  std::vector<std::pair<int32_t, double>> terms = {};  // (variable, coefficient)
};

struct IlpModel {
  std::vector<IlpVariable> variables;
  std::vector<IlpRow> rows;
  // A feasible point, one value for each variable, or empty.
  std::vector<double> warm_start;
  // Only solutions with a smaller objective are wanted.
  std::optional<double> cutoff;

  int32_t AddVariable(const IlpVariable& variable) {
    variables.push_back(variable);
    return static_cast<int32_t>(variables.size()) - 1;
  }
  int32_t AddBinary(double cost = 0) {
    return AddVariable({.lower = 0, .upper = 1, .cost = cost, .is_integer = true});
  }
  void AddRow(double lower, std::vector<std::pair<int32_t, double>> terms, double upper) {
    rows.push_back({.lower = lower, .upper = upper, .terms = std::move(terms)});
  }
};

struct IlpOptions {
  double time_limit_seconds = 10;
  // Branch-and-bound nodes; nullopt: only the time limits them.
  std::optional<int64_t> node_limit = std::nullopt;
  // Stop when (objective - bound) / objective is within this.
  double relative_gap = 0;
  uint64_t seed = 1;
  const std::atomic<bool>* cancel = nullptr;
  // Called at nodes and new solutions: objective of the incumbent (infinite: none), best bound,
  // nodes. May be empty.
  std::function<void(double, double, int64_t)> progress = {};
};

enum class IlpStatus {
  kOptimal,     // values are optimal (within relative_gap)
  kFeasible,    // a limit was hit; values are feasible
  kInfeasible,  // there is no point, or none below the cutoff
  kLimit,       // a limit was hit before anything was found
};

struct IlpResult {
  IlpStatus status = IlpStatus::kLimit;
  std::vector<double> values;  // by variable; integers are rounded. Empty without a solution
  double objective = kIlpInfinity;
  // No point has a smaller objective. With a cutoff: or it is not below the cutoff.
  double best_bound = -kIlpInfinity;
  int64_t nodes = 0;
};

// Solves `model` with CBC. Prints nothing.
IlpResult SolveIlp(const IlpModel& model, const IlpOptions& options);

// The least objective when integers may take any value between their bounds, found by CLP: a lower
// bound on every solution. -infinity when the limit was hit or the relaxation is unbounded,
// +infinity when it is infeasible.
double SolveRelaxation(const IlpModel& model, double time_limit_seconds);

// Whether `values` is within all bounds and rows, to a relative tolerance of 1e-6, and integer
// where it must be.
bool IsFeasible(const IlpModel& model, const std::vector<double>& values);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_SOLVER_ILP_MODEL_H_
