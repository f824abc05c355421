#include "plan/ilp_olla.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <ranges>
#include <tuple>

#include "absl/strings/str_format.h"
#include "plan/order_heuristics.h"
#include "plan/step_windows.h"
#include "plan/task_reach.h"

namespace onnx_memplan {
namespace {

// CBC works with a tolerance of 1e-7 on each row; a bound of its is lowered by this share.
constexpr double kBoundMargin = 1e-6;

// The model with more precedence.
OrderModel WithEdges(OrderModel model, const std::vector<std::pair<int32_t, int32_t>>& edges) {
  std::vector<std::pair<int32_t, int32_t>> preds;
  for (int32_t t = 0; t < model.task_count; ++t) {
    for (int32_t pred : model.predecessors[t]) preds.emplace_back(t, pred);
  }
  for (const auto& [before, after] : edges) preds.emplace_back(after, before);
  model.predecessors = TaskLists(model.task_count, std::move(preds));
  model.successors = Inverse(model.task_count, model.predecessors);
  return model;
}

// A tensor of OLLA's graph: one source, many sinks.
struct Tensor {
  int32_t source = -1;  // -1: there from the start
  std::vector<int32_t> sinks = {};
  int64_t bytes = 0;
  bool live_out = false;
  int32_t storage = -1;  // -1: scratch, or nothing but the fact that a task ran
  // Steps [first, last] that it may be live in; the variables of each. -1: no such variable.
  int32_t first = 0, last = 0;
  std::vector<int32_t> created = {}, preserved = {};
};

class OllaProgram {
 public:
  OllaProgram(const OrderModel& model, const OllaOptions& options)
      : model_(model),
        reach_(model.task_count, model.predecessors, model.successors),
        full_(model.task_count <= options.max_full_steps),
        windows_(full_ ? FullWindows() : WindowsByPath(model, options.stretch, 0)),
        outputs_(model.task_count),
        inputs_(model.task_count) {
    MakeTensors();
    for (Tensor& tensor : tensors_) AddVariables(tensor);
    for (const Tensor& tensor : tensors_) AddLifetime(tensor);
    for (int32_t v = 0; v < model_.task_count; ++v) AddTask(v);
    peak_ = program_.AddVariable({.lower = 0, .upper = kIlpInfinity, .cost = 1});
    if (options.joint) {
      AddLocations();
    }
    AddSteps();
  }

  IlpModel& program() { return program_; }
  int32_t steps() const { return windows_.step_count; }
  bool full() const { return full_; }
  // Every storage is a tensor with a source.
  bool complete() const { return constant_bytes_ == 0; }
  double unit() const { return static_cast<double>(unit_); }

  std::vector<int32_t> StepOf(const std::vector<double>& values) const {
    std::vector<int32_t> step_of(model_.task_count, 0);
    for (int32_t v = 0; v < model_.task_count; ++v) {
      const Tensor& tensor = tensors_[outputs_[v].front()];
      for (int32_t t = windows_.earliest[v]; t <= windows_.latest[v]; ++t) {
        if (values[Created(tensor, t)] > 0.5) step_of[v] = t;
      }
    }
    return step_of;
  }

  // By storage.
  std::vector<double> Addresses(const std::vector<double>& values) const {
    std::vector<double> addresses(model_.storage_count, 0);
    for (size_t e = 0; e < address_.size(); ++e) {
      if (tensors_[e].storage >= 0) {
        addresses[tensors_[e].storage] = values[address_[e]] * unit();
      }
    }
    return addresses;
  }

 private:
  StepWindows FullWindows() const {
    // Steps may still be shared: only precedence bounds them.
    StepWindows windows = WindowsByPath(model_, model_.task_count, 0);
    return windows;
  }

  // The toucher that runs before all others, or -1.
  int32_t FirstToucher(int32_t s) const {
    for (int32_t u : model_.touchers[s]) {
      if (std::ranges::all_of(model_.touchers[s], [&](int32_t other) {
            return other == u || reach_.Before(u, other);
          })) {
        return u;
      }
    }
    return -1;
  }

  void MakeTensors() {
    for (int32_t s = 0; s < model_.storage_count; ++s) {
      Tensor tensor{.bytes = model_.bytes[s], .live_out = model_.live_out[s] != 0, .storage = s};
      if (!model_.live_in[s]) {
        tensor.source = FirstToucher(s);
        if (tensor.source < 0) {
          constant_bytes_ += model_.bytes[s];
          continue;
        }
      }
      for (int32_t u : model_.touchers[s]) {
        if (u != tensor.source) tensor.sinks.push_back(u);
      }
      AddTensor(std::move(tensor));
    }
    for (int32_t v = 0; v < model_.task_count; ++v) {
      if (model_.extra_bytes[v] == 0 && !outputs_[v].empty()) continue;
      AddTensor({.source = v, .bytes = model_.extra_bytes[v]});
    }
    unit_ = constant_bytes_;
    for (const Tensor& tensor : tensors_) unit_ = std::gcd(unit_, tensor.bytes);
    unit_ = std::max<int64_t>(1, unit_);
  }

  void AddTensor(Tensor tensor) {
    const auto index = static_cast<int32_t>(tensors_.size());
    if (tensor.source >= 0) outputs_[tensor.source].push_back(index);
    for (int32_t sink : tensor.sinks) inputs_[sink].push_back(index);
    tensor.first = tensor.source < 0 ? 0 : windows_.earliest[tensor.source];
    tensor.last = tensor.source < 0 ? 0 : windows_.latest[tensor.source];
    for (int32_t sink : tensor.sinks) tensor.last = std::max(tensor.last, windows_.latest[sink]);
    if (tensor.live_out) tensor.last = windows_.step_count - 1;
    tensors_.push_back(std::move(tensor));
  }

  // (7)
  void AddVariables(Tensor& tensor) {
    const int32_t source = tensor.source;
    int32_t sure_first = source < 0 ? 0 : windows_.latest[source] + 1;
    int32_t sure_last = -1;
    for (int32_t sink : tensor.sinks) sure_last = std::max(sure_last, windows_.earliest[sink]);
    if (tensor.live_out) sure_last = windows_.step_count - 1;
    for (int32_t t = tensor.first; t <= tensor.last; ++t) {
      const bool may_create = source >= 0 && t <= windows_.latest[source];
      tensor.created.push_back(may_create ? program_.AddBinary() : -1);
      const bool may_preserve = source < 0 || t > windows_.earliest[source];
      tensor.preserved.push_back(may_preserve ? program_.AddBinary() : -1);
      if (may_preserve && t >= sure_first && t <= sure_last) {
        program_.variables[tensor.preserved.back()].lower = 1;
      }
    }
  }

  int32_t Created(const Tensor& tensor, int32_t t) const {
    return t < tensor.first || t > tensor.last ? -1 : tensor.created[t - tensor.first];
  }
  int32_t Preserved(const Tensor& tensor, int32_t t) const {
    return t < tensor.first || t > tensor.last ? -1 : tensor.preserved[t - tensor.first];
  }

  using Terms = std::vector<std::pair<int32_t, double>>;
  static void AddTerm(Terms& terms, int32_t variable, double coefficient) {
    if (variable >= 0) terms.emplace_back(variable, coefficient);
  }

  void AddLifetime(const Tensor& tensor) {
    Terms once;
    for (int32_t t = tensor.first; t <= tensor.last; ++t) {
      const int32_t created = Created(tensor, t), preserved = Preserved(tensor, t);
      AddTerm(once, created, 1);
      if (created >= 0 && preserved >= 0) {  // (1)
        program_.AddRow(-kIlpInfinity, {{created, 1}, {preserved, 1}}, 1);
      }
      if (preserved < 0 || t == 0) continue;
      Terms keep = {{preserved, -1}};  // (2)
      AddTerm(keep, Preserved(tensor, t - 1), 1);
      AddTerm(keep, Created(tensor, t - 1), 1);
      if (tensor.live_out && keep.size() > 1) {
        program_.AddRow(0, keep, 0);  // never given up
      } else {
        program_.AddRow(0, keep, kIlpInfinity);
      }
    }
    if (!once.empty()) program_.AddRow(1, std::move(once), 1);  // (3)
  }

  void AddTask(int32_t v) {
    const Tensor& first = tensors_[outputs_[v].front()];
    for (int32_t t = windows_.earliest[v]; t <= windows_.latest[v]; ++t) {
      const int32_t created = Created(first, t);
      for (size_t i = 1; i < outputs_[v].size(); ++i) {  // (5)
        program_.AddRow(0, {{created, 1}, {Created(tensors_[outputs_[v][i]], t), -1}}, 0);
      }
      for (int32_t input : inputs_[v]) {  // (4)
        Terms terms = {{created, -1}};
        AddTerm(terms, Preserved(tensors_[input], t), 1);
        program_.AddRow(0, std::move(terms), kIlpInfinity);
      }
      for (int32_t pred : model_.predecessors[v]) {  // (8)
        Terms terms = {{created, -1}};
        const Tensor& other = tensors_[outputs_[pred].front()];
        for (int32_t step = windows_.earliest[pred]; step < t; ++step) {
          AddTerm(terms, Created(other, step), 1);
        }
        program_.AddRow(0, std::move(terms), kIlpInfinity);
      }
    }
  }

  double Units(int64_t bytes) const { return static_cast<double>(bytes / unit_); }

  void AddSteps() {
    for (int32_t t = 0; t < windows_.step_count; ++t) {
      Terms terms = {{peak_, 1}};
      for (const Tensor& tensor : tensors_) {
        if (tensor.bytes == 0) continue;
        AddTerm(terms, Created(tensor, t), -Units(tensor.bytes));
        AddTerm(terms, Preserved(tensor, t), -Units(tensor.bytes));
      }
      program_.AddRow(Units(constant_bytes_), std::move(terms), kIlpInfinity);
    }
  }

  // All tasks that touch `early` run before the source of `late`.
  bool NeverMeet(const Tensor& early, const Tensor& late) const {
    if (early.live_out || late.source < 0) return false;
    const auto before = [&](int32_t u) { return reach_.Before(u, late.source); };
    return (early.source < 0 || before(early.source)) && std::ranges::all_of(early.sinks, before);
  }

  // One task touches both, or both are live for sure at some step.
  bool SurelyMeet(const Tensor& a, const Tensor& b) const {
    const auto touches = [](const Tensor& tensor, int32_t u) {
      return tensor.source == u || std::ranges::find(tensor.sinks, u) != tensor.sinks.end();
    };
    if (a.source >= 0 && touches(b, a.source)) return true;
    if (std::ranges::any_of(a.sinks, [&](int32_t u) { return touches(b, u); })) return true;
    const auto sure = [&](const Tensor& tensor) {
      int32_t last = tensor.live_out ? windows_.step_count - 1 : -1;
      for (int32_t sink : tensor.sinks) last = std::max(last, windows_.earliest[sink]);
      return std::pair(tensor.source < 0 ? 0 : windows_.latest[tensor.source], last);
    };
    const auto [a_first, a_last] = sure(a);
    const auto [b_first, b_last] = sure(b);
    return std::max(a_first, b_first) <= std::min(a_last, b_last);
  }

  void AddLocations() {
    int64_t total = constant_bytes_;
    for (const Tensor& tensor : tensors_) total += tensor.bytes;
    const double most = Units(total);
    for (const Tensor& tensor : tensors_) {
      const double size = Units(tensor.bytes);
      address_.push_back(program_.AddVariable({.lower = 0, .upper = most - size}));
      program_.AddRow(size, {{peak_, 1}, {address_.back(), -1}}, kIlpInfinity);
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const Tensor &a = tensors_[i], &b = tensors_[j];
        if (a.bytes == 0 || b.bytes == 0 || NeverMeet(a, b) || NeverMeet(b, a)) continue;
        if (std::max(a.first, b.first) > std::min(a.last, b.last)) continue;
        AddPair(i, j, most);
      }
    }
  }

  void AddPair(size_t i, size_t j, double most) {
    const Tensor &a = tensors_[i], &b = tensors_[j];
    const int32_t below = program_.AddBinary();
    if (SurelyMeet(a, b)) {
      Below(address_[i], Units(a.bytes), address_[j], {{below, most}}, most);
      Below(address_[j], Units(b.bytes), address_[i], {{below, -most}}, 0);
      return;
    }
    const int32_t above = program_.AddBinary();
    program_.AddRow(-kIlpInfinity, {{below, 1}, {above, 1}}, 1);
    Below(address_[i], Units(a.bytes), address_[j], {{below, most}}, most);
    Below(address_[j], Units(b.bytes), address_[i], {{above, most}}, most);
    for (int32_t t = std::max(a.first, b.first); t <= std::min(a.last, b.last); ++t) {
      Terms terms = {{below, 1}, {above, 1}};
      for (const Tensor* tensor : {&a, &b}) {
        AddTerm(terms, Created(*tensor, t), -1);
        AddTerm(terms, Preserved(*tensor, t), -1);
      }
      program_.AddRow(-1, std::move(terms), kIlpInfinity);
    }
  }

  // low + size <= high + slack - switch.
  void Below(int32_t low, double size, int32_t high, Terms switched, double slack) {
    switched.emplace_back(low, 1);
    switched.emplace_back(high, -1);
    program_.AddRow(-kIlpInfinity, std::move(switched), slack - size);
  }

  const OrderModel& model_;
  TaskReach reach_;
  bool full_;
  StepWindows windows_;
  std::vector<Tensor> tensors_;
  std::vector<std::vector<int32_t>> outputs_, inputs_;  // by task: tensors
  std::vector<int32_t> address_;                        // by tensor
  int64_t constant_bytes_ = 0;
  int64_t unit_ = 1;
  IlpModel program_;
  int32_t peak_ = 0;
};

}  // namespace

std::vector<std::pair<int32_t, int32_t>> EarlyUpdateEdges(const OrderModel& model) {
  const TaskReach reach(model.task_count, model.predecessors, model.successors);
  // Levels: the longest path from the start, and to the end.
  const StepWindows levels = WindowsByPath(model, 1.0, 0);
  std::vector<int32_t> forward = levels.earliest, backward(model.task_count);
  for (int32_t v = 0; v < model.task_count; ++v) {
    backward[v] = levels.step_count - 1 - levels.latest[v];
  }
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (int32_t update = 0; update < model.task_count; ++update) {
    // It waits for something, nothing waits for it, and it keeps nothing.
    if (!model.successors[update].empty() || model.predecessors[update].empty()) continue;
    if (std::ranges::any_of(model.touched[update],
                            [&](int32_t s) { return model.live_out[s] && !model.live_in[s]; })) {
      continue;
    }
    int32_t anchor = -1;
    for (int32_t v = 0; v < model.task_count; ++v) {
      if (forward[v] <= forward[update] || model.successors[v].empty()) continue;
      // Fed by an ancestor of the update, and no update itself.
      const auto ancestors = reach.Ancestors(update);
      const auto others = reach.Ancestors(v);
      bool fed = false;
      for (size_t w = 0; w < ancestors.size(); ++w) fed = fed || (ancestors[w] & others[w]) != 0;
      if (fed && (anchor < 0 || backward[v] > backward[anchor])) anchor = v;
    }
    if (anchor >= 0) edges.emplace_back(update, anchor);
  }
  return edges;
}

OllaResult SolveOlla(const OrderModel& model, const OllaOptions& options) {
  OllaResult result;
  if (model.task_count == 0) return result;
  const auto edges =
      options.early_updates ? EarlyUpdateEdges(model) : std::vector<std::pair<int32_t, int32_t>>();
  const OrderModel constrained = WithEdges(model, edges);
  OllaProgram olla(constrained, options);
  const IlpModel& program = olla.program();
  const IlpResult solved = SolveIlp(program, options.ilp);
  result.description =
      absl::StrFormat("OLLA %s, %d steps, %d early updates, %d columns, %d rows, %d nodes",
                      options.joint ? "joint" : "split", olla.steps(), edges.size(),
                      program.variables.size(), program.rows.size(), solved.nodes);
  if (!solved.values.empty()) {
    result.order = SequenceSteps(constrained, olla.StepOf(solved.values));
    if (options.joint) result.addresses = olla.Addresses(solved.values);
  }
  const bool valid = olla.full() && olla.complete() && edges.empty() && model.offers.empty();
  if (valid && std::isfinite(solved.best_bound)) {
    const double units =
        std::ceil(solved.best_bound - kBoundMargin * (1 + std::abs(solved.best_bound)));
    result.lower_bound =
        model.base_bytes + static_cast<int64_t>(std::max(0.0, units) * olla.unit());
  }
  return result;
}

}  // namespace onnx_memplan
