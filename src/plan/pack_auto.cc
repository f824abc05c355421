#include "plan/pack_auto.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plan/offset_search.h"
#include "plan/pack_fit.h"
#include "plan/pack_improve.h"
#include "plan/pack_skyline.h"

namespace onnx_memplan {
namespace {

// Keeps the best of what packers offer; threads may share it.
class Incumbent {
 public:
  Incumbent(const Blocks& blocks, int64_t target_bytes)
      : blocks_(blocks), enough_bytes_(std::max(target_bytes, blocks.lower_bound)) {
    best_.lower_bound = blocks.lower_bound;
  }

  // Empty offsets (no time, or not for such blocks) are ignored. Returns whether they are the best.
  bool Offer(std::vector<int64_t> offsets, std::string_view method) {
    if (offsets.size() != blocks_.blocks.size()) return false;
    const int64_t bytes = PackedBytes(blocks_, offsets);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (has_packing_ && bytes >= best_.bytes) return false;
    has_packing_ = true;
    best_.bytes = bytes;
    best_.offsets = std::move(offsets);
    best_.method = std::string(method);
    Judge();
    return true;
  }
  void RaiseBound(int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    best_.lower_bound = std::max(best_.lower_bound, bytes);
    Judge();
  }
  bool has_packing() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return has_packing_;
  }
  bool enough() const { return enough_.load(std::memory_order_relaxed); }
  // Set when there is enough: stops searches that are under way.
  const std::atomic<bool>* enough_flag() const { return &enough_; }
  int64_t bytes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return best_.bytes;
  }
  int64_t lower_bound() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return best_.lower_bound;
  }
  int64_t enough_bytes() const { return enough_bytes_; }
  // When no other thread is at work.
  const Packing& best() const { return best_; }

 private:
  void Judge() {
    if (has_packing_ && (best_.bytes <= enough_bytes_ || best_.bytes <= best_.lower_bound)) {
      enough_ = true;
    }
  }

  const Blocks& blocks_;
  const int64_t enough_bytes_;
  mutable std::mutex mutex_;
  std::atomic<bool> enough_ = false;
  bool has_packing_ = false;
  Packing best_;
};

void RunSkylines(const Blocks& blocks, const Deadline& deadline, Incumbent& incumbent) {
  struct Skyline {
    SkylineKey key;
    std::string_view name;
  };
  const Deadline forever(std::numeric_limits<double>::infinity());
  for (const Skyline& skyline : {Skyline{SkylineKey::kArea, "skyline by area"},
                                 Skyline{SkylineKey::kSize, "skyline by size"},
                                 Skyline{SkylineKey::kDuration, "skyline by duration"}}) {
    // The first one is quick, and there must be a plan.
    const Deadline& stop = incumbent.has_packing() ? deadline : forever;
    incumbent.Offer(SkylineOffsets(blocks, skyline.key, stop), skyline.name);
    if (incumbent.enough()) return;
  }
}

// First-fit and best-fit in many orders. Returns the key by which first-fit did best.
FitKey RunFits(const Blocks& blocks, const Deadline& deadline, Incumbent& incumbent) {
  FitKey best_key = FitKey::kSize;
  int64_t best_key_bytes = std::numeric_limits<int64_t>::max();
  struct Fit {
    FitKey key;
    FitRule rule;
    std::string_view name;
  };
  constexpr Fit kFits[] = {
      {FitKey::kSize, FitRule::kFirst, "first fit by size"},
      {FitKey::kArea, FitRule::kFirst, "first fit by area"},
      {FitKey::kDuration, FitRule::kFirst, "first fit by duration"},
      {FitKey::kStart, FitRule::kBest, "best fit by birth"},
      {FitKey::kSize, FitRule::kBest, "best fit by size"},
      {FitKey::kArea, FitRule::kBest, "best fit by area"},
      {FitKey::kSizeConflicts, FitRule::kFirst, "first fit by size and conflicts"},
      {FitKey::kConflicts, FitRule::kFirst, "first fit by conflicts"},
      {FitKey::kPeak, FitRule::kFirst, "first fit by peak"},
      {FitKey::kDuration, FitRule::kBest, "best fit by duration"},
  };
  FitPlacer placer(blocks);
  // Once there is a plan, the deadline counts.
  const auto stop = [&] { return incumbent.has_packing() ? &deadline : nullptr; };
  if (!incumbent.has_packing() || !deadline.expired()) {
    incumbent.Offer(placer.Place(PyramidOrder(blocks), FitRule::kFirst, stop()), "pyramid");
  }
  for (const Fit& fit : kFits) {
    if (incumbent.enough() || deadline.expired()) return best_key;
    std::vector<int64_t> offsets = placer.Place(PlacementOrder(blocks, fit.key), fit.rule, stop());
    if (offsets.empty()) continue;
    const int64_t bytes = PackedBytes(blocks, offsets);
    if (fit.rule == FitRule::kFirst && bytes < best_key_bytes) {
      best_key_bytes = bytes;
      best_key = fit.key;
    }
    incumbent.Offer(std::move(offsets), fit.name);
  }
  return best_key;
}

struct NamedRanking {
  std::string name;
  Ranking ranking;
};

// The rankings that the search begins each round with.
std::vector<NamedRanking> FixedRankings() {
  constexpr RankKey kW = RankKey::kDuration, kA = RankKey::kArea, kT = RankKey::kSectionTotal;
  constexpr RankKey kC = RankKey::kSections;
  return {{"total, duration, area", {.keys = {kT, kW, kA}}},
          {"duration, area, total", {.keys = {kW, kA, kT}}},
          {"total, area, duration", {.keys = {kT, kA, kW}}},
          {"total, sections, area", {.keys = {kT, kC, kA}}},
          {"sections, area, total", {.keys = {kC, kA, kT}}}};
}

// A mixture of the measures: in half of the draws the section total decides almost alone, as in the
// fixed rankings; the rest explores. The searches are heavy-tailed, so that many short ones with
// different rankings find more than a long one.
Ranking DrawRanking(std::mt19937_64& random) {
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  Ranking ranking;
  ranking.keys = {RankKey::kSectionTotal, RankKey::kDuration, RankKey::kSize, RankKey::kSections};
  const bool total_first = uniform(0, 1) < 0.6;
  ranking.weights = {std::exp(total_first ? uniform(4, 12) : uniform(-1, 4)), uniform(-0.3, 1.7),
                     uniform(-0.3, 1.3), uniform(-0.3, 1.7)};
  ranking.noise = uniform(0, 0.3);
  ranking.seed = random();
  return ranking;
}

// The exact searches would need too much memory.
bool TooLargeToSearch(const Blocks& blocks) {
  constexpr int64_t kMaxPairs = 40'000'000;
  int64_t pairs = 0;
  for (int32_t conflicts : ConflictCounts(blocks)) pairs += conflicts;
  return pairs / 2 > kMaxPairs;
}

// The i-th term, from 1, of 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ... (Luby, Sinclair, Zuckerman 1993): run
// lengths for restarts that lose at most a logarithmic factor against the best fixed length.
int64_t LubyTerm(int64_t i) {
  while (true) {
    int64_t power = 1;
    while (2 * power <= i) power *= 2;
    if (2 * power - 1 == i) return power;
    i -= power - 1;
  }
}

// Many searches, short and long, of different rankings and capacities.
class Restarts {
 public:
  Restarts(const Blocks& blocks, const PackOptions& options, const Deadline& deadline,
           Incumbent& incumbent)
      : deadline_(deadline),
        incumbent_(incumbent),
        random_(options.seed),
        nodes_left_(options.node_limit.value_or(std::numeric_limits<int64_t>::max())),
        target_(options.target_bytes),
        fixed_(FixedRankings()),
        search_(MakeOffsetSearch(blocks, fixed_.front().ranking)),
        // Little more than one dive.
        base_nodes_(2 * static_cast<int64_t>(blocks.blocks.size()) + 64) {}

  // One short search by each fixed ranking: for most real networks the first one is enough.
  void Dive() {
    for (const NamedRanking& named : fixed_) Probe(named, base_nodes_);
  }

  // Restarts until enough is found or a limit is met.
  void Run() {
    size_t next_fixed = 0;
    for (int64_t i = 1; !Done(); ++i) {
      const int64_t length = LubyTerm(i);
      // Every other one of the long runs goes to a fixed ranking.
      if (length >= 8 && random_() % 2 == 0) {
        Probe(fixed_[next_fixed++ % fixed_.size()], base_nodes_ * length);
      } else {
        Probe({"a random mixture", DrawRanking(random_)}, base_nodes_ * length);
      }
    }
  }

 private:
  bool Done() const { return incumbent_.enough() || nodes_left_ <= 0 || deadline_.expired(); }

  // Tries the capacity that is wanted or, in turn, one between it and the incumbent; goes on down
  // from there as long as that succeeds. The longer the wanted one is not met, the more in between.
  void Probe(const NamedRanking& named, int64_t node_limit) {
    if (Done()) return;
    search_->SetRanking(named.ranking);
    const int64_t bound = incumbent_.lower_bound();
    const int64_t turns = ++probes_ < 64 ? 2 : 4;
    if (target_ >= bound || probes_ % turns == 1) {
      Try(named, std::max(target_, bound), node_limit);
      return;
    }
    while (!Done()) {
      const int64_t highest = incumbent_.bytes() - 1;
      const auto room = static_cast<double>(highest - incumbent_.lower_bound());
      const double draw = static_cast<double>(random_() >> 11) * 0x1p-53;
      // Near the incumbent more often than far below it.
      const auto below = static_cast<int64_t>(room * 0.7 * draw * draw);
      if (!Try(named, highest - below, node_limit)) return;
    }
  }

  // Returns whether better offsets were found.
  bool Try(const NamedRanking& named, int64_t capacity, int64_t node_limit) {
    const SearchResult result =
        search_->Run(capacity, std::min(node_limit, nodes_left_), deadline_);
    nodes_left_ -= result.nodes;
    if (result.status == SearchStatus::kFound) {
      return incumbent_.Offer(result.offsets, absl::StrCat("exact search by ", named.name));
    }
    if (result.status == SearchStatus::kInfeasible) {
      incumbent_.RaiseBound(search_->NextCapacity(capacity));
    }
    return false;
  }

  const Deadline& deadline_;
  Incumbent& incumbent_;
  std::mt19937_64 random_;
  int64_t nodes_left_;
  int64_t target_;
  std::vector<NamedRanking> fixed_;
  std::unique_ptr<OffsetSearch> search_;
  int64_t base_nodes_;
  int64_t probes_ = 0;
};

// Restarts on options.threads threads with different seeds, `first` being the one of this thread.
void RunThreads(const Blocks& blocks, const PackOptions& options, const Deadline& deadline,
                Incumbent& incumbent, Restarts& first) {
  std::vector<std::thread> others;
  for (int32_t t = 1; t < std::min(options.threads, 64) && !incumbent.enough(); ++t) {
    others.emplace_back([&, t] {
      PackOptions own = options;
      own.seed = options.seed + static_cast<uint64_t>(t) * 0x9E3779B97F4A7C15;
      Restarts(blocks, own, deadline, incumbent).Run();
    });
  }
  first.Run();
  for (std::thread& other : others) other.join();
}

// Local search from the order in which first-fit did best.
void Improve(const Blocks& blocks, const PackOptions& options, FitKey key, double seconds,
             Incumbent& incumbent) {
  const Deadline deadline(seconds, options.cancel);
  FitPlacer placer(blocks);
  const int64_t rounds = options.node_limit.has_value()
                             ? *options.node_limit / static_cast<int64_t>(blocks.blocks.size())
                             : std::numeric_limits<int64_t>::max();
  incumbent.Offer(ImprovePlacementOrder(blocks, placer, PlacementOrder(blocks, key),
                                        incumbent.enough_bytes(), rounds, options.seed, deadline),
                  "local search on the order of placement");
}

}  // namespace

Packing PackPortfolio(const Blocks& blocks, const PackOptions& options) {
  const Deadline deadline(options.time_limit_seconds, options.cancel);
  Incumbent incumbent(blocks, options.target_bytes);
  RunSkylines(blocks, deadline, incumbent);
  if (!incumbent.enough()) RunFits(blocks, deadline, incumbent);
  return incumbent.best();
}

Packing PackAuto(const Blocks& blocks, const PackOptions& options) {
  const Deadline deadline(options.time_limit_seconds, options.cancel);
  Incumbent incumbent(blocks, options.target_bytes);
  RunSkylines(blocks, deadline, incumbent);
  // Greedy packers cost as much as a dive of the search when there are many blocks, and help less.
  constexpr size_t kLarge = 5000;
  const bool large = blocks.blocks.size() > kLarge;
  FitKey key = FitKey::kPeak;
  if (!incumbent.enough() && !large) key = RunFits(blocks, deadline, incumbent);
  const Deadline search_deadline(deadline, incumbent.enough_flag());
  std::optional<Restarts> restarts;
  if (!incumbent.enough() && !deadline.expired() && !TooLargeToSearch(blocks)) {
    restarts.emplace(blocks, options, search_deadline, incumbent);
    restarts->Dive();
  }
  if (!incumbent.enough() && !deadline.expired() && large) {
    key = RunFits(blocks, deadline, incumbent);
    const double share = restarts.has_value() ? 0.5 : 1.0;
    Improve(blocks, options, key, deadline.remaining_seconds() * share, incumbent);
  }
  if (restarts.has_value()) RunThreads(blocks, options, search_deadline, incumbent, *restarts);
  Packing packing = incumbent.best();
  if (packing.bytes == packing.lower_bound && packing.lower_bound > blocks.lower_bound) {
    packing.method += "; the search proved that fewer bytes are impossible";
  } else if (packing.bytes == packing.lower_bound) {
    packing.method += "; meets the bound";
  }
  return packing;
}

}  // namespace onnx_memplan
