// Local search on the order of placement, for problems that are too large to be searched exactly.
#ifndef ONNX_MEMPLAN_PLAN_PACK_IMPROVE_H_
#define ONNX_MEMPLAN_PLAN_PACK_IMPROVE_H_

#include <cstdint>
#include <vector>

#include "plan/liveness.h"
#include "plan/pack_fit.h"
#include "plan/packer.h"

namespace onnx_memplan {

// Squeaky-wheel search: place first-fit in an order, move the blocks that end above the bound
// nearer to the front of the order by random amounts, place again; after some rounds without
// success, go back to the best order. Starts from `order`. Stops at `deadline`, after `max_rounds`,
// or when the extent is at most `enough_bytes`. Returns the best offsets found; never empty unless
// the deadline has expired before the first placement.
std::vector<int64_t> ImprovePlacementOrder(const Blocks& blocks, FitPlacer& placer,
                                           const std::vector<int32_t>& order, int64_t enough_bytes,
                                           int64_t max_rounds, uint64_t seed,
                                           const Deadline& deadline);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_PACK_IMPROVE_H_
