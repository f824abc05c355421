#include "plan/liveness.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t i) { return static_cast<size_t>(i); }

// An in-place offer that this order allows.
struct Offer {
  int32_t step = 0;
  int32_t from = 0;
  int32_t to = 0;
  int64_t saved_bytes = 0;
  int32_t option = 0;  // index into PlanProblem::in_place
};

// Offers whose task is the last to touch `from` and the first to touch `to`, by step, and within a
// step the ones that save most first. Fixed offsets must agree.
std::vector<Offer> AllowedOffers(const PlanProblem& problem, std::span<const int32_t> order,
                                 std::span<const StepSpan> spans) {
  std::vector<int32_t> step_of(order.size());
  for (size_t step = 0; step < order.size(); ++step) {
    step_of[Index(order[step])] = static_cast<int32_t>(step);
  }
  const auto touches = [&](int32_t task, int32_t storage) {
    const Task& t = problem.tasks[Index(task)];
    return std::find(t.reads.begin(), t.reads.end(), storage) != t.reads.end() ||
           std::find(t.writes.begin(), t.writes.end(), storage) != t.writes.end();
  };
  std::vector<Offer> offers;
  for (size_t i = 0; i < problem.in_place.size(); ++i) {
    const InPlaceOption& option = problem.in_place[i];
    const Storage& from = problem.storages[Index(option.from)];
    const Storage& to = problem.storages[Index(option.to)];
    const int32_t step = step_of[Index(option.task)];
    if (from.live_out || to.live_in || from.bytes == 0 || to.bytes == 0) continue;
    if (spans[Index(option.from)].end_step != step + 1) continue;
    if (spans[Index(option.to)].first_step != step) continue;
    if (!touches(option.task, option.from) || !touches(option.task, option.to)) continue;
    const std::optional<int64_t> fixed = from.fixed_offset ? from.fixed_offset : to.fixed_offset;
    if (fixed && to.fixed_offset && *fixed != *to.fixed_offset) continue;
    if (fixed && *fixed % std::max(from.alignment, to.alignment) != 0) continue;
    offers.push_back({.step = step,
                      .from = option.from,
                      .to = option.to,
                      .saved_bytes = std::min(from.bytes, to.bytes),
                      .option = static_cast<int32_t>(i)});
  }
  std::sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) {
    return std::tuple(a.step, -a.saved_bytes, a.option) <
           std::tuple(b.step, -b.saved_bytes, b.option);
  });
  return offers;
}

// The subset of one step's offers, no storage twice, that saves the most bytes: exhaustive for the
// few that real tasks have, greedy beyond that.
class BestMatching {
 public:
  explicit BestMatching(std::span<const Offer> offers) : offers_(offers) {
    if (offers.size() <= kMaxExhaustive) {
      Extend(0, 0);
    } else {
      for (const Offer& offer : offers) {
        if (Compatible(offer)) chosen_.push_back(&offer);
      }
      best_ = chosen_;
    }
  }
  const std::vector<const Offer*>& best() const { return best_; }
  // No matching of these offers saves more.
  int64_t max_saved_bytes() const {
    if (offers_.size() <= kMaxExhaustive) return best_saved_;
    std::map<int32_t, int64_t> by_from;
    for (const Offer& offer : offers_) {
      by_from[offer.from] = std::max(by_from[offer.from], offer.saved_bytes);
    }
    int64_t saved = 0;
    for (const auto& [from, bytes] : by_from) saved += bytes;
    return saved;
  }

 private:
  static constexpr size_t kMaxExhaustive = 12;

  bool Compatible(const Offer& offer) const {
    return std::none_of(chosen_.begin(), chosen_.end(), [&](const Offer* other) {
      return other->from == offer.from || other->to == offer.to || other->from == offer.to ||
             other->to == offer.from;
    });
  }
  void Extend(size_t i, int64_t saved) {
    if (saved > best_saved_) {
      best_saved_ = saved;
      best_ = chosen_;
    }
    for (; i < offers_.size(); ++i) {
      if (!Compatible(offers_[i])) continue;
      chosen_.push_back(&offers_[i]);
      Extend(i + 1, saved + offers_[i].saved_bytes);
      chosen_.pop_back();
    }
  }

  std::span<const Offer> offers_;
  std::vector<const Offer*> chosen_, best_;
  int64_t best_saved_ = 0;
};

// Calls visit(offers of one step) for every step that has offers.
template <typename Visit>
void ForEachStep(std::span<const Offer> allowed, Visit visit) {
  for (size_t begin = 0; begin < allowed.size();) {
    size_t end = begin;
    while (end < allowed.size() && allowed[end].step == allowed[begin].step) ++end;
    visit(allowed.subspan(begin, end - begin));
    begin = end;
  }
}

std::vector<Offer> BestOffers(std::span<const Offer> allowed) {
  std::vector<Offer> best;
  ForEachStep(allowed, [&](std::span<const Offer> offers) {
    const BestMatching matching(offers);
    for (const Offer* offer : matching.best()) best.push_back(*offer);
  });
  return best;
}

// Two storages that agree on fixed offset and alignment may still be joined through a third one to
// a chain that does not: drops the later offers of such chains. `offers` are sorted by step.
void DropDisagreeing(const PlanProblem& problem, std::vector<Offer>& offers) {
  struct Demand {
    int64_t alignment;
    std::optional<int64_t> fixed_offset;
  };
  std::map<int32_t, Demand> demand_of_chain_end;
  std::erase_if(offers, [&](const Offer& offer) {
    const Storage& from = problem.storages[Index(offer.from)];
    const Storage& to = problem.storages[Index(offer.to)];
    const auto known = demand_of_chain_end.find(offer.from);
    Demand demand = known != demand_of_chain_end.end() ? known->second
                                                       : Demand{from.alignment, from.fixed_offset};
    if (demand.fixed_offset && to.fixed_offset && *demand.fixed_offset != *to.fixed_offset) {
      return true;
    }
    demand.alignment = std::max(demand.alignment, to.alignment);
    if (to.fixed_offset) demand.fixed_offset = to.fixed_offset;
    if (demand.fixed_offset && *demand.fixed_offset % demand.alignment != 0) return true;
    demand_of_chain_end[offer.to] = demand;
    return false;
  });
}

// Live bytes by step when no offer is taken.
std::vector<int64_t> LiveBytes(const PlanProblem& problem, std::span<const int32_t> order,
                               std::span<const StepSpan> spans) {
  std::vector<int64_t> live(Index(StepCount(problem)) + 1, 0);
  for (size_t s = 0; s < spans.size(); ++s) {
    if (spans[s].empty()) continue;
    live[Index(spans[s].first_step)] += problem.storages[s].bytes;
    live[Index(spans[s].end_step)] -= problem.storages[s].bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  for (size_t step = 0; step < order.size(); ++step) {
    live[step] += problem.tasks[Index(order[step])].scratch_bytes;
  }
  return live;
}

std::vector<Offer> ChooseOffers(const PlanProblem& problem, std::span<const int32_t> order,
                                std::span<const StepSpan> spans, InPlacePolicy policy) {
  if (policy == InPlacePolicy::kNone || problem.in_place.empty()) return {};
  std::vector<Offer> offers = BestOffers(AllowedOffers(problem, order, spans));
  DropDisagreeing(problem, offers);
  if (policy == InPlacePolicy::kAll) return offers;
  std::vector<int64_t> live = LiveBytes(problem, order, spans);
  for (const Offer& offer : offers) live[Index(offer.step)] -= offer.saved_bytes;
  const int64_t peak = *std::max_element(live.begin(), live.end());
  // The offers that save least go first, as long as their step stays under the peak.
  std::stable_sort(offers.begin(), offers.end(),
                   [](const Offer& a, const Offer& b) { return a.saved_bytes < b.saved_bytes; });
  std::erase_if(offers, [&](const Offer& offer) {
    if (live[Index(offer.step)] + offer.saved_bytes > peak) return false;
    live[Index(offer.step)] += offer.saved_bytes;
    return true;
  });
  std::sort(offers.begin(), offers.end(),
            [](const Offer& a, const Offer& b) { return a.step < b.step; });
  return offers;
}

// Live bytes by step of finished blocks.
void FillLiveBound(Blocks& out) {
  std::vector<int64_t> live(Index(out.step_count) + 1, 0);
  for (const Window& window : out.windows) {
    live[Index(window.first_step)] += window.high - window.low;
    live[Index(window.end_step)] -= window.high - window.low;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  const auto peak = std::max_element(live.begin(), live.end());
  out.max_live_bytes = live.empty() ? 0 : *peak;
  out.peak_step = live.empty() ? 0 : static_cast<int32_t>(peak - live.begin());
  out.lower_bound = out.max_live_bytes;
  for (const Block& block : out.blocks) {
    const int64_t offset = std::max<int64_t>(block.fixed_offset, 0);
    out.lower_bound = std::max(out.lower_bound, offset + block.bytes);
  }
}

// Steps by step number; empty: none.
using StepSet = std::vector<bool>;

// In a step where all live blocks begin at multiples of g, every one but the topmost takes a
// multiple of g bytes. Says nothing of steps in `skip`.
void RaiseBoundByAlignment(Blocks& out, const StepSet& skip) {
  std::set<int64_t> alignments;
  for (const Block& block : out.blocks) alignments.insert(block.alignment);
  for (const int64_t g : alignments) {
    if (g == 1) continue;
    struct Event {
      int32_t step;
      bool enters;
      int64_t bytes;
      bool excluded;  // a block that may begin off the grid
    };
    std::vector<Event> events;
    for (const Block& block : out.blocks) {
      for (const Window& window : out.windows_of(block)) {
        const bool excluded = block.alignment < g || window.low != 0;
        events.push_back({window.first_step, true, window.high - window.low, excluded});
        events.push_back({window.end_step, false, window.high - window.low, excluded});
      }
    }
    std::sort(events.begin(), events.end(),
              [](const Event& a, const Event& b) { return a.step < b.step; });
    std::map<int64_t, int64_t> slack_counts;
    int64_t rounded = 0, excluded = 0;
    for (size_t i = 0; i < events.size(); ++i) {
      const Event& event = events[i];
      const int64_t slack = (g - event.bytes % g) % g;
      if (event.excluded) {
        excluded += event.enters ? 1 : -1;
      } else {
        rounded += event.enters ? event.bytes + slack : -event.bytes - slack;
        int64_t& count = slack_counts[slack];
        count += event.enters ? 1 : -1;
        if (count == 0) slack_counts.erase(slack);
      }
      const bool step_done = i + 1 == events.size() || events[i + 1].step != event.step;
      if (!step_done || excluded > 0 || slack_counts.empty()) continue;
      if (!skip.empty() && skip[Index(event.step)]) continue;
      out.lower_bound = std::max(out.lower_bound, rounded - slack_counts.rbegin()->first);
    }
  }
}

// Windows of the storages of one block, in the order of their lives: at the step that two of them
// share, the larger counts.
void AppendWindows(const PlanProblem& problem, std::span<const StepSpan> spans,
                   std::span<const int32_t> chain, std::vector<Window>& windows) {
  const size_t begin = windows.size();
  const auto append = [&](int32_t first, int32_t end, int64_t bytes) {
    if (first >= end) return;
    if (windows.size() > begin && windows.back().end_step == first &&
        windows.back().high == bytes) {
      windows.back().end_step = end;
    } else {
      windows.push_back({.first_step = first, .end_step = end, .low = 0, .high = bytes});
    }
  };
  int32_t from_step = spans[Index(chain.front())].first_step;
  for (size_t i = 0; i < chain.size(); ++i) {
    const StepSpan span = spans[Index(chain[i])];
    const int64_t bytes = problem.storages[Index(chain[i])].bytes;
    if (i + 1 == chain.size()) {
      append(from_step, span.end_step, bytes);
      break;
    }
    append(from_step, span.end_step - 1, bytes);
    const int64_t next_bytes = problem.storages[Index(chain[i + 1])].bytes;
    append(span.end_step - 1, span.end_step, std::max(bytes, next_bytes));
    from_step = span.end_step;
  }
}

void FinishBlock(Blocks& out, int64_t alignment, int64_t fixed_offset, size_t window_begin) {
  Block block;
  block.window_begin = static_cast<int32_t>(window_begin);
  block.window_end = static_cast<int32_t>(out.windows.size());
  block.first_step = out.windows[window_begin].first_step;
  block.end_step = out.windows.back().end_step;
  for (const Window& window : out.windows_of(block)) {
    block.bytes = std::max(block.bytes, window.high);
  }
  block.alignment = alignment;
  block.fixed_offset = fixed_offset;
  out.blocks.push_back(block);
}

}  // namespace

int32_t StepCount(const PlanProblem& problem) {
  return std::max<int32_t>(1, static_cast<int32_t>(problem.tasks.size()));
}

std::vector<StepSpan> StorageSpans(const PlanProblem& problem, std::span<const int32_t> order) {
  const int32_t steps = StepCount(problem);
  std::vector<StepSpan> spans(problem.storages.size(), StepSpan{steps, 0});
  for (size_t step = 0; step < order.size(); ++step) {
    const Task& task = problem.tasks[Index(order[step])];
    for (const std::vector<int32_t>* list : {&task.reads, &task.writes}) {
      for (int32_t storage : *list) {
        StepSpan& span = spans[Index(storage)];
        span.first_step = std::min(span.first_step, static_cast<int32_t>(step));
        span.end_step = std::max(span.end_step, static_cast<int32_t>(step) + 1);
      }
    }
  }
  for (size_t s = 0; s < spans.size(); ++s) {
    if (problem.storages[s].live_in) {
      spans[s].first_step = 0;
      spans[s].end_step = std::max(spans[s].end_step, 1);
    }
    if (problem.storages[s].live_out) {
      spans[s].first_step = std::min(spans[s].first_step, steps - 1);
      spans[s].end_step = steps;
    }
  }
  return spans;
}

namespace {

Blocks MakeBlocksOfOffers(const PlanProblem& problem, std::span<const int32_t> order,
                          std::span<const StepSpan> spans, std::span<const Offer> offers) {
  constexpr int32_t kNone = -1;
  std::vector<int32_t> next(problem.storages.size(), kNone);
  std::vector<bool> has_previous(problem.storages.size(), false);
  Blocks out;
  for (const Offer& offer : offers) {
    next[Index(offer.from)] = offer.to;
    has_previous[Index(offer.to)] = true;
    out.taken.push_back(offer.option);
  }
  std::sort(out.taken.begin(), out.taken.end());
  out.step_count = StepCount(problem);
  out.storage_block.assign(problem.storages.size(), kNone);
  out.scratch_block.assign(problem.tasks.size(), kNone);
  std::vector<int32_t> chain;
  for (size_t s = 0; s < problem.storages.size(); ++s) {
    if (has_previous[s] || spans[s].empty() || problem.storages[s].bytes == 0) continue;
    chain.clear();
    int64_t alignment = 1, fixed = -1;
    for (auto link = static_cast<int32_t>(s); link != kNone; link = next[Index(link)]) {
      const Storage& storage = problem.storages[Index(link)];
      fixed = storage.fixed_offset.value_or(fixed);
      alignment = std::max(alignment, storage.alignment);
      chain.push_back(link);
      out.storage_block[Index(link)] = static_cast<int32_t>(out.blocks.size());
    }
    const size_t window_begin = out.windows.size();
    AppendWindows(problem, spans, chain, out.windows);
    FinishBlock(out, alignment, fixed, window_begin);
  }
  for (size_t step = 0; step < order.size(); ++step) {
    const Task& task = problem.tasks[Index(order[step])];
    if (task.scratch_bytes == 0) continue;
    out.scratch_block[Index(order[step])] = static_cast<int32_t>(out.blocks.size());
    const size_t window_begin = out.windows.size();
    const auto first = static_cast<int32_t>(step);
    out.windows.push_back(
        {.first_step = first, .end_step = first + 1, .low = 0, .high = task.scratch_bytes});
    FinishBlock(out, task.scratch_alignment, -1, window_begin);
  }
  FillLiveBound(out);
  return out;
}

// A bound that holds whichever offers are taken: at each step the bytes live without any, less the
// most that offers can save there.
int64_t OrderBound(const PlanProblem& problem, std::span<const int32_t> order,
                   std::span<const StepSpan> spans, std::span<const Offer> allowed) {
  Blocks plain = MakeBlocksOfOffers(problem, order, spans, {});
  std::vector<int64_t> live = LiveBytes(problem, order, spans);
  StepSet has_offers(live.size(), false);
  ForEachStep(allowed, [&](std::span<const Offer> offers) {
    const size_t step = Index(offers.front().step);
    live[step] -= BestMatching(offers).max_saved_bytes();
    has_offers[step] = true;
  });
  plain.lower_bound = *std::max_element(live.begin(), live.end());
  for (const Block& block : plain.blocks) {
    const int64_t offset = std::max<int64_t>(block.fixed_offset, 0);
    plain.lower_bound = std::max(plain.lower_bound, offset + block.bytes);
  }
  RaiseBoundByAlignment(plain, has_offers);
  return plain.lower_bound;
}

}  // namespace

Blocks MakeBlocks(const PlanProblem& problem, std::span<const int32_t> order,
                  InPlacePolicy policy) {
  const std::vector<StepSpan> spans = StorageSpans(problem, order);
  const std::vector<Offer> offers = ChooseOffers(problem, order, spans, policy);
  Blocks out = MakeBlocksOfOffers(problem, order, spans, offers);
  RaiseBoundByAlignment(out, {});
  const std::vector<Offer> allowed = AllowedOffers(problem, order, spans);
  out.has_offers = !allowed.empty();
  out.order_bound = allowed.empty() ? out.lower_bound : OrderBound(problem, order, spans, allowed);
  return out;
}

Blocks BlocksFromList(int32_t step_count, std::vector<Block> blocks, std::vector<Window> windows) {
  Blocks out;
  out.step_count = step_count;
  out.blocks = std::move(blocks);
  out.windows = std::move(windows);
  for (Block& block : out.blocks) {
    if (block.window_begin != block.window_end) continue;
    block.window_begin = static_cast<int32_t>(out.windows.size());
    block.window_end = block.window_begin + 1;
    out.windows.push_back({.first_step = block.first_step,
                           .end_step = block.end_step,
                           .low = 0,
                           .high = block.bytes});
  }
  FillLiveBound(out);
  RaiseBoundByAlignment(out, {});
  out.order_bound = out.lower_bound;
  return out;
}

int64_t PeakLiveBytes(const PlanProblem& problem, std::span<const int32_t> order,
                      std::vector<int64_t>* by_step) {
  const std::vector<StepSpan> spans = StorageSpans(problem, order);
  std::vector<int64_t> live = LiveBytes(problem, order, spans);
  for (const Offer& offer : ChooseOffers(problem, order, spans, InPlacePolicy::kAll)) {
    live[Index(offer.step)] -= offer.saved_bytes;
  }
  const int64_t peak = *std::max_element(live.begin(), live.end());
  if (by_step != nullptr) *by_step = std::move(live);
  return peak;
}

absl::Status CheckFixedBlocks(const Blocks& blocks) {
  struct Piece {
    int32_t first_step, end_step;
    int64_t low, high;
    int32_t block;
  };
  std::vector<Piece> pieces;
  for (size_t b = 0; b < blocks.blocks.size(); ++b) {
    const Block& block = blocks.blocks[b];
    if (!block.is_fixed()) continue;
    for (const Window& window : blocks.windows_of(block)) {
      pieces.push_back({window.first_step, window.end_step, block.fixed_offset + window.low,
                        block.fixed_offset + window.high, static_cast<int32_t>(b)});
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.first_step < b.first_step; });
  std::map<int64_t, const Piece*> live;
  using Leaving = std::pair<int32_t, int64_t>;
  std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> leaving;
  for (const Piece& piece : pieces) {
    while (!leaving.empty() && leaving.top().first <= piece.first_step) {
      live.erase(leaving.top().second);
      leaving.pop();
    }
    const auto above = live.lower_bound(piece.low);
    const Piece* other = nullptr;
    if (above != live.end() && above->first < piece.high) other = above->second;
    if (other == nullptr && above != live.begin() && std::prev(above)->second->high > piece.low) {
      other = std::prev(above)->second;
    }
    if (other != nullptr) {
      const auto storage_of = [&](int32_t block) {
        return std::find(blocks.storage_block.begin(), blocks.storage_block.end(), block) -
               blocks.storage_block.begin();
      };
      return absl::InvalidArgumentError(absl::StrFormat(
          "storages %d and %d have fixed offsets that overlap at step %d: bytes [%d, %d) and "
          "[%d, %d)",
          storage_of(other->block), storage_of(piece.block), piece.first_step, other->low,
          other->high, piece.low, piece.high));
    }
    live.emplace(piece.low, &piece);
    leaving.emplace(piece.end_step, piece.low);
  }
  return absl::OkStatus();
}

Plan MakePlan(const PlanProblem& problem, std::span<const int32_t> order, const Blocks& blocks,
              std::span<const int64_t> block_offsets) {
  Plan plan;
  plan.order.assign(order.begin(), order.end());
  plan.offsets.assign(problem.storages.size(), 0);
  plan.scratch_offsets.assign(problem.tasks.size(), 0);
  for (size_t s = 0; s < plan.offsets.size(); ++s) {
    if (blocks.storage_block[s] >= 0) {
      plan.offsets[s] = block_offsets[Index(blocks.storage_block[s])];
    } else {
      plan.offsets[s] = problem.storages[s].fixed_offset.value_or(0);
    }
  }
  for (size_t t = 0; t < plan.scratch_offsets.size(); ++t) {
    if (blocks.scratch_block[t] < 0) continue;
    plan.scratch_offsets[t] = block_offsets[Index(blocks.scratch_block[t])];
  }
  for (size_t b = 0; b < blocks.blocks.size(); ++b) {
    plan.arena_bytes = std::max(plan.arena_bytes, block_offsets[b] + blocks.blocks[b].bytes);
  }
  return plan;
}

}  // namespace onnx_memplan
