// What the lowerings of convolutions and matrix products share: tile shapes, epilogues, packing.
#ifndef ONNX_MEMPLAN_OPS_GEMM_LOWERING_H_
#define ONNX_MEMPLAN_OPS_GEMM_LOWERING_H_

#include "ops/host_kernels.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/activation.h"
#include "ops/kernel_call.h"
#include "ops/node_context.h"
#include "ops/op_def.h"
#include "ops/target.h"
#include "support/check.h"

namespace onnx_memplan {

// The block of a result that a kernel keeps in registers: rows x (columns * lanes).
struct TileShape {
  int32_t lanes = 0;  // floats of a vector
  int32_t rows = 0;
  int32_t columns = 0;  // vectors

  int32_t width() const { return lanes * columns; }
  friend bool operator==(const TileShape&, const TileShape&) = default;
};

// The shapes that kernels are instantiated with: about as many sums as there are registers.
inline constexpr TileShape kTileShapes[] = {
    {4, 4, 1},  {4, 2, 2},  {4, 1, 4},  //
    {8, 4, 3},  {8, 2, 4},  {8, 1, 4},  //
    {16, 8, 2}, {16, 4, 4}, {16, 2, 4}, {16, 1, 4},
};

// Those of matrix products, which have few rows or columns more often.
inline constexpr TileShape kProductTileShapes[] = {
    {4, 4, 1},  {4, 2, 2},  {4, 1, 4},                          //
    {8, 4, 3},  {8, 3, 4},  {8, 6, 2},  {8, 2, 6},  {8, 1, 4},  //
    {16, 8, 2}, {16, 4, 4}, {16, 3, 4}, {16, 2, 4}, {16, 1, 4},
};

// The tile for a result of rows x columns. `whole_rows`: the tile may have no more rows than the
// result; `whole_lanes`: a vector no more elements than a row. {} if no shape qualifies.
TileShape ChooseTile(const Target& target, int64_t rows, int64_t columns, bool whole_rows,
                     bool whole_lanes);

// What the tile of a matrix product depends on.
struct ProductShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;     // that runs through a tile at once
  bool packed = false;   // B is filled up to whole vectors; else these are no longer than its rows
  bool aligned = false;  // all vectors of B are
};

// The tile of kProductTileShapes, of at most `rows` rows, that takes the fewest cycles.
TileShape ChooseProductTile(const Target& target, const ProductShape& product);

// A Node::Epilogue as kernel arguments: bounds where these suffice, else an activation.
struct FusedActivation {
  int32_t kind = kernels::kNone;  // never kRelu or kClip
  int32_t clamps = 0;
  float lowest = 0;
  float highest = 0;
  float alpha = 0;
  float beta = 0;
};
FusedActivation FuseActivation(const Epilogue& epilogue);

// Copies the fields that all the kernels' parameters have.
template <class Params>
void SetActivation(const FusedActivation& fused, Params* params) {
  params->clamps = fused.clamps;
  params->activation = fused.kind;
  params->lowest = fused.lowest;
  params->highest = fused.highest;
  params->alpha = fused.alpha;
  params->beta = fused.beta;
}

// The function that pick.operator()<Lanes, Rows, Columns>() gives for `tile`, one of kShapes.
template <const auto& kShapes = kTileShapes, class Pick>
KernelFunction FunctionForTile(const TileShape& tile, Pick pick) {
  KernelFunction function;
  const auto try_shape = [&]<size_t I>() {
    constexpr TileShape kChosen = kShapes[I];
    if (tile == kChosen) {
      function = pick.template operator()<kChosen.lanes, kChosen.rows, kChosen.columns>();
    }
  };
  [&]<size_t... I>(std::index_sequence<I...>) { (try_shape.template operator()<I>(), ...); }
  (std::make_index_sequence<std::size(kShapes)>());
  MEMPLAN_CHECK(function.invoke != nullptr);
  return function;
}

// "8, 4, 3": the template arguments that belong to FunctionForTile.
std::string TileArguments(const TileShape& tile);

// A matrix [groups][rows][depth] as [groups][ceil(rows / tile_rows)][depth][tile_rows], filled up
// with zeros.
Tensor PackRows(std::span<const float> matrix, int64_t groups, int64_t rows, int64_t depth,
                int32_t tile_rows);

// Matrices [batch] of depth x columns, element (k, column) at k * depth_stride + column *
// column_stride, times `scale`, as [batch] of panels [depth][width] about as wide as the tile; the
// last one is filled up to whole vectors with zeros. See kernels/matmul.h.
Tensor PackColumns(std::span<const float> matrices, int64_t batch, int64_t depth, int64_t columns,
                   int64_t depth_stride, int64_t column_stride, float scale, const TileShape& tile);

// Bytes that a panel of packed input may take beside the node's tensors: little beside what the
// arena holds anyway, and within the first cache level.
int64_t PanelBudgetBytes(const NodeContext& node, const Target& target);

// The same in a backward pass, which holds more: a wide CPU gets panels worth their packing.
int64_t TrainingPanelBudgetBytes(const NodeContext& node, const Target& target);

// The size of blocks, all about equal and at most `most` (but at least 1), that make up `total`.
int32_t EqualBlocks(int32_t total, int64_t most);

// The argument for optional input i.
KernelArg OptionalInput(const NodeContext& node, int32_t i);
// The argument for the residual of the node's epilogue.
KernelArg ResidualArg(const NodeContext& node);
// The offer to write output 0 over the residual.
std::vector<Alias> InPlaceResidual(const NodeContext& node);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_GEMM_LOWERING_H_
