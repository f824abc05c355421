// Exact search for offsets under a capacity.
#ifndef ONNX_MEMPLAN_PLAN_OFFSET_SEARCH_H_
#define ONNX_MEMPLAN_PLAN_OFFSET_SEARCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "plan/liveness.h"
#include "plan/packer.h"

namespace onnx_memplan {

enum class SearchStatus {
  kFound,       // offsets are complete
  kInfeasible,  // proven: no offsets stay within the capacity
  kStopped,     // node limit or deadline
};

// What ranks blocks of equal offset in the search, largest first, in lexicographic order. The
// ranking does not change what can be found, only when.
enum class RankKey : uint8_t { kDuration, kArea, kSectionTotal, kSize, kConflicts, kSections };

// A ranking: by `keys` in lexicographic order or, when `weights` are given (one for each key), by
// the weighted sum of the keys' logarithms. `noise` > 0 adds a random part of that size, from
// `seed`.
struct Ranking {
  std::vector<RankKey> keys;
  std::vector<double> weights = {};
  double noise = 0;
  uint64_t seed = 0;
};

struct SearchResult {
  SearchStatus status = SearchStatus::kStopped;
  std::vector<int64_t> offsets;  // by block, when kFound
  int64_t nodes = 0;
};

// Depth-first search over canonical placements, for one set of blocks, one ranking and any number
// of capacities; the ideas are those of the MiniMalloc paper (Moffitt, ASPLOS 2024), the code is
// not.
//
// Idea. In a placement that is pushed down as far as it goes, every block lies on the ground or on
// another one. Sorted by offset, each block then stands at the lowest place that the earlier ones
// leave it. So a search that appends one block at a time in the order of offsets knows the offset
// of every candidate, and only has to choose which block is next.
//
// Pruning, with `low(b)` the lowest place of an unplaced block, `o` the last offset:
// - order: the next block stands at o or above; at the same offset, ranks increase;
// - dominance: a candidate at or above low(u) + bytes(u) of some unplaced u would leave a hole that
// u
//   fits into, so that the placement is not pushed down;
// - sections: steps with the same live blocks form a section; what is unplaced there must fit above
//   the section's floor: the top of what is placed, o, or the lowest low(b) of its unplaced blocks;
// - twins: blocks of equal lifetime and size appear in the order of their ranks;
// - no trace: when placing a block has raised no other and the rest then fails, the rest fails by
//   itself, and no other choice at this point can help;
// - decomposition: when no unplaced block crosses a step, both sides are solved on their own.
class OffsetSearch {
 public:
  virtual ~OffsetSearch() = default;

  // Looks for offsets whose extent is at most `capacity_bytes`.
  virtual SearchResult Run(int64_t capacity_bytes, int64_t node_limit,
                           const Deadline& deadline) = 0;

  // The smallest extent above `capacity_bytes` that a pushed-down placement can have: what
  // kInfeasible at that capacity proves as a lower bound.
  virtual int64_t NextCapacity(int64_t capacity_bytes) const = 0;

  // The next Run uses this ranking.
  virtual void SetRanking(const Ranking& ranking) = 0;
};

// `blocks` must outlive the search. Windows that do not begin at 0 are taken for larger ones that
// do: then kInfeasible proves nothing, and is never returned.
std::unique_ptr<OffsetSearch> MakeOffsetSearch(const Blocks& blocks, const Ranking& ranking);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_OFFSET_SEARCH_H_
