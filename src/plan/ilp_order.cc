#include "plan/ilp_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "plan/step_windows.h"
#include "plan/task_reach.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

// CBC works with a tolerance of 1e-7 on each row; a bound of its is lowered by this share.
constexpr double kBoundMargin = 1e-6;

// A linear expression: a constant and terms.
struct Expression {
  double constant = 0;
  std::vector<std::pair<int32_t, double>> terms = {};

  Expression& Add(const Expression& other, double factor) {
    constant += factor * other.constant;
    for (const auto& [variable, coefficient] : other.terms) {
      terms.emplace_back(variable, factor * coefficient);
    }
    return *this;
  }
};

// Terms of one variable added up, zeros dropped.
std::vector<std::pair<int32_t, double>> Compact(std::vector<std::pair<int32_t, double>> terms) {
  std::sort(terms.begin(), terms.end());
  std::vector<std::pair<int32_t, double>> sums;
  for (const auto& [variable, coefficient] : terms) {
    if (!sums.empty() && sums.back().first == variable) {
      sums.back().second += coefficient;
    } else {
      sums.emplace_back(variable, coefficient);
    }
  }
  std::erase_if(sums, [](const auto& term) { return term.second == 0; });
  return sums;
}

class CumulativeProgram {
 public:
  CumulativeProgram(const OrderModel& model, std::span<const int32_t> order,
                    const IlpOrderOptions& options)
      : model_(model),
        reach_(model.task_count, model.predecessors, model.successors),
        exact_(model.task_count <= options.max_exact_tasks),
        windows_(exact_ ? WindowsByCount(model, reach_) : WindowsByPath(model, options.stretch, 2)),
        unit_(ByteUnit(model)) {
    AddTasks();
    AddStorages();
    AddOffers();
    AddSteps();
    if (exact_) RaisePeak(options.lower_bound);
    WarmStart(order);
  }

  bool exact() const { return exact_; }
  int32_t steps() const { return windows_.step_count; }
  double unit() const { return static_cast<double>(unit_); }
  IlpModel& program() { return program_; }

  // The step of each task.
  std::vector<int32_t> StepOf(const std::vector<double>& values) const {
    std::vector<int32_t> step_of(model_.task_count);
    for (int32_t v = 0; v < model_.task_count; ++v) {
      int32_t step = windows_.earliest[v];
      while (step < windows_.latest[v] && values[ran_[v][step - windows_.earliest[v]]] < 0.5) {
        ++step;
      }
      step_of[v] = step;
    }
    return step_of;
  }

 private:
  static int64_t ByteUnit(const OrderModel& model) {
    int64_t unit = 0;
    for (int64_t bytes : model.bytes) unit = std::gcd(unit, bytes);
    for (int64_t bytes : model.extra_bytes) unit = std::gcd(unit, std::abs(bytes));
    return std::max<int64_t>(1, unit);
  }

  // X[v,t] for any step, -1 and beyond included.
  Expression Ran(int32_t v, int32_t t) const {
    if (t < windows_.earliest[v]) return {};
    if (t >= windows_.latest[v]) return {.constant = 1};
    return {.terms = {{ran_[v][t - windows_.earliest[v]], 1.0}}};
  }

  // lower <= expression; dropped when it holds for all values of the variables' bounds.
  void AtLeast(double lower, const Expression& expression) {
    std::vector<std::pair<int32_t, double>> terms = Compact(expression.terms);
    double least = 0;
    for (const auto& [variable, coefficient] : terms) {
      const IlpVariable& v = program_.variables[variable];
      least += coefficient * (coefficient > 0 ? v.lower : v.upper);
    }
    if (least >= lower - expression.constant) return;
    program_.AddRow(lower - expression.constant, std::move(terms), kIlpInfinity);
  }

  void AddTasks() {
    ran_.resize(model_.task_count);
    for (int32_t v = 0; v < model_.task_count; ++v) {
      for (int32_t t = windows_.earliest[v]; t < windows_.latest[v]; ++t) {
        ran_[v].push_back(program_.AddBinary());
      }
    }
    for (int32_t v = 0; v < model_.task_count; ++v) {
      for (int32_t t = windows_.earliest[v]; t <= windows_.latest[v]; ++t) {
        AtLeast(0, Ran(v, t).Add(Ran(v, t - 1), -1));
        for (int32_t pred : model_.predecessors[v]) AtLeast(0, Ran(pred, t - 1).Add(Ran(v, t), -1));
      }
    }
    if (!exact_) return;
    for (int32_t t = 0; t < windows_.step_count; ++t) {
      Expression sum;
      for (int32_t v = 0; v < model_.task_count; ++v) sum.Add(Ran(v, t), 1);
      std::vector<std::pair<int32_t, double>> terms = Compact(std::move(sum.terms));
      const double count = t + 1 - sum.constant;
      if (!terms.empty()) program_.AddRow(count, std::move(terms), count);
    }
  }

  // Touchers that no other toucher must precede (`first`), or that no other must follow.
  std::vector<int32_t> Ends(int32_t s, bool first) const {
    std::vector<int32_t> ends;
    for (int32_t u : model_.touchers[s]) {
      const bool covered = std::ranges::any_of(model_.touchers[s], [&](int32_t other) {
        return first ? reach_.Before(other, u) : reach_.Before(u, other);
      });
      if (!covered) ends.push_back(u);
    }
    return ends;
  }

  void AddStorages() {
    live_.assign(model_.storage_count, {});
    for (int32_t s = 0; s < model_.storage_count; ++s) {
      const std::vector<int32_t> first = Ends(s, true), last = Ends(s, false);
      for (int32_t t = 0; t < windows_.step_count; ++t) {
        const int32_t live = program_.AddVariable({.lower = 0, .upper = 1});
        live_[s].push_back(live);
        // Begun, for each task that may begin it; not ended, for each that may end it.
        std::vector<Expression> begun, open;
        for (int32_t u : first) begun.push_back(Ran(u, t));
        for (int32_t c : last) {
          open.push_back(Expression{.constant = 1}.Add(Ran(c, t - 1), -1));
        }
        if (model_.live_in[s]) begun.assign(1, {.constant = 1});
        if (model_.live_out[s]) open.assign(1, {.constant = 1});
        for (const Expression& b : begun) {
          for (const Expression& o : open) {
            Expression row{.constant = 1, .terms = {{live, 1.0}}};
            AtLeast(0, row.Add(b, -1).Add(o, -1));
          }
        }
      }
    }
  }

  void AddOffers() {
    taken_.assign(model_.offers.size(), {});
    for (int32_t v = 0; v < model_.task_count; ++v) {
      for (int32_t o = model_.offer_begin[v]; o < model_.offer_begin[v + 1]; ++o) {
        const OrderOffer& offer = model_.offers[o];
        for (int32_t t = windows_.earliest[v]; t <= windows_.latest[v]; ++t) {
          const int32_t taken = program_.AddBinary();
          taken_[o].push_back(taken);
          const Expression minus{.terms = {{taken, -1.0}}};
          AtLeast(0, Ran(v, t).Add(Ran(v, t - 1), -1).Add(minus, 1));
          for (int32_t u : model_.touchers[offer.from]) {
            if (u != v) AtLeast(0, Ran(u, t - 1).Add(minus, 1));
          }
          for (int32_t u : model_.touchers[offer.to]) {
            if (u != v) AtLeast(-1, Expression{}.Add(Ran(u, t), -1).Add(minus, 1));
          }
        }
      }
      ForbidSharing(v);
    }
  }

  // No storage is in two options of one task that are taken at once.
  void ForbidSharing(int32_t v) {
    std::vector<int32_t> storages;
    for (const OrderOffer& offer : model_.OffersOf(v)) {
      storages.push_back(offer.from);
      storages.push_back(offer.to);
    }
    std::sort(storages.begin(), storages.end());
    storages.erase(std::unique(storages.begin(), storages.end()), storages.end());
    for (int32_t s : storages) {
      for (int32_t i = 0; i <= windows_.latest[v] - windows_.earliest[v]; ++i) {
        std::vector<std::pair<int32_t, double>> terms;
        for (int32_t o = model_.offer_begin[v]; o < model_.offer_begin[v + 1]; ++o) {
          if (model_.offers[o].from == s || model_.offers[o].to == s) {
            terms.emplace_back(taken_[o][i], 1.0);
          }
        }
        if (terms.size() > 1) program_.AddRow(-kIlpInfinity, std::move(terms), 1);
      }
    }
  }

  double Units(int64_t bytes) const { return static_cast<double>(bytes / unit_); }

  void AddSteps() {
    peak_ = program_.AddVariable({.lower = 0, .upper = kIlpInfinity, .cost = 1});
    std::vector<Expression> step(windows_.step_count);
    for (int32_t s = 0; s < model_.storage_count; ++s) {
      for (int32_t t = 0; t < windows_.step_count; ++t) {
        step[t].terms.emplace_back(live_[s][t], Units(model_.bytes[s]));
      }
    }
    for (int32_t v = 0; v < model_.task_count; ++v) {
      for (int32_t t = windows_.earliest[v]; t <= windows_.latest[v]; ++t) {
        if (model_.extra_bytes[v] != 0) {
          const double extra = Units(model_.extra_bytes[v]);
          step[t].Add(Ran(v, t), extra).Add(Ran(v, t - 1), -extra);
        }
        for (int32_t o = model_.offer_begin[v]; o < model_.offer_begin[v + 1]; ++o) {
          step[t].terms.emplace_back(taken_[o][t - windows_.earliest[v]],
                                     -Units(model_.offers[o].saved_bytes));
        }
      }
    }
    for (Expression& bytes : step) {
      AtLeast(0, Expression{.terms = {{peak_, 1.0}}}.Add(bytes, -1));
    }
  }

  void RaisePeak(int64_t lower_bound) {
    const int64_t bytes = lower_bound - model_.base_bytes;
    if (bytes > 0) program_.variables[peak_].lower = std::ceil(static_cast<double>(bytes) / unit());
  }

  void WarmStart(std::span<const int32_t> order) {
    const std::vector<int32_t> step_of = StepsNear(model_, windows_, order);
    std::vector<double> values(program_.variables.size(), 0);
    const auto ran = [&](int32_t v, int32_t t) { return step_of[v] <= t; };
    for (int32_t v = 0; v < model_.task_count; ++v) {
      for (size_t i = 0; i < ran_[v].size(); ++i) {
        values[ran_[v][i]] = ran(v, windows_.earliest[v] + static_cast<int32_t>(i)) ? 1 : 0;
      }
    }
    std::vector<double> step(windows_.step_count, 0);
    for (int32_t s = 0; s < model_.storage_count; ++s) {
      for (int32_t t = 0; t < windows_.step_count; ++t) {
        const auto touchers = model_.touchers[s];
        const bool begun = model_.live_in[s] ||
                           std::ranges::any_of(touchers, [&](int32_t u) { return ran(u, t); });
        const bool open = model_.live_out[s] ||
                          std::ranges::any_of(touchers, [&](int32_t c) { return !ran(c, t - 1); });
        values[live_[s][t]] = begun && open ? 1 : 0;
        if (begun && open) step[t] += Units(model_.bytes[s]);
      }
    }
    for (int32_t v = 0; v < model_.task_count; ++v) {
      const int32_t t = step_of[v];
      step[t] += Units(model_.extra_bytes[v]);
      std::vector<int32_t> used;
      for (int32_t o = model_.offer_begin[v]; o < model_.offer_begin[v + 1]; ++o) {
        const OrderOffer& offer = model_.offers[o];
        const bool applies =
            std::ranges::all_of(model_.touchers[offer.from],
                                [&](int32_t u) { return u == v || ran(u, t - 1); }) &&
            std::ranges::none_of(model_.touchers[offer.to],
                                 [&](int32_t u) { return u != v && ran(u, t); }) &&
            std::ranges::find(used, offer.from) == used.end() &&
            std::ranges::find(used, offer.to) == used.end();
        if (!applies) continue;
        used.insert(used.end(), {offer.from, offer.to});
        values[taken_[o][t - windows_.earliest[v]]] = 1;
        step[t] -= Units(offer.saved_bytes);
      }
    }
    values[peak_] = std::max(0.0, *std::max_element(step.begin(), step.end()));
    program_.warm_start = std::move(values);
  }

  const OrderModel& model_;
  TaskReach reach_;
  bool exact_;
  StepWindows windows_;
  int64_t unit_;
  IlpModel program_;
  std::vector<std::vector<int32_t>> ran_;    // by task: X for each step of [earliest, latest)
  std::vector<std::vector<int32_t>> live_;   // by storage and step: L
  std::vector<std::vector<int32_t>> taken_;  // by offer: Y for each step of [earliest, latest]
  int32_t peak_ = 0;
};

}  // namespace

IlpOrderResult SolveOrderIlp(const OrderModel& model, std::span<const int32_t> order,
                             const IlpOrderOptions& options) {
  if (model.task_count == 0) return {};
  CumulativeProgram cumulative(model, order, options);
  IlpModel& program = cumulative.program();
  MEMPLAN_CHECK(IsFeasible(program, program.warm_start));
  IlpResult solved = SolveIlp(program, options.ilp);
  if (cumulative.exact() && !std::isfinite(solved.best_bound)) {
    // Stopped before the first bound: the relaxation alone is cheaper.
    solved.best_bound = SolveRelaxation(program, 0.3 * options.ilp.time_limit_seconds);
  }
  IlpOrderResult result;
  result.description =
      absl::StrFormat("cumulative ILP, %d steps, %d columns, %d rows, %d nodes", cumulative.steps(),
                      program.variables.size(), program.rows.size(), solved.nodes);
  const int64_t peak = OrderPeak(model, order);
  if (cumulative.exact() && std::isfinite(solved.best_bound)) {
    // Bytes are whole units.
    const double units =
        std::ceil(solved.best_bound - kBoundMargin * (1 + std::abs(solved.best_bound)));
    result.lower_bound =
        model.base_bytes + static_cast<int64_t>(std::max(0.0, units) * cumulative.unit());
  }
  if (!solved.values.empty()) {
    std::vector<int32_t> found = SequenceSteps(model, cumulative.StepOf(solved.values));
    if (OrderPeak(model, found) < peak) result.order = std::move(found);
  }
  return result;
}

}  // namespace onnx_memplan
