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

// The reduction keeps bits for each pair of tasks, and other orders for the ends are tried one by
// one.
constexpr int32_t kMaxReducedTasks = 4096;
constexpr int64_t kFirstNodeLimit = 1000;
constexpr int32_t kCriticalTasks = 16;
// Larger programs are hopeless for CBC; before this round of the exact search, it is not needed.
constexpr int32_t kMaxIlpTasks = 400;
constexpr int32_t kIlpRound = 5;
// Smaller problems are one window.
constexpr int32_t kMinWindowTasks = 200;

class PartSearch {
 public:
  PartSearch(OrderPart part, const OrderSearchOptions& options, const Deadline& deadline)
      : options_(options),
        deadline_(deadline),
        part_(std::move(part)),
        reduced_(ReduceOrder(part_.model, kMaxReducedTasks)),
        forward_(reduced_.model),
        backward_(ReverseOrderModel(reduced_.model)),
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

  void Start() {
    order_ = ProgramOrder(forward_);
    peak_ = OrderPeak(forward_, order_);
    found_by_ = "program order";
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

  // One round; the effort grows from call to call.
  void Improve(int64_t node_budget) {
    const int64_t node_limit = std::min(node_budget, kFirstNodeLimit << (2 * std::min(round_, 20)));
    const bool exact = options_.method == OrderMethod::kExact;
    if (exact) {
      Ask(prove_[0], forward_, false, peak_ - 1, node_limit);
      if (Open()) Ask(prove_[1], backward_, true, peak_ - 1, node_limit);
    }
    if (Open()) Beams(exact);
    const bool large = forward_.task_count > kMaxReducedTasks || exhausted_ || round_ >= 3;
    if (Open() && options_.windows && large && forward_.task_count >= kMinWindowTasks) Windows();
    if (exact && Open() && round_ > 0 && peak_ - lower_bound_ > 1) {
      Ask(raise_, forward_, false, lower_bound_ + (peak_ - lower_bound_) / 2, node_limit / 2);
    }
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
    search->SetCriticalTasks(CriticalTasks(model, reversed));
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

  void Windows() {
    const Deadline deadline(0.3 * deadline_.remaining_seconds(), options_.cancel);
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

  // Those that need the most bytes in the best order so far.
  std::vector<int32_t> CriticalTasks(const OrderModel& model, bool reversed) const {
    std::vector<int32_t> order = order_;
    if (reversed) std::reverse(order.begin(), order.end());
    const std::vector<int64_t> live = LiveBytesByStep(model, order);
    std::vector<int32_t> steps(order.size());
    std::iota(steps.begin(), steps.end(), 0);
    std::stable_sort(steps.begin(), steps.end(),
                     [&](int32_t a, int32_t b) { return live[a] > live[b]; });
    if (steps.size() > kCriticalTasks) steps.resize(kCriticalTasks);
    for (int32_t& step : steps) step = order[step];
    return steps;
  }

  const OrderSearchOptions& options_;
  const Deadline& deadline_;
  OrderPart part_;
  ReducedOrder reduced_;
  const OrderModel& forward_;
  OrderModel backward_;
  std::mt19937_64 random_;
  std::array<std::unique_ptr<OrderSearch>, 2> prove_;
  std::unique_ptr<OrderSearch> raise_;
  std::vector<int32_t> order_;
  int64_t peak_ = 0;
  int64_t lower_bound_ = 0;
  std::string found_by_, bound_by_;
  int64_t nodes_ = 0;
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
  for (auto& search : parts.searches) search->Start();
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
    worst->Improve(nodes_left);
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
