#include "plan/pack_auto.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plan/offset_search.h"
#include "plan/pack_fit.h"
#include "plan/pack_skyline.h"

namespace onnx_memplan {
namespace {

// Keeps the best of what packers offer.
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
    if (has_packing_ && bytes >= best_.bytes) return false;
    has_packing_ = true;
    best_.bytes = bytes;
    best_.offsets = std::move(offsets);
    best_.method = std::string(method);
    return true;
  }
  void RaiseBound(int64_t bytes) { best_.lower_bound = std::max(best_.lower_bound, bytes); }
  bool enough() const {
    return has_packing_ && (best_.bytes <= enough_bytes_ || best_.bytes <= best_.lower_bound);
  }
  const Packing& best() const { return best_; }
  int64_t enough_bytes() const { return enough_bytes_; }

 private:
  const Blocks& blocks_;
  int64_t enough_bytes_;
  bool has_packing_ = false;
  Packing best_;
};

void RunPortfolio(const Blocks& blocks, const Deadline& deadline, Incumbent& incumbent) {
  struct Skyline {
    SkylineKey key;
    std::string_view name;
  };
  for (const Skyline& skyline : {Skyline{SkylineKey::kArea, "skyline by area"},
                                 Skyline{SkylineKey::kSize, "skyline by size"},
                                 Skyline{SkylineKey::kDuration, "skyline by duration"}}) {
    incumbent.Offer(SkylineOffsets(blocks, skyline.key, deadline), skyline.name);
    if (incumbent.enough()) return;
  }
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
  incumbent.Offer(placer.Place(PyramidOrder(blocks), FitRule::kFirst), "pyramid");
  for (const Fit& fit : kFits) {
    if (incumbent.enough() || deadline.expired()) return;
    incumbent.Offer(placer.Place(PlacementOrder(blocks, fit.key), fit.rule), fit.name);
  }
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
  int64_t pairs = 0, steps = 0;
  for (int32_t conflicts : ConflictCounts(blocks)) pairs += conflicts;
  for (const Block& block : blocks.blocks) steps += block.duration();
  return pairs / 2 > kMaxPairs;
}

// Rounds of searches with growing node limits.
class ExactRounds {
 public:
  ExactRounds(const Blocks& blocks, const PackOptions& options, const Deadline& deadline,
              Incumbent& incumbent)
      : deadline_(deadline),
        incumbent_(incumbent),
        random_(options.seed),
        nodes_left_(options.node_limit.value_or(std::numeric_limits<int64_t>::max())),
        target_(options.target_bytes),
        fixed_(FixedRankings()),
        search_(MakeOffsetSearch(blocks, fixed_.front().ranking)),
        // Little more than one dive.
        node_limit_(2 * static_cast<int64_t>(blocks.blocks.size()) + 64) {}

  void Run() {
    for (int round = 0; !Done(); ++round, node_limit_ *= 2) {
      for (const NamedRanking& named : fixed_) Probe(named);
      constexpr int kDrawsPerRound = 12;
      for (int i = 0; i < kDrawsPerRound && !Done(); ++i) {
        Probe({"a random mixture", DrawRanking(random_)});
      }
    }
  }

 private:
  bool Done() const { return incumbent_.enough() || nodes_left_ <= 0 || deadline_.expired(); }

  // Tries the capacity that is wanted. When a gap remains, tries one in between every second time,
  // and goes on down from there as long as that succeeds.
  void Probe(const NamedRanking& named) {
    if (Done()) return;
    search_->SetRanking(named.ranking);
    const int64_t wanted = std::max(target_, incumbent_.best().lower_bound);
    const bool between = target_ < incumbent_.best().lower_bound && ++probes_ % 2 == 0;
    if (!between) {
      Try(named, wanted);
      return;
    }
    while (!Done()) {
      const Packing& best = incumbent_.best();
      const int64_t room = best.bytes - 1 - best.lower_bound;
      const auto share = static_cast<int64_t>(fraction_ * static_cast<double>(room));
      const bool found = Try(named, best.lower_bound + std::clamp<int64_t>(share, 0, room));
      fraction_ = std::clamp(found ? fraction_ * 0.7 : fraction_ * 1.1 + 0.01, 0.02, 1.0);
      if (!found) return;
    }
  }

  // Returns whether better offsets were found.
  bool Try(const NamedRanking& named, int64_t capacity) {
    const SearchResult result =
        search_->Run(capacity, std::min(node_limit_, nodes_left_), deadline_);
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
  int64_t node_limit_;
  int64_t probes_ = 0;
  // Where between the bound and the incumbent the next capacity lies.
  double fraction_ = 0.5;
};

}  // namespace

Packing PackPortfolio(const Blocks& blocks, const PackOptions& options) {
  const Deadline deadline(options.time_limit_seconds, options.cancel);
  Incumbent incumbent(blocks, options.target_bytes);
  RunPortfolio(blocks, deadline, incumbent);
  return incumbent.best();
}

Packing PackAuto(const Blocks& blocks, const PackOptions& options) {
  const Deadline deadline(options.time_limit_seconds, options.cancel);
  Incumbent incumbent(blocks, options.target_bytes);
  RunPortfolio(blocks, deadline, incumbent);
  if (!incumbent.enough() && !TooLargeToSearch(blocks)) {
    ExactRounds(blocks, options, deadline, incumbent).Run();
  }
  Packing packing = incumbent.best();
  if (packing.bytes == packing.lower_bound && packing.lower_bound > blocks.lower_bound) {
    packing.method += "; the search proved that fewer bytes are impossible";
  } else if (packing.bytes == packing.lower_bound) {
    packing.method += "; meets the bound";
  }
  return packing;
}

}  // namespace onnx_memplan
