// SolveIlp with CBC, SolveRelaxation with CLP. The only file that knows of COIN-OR.
#include <algorithm>
#include <chrono>
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

double Objective(const IlpModel& model, const std::vector<double>& values) {
  double objective = 0;
  for (size_t v = 0; v < values.size(); ++v) objective += model.variables[v].cost * values[v];
  return objective;
}

// The verdict of a finished or stopped CBC that was asked for solutions below `cutoff`.
IlpResult Read(const IlpModel& model, const CbcModel& cbc, double cutoff) {
  IlpResult result;
  result.nodes = cbc.getNodeCount();
  result.best_bound = cbc.getBestPossibleObjValue();
  const bool finished = cbc.status() == 0;
  if (const double* best = cbc.bestSolution(); best != nullptr) {
    result.values.assign(best, best + model.variables.size());
    for (size_t v = 0; v < model.variables.size(); ++v) {
      if (model.variables[v].is_integer) result.values[v] = std::round(result.values[v]);
    }
    result.objective = Objective(model, result.values);
    // CBC accepts points to its own tolerances, and lets points at the cutoff itself pass.
    const bool wanted = result.objective < cutoff - kCutoffTolerance;
    if (wanted && IsFeasible(model, result.values)) {
      result.best_bound = std::min(result.best_bound, result.objective);
      result.status =
          finished && cbc.isProvenOptimal() ? IlpStatus::kOptimal : IlpStatus::kFeasible;
      return result;
    }
    const bool at_cutoff = !wanted && finished && cbc.isProvenOptimal();
    result.values.clear();
    result.objective = kIlpInfinity;
    if (at_cutoff) {
      result.status = IlpStatus::kInfeasible;
      result.best_bound = cutoff;
      return result;
    }
  }
  if (finished && cbc.isProvenInfeasible()) {
    result.status = IlpStatus::kInfeasible;
    result.best_bound = cutoff;
    return result;
  }
  result.status = IlpStatus::kLimit;
  // Beyond that, CBC means that it knows of none.
  if (std::abs(result.best_bound) > 1e40) result.best_bound = -kIlpInfinity;
  result.best_bound = std::min(result.best_bound, cutoff);
  return result;
}

// CBC looks at its clock between linear programs, of which one can take minutes; CLP stops within
// them, after half as long again.
double PatienceSeconds(double time_limit_seconds) { return 1.5 * time_limit_seconds + 0.5; }

// What is left of `result` after `elapsed_seconds`. Out of time, CBC 2.10 calls programs infeasible
// that are not: a verdict counts only when it came in time, the bound of an unfinished search until
// CLP may have stopped, whose objective is then none. Points are checked and always count.
void KeepWhatIsSure(double elapsed_seconds, double time_limit_seconds, const IlpOptions& options,
                    IlpResult& result) {
  constexpr double kClockMargin = 0.95;
  const bool cancelled =
      options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed);
  const bool in_time = !cancelled && elapsed_seconds < kClockMargin * time_limit_seconds;
  const bool is_verdict =
      result.status == IlpStatus::kOptimal || result.status == IlpStatus::kInfeasible;
  if (is_verdict && !in_time) {
    result.status = result.values.empty() ? IlpStatus::kLimit : IlpStatus::kFeasible;
    result.best_bound = -kIlpInfinity;
  }
  if (elapsed_seconds >= kClockMargin * PatienceSeconds(time_limit_seconds)) {
    result.best_bound = -kIlpInfinity;
  }
}

IlpResult RunCbc(const IlpModel& model, const IlpOptions& options, double cutoff) {
  const double time_limit_seconds = std::max(0.01, options.time_limit_seconds);
  const auto start = std::chrono::steady_clock::now();
  SilentHandler silent;
  OsiClpSolverInterface solver;
  Load(model, solver, silent);
  solver.getModelPtr()->setMaximumWallSeconds(PatienceSeconds(time_limit_seconds));
  CbcModel cbc(solver);
  cbc.passInMessageHandler(&silent);
  CbcSolverUsefulData data;
  data.noPrinting_ = true;
  CbcMain0(cbc, data);
  cbc.setLogLevel(0);
  const Watcher watcher(options);
  cbc.passInEventHandler(&watcher);
  std::vector<std::string> arguments = {"memplan",
                                        "-logLevel",
                                        "0",
                                        "-randomCbcSeed",
                                        std::to_string(options.seed % 1000000 + 1),
                                        "-seconds",
                                        std::to_string(time_limit_seconds),
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
  if (!std::isinf(cutoff)) {
    arguments.insert(arguments.end(), {"-cutoff", std::to_string(cutoff)});
  }
  arguments.insert(arguments.end(), {"-solve", "-quit"});
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  try {
    CbcMain1(
        static_cast<int>(argv.size()), argv.data(), cbc, [](CbcModel*, int) { return 0; }, data);
  } catch (const CoinError&) {
    return {};  // a limit of CBC itself: nothing is known
  }
  IlpResult result = Read(model, cbc, cutoff);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  KeepWhatIsSure(elapsed.count(), time_limit_seconds, options, result);
  return result;
}

}  // namespace

// A warm start is a cutoff and what is returned when nothing better is found: with CBC 2.10's own
// warm starts, its preprocessing mixes up columns.
IlpResult SolveIlp(const IlpModel& model, const IlpOptions& options) {
  double cutoff = model.cutoff.value_or(kIlpInfinity);
  const bool warm = !model.warm_start.empty() && IsFeasible(model, model.warm_start) &&
                    Objective(model, model.warm_start) < cutoff;
  if (!warm) return RunCbc(model, options, cutoff);
  const double objective = Objective(model, model.warm_start);
  IlpResult result = RunCbc(model, options, objective);
  if (!result.values.empty()) return result;
  const bool proven = result.status == IlpStatus::kInfeasible;
  result.status = proven ? IlpStatus::kOptimal : IlpStatus::kFeasible;
  result.values = model.warm_start;
  result.objective = objective;
  result.best_bound = std::min(result.best_bound, objective);
  return result;
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
