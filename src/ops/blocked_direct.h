// The tiles of direct convolution that the tool knows, for blocked_direct*.cc.
#ifndef ONNX_MEMPLAN_OPS_BLOCKED_DIRECT_H_
#define ONNX_MEMPLAN_OPS_BLOCKED_DIRECT_H_

#include "ops/host_kernels.h"

#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "kernels/blocked_direct.h"
#include "ops/direct_shapes.h"
#include "ops/kernel_call.h"
#include "ops/node_context.h"
#include "ops/target.h"

namespace onnx_memplan {

// Those that say what it reads.
struct DirectAccess {
  int32_t step = 0;
  int32_t kind = kernels::kDirectBlocked;

  friend bool operator==(const DirectAccess&, const DirectAccess&) = default;
};

inline constexpr DirectAccess kDirectAccesses[] = {
    {8, kernels::kDirectPointwise}, {8, kernels::kDirectBlocked}, {16, kernels::kDirectBlocked},
    {0, kernels::kDirectBlocked},   {1, kernels::kDirectPlanes},  {2, kernels::kDirectPlanes},
    {0, kernels::kDirectPlanes},
};

// The instantiations for shapes of 8 and of 16 floats; of no effect where `shape` is not in the
// list. Apart, because they take a while to compile.
KernelFunction DirectFunction8(const DirectShape& shape, const DirectAccess& access);
KernelFunction DirectFunction16(const DirectShape& shape, const DirectAccess& access);

// Whether the target's registers hold the sums of a tile, and what is added to them.
bool FitsRegisters(const DirectShape& shape, const Target& target);

// What a direct convolution costs, in cycles of a CPU that does two multiply-adds of 8 floats or
// one of 16 and two loads a cycle. The numbers are fitted to measurements by
// tools/bench/direct_costs.cc, which also says what they cost where they choose wrongly.
struct DirectCosts {
  double latency = 6.38;        // of a multiply-add, at the least
  double load = 0.729;          // of a vector of weights or a broadcast input
  double start_of_run = 14.2;   // of a tap
  double tile = 8.4;            // of any tile
  double sum_squared = 0.0144;  // of writing a tile, for each float and the square of its sums: the
                                // more there is to write, the later the CPU gets to the next tile
};

// About how many cycles a group of `shape` takes for a row of outputs.
double DirectRowCycles(const kernels::BlockedConvParams& p, const DirectAccess& access,
                       const DirectShape& shape, const DirectCosts& costs = {});

// `groups` groups of output channels, each computed in tiles of `shape`.
struct DirectPart {
  DirectShape shape;
  int32_t groups = 0;
};

// How a tile reads the input of `p`.
DirectAccess DirectAccessOf(const kernels::BlockedConvParams& p);
// The cheapest way to cover the output channels with groups of at most two shapes.
std::vector<DirectPart> ChooseDirectParts(const Target& target, const kernels::BlockedConvParams& p,
                                          const DirectAccess& access);
// Whether input `input` (weights, OIHW) and the one behind it (bias), if it is there, are constant.
bool HasDirectConstants(const NodeContext& node, int32_t input);
// Appends them to the constants and arguments of a call that computes the channels of `part`, the
// first of which is `first_channel`: weights as [groups][input blocks][taps][channels of the block]
// [channels of a group], bias as [groups][channels of a group], with 0 behind the last channel.
void AddDirectConstants(const NodeContext& node, int32_t input,
                        const kernels::BlockedConvParams& conv, const DirectPart& part,
                        int32_t first_channel, KernelCall& call);

// What the two do: kShapes is one of the lists.
template <const auto& kShapes>
KernelFunction PickDirectFunction(const DirectShape& shape, const DirectAccess& access) {
  constexpr size_t kAccesses = std::size(kDirectAccesses);
  KernelFunction function;
  const auto try_one = [&]<size_t I>() {
    constexpr DirectShape kShape = kShapes[I / kAccesses];
    constexpr DirectAccess kAccess = kDirectAccesses[I % kAccesses];
    if (shape == kShape && access == kAccess) {
      function = FunctionOf<&kernels::BlockedDirect<kShape.width, kShape.vectors, kShape.pixels,
                                                    kAccess.step, kAccess.kind>>();
    }
  };
  [&]<size_t... I>(std::index_sequence<I...>) { (try_one.template operator()<I>(), ...); }
  (std::make_index_sequence<std::size(kShapes) * kAccesses>());
  return function;
}

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_BLOCKED_DIRECT_H_
