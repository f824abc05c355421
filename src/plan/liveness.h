// Liveness: from a problem and an order to the rectangles in steps x bytes that a packer places.
//
// The order fixes the lifetime of every storage. Storages that share an offset because an in-place
// offer was taken become one block; a task's scratch is a block of its own step. So a packer sees
// blocks only, and one number, the offset, is to be chosen for each.
#ifndef ONNX_MEMPLAN_PLAN_LIVENESS_H_
#define ONNX_MEMPLAN_PLAN_LIVENESS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "onnx_memplan/plan.h"

namespace onnx_memplan {

// Steps [first_step, end_step). Empty when first_step >= end_step.
struct StepSpan {
  int32_t first_step = 0;
  int32_t end_step = 0;
  bool empty() const { return first_step >= end_step; }
  friend bool operator==(const StepSpan&, const StepSpan&) = default;
};

// Number of steps of an order of `problem`: its tasks, and at least 1, so that storages with data
// have a step to live in when there is no task.
int32_t StepCount(const PlanProblem& problem);

// By storage: from the first step that touches it to one past the last. live_in begins at step 0
// and lasts at least that step; live_out ends after the last step. Empty for a storage that nothing
// touches and that is neither. `order` must be a permutation of the tasks.
std::vector<StepSpan> StorageSpans(const PlanProblem& problem, std::span<const int32_t> order);

// Part of a block: bytes [low, high) from the block's offset are taken in steps
// [first_step, end_step).
struct Window {
  int32_t first_step = 0;
  int32_t end_step = 0;
  int64_t low = 0;
  int64_t high = 0;
  friend bool operator==(const Window&, const Window&) = default;
};

// What gets one offset. Its windows are sorted by step and do not share a step; the block takes
// nothing between them. One window [first_step, end_step) x [0, bytes) is the usual case; several
// make a staircase (in-place pairs of different size) or gaps.
struct Block {
  int32_t first_step = 0;  // of the first window
  int32_t end_step = 0;    // of the last window
  int64_t bytes = 0;       // largest `high` of its windows; > 0
  int64_t alignment = 1;
  int64_t fixed_offset = -1;  // -1: to be chosen
  // How long the block lives in the source's own unit of time, for ranking only; 0: as many as
  // steps.
  int64_t lifetime = 0;
  int32_t window_begin = 0;  // its windows are Blocks::windows[window_begin, window_end)
  int32_t window_end = 0;

  bool is_fixed() const { return fixed_offset >= 0; }
  bool is_rectangle() const { return window_end - window_begin == 1; }
  int32_t duration() const { return end_step - first_step; }
  int64_t lifetime_or_duration() const { return lifetime > 0 ? lifetime : duration(); }
  friend bool operator==(const Block&, const Block&) = default;
};

// Blocks of an order, and what they prove.
struct Blocks {
  int32_t step_count = 0;
  std::vector<Block> blocks;
  std::vector<Window> windows;
  // By storage and by task: index of the block, or -1 when it takes no bytes.
  std::vector<int32_t> storage_block;
  std::vector<int32_t> scratch_block;
  // The in-place offers that were taken, as indices into PlanProblem::in_place, sorted.
  std::vector<int32_t> taken;
  // Most bytes that are live in one step, and the first such step.
  int64_t max_live_bytes = 0;
  int32_t peak_step = 0;
  // No offsets of these blocks give a smaller arena: max_live_bytes, made stronger by alignments
  // and fixed offsets.
  int64_t lower_bound = 0;
  // The order allows in-place offers, taken or not. Then lower_bound speaks of these decisions
  // only, and order_bound holds for this order whichever offers are taken.
  bool has_offers = false;
  int64_t order_bound = 0;

  std::span<const Window> windows_of(const Block& block) const {
    return {windows.data() + block.window_begin, windows.data() + block.window_end};
  }
};

// Which in-place offers to take. Every offer that is taken saves bytes at its task and gives the
// packer less freedom.
enum class InPlacePolicy {
  kNone,
  kAll,     // of each task, the offers that save the most bytes together
  kAtNeed,  // of those, only where the step would pass the peak that kAll leaves
};

// Blocks of `problem` in `order` (a permutation of the tasks).
Blocks MakeBlocks(const PlanProblem& problem, std::span<const int32_t> order, InPlacePolicy policy);

// Blocks that belong to no problem: sorts nothing, fills bounds and windows. For tests, benchmarks
// and buffers that come without tasks. Windows must be set when a block is not a rectangle;
// blocks with window_begin == window_end get one window.
Blocks BlocksFromList(int32_t step_count, std::vector<Block> blocks, std::vector<Window> windows);

// Most bytes live in one step of `order` when all useful in-place offers are taken: the lower bound
// of the arena for this order, before alignments. What an order search minimises. If `by_step` is
// not null, it gets the live bytes of every step.
int64_t PeakLiveBytes(const PlanProblem& problem, std::span<const int32_t> order,
                      std::vector<int64_t>* by_step = nullptr);

// InvalidArgument when two blocks have fixed offsets that overlap while both are live.
absl::Status CheckFixedBlocks(const Blocks& blocks);

// The plan that `block_offsets` (one for each block) make; lower_bound, proof and method stay
// unset.
Plan MakePlan(const PlanProblem& problem, std::span<const int32_t> order, const Blocks& blocks,
              std::span<const int64_t> block_offsets);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_LIVENESS_H_
