// Calls of kernels shared out to several threads.
//
// Which axis of a call is parallel is said where the call is made, in the operator's lowering. A
// part is an ordinary call of the same kernel with narrower parameters and moved pointers, so that
// kernels know nothing of threads, and what one thread runs does not change for their sake.
#ifndef ONNX_MEMPLAN_OPS_PARALLEL_AXIS_H_
#define ONNX_MEMPLAN_OPS_PARALLEL_AXIS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "ops/kernel_call.h"
#include "ops/op_def.h"
#include "support/check.h"

namespace onnx_memplan {

// For KernelCall::work: an element that is read, combined with little else and written takes about
// as long as so many multiply-adds of a product.
inline constexpr int64_t kElementWork = 16;

// A unit of elements that is a multiple of every target's vectors: what follows the last whole
// vector is computed by other instructions.
inline constexpr int32_t kVectorUnit = 64;

// ParallelAxis::restrict_to by a function (Params&, begin, end).
template <class Params, auto kRestrict>
KernelParams RestrictTo(const KernelParams& all, int32_t begin, int32_t end) {
  Params params;
  MEMPLAN_CHECK_MSG(all.bytes.size() == sizeof params, all.type_name);
  std::memcpy(&params, all.bytes.data(), sizeof params);
  kRestrict(params, begin, end);
  return MakeParams(params);
}

// The outermost axis of a loop nest that loops; the innermost one if none does.
template <size_t kRank>
size_t OutermostLoop(const int32_t (&sizes)[kRank]) {
  size_t axis = 0;
  while (axis + 1 < kRank && sizes[axis] == 1) ++axis;
  return axis;
}

// An axis whose extent is a field of the parameters.
//
//   AxisOf<&kernels::UnaryParams::count>(params, kVectorUnit, {1, 1})
template <auto kField, class Params>
ParallelAxis AxisOf(const Params& params, int32_t unit, std::vector<int64_t> arg_steps) {
  constexpr auto kSetCount = [](Params& p, int32_t begin, int32_t end) { p.*kField = end - begin; };
  return {.extent = params.*kField,
          .unit = unit,
          .borders = {},
          .arg_steps = std::move(arg_steps),
          .restrict_to = &RestrictTo<Params, kSetCount>};
}

// An axis of which the parameters say the range [0, extent) that a call computes, so that no
// argument moves. `arguments`: of the call.
//
//   RangeOf<&kernels::BlockedDirectParams::tile_begin,
//   &kernels::BlockedDirectParams::tile_end>(...)
template <auto kBegin, auto kEnd, class Params>
ParallelAxis RangeOf(const Params& params, int32_t unit, size_t arguments) {
  constexpr auto kSetRange = [](Params& p, int32_t begin, int32_t end) {
    p.*kBegin = begin;
    p.*kEnd = end;
  };
  MEMPLAN_CHECK(params.*kBegin == 0);
  return {.extent = params.*kEnd,
          .unit = unit,
          .borders = {},
          .arg_steps = std::vector<int64_t>(arguments, 0),
          .restrict_to = &RestrictTo<Params, kSetRange>};
}

// Borders for a kernel that computes whole tiles of `unit` and, where the last one is not, goes
// back over what is done: no range is smaller than a tile.
std::vector<int32_t> WholeTiles(int32_t extent, int32_t unit);

// A lowering of which the last call, of so much work, may be shared out by any of `axes`, the best
// one first.
Lowering InParallel(Lowering lowering, int64_t work, std::vector<ParallelAxis> axes);

// A part of less work is not worth waking a thread for: it takes a few microseconds to hand one
// over and to wait for it.
inline constexpr int64_t kLeastPartWork = 64 * 1024;

// A lowering of which the last call may be shared out by elements, `params.count` of them.
template <class Params>
Lowering ByElements(Lowering lowering, const Params& params, std::vector<int64_t> arg_steps) {
  return InParallel(std::move(lowering), params.count * kElementWork,
                    {AxisOf<&Params::count>(params, kVectorUnit, std::move(arg_steps))});
}

// Gives each call of the node at most `threads` parts of about equal work, each of at least
// `least_work` (KernelCall::work), or none where there is too little of it. An axis along which a
// part would overwrite what another one reads, since `aliases` lets an output lie over an input, is
// left alone. The scratch grows so that each part has its own, aligned to `scratch_alignment`.
void SplitCalls(int32_t threads, int64_t scratch_alignment, std::span<const Alias> aliases,
                Lowering& lowering, int64_t least_work = kLeastPartWork);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_PARALLEL_AXIS_H_
