#include "plan/pack_improve.h"

#include <algorithm>
#include <random>
#include <utility>

namespace onnx_memplan {
namespace {

size_t Index(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

std::vector<int64_t> ImprovePlacementOrder(const Blocks& blocks, FitPlacer& placer,
                                           const std::vector<int32_t>& order, int64_t enough_bytes,
                                           int64_t max_rounds, uint64_t seed,
                                           const Deadline& deadline) {
  std::mt19937_64 random(seed);
  // Small places come first. Positions to begin with.
  std::vector<double> place(order.size()), best_place;
  for (size_t i = 0; i < order.size(); ++i) place[Index(order[i])] = static_cast<double>(i + 1);
  std::vector<int32_t> current = order;
  std::vector<int64_t> best = placer.Place(current, FitRule::kFirst, &deadline);
  if (best.empty()) return best;
  int64_t best_bytes = PackedBytes(blocks, best);
  best_place = place;
  std::vector<int64_t> offsets = best;
  constexpr int kPatience = 12;
  int without_success = 0;
  for (int64_t round = 0; round < max_rounds && best_bytes > enough_bytes; ++round) {
    for (size_t b = 0; b < offsets.size(); ++b) {
      if (offsets[b] + blocks.blocks[b].bytes <= enough_bytes) continue;
      place[b] *= static_cast<double>(random() >> 11) * 0x1p-53;
    }
    std::stable_sort(current.begin(), current.end(), [&](int32_t a, int32_t b) {
      return std::pair(place[Index(a)], a) < std::pair(place[Index(b)], b);
    });
    std::vector<int64_t> next = placer.Place(current, FitRule::kFirst, &deadline);
    if (next.empty() || deadline.expired()) break;
    offsets = std::move(next);
    const int64_t bytes = PackedBytes(blocks, offsets);
    if (bytes <= best_bytes) {
      without_success = bytes < best_bytes ? 0 : without_success + 1;
      best_bytes = bytes;
      best = offsets;
      best_place = place;
    } else if (++without_success > kPatience) {
      without_success = 0;
      place = best_place;
      offsets = best;
    }
  }
  return best;
}

}  // namespace onnx_memplan
