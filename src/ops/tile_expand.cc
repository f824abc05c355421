// Operators that repeat elements: Expand, Tile.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/data_movement.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::StatusOr<std::vector<TensorType>> InferExpand(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  ASSIGN_OR_RETURN(const Shape wanted, node.ConstantInts(1, "shape"));
  const std::optional<Shape> shape = rules::Broadcast(input.shape, wanted);
  if (!shape || std::any_of(wanted.begin(), wanted.end(), [](int64_t dim) { return dim < 0; })) {
    return node.Invalid(absl::StrCat("cannot expand to [", absl::StrJoin(wanted, ","), "]"));
  }
  return std::vector<TensorType>{{input.dtype, *shape}};
}

StridedCopySpec ExpandSpec(const NodeContext& node) {
  const Shape& in = node.InputShape(0);
  const Shape& out = node.OutputShape(0);
  const std::vector<int64_t> strides = RowMajorStrides(in);
  std::vector<int64_t> src_strides(out.size(), 0);
  const size_t pad = out.size() - in.size();
  for (size_t i = 0; i < in.size(); ++i) src_strides[pad + i] = in[i] == 1 ? 0 : strides[i];
  return GatheringCopy(out, src_strides, 0);
}

std::vector<Alias> ExpandAliases(const NodeContext& node) {
  return ViewIfContiguous(node, ExpandSpec(node));
}

absl::StatusOr<Lowering> LowerExpand(const NodeContext& node, const Target&) {
  return LowerStridedCopy(node, ExpandSpec(node));
}

absl::Status ExpandGradient(GradientContext& g) {
  const Shape shape = g.ShapeOf(g.Input(0));
  g.SetInputGradient(0, g.SumTo(g.OutputGradient(0), shape));
  return g.status();
}

absl::StatusOr<std::vector<TensorType>> InferTile(const NodeContext& node) {
  TensorType type = node.InputType(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> repeats, node.ConstantInts(1, "repeats"));
  if (repeats.size() != type.shape.size()) {
    return node.Invalid(absl::StrCat("repeats has ", repeats.size(),
                                     " elements for a tensor of rank ", type.rank()));
  }
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0 || __builtin_mul_overflow(type.shape[i], repeats[i], &type.shape[i])) {
      return node.Invalid(absl::StrCat("cannot repeat by [", absl::StrJoin(repeats, ","), "]"));
    }
  }
  return std::vector<TensorType>{type};
}

// Each dimension is two loops: the repetitions, which do not move the source, and its elements.
StridedCopySpec TileSpec(const NodeContext& node) {
  const Shape& in = node.InputShape(0);
  const Shape& out = node.OutputShape(0);
  const std::vector<int64_t> strides = RowMajorStrides(in);
  Shape dims;
  std::vector<int64_t> src_strides;
  for (size_t i = 0; i < in.size(); ++i) {
    dims.push_back(in[i] == 0 ? 0 : out[i] / in[i]);
    src_strides.push_back(0);
    dims.push_back(in[i]);
    src_strides.push_back(strides[i]);
  }
  return GatheringCopy(dims, src_strides, 0);
}

std::vector<Alias> TileAliases(const NodeContext& node) {
  return ViewIfContiguous(node, TileSpec(node));
}

absl::StatusOr<Lowering> LowerTile(const NodeContext& node, const Target&) {
  return LowerStridedCopy(node, TileSpec(node));
}

// Summed over the repetitions.
absl::Status TileGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  const Shape in = g.ShapeOf(g.Input(0));
  const Shape out = g.ShapeOf(dy);
  Shape split;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t repeats = in[i] == 0 ? 1 : out[i] / in[i];
    if (repeats != 1) axes.push_back(static_cast<int64_t>(split.size()));
    if (repeats != 1) split.push_back(repeats);
    split.push_back(in[i]);
  }
  ValueId sum = g.ReshapeTo(dy, split);
  if (!axes.empty()) {
    sum = g.Add("ReduceSum", {sum, g.Ints(axes)}, {{"keepdims", int64_t{0}}});
  }
  g.SetInputGradient(0, g.ReshapeTo(sum, in));
  return g.status();
}

}  // namespace

extern const OpDef kExpand = {
    .type = "Expand",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferExpand,
    .aliases = ExpandAliases,
    .lower = LowerExpand,
    .gradient = ExpandGradient,
};

extern const OpDef kTile = {
    .type = "Tile",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferTile,
    .aliases = TileAliases,
    .lower = LowerTile,
    .gradient = TileGradient,
};

}  // namespace onnx_memplan
