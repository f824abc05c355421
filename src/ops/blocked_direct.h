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
#include "ops/kernel_call.h"
#include "ops/target.h"

namespace onnx_memplan {

// The template arguments of kernels::BlockedDirect that say what is in registers.
struct DirectShape {
  int32_t width = 0;  // floats of a vector
  int32_t vectors = 0;
  int32_t pixels = 0;

  // Blocks of output channels.
  int32_t blocks() const { return width * vectors / kernels::kChannelBlock; }
  friend bool operator==(const DirectShape&, const DirectShape&) = default;
};

// Those that say what it reads.
struct DirectAccess {
  int32_t step = 0;
  int32_t kind = kernels::kDirectBlocked;

  friend bool operator==(const DirectAccess&, const DirectAccess&) = default;
};

// By rising number of vectors. Together, those of one number split rows of any width.
inline constexpr DirectShape kDirectShapes8[] = {
    {8, 1, 14}, {8, 1, 12}, {8, 1, 8}, {8, 1, 4}, {8, 1, 2}, {8, 2, 6}, {8, 2, 5},
    {8, 2, 4},  {8, 2, 2},  {8, 3, 8}, {8, 3, 4}, {8, 3, 2}, {8, 4, 3},
};
inline constexpr DirectShape kDirectShapes16[] = {
    {16, 1, 14}, {16, 1, 8}, {16, 1, 4}, {16, 1, 2}, {16, 2, 14},
    {16, 2, 10}, {16, 2, 7}, {16, 2, 5}, {16, 2, 2}, {16, 4, 7},
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
// [groups][input blocks][taps][channels of the block][channels of a group], from OIHW weights of
// which output channel `first_channel` is the first; lanes behind the last channel are 0.
Tensor PackDirectWeights(const kernels::BlockedConvParams& p, std::span<const float> weights,
                         const DirectPart& part, int32_t first_channel);
// [groups][channels of a group]; 0 behind the last channel.
Tensor PackDirectBias(std::span<const float> bias, const DirectPart& part, int32_t first_channel);

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
