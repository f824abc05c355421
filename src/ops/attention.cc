// Attention(q, k, v, [mask]) -> y: softmax(scale * q k^T + mask) v for each item of a batch, the
// softmax over the keys. Domain kMemplan.
//
// The operands are read where they are, whatever their shapes: attributes `batch` (the sizes of the
// batch axes), `rows`, `keys`, `depth` and `columns` give the sizes of the product; `q`, `k`, `v`
// and `mask` say where the elements are: offset, a stride for each batch axis, and two more, of
// (row, depth), (key, depth), (key, column) and (row, key), in elements. `y` (no offset; row,
// column) does so for the result, of shape `shape`, whose every element is written once. Elements
// of a row of v and of y follow each other. In float.
#include "ops/host_kernels.h"

#include "kernels/attention.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gemm_lowering.h"
#include "ops/parallel_axis.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

using Sizes = std::vector<int64_t>;

// Where an operand's elements are.
struct Layout {
  int64_t offset = 0;
  Sizes strides;  // of the batch axes, then of two more
};

struct AttentionSpec {
  Sizes batch;
  int64_t rows = 0, keys = 0, depth = 0, columns = 0;
  Layout q, k, v, mask, y;
};

// The batch axes' sizes and two more.
Sizes With(Sizes batch, int64_t first, int64_t second) {
  batch.push_back(first);
  batch.push_back(second);
  return batch;
}

absl::StatusOr<Layout> ReadLayout(const NodeContext& node, std::string_view name,
                                  const Sizes& sizes, int64_t elements) {
  ASSIGN_OR_RETURN(const Sizes numbers, node.RequiredInts(name));
  const auto negative = [](int64_t number) { return number < 0; };
  if (numbers.size() != sizes.size() + 1 || std::any_of(numbers.begin(), numbers.end(), negative)) {
    return node.Invalid(absl::StrCat("attribute ", std::string(name), " must be an offset and ",
                                     sizes.size(), " strides"));
  }
  Layout layout = {numbers[0], Sizes(numbers.begin() + 1, numbers.end())};
  auto last = static_cast<double>(layout.offset);  // it may overflow an integer
  for (size_t i = 0; i < sizes.size(); ++i) {
    last += static_cast<double>(sizes[i] - 1) * static_cast<double>(layout.strides[i]);
  }
  if (last >= static_cast<double>(elements)) {
    return node.Invalid(absl::StrCat("attribute ", std::string(name), " reaches past the operand"));
  }
  return layout;
}

// Axes of `sizes` and `strides` cover [0, elements) once.
bool CoversOnce(const Sizes& sizes, const Sizes& strides, int64_t elements) {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1) axes.emplace_back(strides[i], sizes[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t covered = 1;
  for (const auto& [stride, size] : axes) {
    if (stride != covered) return false;
    covered *= size;
  }
  return covered == elements;
}

absl::StatusOr<AttentionSpec> ReadSpec(const NodeContext& node) {
  AttentionSpec spec;
  ASSIGN_OR_RETURN(spec.batch, node.RequiredInts("batch"));
  ASSIGN_OR_RETURN(spec.rows, node.RequiredInt("rows"));
  ASSIGN_OR_RETURN(spec.keys, node.RequiredInt("keys"));
  ASSIGN_OR_RETURN(spec.depth, node.RequiredInt("depth"));
  ASSIGN_OR_RETURN(spec.columns, node.RequiredInt("columns"));
  ASSIGN_OR_RETURN(const Sizes shape, node.RequiredInts("shape"));
  Sizes all = With(spec.batch, spec.rows, spec.keys);
  all.insert(all.end(), {spec.depth, spec.columns});
  const std::optional<int64_t> products = CheckedNumElements(all);
  const std::optional<int64_t> results = CheckedNumElements(shape);
  if (!products || *products == 0 || !results) return node.Invalid("the sizes must be positive");
  for (int32_t i = 0; i < node.num_inputs(); ++i) {
    if (node.HasInput(i) && node.InputDType(i) != DType::kFloat) {
      return node.Unsupported("the operands must be float");
    }
  }
  const auto elements = [&](int32_t i) { return node.InputType(i).NumElements(); };
  ASSIGN_OR_RETURN(spec.q,
                   ReadLayout(node, "q", With(spec.batch, spec.rows, spec.depth), elements(0)));
  ASSIGN_OR_RETURN(spec.k,
                   ReadLayout(node, "k", With(spec.batch, spec.keys, spec.depth), elements(1)));
  ASSIGN_OR_RETURN(spec.v,
                   ReadLayout(node, "v", With(spec.batch, spec.keys, spec.columns), elements(2)));
  if (node.HasInput(3)) {
    ASSIGN_OR_RETURN(spec.mask,
                     ReadLayout(node, "mask", With(spec.batch, spec.rows, spec.keys), elements(3)));
  } else {
    spec.mask.strides.resize(spec.batch.size() + 2);
  }
  const Sizes y_sizes = With(spec.batch, spec.rows, spec.columns);
  ASSIGN_OR_RETURN(spec.y, ReadLayout(node, "y", y_sizes, *results));
  if (spec.y.offset != 0 || !CoversOnce(y_sizes, spec.y.strides, *results)) {
    return node.Invalid("attribute y must reach every element of the result once");
  }
  if (spec.columns > 1 && (spec.v.strides.back() != 1 || spec.y.strides.back() != 1)) {
    return node.Invalid("elements of a row of v and of the result must follow each other");
  }
  return spec;
}

absl::StatusOr<std::vector<TensorType>> InferAttention(const NodeContext& node) {
  RETURN_IF_ERROR(ReadSpec(node).status());
  return std::vector<TensorType>{{DType::kFloat, node.Ints("shape", {})}};
}

// The same elements, but for strides of axes of one element.
bool SameElements(const Sizes& sizes, const Layout& a, const Layout& b) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1 && a.strides[i] != b.strides[i]) return false;
  }
  return a.offset == b.offset;
}

// A block of queries is copied before its results are written.
std::vector<Alias> InPlaceQueries(const NodeContext& node) {
  const std::vector<ValueId>& inputs = node.node().inputs;
  const absl::StatusOr<AttentionSpec> spec = ReadSpec(node);
  if (!spec.ok() || spec->depth != spec->columns ||
      std::count(inputs.begin(), inputs.end(), inputs[0]) != 1 ||
      node.InputType(0).Bytes() != node.OutputType(0).Bytes() ||
      !SameElements(With(spec->batch, spec->rows, spec->depth), spec->q, spec->y)) {
    return {};
  }
  return {{Alias::Kind::kInPlace, 0, 0, 0}};
}

// Tiles of the scores (keys x queries) and of the result (queries x columns of v).
struct AttentionTiles {
  TileShape scores;
  TileShape values;
};

constexpr TileShape kOneKey = {4, 1, 1};
constexpr TileShape kScoreTiles[] = {kOneKey, {4, 4, 1}, {8, 4, 3}, {16, 8, 2}};
constexpr int32_t kValueLanes[] = {1, 4, 8, 16};

// For `lanes` columns at once; the rows must divide the lanes of the scores.
constexpr TileShape ValueTile(int32_t lanes, int32_t score_lanes, bool one_row) {
  if (one_row) return {lanes, 1, 4};
  if (lanes == 16) return score_lanes >= 8 ? TileShape{16, 8, 2} : TileShape{16, 4, 4};
  return {lanes, 4, lanes == 8 ? 3 : 1};
}

// Bytes that a block of queries and its scores may take: little beside the operands and the result,
// which are all there at the same time.
int64_t BlockBudgetBytes(const AttentionSpec& spec) {
  int64_t items = 1;
  for (int64_t size : spec.batch) items *= size;
  const int64_t elements = (spec.rows + spec.keys) * (spec.depth + spec.columns);
  return items * elements * static_cast<int64_t>(sizeof(float)) / 8;
}

int64_t BlockBytes(const AttentionSpec& spec, int64_t block_rows) {
  return kernels::AttentionScratchBytes(spec.depth, spec.keys, block_rows);
}

AttentionTiles ChooseTiles(const Target& target, const AttentionSpec& spec) {
  AttentionTiles tiles;
  const int32_t widest = std::max(target.vector_floats, 4);
  for (const TileShape& shape : kScoreTiles) {
    if (shape.lanes > widest || shape.rows > spec.keys) continue;
    // Wider vectors than there are queries are empty in part.
    if (shape.lanes > 4 && shape.lanes / 2 >= spec.rows) continue;
    if (shape.lanes > 4 && BlockBytes(spec, shape.lanes) > BlockBudgetBytes(spec)) continue;
    tiles.scores = shape;
  }
  int32_t lanes = 1;
  for (const int32_t candidate : kValueLanes) {
    if (candidate <= widest && candidate <= spec.columns) lanes = candidate;
  }
  tiles.values = ValueTile(lanes, tiles.scores.lanes, spec.rows == 1);
  return tiles;
}

template <TileShape kScores, TileShape kValues>
constexpr KernelFunction FunctionOfTiles() {
  return FunctionOf<&kernels::Attention<kScores.lanes, kScores.rows, kScores.columns, kValues.lanes,
                                        kValues.rows, kValues.columns>>();
}

// Every pair that ChooseTiles gives.
KernelFunction FunctionForTiles(const AttentionTiles& tiles) {
  KernelFunction function;
  const auto try_pair = [&]<size_t S, size_t V, bool kOneRow>() {
    constexpr TileShape kScores = kScoreTiles[S];
    constexpr TileShape kValues = ValueTile(kValueLanes[V], kScores.lanes, kOneRow);
    // One query fills no wider vector.
    if constexpr (!kOneRow || kScores.lanes == 4) {
      if (tiles.scores == kScores && tiles.values == kValues) {
        function = FunctionOfTiles<kScores, kValues>();
      }
    }
  };
  const auto try_scores = [&]<size_t S, size_t... V>(std::index_sequence<V...>) {
    (try_pair.template operator()<S, V, false>(), ...);
    (try_pair.template operator()<S, V, true>(), ...);
  };
  [&]<size_t... S>(std::index_sequence<S...>) {
    (try_scores.template operator()<S>(std::make_index_sequence<std::size(kValueLanes)>()), ...);
  }
  (std::make_index_sequence<std::size(kScoreTiles)>());
  MEMPLAN_CHECK(function.invoke != nullptr);
  return function;
}

// Merges batch axes that one stride of every operand can walk, and drops those of one item.
void CollapseBatch(AttentionSpec* spec) {
  Layout* const layouts[] = {&spec->q, &spec->k, &spec->v, &spec->mask, &spec->y};
  Sizes batch;
  const size_t rank = spec->batch.size();
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = spec->batch[i];
    const size_t last = batch.size();
    const bool merges = last > 0 && size != 1 &&
                        std::all_of(std::begin(layouts), std::end(layouts), [&](Layout* l) {
                          return l->strides[last - 1] == l->strides[i] * size;
                        });
    if (size == 1) continue;
    const size_t at = merges ? last - 1 : last;
    for (Layout* layout : layouts) layout->strides[at] = layout->strides[i];
    if (merges) {
      batch.back() *= size;
    } else {
      batch.push_back(size);
    }
  }
  for (Layout* layout : layouts) {
    layout->strides.erase(layout->strides.begin() + static_cast<ptrdiff_t>(batch.size()),
                          layout->strides.begin() + static_cast<ptrdiff_t>(rank));
  }
  spec->batch = std::move(batch);
}

// The numbers of a layout: batch strides, and the others.
absl::Status SetLayout(const NodeContext& node, const Layout& layout,
                       int32_t (&batch)[kernels::kAttentionBatchRank], int32_t* offset,
                       int32_t* first, int32_t* second) {
  const size_t rank = layout.strides.size() - 2;
  for (size_t i = 0; i < rank; ++i) {
    ASSIGN_OR_RETURN(batch[kernels::kAttentionBatchRank - rank + i],
                     ToInt32(node, layout.strides[i], "a stride"));
  }
  ASSIGN_OR_RETURN(*offset, ToInt32(node, layout.offset, "an offset"));
  ASSIGN_OR_RETURN(*first, ToInt32(node, layout.strides[rank], "a stride"));
  ASSIGN_OR_RETURN(*second, ToInt32(node, layout.strides[rank + 1], "a stride"));
  return absl::OkStatus();
}

absl::StatusOr<kernels::AttentionParams> MakeParamsOf(const NodeContext& node,
                                                      const AttentionSpec& spec) {
  kernels::AttentionParams p = {};
  const size_t rank = spec.batch.size();
  if (rank > kernels::kAttentionBatchRank) {
    return node.Unsupported(absl::StrCat("its batch needs ", rank, " loops; the kernel has ",
                                         kernels::kAttentionBatchRank));
  }
  for (int i = 0; i < kernels::kAttentionBatchRank; ++i) p.batch[i] = 1;
  for (size_t i = 0; i < rank; ++i) {
    ASSIGN_OR_RETURN(p.batch[kernels::kAttentionBatchRank - rank + i],
                     ToInt32(node, spec.batch[i], "the batch"));
  }
  ASSIGN_OR_RETURN(p.rows, ToInt32(node, spec.rows, "the number of rows"));
  ASSIGN_OR_RETURN(p.keys, ToInt32(node, spec.keys, "the number of keys"));
  ASSIGN_OR_RETURN(p.depth, ToInt32(node, spec.depth, "the depth"));
  ASSIGN_OR_RETURN(p.columns, ToInt32(node, spec.columns, "the number of columns"));
  int32_t unit_stride, no_offset;
  RETURN_IF_ERROR(
      SetLayout(node, spec.q, p.q_batch_stride, &p.q_offset, &p.q_row_stride, &p.q_depth_stride));
  RETURN_IF_ERROR(
      SetLayout(node, spec.k, p.k_batch_stride, &p.k_offset, &p.k_row_stride, &p.k_depth_stride));
  RETURN_IF_ERROR(
      SetLayout(node, spec.v, p.v_batch_stride, &p.v_offset, &p.v_row_stride, &unit_stride));
  RETURN_IF_ERROR(SetLayout(node, spec.mask, p.mask_batch_stride, &p.mask_offset,
                            &p.mask_row_stride, &p.mask_key_stride));
  RETURN_IF_ERROR(
      SetLayout(node, spec.y, p.y_batch_stride, &no_offset, &p.y_row_stride, &unit_stride));
  p.scale = node.Float("scale", 1.0F);
  return p;
}

// Queries of a block: about as many in each, within a tile and the budget.
int32_t BlockRows(const AttentionSpec& spec, const TileShape& tile) {
  const auto vectors = static_cast<int32_t>((spec.rows + tile.lanes - 1) / tile.lanes);
  const int64_t affordable = BlockBudgetBytes(spec) / BlockBytes(spec, tile.lanes);
  return EqualBlocks(vectors, std::min<int64_t>(tile.columns, affordable)) * tile.lanes;
}

// A known mask in the order of the scores: [batch][key][query], the queries filled up to whole
// vectors. `spec` then reads it as such.
Tensor PackMask(const Tensor& mask, int64_t lanes, AttentionSpec* spec) {
  Layout& layout = spec->mask;
  const size_t rank = spec->batch.size();
  const int64_t padded = (spec->rows + lanes - 1) / lanes * lanes;
  std::vector<float> packed;
  Layout result = {0, Sizes(rank + 2, 0)};
  int64_t items = 1;
  for (size_t i = rank; i-- > 0;) {
    if (layout.strides[i] == 0) continue;
    result.strides[i] = items * spec->keys * padded;
    items *= spec->batch[i];
  }
  result.strides[rank] = 1;
  result.strides[rank + 1] = padded;
  for (int64_t item = 0; item < items; ++item) {
    int64_t from = layout.offset;
    int64_t index = item;
    for (size_t i = rank; i-- > 0;) {
      if (layout.strides[i] == 0) continue;
      from += index % spec->batch[i] * layout.strides[i];
      index /= spec->batch[i];
    }
    for (int64_t key = 0; key < spec->keys; ++key) {
      for (int64_t row = 0; row < padded; ++row) {
        const int64_t at = from + row * layout.strides[rank] + key * layout.strides[rank + 1];
        packed.push_back(row < spec->rows ? mask.As<float>()[static_cast<size_t>(at)] : 0.0F);
      }
    }
  }
  layout = std::move(result);
  return Tensor::FromVector<float>({items, spec->keys, padded}, packed);
}

// The outermost axis of the batch: heads, mostly.
ParallelAxis BatchAxis(const kernels::AttentionParams& p) {
  constexpr auto kSetBatch = [](kernels::AttentionParams& part, int32_t begin, int32_t end) {
    part.batch[OutermostLoop(part.batch)] = end - begin;
  };
  const size_t axis = OutermostLoop(p.batch);
  return {.extent = p.batch[axis],
          .borders = {},
          .arg_steps = {p.q_batch_stride[axis], p.k_batch_stride[axis], p.v_batch_stride[axis],
                        p.mask_batch_stride[axis], 0, p.y_batch_stride[axis]},
          .restrict_to = &RestrictTo<kernels::AttentionParams, kSetBatch>};
}

// Queries by whole blocks.
ParallelAxis RowAxis(const kernels::AttentionParams& p) {
  return AxisOf<&kernels::AttentionParams::rows>(
      p, p.block_rows, {p.q_row_stride, 0, 0, p.mask_row_stride, 0, p.y_row_stride});
}

absl::StatusOr<Lowering> LowerAttention(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(AttentionSpec spec, ReadSpec(node));
  int64_t items = 1;
  for (int64_t size : spec.batch) items *= size;
  CollapseBatch(&spec);
  const AttentionTiles tiles = ChooseTiles(target, spec);
  KernelCall call;
  KernelArg mask = OptionalInput(node, 3);
  const Tensor* known_mask = node.InputConstant(3);
  const bool packs = known_mask != nullptr && spec.mask.strides[spec.batch.size()] != 0;
  if (packs) {
    call.constants.push_back(PackMask(*known_mask, tiles.scores.lanes, &spec));
    mask = KernelArg::Constant(0);
  }
  ASSIGN_OR_RETURN(kernels::AttentionParams p, MakeParamsOf(node, spec));
  p.mask_in_lanes = packs ? 1 : 0;
  p.block_rows = BlockRows(spec, tiles.scores);
  call.header = "kernels/attention.h";
  call.name = absl::StrCat("kernels::Attention<", TileArguments(tiles.scores), ", ",
                           TileArguments(tiles.values), ">");
  call.function = FunctionForTiles(tiles);
  Lowering lowering = OneCall(std::move(call), p,
                              {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2), mask,
                               KernelArg::Scratch(), KernelArg::Output(0)});
  lowering.scratch_bytes = kernels::AttentionScratchBytes(p.depth, p.keys, p.block_rows);
  lowering.scratch_alignment = sizeof(float);
  lowering.calls.back().own_scratch_bytes = lowering.scratch_bytes;
  lowering.macs = items * spec.rows * spec.keys * (spec.depth + spec.columns);
  const int64_t work = lowering.macs;
  return InParallel(std::move(lowering), work, {BatchAxis(p), RowAxis(p)});
}

}  // namespace

extern const OpDef kAttention = {
    .type = "Attention",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 4,
    .infer = InferAttention,
    .aliases = InPlaceQueries,
    .lower = LowerAttention,
};

}  // namespace onnx_memplan
