// Fusing u and w into one task m = (u, w) forwards, where u is the only direct predecessor of w:
//
//   1. In every order, running w right after u raises nothing: live(S + u + w) <= live(S + u) for
//      every S, and the step of w needs no more bytes than the step of u. By the safe-move argument
//      (exact_order_search.h), moving w right behind u keeps any order within its peak.
//   2. The pair behaves as one task whose step is the step of u: what it touches is what both
//      touch; what w begins is not there yet at the peak, so its bytes are subtracted from the
//      step (extra_bytes); what only w touches never shows.
//
// "Every S" is decided with what precedence says: a toucher of a storage is surely done when it is
// an ancestor, surely not when it is a descendant, unknown otherwise; bounds take the worst case.
// Fusing backwards (a task right before its only successor, which peaks) is the same rule in the
// problem with time reversed.
#include "plan/order_reduce.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/task_reach.h"

namespace onnx_memplan {
namespace {

class Fuser {
 public:
  explicit Fuser(const OrderModel& model)
      : model_(model),
        reach_(model.task_count, model.predecessors, model.successors),
        predecessors_(ReducedPredecessors(model.task_count, model.predecessors, reach_)) {}

  // Direct predecessors that no others imply.
  const TaskLists& predecessors() const { return predecessors_; }

  // The task that `w` can be fused behind, or -1.
  int32_t FusesBehind(int32_t w) const {
    if (predecessors_[w].size() != 1) return -1;
    const int32_t u = predecessors_[w].front();
    int64_t begin_most = 0, end_least = 0;
    for (int32_t s : model_.touched[w]) {
      const bool begun = SurelyBegun(s, w);
      if (!begun && !SurelyFirst(s, w)) return -1;
      if (!begun) begin_most += model_.bytes[s];
      if (SurelyLast(s, w)) end_least += model_.bytes[s];
    }
    if (begin_most > end_least) return -1;
    // Live bytes above live(S + u), at the most while w runs and at the least while u runs.
    const int64_t w_most = begin_most + model_.extra_bytes[w] - SavingAtLeast(w);
    if (w_most > LeastAboveAfter(u)) return -1;
    return u;
  }

  // When `t` runs, the storage is live already, whatever the order.
  bool SurelyBegun(int32_t s, int32_t t) const {
    return model_.live_in[s] || std::ranges::any_of(model_.touchers[s], [&](int32_t other) {
             return reach_.Before(other, t);
           });
  }

 private:
  bool SurelyFirst(int32_t s, int32_t t) const {
    return !model_.live_in[s] && std::ranges::all_of(model_.touchers[s], [&](int32_t other) {
      return other == t || reach_.Before(t, other);
    });
  }
  bool SurelyLast(int32_t s, int32_t t) const {
    return !model_.live_out[s] && std::ranges::all_of(model_.touchers[s], [&](int32_t other) {
      return other == t || reach_.Before(other, t);
    });
  }
  int64_t SavingAtLeast(int32_t t) const {
    std::vector<OrderOffer> sure;
    for (const OrderOffer& offer : model_.OffersOf(t)) {
      if (SurelyLast(offer.from, t) && SurelyFirst(offer.to, t)) sure.push_back(offer);
    }
    return BestSaving(sure);
  }
  // during(S, u) - live(S + u) = what u ends + its extra bytes - what it saves. A storage that u
  // may or may not end adds at least as much as an option on it saves.
  int64_t LeastAboveAfter(int32_t u) const {
    int64_t end_least = 0;
    for (int32_t s : model_.touched[u]) {
      if (SurelyLast(s, u)) end_least += model_.bytes[s];
    }
    std::vector<OrderOffer> possible;
    for (const OrderOffer& offer : model_.OffersOf(u)) {
      if (SurelyLast(offer.from, u)) possible.push_back(offer);
    }
    return end_least + model_.extra_bytes[u] - BestSaving(possible);
  }

  const OrderModel& model_;
  TaskReach reach_;
  TaskLists predecessors_;
};

// partner[u] = w: fuse w behind u. No task is in two pairs. Returns how many pairs there are.
int32_t ChoosePairs(const OrderModel& model, const Fuser& fuser, std::vector<int32_t>& partner) {
  partner.assign(model.task_count, -1);
  std::vector<uint8_t> taken(model.task_count, 0);
  int32_t pairs = 0;
  for (int32_t w = 0; w < model.task_count; ++w) {
    if (taken[w]) continue;
    const int32_t u = fuser.FusesBehind(w);
    if (u < 0 || taken[u]) continue;
    taken[u] = taken[w] = 1;
    partner[u] = w;
    ++pairs;
  }
  return pairs;
}

bool Contains(std::span<const int32_t> sorted, int32_t value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

// The model after fusing; tasks_of is by its tasks, in tasks of `model`.
ReducedOrder Fuse(const OrderModel& model, const Fuser& fuser,
                  const std::vector<int32_t>& partner) {
  std::vector<int32_t> unit(model.task_count, -1);
  std::vector<uint8_t> is_second(model.task_count, 0);
  for (int32_t u = 0; u < model.task_count; ++u) {
    if (partner[u] >= 0) is_second[partner[u]] = 1;
  }
  ReducedOrder reduced;
  OrderModel& sub = reduced.model;
  for (int32_t t = 0; t < model.task_count; ++t) {
    if (is_second[t]) continue;
    unit[t] = sub.task_count++;
    reduced.tasks_of.push_back({t});
    sub.extra_bytes.push_back(model.extra_bytes[t]);
    if (partner[t] < 0) continue;
    unit[partner[t]] = unit[t];
    reduced.tasks_of.back().push_back(partner[t]);
  }
  sub.base_bytes = model.base_bytes;
  sub.first_step_bytes = model.first_step_bytes;
  sub.last_step_bytes = model.last_step_bytes;

  std::vector<int32_t> index(model.storage_count, -1);
  std::vector<std::pair<int32_t, int32_t>> touches, inverse;
  for (int32_t s = 0; s < model.storage_count; ++s) {
    const std::span<const int32_t> touchers = model.touchers[s];
    if (touchers.size() == 1 && is_second[touchers.front()] && !model.live_in[s] &&
        !model.live_out[s]) {
      continue;  // comes and goes in the step that is not the peak
    }
    index[s] = sub.storage_count++;
    sub.bytes.push_back(model.bytes[s]);
    sub.live_in.push_back(model.live_in[s]);
    sub.live_out.push_back(model.live_out[s]);
    for (int32_t task : touchers) {
      touches.emplace_back(unit[task], index[s]);
      inverse.emplace_back(index[s], unit[task]);
    }
  }
  sub.touched = TaskLists(sub.task_count, std::move(touches));
  sub.touchers = TaskLists(sub.storage_count, std::move(inverse));

  std::vector<std::pair<int32_t, int32_t>> preds;
  sub.offer_begin.assign(1, 0);
  for (int32_t m = 0; m < sub.task_count; ++m) {
    const int32_t u = reduced.tasks_of[m].front();
    const int32_t w = partner[u];
    for (int32_t task : reduced.tasks_of[m]) {
      for (int32_t pred : fuser.predecessors()[task]) {
        if (unit[pred] != m) preds.emplace_back(m, unit[pred]);
      }
    }
    for (const OrderOffer& offer : model.OffersOf(u)) {
      // When w touches `from` too, u is never the last.
      if (w >= 0 && Contains(model.touched[w], offer.from)) continue;
      sub.offers.push_back(
          {.from = index[offer.from], .to = index[offer.to], .saved_bytes = offer.saved_bytes});
    }
    sub.offer_begin.push_back(static_cast<int32_t>(sub.offers.size()));
    if (w < 0) continue;
    for (int32_t s : model.touched[w]) {
      // Begun by w: not there at the step of u.
      if (index[s] >= 0 && !fuser.SurelyBegun(s, w)) sub.extra_bytes[m] -= model.bytes[s];
    }
  }
  sub.predecessors = TaskLists(sub.task_count, std::move(preds));
  sub.successors = Inverse(sub.task_count, sub.predecessors);
  return reduced;
}

// One round of fusing in the direction of `model`. False when nothing fuses.
bool FuseOnce(OrderModel& model, std::vector<std::vector<int32_t>>& tasks_of, bool reversed) {
  const Fuser fuser(model);
  std::vector<int32_t> partner;
  if (ChoosePairs(model, fuser, partner) == 0) return false;
  ReducedOrder next = Fuse(model, fuser, partner);
  for (std::vector<int32_t>& unit : next.tasks_of) {
    std::vector<int32_t> sequence;
    if (reversed) std::reverse(unit.begin(), unit.end());
    for (int32_t task : unit) {
      sequence.insert(sequence.end(), tasks_of[task].begin(), tasks_of[task].end());
    }
    unit = std::move(sequence);
  }
  model = std::move(next.model);
  tasks_of = std::move(next.tasks_of);
  return true;
}

}  // namespace

ReducedOrder ReduceOrder(const OrderModel& model, int32_t max_task_count) {
  ReducedOrder reduced;
  reduced.model = model;
  for (int32_t t = 0; t < model.task_count; ++t) reduced.tasks_of.push_back({t});
  if (model.task_count > max_task_count) return reduced;
  bool reversed = false;
  // Until neither direction fuses any more.
  for (int idle = 0; idle < 2;) {
    if (FuseOnce(reduced.model, reduced.tasks_of, reversed)) {
      idle = 0;
      continue;
    }
    ++idle;
    reduced.model = ReverseOrderModel(reduced.model);
    reversed = !reversed;
  }
  if (reversed) reduced.model = ReverseOrderModel(reduced.model);
  return reduced;
}

std::vector<int32_t> ReducedOrder::Expand(std::span<const int32_t> order) const {
  std::vector<int32_t> expanded;
  for (int32_t task : order) {
    expanded.insert(expanded.end(), tasks_of[task].begin(), tasks_of[task].end());
  }
  return expanded;
}

}  // namespace onnx_memplan
