// The packers that combine the others: a portfolio of heuristics, and the exact search on top.
#ifndef ONNX_MEMPLAN_PLAN_PACK_AUTO_H_
#define ONNX_MEMPLAN_PLAN_PACK_AUTO_H_

#include "plan/liveness.h"
#include "plan/packer.h"

namespace onnx_memplan {

// Every greedy packer, cheapest first, until one meets the bound or options.target_bytes.
Packing PackPortfolio(const Blocks& blocks, const PackOptions& options);

// The portfolio, then exact searches between its best and the bound: round robin over rankings and
// capacities with growing node limits, since success is not monotone in the capacity. Proves the
// bound met, or a better bound, or stops at a limit with the best offsets so far.
Packing PackAuto(const Blocks& blocks, const PackOptions& options);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_PACK_AUTO_H_
