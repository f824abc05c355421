// Recomputation: values of the forward pass that the backward pass reads are computed again instead
// of kept.
#ifndef ONNX_MEMPLAN_AUTODIFF_RECOMPUTE_H_
#define ONNX_MEMPLAN_AUTODIFF_RECOMPUTE_H_

#include <cstddef>
#include <cstdint>

#include "onnx_memplan/graph.h"
#include "ops/target.h"

namespace onnx_memplan {

struct RecomputeResult {
  int64_t values = 0;       // no longer kept from forward to backward
  int64_t saved_bytes = 0;  // their bytes
  // Work, in multiply-accumulates; an elementwise operation counts as one for each element.
  int64_t extra_work = 0;
  int64_t total_work = 0;  // of the step before
};

struct RecomputeLimits {
  double extra_work = 0;  // a share of the step's work
  // Operators that one value takes, at most. Long chains need memory for what lies between, but
  // only they can give up the values that short ones start from.
  size_t longest_chain = 6;
};

// Rewrites a training step whose first `forward_nodes` nodes are the forward pass, so that as many
// bytes as possible need not be kept, within `limits`.
//
// The idea is that of checkpointing (arXiv 1604.06174, 1910.02653), by a greedy choice: values that
// are kept are given up in the order of work for each byte, as long as they follow, in a few
// operators, from values that stay, parameters, and inputs. Each reader in the backward pass gets
// the last operator's copy; the copies run again whatever lies between. Whether the peak falls is
// for a planner to tell: this only counts the bytes that live from forward to backward.
RecomputeResult Recompute(size_t forward_nodes, const RecomputeLimits& limits, const Target& target,
                          Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_AUTODIFF_RECOMPUTE_H_
