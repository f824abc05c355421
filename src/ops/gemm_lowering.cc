#include "ops/gemm_lowering.h"

#include <algorithm>
#include <limits>

#include "kernels/gemm_tile.h"
#include "ops/epilogue.h"

namespace onnx_memplan {
namespace {

// How fast vectors of `lanes` are on a target that has `widest` ones.
double LaneSpeed(int32_t lanes, int32_t widest) {
  return lanes == widest ? 1.0 : lanes * 2 == widest ? 0.7 : 0.35;
}

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Cycles of matrix products on a Zen 4 core with AVX2 or AVX-512, fitted to the times of every tile
// for 1 to 64 rows, 8 to 160 columns and depths of 16 to 256: over these shapes, the tiles
// that they choose are 0.6-2.4 % slower than the fastest ones in the mean.
constexpr double kPanelCycles = 10;
constexpr double kTileCycles = 10;     // to clear the sums and to write them
constexpr double kPartRowCycles = 12;  // more for a row that is not written in whole vectors

// Of one step of depth in a tile of that many vectors.
double StepCycles(const TileShape& shape, int32_t vectors, const ProductShape& product) {
  constexpr int64_t kFirstLevelBytes = 32768;
  const bool wide = shape.lanes > 8;
  // Two vectors of up to 8 lanes in a cycle, or one of 16.
  const double products = shape.rows * vectors * (wide ? 1.0 : 0.5);
  // A sum is ready for the next product after 4 cycles.
  const double latency = 4.0 / kernels::TileChains(8, shape.rows, shape.columns);
  double load = wide ? (product.aligned ? 1.0 : 2.0) : (product.aligned ? 0.6 : 1.2);
  // The second level of cache gives 32 bytes a cycle.
  const int64_t panel_bytes = product.depth * vectors * shape.lanes * 4;
  if (panel_bytes > kFirstLevelBytes) load = std::max(load, shape.lanes / 8.0);
  return std::max({products, latency, load * vectors + 0.6 * shape.rows});
}

double ProductCycles(const TileShape& shape, const ProductShape& product) {
  const auto vectors = (product.columns + shape.lanes - 1) / shape.lanes;
  const auto row_tiles = static_cast<double>((product.rows + shape.rows - 1) / shape.rows);
  double cycles = 0;
  int32_t width;
  for (int64_t done = 0; done < vectors; done += width) {
    width = EqualBlocks(static_cast<int32_t>(vectors - done), shape.columns);
    const double tile =
        kTileCycles + static_cast<double>(product.depth) * StepCycles(shape, width, product);
    cycles += kPanelCycles + row_tiles * tile;
  }
  if (product.columns % shape.lanes != 0) cycles += row_tiles * shape.rows * kPartRowCycles;
  return cycles;
}

}  // namespace

TileShape ChooseTile(const Target& target, int64_t rows, int64_t columns, bool whole_rows,
                     bool whole_lanes) {
  TileShape best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (const TileShape& shape : kTileShapes) {
    if (shape.lanes > std::max(target.vector_floats, 4)) continue;
    if (whole_rows && shape.rows > rows) continue;
    if (whole_lanes && shape.lanes > columns) continue;
    // Work that padding adds, and loads: rows + columns of them feed rows * columns products.
    const double work = static_cast<double>(RoundUp(rows, shape.rows)) *
                        static_cast<double>(RoundUp(columns, shape.lanes));
    const double loads = 1.0 + 0.25 * (shape.rows + shape.columns) / (shape.rows * shape.columns);
    const double cost = work * loads / LaneSpeed(shape.lanes, target.vector_floats);
    // Earlier shapes need less scratch: a later one has to be clearly better.
    if (cost < 0.95 * best_cost) {
      best_cost = cost;
      best = shape;
    }
  }
  return best;
}

TileShape ChooseProductTile(const Target& target, const ProductShape& product) {
  if (target.vector_floats <= 4) {
    return ChooseTile(target, product.rows, product.columns, /*whole_rows=*/true,
                      /*whole_lanes=*/!product.packed);
  }
  TileShape best;
  double best_cycles = std::numeric_limits<double>::infinity();
  for (const TileShape& shape : kProductTileShapes) {
    if (shape.lanes > target.vector_floats || shape.rows > product.rows) continue;
    if (!product.packed && shape.lanes > product.columns) continue;
    const double cycles = ProductCycles(shape, product);
    if (cycles < best_cycles) {
      best_cycles = cycles;
      best = shape;
    }
  }
  return best;
}

FusedActivation FuseActivation(const Epilogue& epilogue) {
  const ActivationParams params = EpilogueParams(epilogue);
  FusedActivation fused;
  if (params.kind == kernels::kRelu) {
    fused.clamps = 1;
    fused.highest = std::numeric_limits<float>::infinity();
  } else if (params.kind == kernels::kClip) {
    fused.clamps = 1;
    fused.lowest = params.alpha;
    fused.highest = params.beta;
  } else {
    fused.kind = params.kind;
    fused.alpha = params.alpha;
    fused.beta = params.beta;
  }
  return fused;
}

std::string TileArguments(const TileShape& tile) {
  return absl::StrCat(tile.lanes, ", ", tile.rows, ", ", tile.columns);
}

Tensor PackRows(std::span<const float> matrix, int64_t groups, int64_t rows, int64_t depth,
                int32_t tile_rows) {
  const int64_t padded_rows = RoundUp(rows, tile_rows);
  // Without depth there is nothing to pack, and no address to count from.
  if (depth == 0) return Tensor::FromVector<float>({0}, {});
  std::vector<float> packed(static_cast<size_t>(groups * padded_rows * depth), 0.0F);
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t row = 0; row < rows; ++row) {
      const float* from = matrix.data() + (group * rows + row) * depth;
      float* to = packed.data() + (group * padded_rows + row / tile_rows * tile_rows) * depth +
                  row % tile_rows;
      for (int64_t k = 0; k < depth; ++k) to[k * tile_rows] = from[k];
    }
  }
  const auto count = static_cast<int64_t>(packed.size());
  return Tensor::FromVector<float>({count}, packed);
}

Tensor PackColumns(std::span<const float> matrices, int64_t batch, int64_t depth, int64_t columns,
                   int64_t depth_stride, int64_t column_stride, float scale,
                   const TileShape& tile) {
  const int64_t padded_columns = RoundUp(columns, tile.lanes);
  std::vector<float> packed(static_cast<size_t>(batch * padded_columns * depth), 0.0F);
  float* to = packed.data();
  for (int64_t i = 0; i < batch; ++i) {
    const float* matrix = matrices.data() + i * depth * columns;
    int64_t count;
    for (int64_t column = 0; column < columns; column += count) {
      // As NextColumns of kernels/gemm_tile.h has it.
      const auto vectors_left =
          static_cast<int32_t>((columns - column + tile.lanes - 1) / tile.lanes);
      const int64_t width = int64_t{EqualBlocks(vectors_left, tile.columns)} * tile.lanes;
      count = std::min(width, columns - column);
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t j = 0; j < count; ++j) {
          to[j] = scale * matrix[k * depth_stride + (column + j) * column_stride];
        }
        to += RoundUp(count, tile.lanes);
      }
    }
  }
  const auto total = static_cast<int64_t>(packed.size());
  return Tensor::FromVector<float>({total}, packed);
}

int64_t PanelBudgetBytes(const NodeContext& node, const Target& target) {
  if (target.optimize == OptimizeFor::kMemory) return 1024;
  const int64_t beside = (node.InputType(0).Bytes() + node.OutputType(0).Bytes()) / 64;
  return target.vector_floats <= 4 ? std::clamp<int64_t>(beside, 1024, 4096)
                                   : std::clamp<int64_t>(beside, 4096, 32768);
}

int64_t TrainingPanelBudgetBytes(const NodeContext& node, const Target& target) {
  const int64_t budget = PanelBudgetBytes(node, target);
  return target.vector_floats <= 4 ? budget : std::max<int64_t>(budget, 16384);
}

int32_t EqualBlocks(int32_t total, int64_t most) {
  if (total == 0) return 1;
  most = std::max<int64_t>(most, 1);
  const int64_t blocks = (total + most - 1) / most;
  return static_cast<int32_t>((total + blocks - 1) / blocks);
}

KernelArg OptionalInput(const NodeContext& node, int32_t i) {
  return node.HasInput(i) ? KernelArg::Input(i) : KernelArg::Null();
}

KernelArg ResidualArg(const NodeContext& node) {
  const int32_t residual = node.ResidualInput();
  return residual < 0 ? KernelArg::Null() : KernelArg::Input(residual);
}

std::vector<Alias> InPlaceResidual(const NodeContext& node) {
  const int32_t residual = node.ResidualInput();
  if (residual < 0) return {};
  return {{Alias::Kind::kInPlace, 0, residual, 0}};
}

}  // namespace onnx_memplan
