// SolveIlp with CBC, SolveRelaxation with CLP. The only file that knows of COIN-OR.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "solver/ilp_model.h"

// CBC's headers do not compile cleanly under our warnings.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <coin/CbcEventHandler.hpp>
#include <coin/CbcModel.hpp>
#include <coin/CbcSolver.hpp>
#include <coin/CoinMessageHandler.hpp>
#include <coin/CoinPackedMatrix.hpp>
#include <coin/OsiClpSolverInterface.hpp>
#pragma GCC diagnostic pop

namespace onnx_memplan {
namespace {

constexpr double kCutoffTolerance = 1e-7;

// Drops all messages.
class SilentHandler : public CoinMessageHandler {
 public:
  int print() override { return 0; }
  CoinMessageHandler* clone() const override { return new SilentHandler(*this); }
};

// Tells progress and stops the search when it is cancelled. CBC copies it freely.
class Watcher : public CbcEventHandler {
 public:
  explicit Watcher(const IlpOptions& options) : options_(&options) {}
  CbcEventHandler* clone() const override { return new Watcher(*this); }

  CbcAction event(CbcEvent which) override {
    if (options_->cancel != nullptr && options_->cancel->load(std::memory_order_relaxed)) {
      return stop;
    }
    const bool news =
        which == node || which == treeStatus || which == solution || which == heuristicSolution;
    // Inner searches of heuristics have a parent; their numbers mean something else.
    if (news && options_->progress && model_ != nullptr && model_->parentModel() == nullptr) {
      options_->progress(Objective(), model_->getBestPossibleObjValue(), model_->getNodeCount());
    }
    return noAction;
  }

 private:
  double Objective() const {
    const double value = model_->getObjValue();
    return value > 1e40 ? kIlpInfinity : value;
  }
  const IlpOptions* options_;
};

double CoinBound(double value) {
  return std::isinf(value) ? std::copysign(COIN_DBL_MAX, value) : value;
}

void Load(const IlpModel& model, OsiClpSolverInterface& solver, CoinMessageHandler& silent) {
  const auto columns = static_cast<int>(model.variables.size());
  const auto rows = static_cast<int>(model.rows.size());
  std::vector<double> lower, upper, cost, row_lower, row_upper;
  for (const IlpVariable& variable : model.variables) {
    lower.push_back(CoinBound(variable.lower));
    upper.push_back(CoinBound(variable.upper));
    cost.push_back(variable.cost);
  }
  std::vector<int> row_index, column_index;
  std::vector<double> element;
  for (int r = 0; r < rows; ++r) {
    const IlpRow& row = model.rows[static_cast<size_t>(r)];
    row_lower.push_back(CoinBound(row.lower));
    row_upper.push_back(CoinBound(row.upper));
    for (const auto& [variable, coefficient] : row.terms) {
      row_index.push_back(r);
      column_index.push_back(variable);
      element.push_back(coefficient);
    }
  }
  CoinPackedMatrix matrix(true, row_index.data(), column_index.data(), element.data(),
                          static_cast<CoinBigIndex>(element.size()));
  matrix.setDimensions(rows, columns);
  solver.passInMessageHandler(&silent);
  solver.setHintParam(OsiDoReducePrint, true, OsiHintTry);
  solver.loadProblem(matrix, lower.data(), upper.data(), cost.data(), row_lower.data(),
                     row_upper.data());
  for (int c = 0; c < columns; ++c) {
    if (model.variables[static_cast<size_t>(c)].is_integer) solver.setInteger(c);
  }
}

void SetWarmStart(const IlpModel& model, CbcModel& cbc) {
  if (model.warm_start.empty()) return;
  std::vector<std::pair<std::string, double>> start;
  for (size_t v = 0; v < model.variables.size(); ++v) {
    start.emplace_back(cbc.solver()->getColName(static_cast<int>(v)), model.warm_start[v]);
  }
  cbc.setMIPStart(start);
}

// The verdict of a finished or stopped CBC.
IlpResult Read(const IlpModel& model, const CbcModel& cbc) {
  IlpResult result;
  result.nodes = cbc.getNodeCount();
  result.best_bound = cbc.getBestPossibleObjValue();
  const bool finished = cbc.status() == 0;
  if (const double* best = cbc.bestSolution(); best != nullptr) {
    result.values.assign(best, best + model.variables.size());
    for (size_t v = 0; v < model.variables.size(); ++v) {
      if (model.variables[v].is_integer) result.values[v] = std::round(result.values[v]);
    }
  }
  // CBC accepts points to its own tolerances; ours decide.
  if (!result.values.empty() && !IsFeasible(model, result.values)) result.values.clear();
  if (!result.values.empty()) {
    result.objective = 0;
    for (size_t v = 0; v < model.variables.size(); ++v) {
      result.objective += model.variables[v].cost * result.values[v];
    }
    result.status = finished && cbc.isProvenOptimal() ? IlpStatus::kOptimal : IlpStatus::kFeasible;
    result.best_bound = std::min(result.best_bound, result.objective);
    if (!model.cutoff.has_value() || result.objective < *model.cutoff - kCutoffTolerance) {
      return result;
    }
    // CBC lets points at the cutoff itself pass.
    result.values.clear();
    result.objective = kIlpInfinity;
    if (finished && cbc.isProvenOptimal()) {
      result.status = IlpStatus::kInfeasible;
      result.best_bound = *model.cutoff;
      return result;
    }
  }
  if (finished && cbc.isProvenInfeasible()) {
    result.status = IlpStatus::kInfeasible;
    result.best_bound = model.cutoff.value_or(kIlpInfinity);
    return result;
  }
  result.status = IlpStatus::kLimit;
  if (model.cutoff.has_value()) result.best_bound = std::min(result.best_bound, *model.cutoff);
  if (std::abs(result.best_bound) > 1e40) result.best_bound = -kIlpInfinity;
  return result;
}

}  // namespace

IlpResult SolveIlp(const IlpModel& model, const IlpOptions& options) {
  SilentHandler silent;
  OsiClpSolverInterface solver;
  Load(model, solver, silent);
  CbcModel cbc(solver);
  cbc.passInMessageHandler(&silent);
  CbcSolverUsefulData data;
  data.noPrinting_ = true;
  CbcMain0(cbc, data);
  cbc.setLogLevel(0);
  const Watcher watcher(options);
  cbc.passInEventHandler(&watcher);
  SetWarmStart(model, cbc);
  std::vector<std::string> arguments = {"memplan",
                                        "-logLevel",
                                        "0",
                                        "-randomCbcSeed",
                                        std::to_string(options.seed % 1000000 + 1),
                                        "-seconds",
                                        std::to_string(std::max(0.01, options.time_limit_seconds)),
                                        "-timeMode",
                                        "elapsed"};
  if (options.node_limit.has_value()) {
    arguments.insert(
        arguments.end(),
        {"-maxNodes", std::to_string(std::min<int64_t>(*options.node_limit, 1 << 30))});
  }
  if (options.relative_gap > 0) {
    arguments.insert(arguments.end(), {"-ratioGap", std::to_string(options.relative_gap)});
  }
  if (model.cutoff.has_value()) {
    arguments.insert(arguments.end(), {"-cutoff", std::to_string(*model.cutoff)});
  }
  arguments.insert(arguments.end(), {"-solve", "-quit"});
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  CbcMain1(
      static_cast<int>(argv.size()), argv.data(), cbc, [](CbcModel*, int) { return 0; }, data);
  return Read(model, cbc);
}

double SolveRelaxation(const IlpModel& model, double time_limit_seconds) {
  SilentHandler silent;
  OsiClpSolverInterface solver;
  Load(model, solver, silent);
  solver.messageHandler()->setLogLevel(0);
  solver.getModelPtr()->setMaximumWallSeconds(std::max(0.01, time_limit_seconds));
  solver.initialSolve();
  if (solver.isProvenOptimal()) return solver.getObjValue();
  if (solver.isProvenPrimalInfeasible()) return kIlpInfinity;
  return -kIlpInfinity;
}

}  // namespace onnx_memplan
