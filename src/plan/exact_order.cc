// How the parts work together: the problem is split where a task leaves no choice (order_split.h),
// each part is made smaller (order_reduce.h), gets an order from the heuristics and a bound from
// minimum cuts (order_bounds.h). Only the part with the largest peak matters. On it, rounds of
// growing effort ask the exact search, forwards and with time reversed (whichever is easier), for
// an order that is one byte better; in between, wider beams look for better orders, and the exact
// search at a budget half way down raises the bound. Each answer "infeasible" is a proof, each
// limit that is hit is none.
#include "plan/exact_order.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plan/budget_search.h"
#include "plan/exact_order_search.h"
#include "plan/ilp_order.h"
#include "plan/order_beam.h"
#include "plan/order_bounds.h"
#include "plan/order_heuristics.h"
#include "plan/order_lns.h"
#include "plan/order_reduce.h"
#include "plan/order_split.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

constexpr int64_t kFirstNodeLimit = 1000;
// The first round of searches that tighten the precedence, and the share of the remaining time that
// this may take for each budget.
constexpr int32_t kTightRound = 1;
constexpr int32_t kPlainRounds = 4;
constexpr int64_t kTightNodeFactor = 16;
constexpr int64_t kBoundNodeFactor = 8;
constexpr double kTightenShare = 0.1;
constexpr int kBoundRaises = 8;  // in a row
constexpr int64_t kRaiseFactor = 16;
// Larger programs are hopeless for CBC; before this round of the exact search, it is not needed.
constexpr int32_t kMaxIlpTasks = 400;
constexpr int32_t kIlpRound = 5;
// Smaller problems are one window.
constexpr int32_t kMinWindowTasks = 200;
constexpr int32_t kWindowRound = 3;  // where nodes are limited
// Of the remaining time.
constexpr double kFirstWindowShare = 0.1;
constexpr double kWindowShare = 0.3;

// Divides what is live at any step.
int64_t CommonUnit(const OrderModel& model) {
  int64_t unit = model.base_bytes;
  for (int64_t bytes : model.bytes) unit = std::gcd(unit, bytes);
  for (int64_t bytes : model.extra_bytes) unit = std::gcd(unit, bytes);
  return std::max<int64_t>(unit, 1);
}

class PartSearch {
 public:
  PartSearch(OrderPart part, const OrderSearchOptions& options, const Deadline& deadline)
      : options_(options),
        deadline_(deadline),
        part_(std::move(part)),
        reduced_(ReduceOrder(part_.model, kMaxReducedTasks)),
        forward_(reduced_.model),
        backward_(ReverseOrderModel(reduced_.model)),
        unit_bytes_(CommonUnit(forward_)),
        random_(options.seed) {}

  int64_t peak() const { return peak_; }
  int64_t lower_bound() const { return lower_bound_; }
  bool closed() const { return peak_ == lower_bound_; }
  bool exhausted() const { return exhausted_; }
  int64_t nodes() const { return nodes_; }
  const std::string& found_by() const { return found_by_; }
  const std::string& bound_by() const { return bound_by_; }
  // In tasks of the whole model.
  std::vector<int32_t> Order() const {
    std::vector<int32_t> order = reduced_.Expand(order_);
    for (int32_t& task : order) task = part_.task_of[task];
    return order;
  }

  // `start` is a legal order of the whole model, or empty.
  void Start(std::span<const int32_t> start) {
    order_ = ProgramOrder(forward_);
    peak_ = OrderPeak(forward_, order_);
    found_by_ = "program order";
    Offer(Reduced(start), "an order found before");
    RaiseByCuts();
    if (!Open()) return;
    Offer(DepthFirstOrder(forward_), "depth-first order");
    for (const ListRule rule : {ListRule::kPeakThenLive, ListRule::kLive}) {
      const std::string name =
          rule == ListRule::kPeakThenLive ? "least peak first" : "least live first";
      if (Open()) Offer(ListOrder(forward_, rule), name);
      if (Open()) OfferReversed(ListOrder(backward_, rule), absl::StrCat(name, ", backwards"));
    }
    if (Open()) RaiseByCuts();
  }

  // One round; the effort grows from call to call. Some part of the model needs `floor_bytes`, so
  // that smaller peaks of this one are of no use.
  void Improve(int64_t node_budget, int64_t floor_bytes) {
    const int64_t node_limit = std::min(node_budget, kFirstNodeLimit << (2 * std::min(round_, 20)));
    const bool exact = options_.method == OrderMethod::kExact;
    const bool tight = exact && round_ >= kTightRound && forward_.task_count <= kMaxReducedTasks;
    // What the plain searches decide, they decide sooner.
    const bool plain = !tight || round_ < kPlainRounds;
    if (exact && plain) {
      Ask(prove_[0], forward_, false, peak_ - 1, node_limit);
      if (Open()) Ask(prove_[1], backward_, true, peak_ - 1, node_limit);
    }
    // Windows are limited by time.
    const int32_t first_windows = options_.node_limit ? kWindowRound : kTightRound;
    const bool large =
        forward_.task_count > kMaxReducedTasks || exhausted_ || round_ >= first_windows;
    const bool windows = options_.windows && large && forward_.task_count >= kMinWindowTasks;
    if (plain && Open()) Beams(exact);
    if (tight) {
      // A better order first: the budgets to ask for depend on it.
      if (windows && Open()) Windows(kFirstWindowShare);
      if (Open()) {
        AskTight(node_budget, std::min(node_budget, kTightNodeFactor * node_limit), floor_bytes);
      }
    }
    if (windows && Open()) Windows(kWindowShare);
    if (Open() && !asked_ilp_ && forward_.task_count <= kMaxIlpTasks &&
        (options_.method == OrderMethod::kIlp ? exhausted_ : exact && round_ == kIlpRound)) {
      asked_ilp_ = true;
      AskIlp(options_.method == OrderMethod::kIlp ? 1.0 : 0.3);
    }
    ++round_;
  }

 private:
  std::function<bool()> Stop() const {
    return [this] { return deadline_.expired(); };
  }
  bool Open() const { return !closed() && !deadline_.expired(); }

  // The order of the reduced tasks in which their first members come in an order of the whole
  // model; empty where that is not legal.
  std::vector<int32_t> Reduced(std::span<const int32_t> order) const {
    std::vector<int64_t> step(order.size(), 0);
    for (size_t i = 0; i < order.size(); ++i) step[order[i]] = static_cast<int64_t>(i);
    std::vector<int32_t> result;
    if (order.empty()) return result;
    const auto first_step = [&](int32_t task) {
      return step[part_.task_of[reduced_.tasks_of[task].front()]];
    };
    for (int32_t t = 0; t < forward_.task_count; ++t) result.push_back(t);
    std::sort(result.begin(), result.end(),
              [&](int32_t a, int32_t b) { return first_step(a) < first_step(b); });
    std::vector<uint8_t> done(result.size(), 0);
    for (int32_t task : result) {
      for (int32_t pred : forward_.predecessors[task]) {
        if (!done[pred]) return {};
      }
      done[task] = 1;
    }
    return result;
  }

  // Large graphs leave time for other things.
  void RaiseByCuts() {
    const double until = deadline_.elapsed_seconds() + 0.1 * deadline_.remaining_seconds();
    const auto stop = [&] { return deadline_.expired() || deadline_.elapsed_seconds() > until; };
    Raise(std::min(peak_, LargestTaskBound(forward_, order_, stop)), "minimum cuts");
  }

  void Offer(std::vector<int32_t> order, const std::string& name) {
    if (order.empty()) return;
    const int64_t peak = OrderPeak(forward_, order);
    if (peak >= peak_) return;
    peak_ = peak;
    order_ = std::move(order);
    found_by_ = name;
  }
  void OfferReversed(std::vector<int32_t> order, const std::string& name) {
    std::reverse(order.begin(), order.end());
    Offer(std::move(order), name);
  }

  void Raise(int64_t bound, const std::string& name) {
    // Peaks are sums of sizes.
    bound += (unit_bytes_ - bound % unit_bytes_) % unit_bytes_;
    MEMPLAN_CHECK_MSG(bound <= peak_, absl::StrCat(name, ": bound ", bound, ", peak ", peak_));
    if (bound <= lower_bound_) return;
    lower_bound_ = bound;
    bound_by_ = name;
  }

  void Beams(bool exact) {
    const double states =
        4e8 / (1.0 + forward_.task_count) / (1.0 + forward_.task_count + forward_.storage_count);
    const int32_t widest = static_cast<int32_t>(std::clamp(states, 1.0, 4096.0));
    const int32_t width = std::min(widest, 16 << (2 * std::min(round_, 4)));
    if (width <= last_width_) {
      exhausted_ = !exact;
      return;
    }
    last_width_ = width;
    BeamOptions options{
        .width = width, .bound_bytes = lower_bound_, .limit_bytes = peak_ - 1, .stop = Stop()};
    Offer(BeamOrder(forward_, options), absl::StrCat("beam of ", width));
    if (!Open()) return;
    options.limit_bytes = peak_ - 1;
    OfferReversed(BeamOrder(backward_, options), absl::StrCat("beam of ", width, ", backwards"));
  }

  // Asks the exact search for orders within the budget, then below what it found, and so on.
  void Ask(std::unique_ptr<OrderSearch>& search, const OrderModel& model, bool reversed,
           int64_t budget, int64_t node_limit) {
    if (search == nullptr) {
      search = std::make_unique<OrderSearch>(model, options_.table_bytes / 4, Stop());
    }
    std::vector<int32_t> order = order_;
    if (reversed) std::reverse(order.begin(), order.end());
    search->SetCriticalTasks(CriticalTasks(model, order));
    const int64_t last = search->total_nodes() + node_limit;
    const std::string name = reversed ? "exact search, backwards" : "exact search";
    while (search->total_nodes() < last) {
      const int64_t before = search->total_nodes();
      const OrderVerdict verdict = search->Decide(budget, last - before);
      nodes_ += search->total_nodes() - before;
      if (verdict == OrderVerdict::kStopped) return;
      if (verdict == OrderVerdict::kInfeasible) {
        Raise(std::min(peak_, search->lowest_rejected()), name);
        return;
      }
      reversed ? OfferReversed(search->order(), name) : Offer(search->order(), name);
      if (!Open()) return;
      budget = std::min(budget, peak_ - 1);
    }
  }

  // The budgets between the bound and the best order, until none of them gets an answer.
  void AskTight(int64_t node_budget, int64_t node_limit, int64_t floor_bytes) {
    const auto least = [&] { return std::max(lower_bound_, floor_bytes); };
    const int64_t nodes_before = nodes_;
    const auto open = [&] {
      return peak_ > least() && nodes_ - nodes_before < node_budget && Open();
    };
    for (bool answered = true; answered && open();) {
      // The bound itself is worth most, and near it most is implied: more effort. Further and
      // further away while that is infeasible; a later round goes on where this one stopped.
      for (int i = 0; answered && i < kBoundRaises && open(); ++i) {
        const int64_t peak = peak_;
        answered = AskTightAt(tight_[0], std::min(least() + above_bytes_, peak_ - 1),
                              std::min(node_budget, kBoundNodeFactor * node_limit));
        if (!answered) break;
        above_bytes_ = peak_ < peak ? 0 : std::max(unit_bytes_, kRaiseFactor * above_bytes_);
      }
      if (open()) answered = AskTightAt(tight_[1], peak_ - 1, node_limit);
      if (open() && peak_ - least() > 2) {
        const int64_t middle = least() + (peak_ - least()) / 2;
        answered = AskTightAt(tight_[2], middle, node_limit) || answered;
      }
    }
  }

  // Whether the budget is known to be feasible or not.
  bool AskTightAt(std::unique_ptr<BudgetSearch>& search, int64_t budget, int64_t node_limit) {
    int64_t before = search == nullptr ? 0 : search->nodes();
    if (search == nullptr || search->budget_bytes() != budget) {
      before = 0;
      const double until =
          deadline_.elapsed_seconds() + kTightenShare * deadline_.remaining_seconds();
      search = std::make_unique<BudgetSearch>(
          forward_, budget, options_.table_bytes / 4,
          [&] { return deadline_.expired() || deadline_.elapsed_seconds() > until; }, Stop());
    }
    const OrderVerdict verdict = search->Continue(node_limit);
    nodes_ += search->nodes() - before;
    if (verdict == OrderVerdict::kFound) Offer(search->order(), "search with implied precedence");
    if (verdict == OrderVerdict::kInfeasible) {
      Raise(std::min(peak_, search->lowest_rejected()), "search with implied precedence");
    }
    return verdict != OrderVerdict::kStopped;
  }

  void Windows(double share) {
    const Deadline deadline(share * deadline_.remaining_seconds(), options_.cancel);
    WindowOptions options{.bound_bytes = lower_bound_};
    options.node_limit <<= std::min(round_, 8);
    Offer(ImproveWindows(forward_, order_, options, deadline, random_), "window by window");
  }

  void AskIlp(double share) {
    IlpOrderOptions options;
    options.lower_bound = lower_bound_;
    options.ilp.time_limit_seconds = share * std::max(0.0, deadline_.remaining_seconds());
    options.ilp.seed = options_.seed;
    options.ilp.cancel = options_.cancel;
    IlpOrderResult result = SolveOrderIlp(forward_, order_, options);
    Offer(std::move(result.order), result.description);
    Raise(std::min(peak_, result.lower_bound), result.description);
  }

  const OrderSearchOptions& options_;
  const Deadline& deadline_;
  OrderPart part_;
  ReducedOrder reduced_;
  const OrderModel& forward_;
  OrderModel backward_;
  int64_t unit_bytes_;
  std::mt19937_64 random_;
  std::array<std::unique_ptr<OrderSearch>, 2> prove_;
  std::array<std::unique_ptr<BudgetSearch>, 3> tight_;  // at the bound, below the best, between
  std::vector<int32_t> order_;
  int64_t peak_ = 0;
  int64_t lower_bound_ = 0;
  std::string found_by_, bound_by_;
  int64_t nodes_ = 0;
  int64_t above_bytes_ = 0;  // how far above the bound to ask next
  int32_t round_ = 0;
  int32_t last_width_ = 0;
  bool exhausted_ = false;
  bool asked_ilp_ = false;
};

// The parts of the model that leave a choice, and the steps between them.
struct Parts {
  std::vector<std::unique_ptr<PartSearch>> searches;
  // In order of execution: a task, or ~index of a search.
  std::vector<int32_t> sequence;
  // Of the steps that are fixed.
  int64_t fixed_peak = 0;
};

Parts Split(const OrderModel& model, const OrderSearchOptions& options, const Deadline& deadline) {
  Parts parts;
  ExecutionState state(model);
  PartExtractor extractor(model);
  parts.fixed_peak = model.base_bytes;
  for (std::vector<int32_t>& group : SplitAtSingleTasks(model)) {
    if (group.size() == 1) {
      parts.sequence.push_back(group.front());
      parts.fixed_peak = std::max(parts.fixed_peak, state.Run(group.front()).during);
      continue;
    }
    parts.sequence.push_back(~static_cast<int32_t>(parts.searches.size()));
    const std::vector<int32_t> tasks = group;
    parts.searches.push_back(std::make_unique<PartSearch>(
        extractor.Extract(state, std::move(group)), options, deadline));
    for (int32_t task : tasks) {  // a group of SplitAtSingleTasks is in topological order
      state.Run(task);
    }
  }
  return parts;
}

// What untouched storages add at the first step, over the task that needs least there.
int64_t FirstStepBound(const OrderModel& model) {
  if (model.first_step_bytes == 0) return 0;
  const ExecutionState state(model);
  int64_t least = INT64_MAX;
  for (int32_t task : state.ready()) least = std::min(least, state.Try(task).during);
  return least + model.first_step_bytes;
}

// Other tasks first or last, where untouched storages make the first or last step the peak.
void MendEnds(const OrderModel& model, OrderSearchResult& result) {
  const std::vector<int32_t> order = result.order;
  const auto offer = [&](const std::vector<int32_t>& other) {
    const int64_t peak = OrderPeak(model, other);
    if (peak >= result.peak_bytes) return;
    result.peak_bytes = peak;
    result.order = other;
  };
  for (size_t step = 0; step < order.size(); ++step) {
    std::vector<int32_t> other = order;
    const auto at = other.begin() + static_cast<int64_t>(step);
    if (model.first_step_bytes > 0 && model.predecessors[order[step]].empty()) {
      std::rotate(other.begin(), at, at + 1);
      offer(other);
    } else if (model.last_step_bytes > 0 && model.successors[order[step]].empty()) {
      std::rotate(at, at + 1, other.end());
      offer(other);
    }
  }
}

}  // namespace

OrderSearchResult SearchOrder(const OrderModel& model, const OrderSearchOptions& options,
                              const Deadline& deadline) {
  Parts parts = Split(model, options, deadline);
  OrderSearchResult result;
  result.lower_bound = parts.fixed_peak;
  result.bound_by = "steps without a choice";
  if (model.task_count == 0) result.lower_bound = OrderPeak(model, {});
  if (model.task_count > 0) {
    result.lower_bound = std::max(
        {result.lower_bound, FirstStepBound(model), FirstStepBound(ReverseOrderModel(model))});
  }
  if (options.lower_bound > result.lower_bound) {
    result.lower_bound = options.lower_bound;
    result.bound_by = "known before";
  }
  for (auto& search : parts.searches) search->Start(options.start);
  int64_t nodes = 0;
  while (true) {
    PartSearch* worst = nullptr;
    result.peak_bytes = parts.fixed_peak;
    result.found_by = "program order";
    nodes = 0;
    for (auto& search : parts.searches) {
      nodes += search->nodes();
      if (search->lower_bound() > result.lower_bound) {
        result.lower_bound = search->lower_bound();
        result.bound_by = search->bound_by();
      }
      if (search->peak() > result.peak_bytes) {
        result.peak_bytes = search->peak();
        result.found_by = search->found_by();
        worst = search.get();
      }
    }
    if (options.progress) options.progress(result.peak_bytes, result.lower_bound, nodes);
    const int64_t nodes_left = options.node_limit.value_or(INT64_MAX) - nodes;
    if (worst == nullptr || result.peak_bytes <= result.lower_bound || worst->exhausted() ||
        deadline.expired() || nodes_left <= 0) {
      break;
    }
    worst->Improve(nodes_left, result.lower_bound);
  }
  result.nodes = nodes;
  for (int32_t item : parts.sequence) {
    if (item >= 0) {
      result.order.push_back(item);
      continue;
    }
    const std::vector<int32_t> order = parts.searches[~item]->Order();
    result.order.insert(result.order.end(), order.begin(), order.end());
  }
  // Untouched storages at the ends are outside of the parts.
  result.peak_bytes = OrderPeak(model, result.order);
  if (result.peak_bytes > result.lower_bound && model.task_count <= kMaxReducedTasks) {
    MendEnds(model, result);
  }
  return result;
}

}  // namespace onnx_memplan
