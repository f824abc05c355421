#include "plan/order_model.h"

#include <algorithm>
#include <utility>

#include "support/check.h"

namespace onnx_memplan {
namespace {

// Options that several declarations repeat count once.
void SetOffers(OrderModel& model, std::vector<std::pair<int32_t, OrderOffer>> offers) {
  const auto key = [](const std::pair<int32_t, OrderOffer>& offer) {
    return std::tuple(offer.first, offer.second.from, offer.second.to);
  };
  std::sort(offers.begin(), offers.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  offers.erase(std::unique(offers.begin(), offers.end(),
                           [&](const auto& a, const auto& b) { return key(a) == key(b); }),
               offers.end());
  model.offer_begin.assign(model.task_count + 1, 0);
  model.offers.clear();
  model.offers.reserve(offers.size());
  for (const auto& [task, offer] : offers) {
    ++model.offer_begin[task + 1];
    model.offers.push_back(offer);
  }
  for (int32_t t = 0; t < model.task_count; ++t) model.offer_begin[t + 1] += model.offer_begin[t];
}

// Both directions of a relation given as (task, storage) pairs.
void SetTouches(OrderModel& model, std::vector<std::pair<int32_t, int32_t>> touches) {
  std::vector<std::pair<int32_t, int32_t>> inverse;
  inverse.reserve(touches.size());
  for (const auto& [task, storage] : touches) inverse.emplace_back(storage, task);
  model.touched = TaskLists(model.task_count, std::move(touches));
  model.touchers = TaskLists(model.storage_count, std::move(inverse));
}

std::vector<std::vector<int32_t>> TouchersOf(const PlanProblem& problem) {
  std::vector<std::vector<int32_t>> touchers(problem.storages.size());
  for (int32_t t = 0; t < static_cast<int32_t>(problem.tasks.size()); ++t) {
    for (const std::vector<int32_t>* list : {&problem.tasks[t].reads, &problem.tasks[t].writes}) {
      for (int32_t storage : *list) {
        std::vector<int32_t>& tasks = touchers[storage];
        if (tasks.empty() || tasks.back() != t) tasks.push_back(t);
      }
    }
  }
  return touchers;
}

// More options than this, tied together by storages, are not searched through.
constexpr size_t kMaxTiedOffers = 12;

bool Share(const OrderOffer& a, const OrderOffer& b) {
  return a.from == b.from || a.to == b.to || a.from == b.to || a.to == b.from;
}

// The best choice among offers[first..], given the ones that are taken.
int64_t BestChoice(std::span<const OrderOffer> offers, size_t first, std::vector<size_t>& taken) {
  if (first == offers.size()) return 0;
  int64_t best = BestChoice(offers, first + 1, taken);
  if (std::ranges::none_of(taken, [&](size_t i) { return Share(offers[i], offers[first]); })) {
    taken.push_back(first);
    best = std::max(best, offers[first].saved_bytes + BestChoice(offers, first + 1, taken));
    taken.pop_back();
  }
  return best;
}

// Of options that are all tied together. One too many: at most one for each `to`, which is no
// less than the best choice.
int64_t BestTiedSaving(std::span<const OrderOffer> offers) {
  std::vector<size_t> taken;
  if (offers.size() <= kMaxTiedOffers) return BestChoice(offers, 0, taken);
  int64_t saved = 0;
  for (size_t i = 0; i < offers.size(); ++i) {
    const bool largest = std::ranges::none_of(offers, [&](const OrderOffer& other) {
      return other.to == offers[i].to &&
             std::pair(-other.saved_bytes, &other) < std::pair(-offers[i].saved_bytes, &offers[i]);
    });
    if (largest) saved += offers[i].saved_bytes;
  }
  return saved;
}

}  // namespace

int64_t BestSaving(std::span<const OrderOffer> applicable) {
  if (applicable.empty()) return 0;
  if (applicable.size() == 1) return applicable.front().saved_bytes;
  // One storage common to all of them, the usual case: only one can be taken.
  int64_t largest = 0;
  bool common_to = true, common_from = true;
  for (const OrderOffer& offer : applicable) {
    largest = std::max(largest, offer.saved_bytes);
    common_to = common_to && offer.to == applicable.front().to;
    common_from = common_from && offer.from == applicable.front().from;
  }
  if (common_to || common_from) return largest;
  // Groups of options that storages tie together.
  std::vector<OrderOffer> rest(applicable.begin(), applicable.end());
  int64_t saved = 0;
  while (!rest.empty()) {
    size_t tied = 1;
    for (size_t i = 0; i < tied; ++i) {
      const auto next =
          std::partition(rest.begin() + static_cast<int64_t>(tied), rest.end(),
                         [&](const OrderOffer& offer) { return Share(offer, rest[i]); });
      tied = static_cast<size_t>(next - rest.begin());
    }
    saved += BestTiedSaving(std::span(rest).first(tied));
    rest.erase(rest.begin(), rest.begin() + static_cast<int64_t>(tied));
  }
  return saved;
}

OrderModel MakeOrderModel(const PlanProblem& problem) {
  OrderModel model;
  model.task_count = static_cast<int32_t>(problem.tasks.size());
  const std::vector<std::vector<int32_t>> touchers = TouchersOf(problem);
  std::vector<int32_t> index(problem.storages.size(), -1);
  std::vector<std::pair<int32_t, int32_t>> touches;
  for (size_t s = 0; s < problem.storages.size(); ++s) {
    const Storage& storage = problem.storages[s];
    if (storage.bytes == 0) continue;
    if (storage.live_in && storage.live_out) {
      model.base_bytes += storage.bytes;
    } else if (touchers[s].empty()) {
      if (storage.live_in) model.first_step_bytes += storage.bytes;
      if (storage.live_out) model.last_step_bytes += storage.bytes;
    } else {
      index[s] = model.storage_count++;
      model.storage_of.push_back(static_cast<int32_t>(s));
      model.bytes.push_back(storage.bytes);
      model.live_in.push_back(storage.live_in ? 1 : 0);
      model.live_out.push_back(storage.live_out ? 1 : 0);
      for (int32_t task : touchers[s]) touches.emplace_back(task, index[s]);
    }
  }
  SetTouches(model, std::move(touches));
  Precedence precedence = BuildPrecedence(problem);
  model.predecessors = std::move(precedence.predecessors);
  model.successors = std::move(precedence.successors);
  for (const Task& task : problem.tasks) model.extra_bytes.push_back(task.scratch_bytes);

  std::vector<std::pair<int32_t, OrderOffer>> offers;
  for (const InPlaceOption& option : problem.in_place) {
    const int32_t from = index[option.from];
    const int32_t to = index[option.to];
    if (from < 0 || to < 0 || from == to || model.live_out[from] || model.live_in[to]) continue;
    const auto touches_storage = [&](int32_t storage) {
      const auto list = model.touched[option.task];
      return std::binary_search(list.begin(), list.end(), storage);
    };
    if (!touches_storage(from) || !touches_storage(to)) continue;
    // Two fixed places that differ can never be one.
    const std::optional<int64_t>& from_offset = problem.storages[option.from].fixed_offset;
    const std::optional<int64_t>& to_offset = problem.storages[option.to].fixed_offset;
    if (from_offset && to_offset && *from_offset != *to_offset) continue;
    offers.emplace_back(
        option.task,
        OrderOffer{
            .from = from, .to = to, .saved_bytes = std::min(model.bytes[from], model.bytes[to])});
  }
  SetOffers(model, std::move(offers));
  return model;
}

OrderModel ReverseOrderModel(const OrderModel& model) {
  OrderModel reversed = model;
  std::swap(reversed.live_in, reversed.live_out);
  std::swap(reversed.predecessors, reversed.successors);
  std::swap(reversed.first_step_bytes, reversed.last_step_bytes);
  for (OrderOffer& offer : reversed.offers) std::swap(offer.from, offer.to);
  return reversed;
}

ExecutionState::ExecutionState(const OrderModel& model) : model_(&model) {
  toucher_count_.resize(model.storage_count);
  for (int32_t s = 0; s < model.storage_count; ++s) {
    toucher_count_[s] =
        static_cast<int32_t>(model.touchers[s].size()) + (model.live_out[s] != 0 ? 1 : 0);
  }
  Reset();
}

void ExecutionState::Reset() {
  touch_count_.assign(model_->storage_count, 0);
  waiting_.assign(model_->task_count, 0);
  ready_.clear();
  ready_position_.assign(model_->task_count, -1);
  live_ = model_->base_bytes;
  done_count_ = 0;
  for (int32_t s = 0; s < model_->storage_count; ++s) {
    if (model_->live_in[s]) live_ += model_->bytes[s];
  }
  for (int32_t t = 0; t < model_->task_count; ++t) {
    waiting_[t] = static_cast<int32_t>(model_->predecessors[t].size());
    if (waiting_[t] == 0) AddReady(t);
  }
}

void ExecutionState::AddReady(int32_t task) {
  ready_position_[task] = static_cast<int32_t>(ready_.size());
  ready_.push_back(task);
}

void ExecutionState::RemoveReady(int32_t task) {
  const int32_t position = ready_position_[task];
  const int32_t last = ready_.back();
  ready_[position] = last;
  ready_position_[last] = position;
  ready_.pop_back();
}

ExecutionState::Effect ExecutionState::Try(int32_t task) const {
  int64_t begin_bytes = 0, end_bytes = 0;
  for (int32_t s : model_->touched[task]) {
    const int32_t count = touch_count_[s];
    if (count == 0 && !model_->live_in[s]) begin_bytes += model_->bytes[s];
    if (count + 1 == toucher_count_[s]) end_bytes += model_->bytes[s];
  }
  int64_t saving = 0;
  const std::span<const OrderOffer> offers = model_->OffersOf(task);
  if (!offers.empty()) {
    const auto applies = [&](const OrderOffer& offer) {
      return touch_count_[offer.to] == 0 &&
             touch_count_[offer.from] + 1 == toucher_count_[offer.from];
    };
    const auto count = std::count_if(offers.begin(), offers.end(), applies);
    if (count == 1) {
      saving = std::find_if(offers.begin(), offers.end(), applies)->saved_bytes;
    } else if (count > 1) {
      std::vector<OrderOffer> applicable;
      std::copy_if(offers.begin(), offers.end(), std::back_inserter(applicable), applies);
      saving = BestSaving(applicable);
    }
  }
  return {.during = live_ + begin_bytes + model_->extra_bytes[task] - saving,
          .after = live_ + begin_bytes - end_bytes};
}

ExecutionState::Effect ExecutionState::Run(int32_t task) {
  const Effect effect = Try(task);
  for (int32_t s : model_->touched[task]) ++touch_count_[s];
  live_ = effect.after;
  RemoveReady(task);
  waiting_[task] = -1;
  ++done_count_;
  for (int32_t next : model_->successors[task]) {
    if (--waiting_[next] == 0) AddReady(next);
  }
  return effect;
}

void ExecutionState::Undo(int32_t task) {
  for (int32_t next : model_->successors[task]) {
    if (waiting_[next]++ == 0) RemoveReady(next);
  }
  waiting_[task] = 0;
  --done_count_;
  AddReady(task);
  for (int32_t s : model_->touched[task]) {
    const int32_t count = touch_count_[s]--;
    if (count == 1 && !model_->live_in[s]) live_ -= model_->bytes[s];
    if (count == toucher_count_[s]) live_ += model_->bytes[s];
  }
}

PartExtractor::PartExtractor(const OrderModel& model)
    : model_(&model), local_task_(model.task_count, -1), local_storage_(model.storage_count, -1) {}

OrderPart PartExtractor::Extract(const ExecutionState& state, std::vector<int32_t> tasks) {
  const OrderModel& model = *model_;
  OrderPart part;
  OrderModel& sub = part.model;
  sub.task_count = static_cast<int32_t>(tasks.size());
  for (int32_t i = 0; i < sub.task_count; ++i) local_task_[tasks[i]] = i;

  // What is live before and not given up in the part is live throughout.
  sub.base_bytes = state.live();
  std::vector<int32_t> seen;
  std::vector<std::pair<int32_t, int32_t>> touches;
  for (int32_t task : tasks) {
    for (int32_t s : model.touched[task]) {
      if (local_storage_[s] != -1) continue;
      seen.push_back(s);
      const auto inside = static_cast<int32_t>(std::ranges::count_if(
          model.touchers[s], [&](int32_t other) { return local_task_[other] >= 0; }));
      const bool in = state.begun(s);
      const bool out = state.touches_left(s) > inside;
      local_storage_[s] = -2;  // live throughout
      if (in && out) continue;
      if (in) sub.base_bytes -= model.bytes[s];
      local_storage_[s] = sub.storage_count++;
      sub.bytes.push_back(model.bytes[s]);
      sub.live_in.push_back(in ? 1 : 0);
      sub.live_out.push_back(out ? 1 : 0);
      for (int32_t other : model.touchers[s]) {
        if (local_task_[other] >= 0) touches.emplace_back(local_task_[other], local_storage_[s]);
      }
    }
  }
  SetTouches(sub, std::move(touches));

  std::vector<std::pair<int32_t, int32_t>> preds, succs;
  std::vector<std::pair<int32_t, OrderOffer>> offers;
  for (int32_t i = 0; i < sub.task_count; ++i) {
    const int32_t task = tasks[i];
    sub.extra_bytes.push_back(model.extra_bytes[task]);
    for (int32_t pred : model.predecessors[task]) {
      if (local_task_[pred] < 0) continue;
      preds.emplace_back(i, local_task_[pred]);
      succs.emplace_back(local_task_[pred], i);
    }
    for (const OrderOffer& offer : model.OffersOf(task)) {
      const int32_t from = local_storage_[offer.from];
      const int32_t to = local_storage_[offer.to];
      if (from < 0 || to < 0 || sub.live_out[from] || sub.live_in[to]) continue;
      offers.emplace_back(i, OrderOffer{.from = from, .to = to, .saved_bytes = offer.saved_bytes});
    }
  }
  sub.predecessors = TaskLists(sub.task_count, std::move(preds));
  sub.successors = TaskLists(sub.task_count, std::move(succs));
  SetOffers(sub, std::move(offers));
  for (int32_t task : tasks) local_task_[task] = -1;
  for (int32_t s : seen) local_storage_[s] = -1;
  part.task_of = std::move(tasks);
  return part;
}

std::vector<int64_t> LiveBytesByStep(const OrderModel& model, std::span<const int32_t> order) {
  ExecutionState state(model);
  std::vector<int64_t> live;
  live.reserve(order.size());
  for (int32_t task : order) live.push_back(state.Run(task).during);
  if (!live.empty()) {
    live.front() += model.first_step_bytes;
    live.back() += model.last_step_bytes;
  }
  return live;
}

int64_t OrderPeak(const OrderModel& model, std::span<const int32_t> order) {
  // Without a task, one step stands for before and after.
  if (order.empty()) {
    int64_t live = model.base_bytes + model.first_step_bytes + model.last_step_bytes;
    return live;
  }
  const std::vector<int64_t> live = LiveBytesByStep(model, order);
  return *std::max_element(live.begin(), live.end());
}

}  // namespace onnx_memplan
