// Operators that permute dimensions: Transpose, DepthToSpace, SpaceToDepth.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/data_movement.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Output dimension i is input dimension perm[i]; the default reverses them.
std::vector<int64_t> Permutation(const NodeContext& node) {
  const int64_t rank = node.InputType(0).rank();
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  for (int64_t i = 0; i < rank; ++i) perm[static_cast<size_t>(i)] = rank - 1 - i;
  return node.Ints("perm", perm);
}

absl::StatusOr<std::vector<TensorType>> InferTranspose(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  const std::vector<int64_t> perm = Permutation(node);
  std::vector<bool> seen(input.shape.size());
  Shape shape;
  for (int64_t from : perm) {
    if (from < 0 || from >= input.rank() || seen[static_cast<size_t>(from)]) break;
    seen[static_cast<size_t>(from)] = true;
    shape.push_back(input.shape[static_cast<size_t>(from)]);
  }
  if (shape.size() != input.shape.size() || perm.size() != shape.size()) {
    return node.Invalid(absl::StrCat("perm [", absl::StrJoin(perm, ","),
                                     "] is not a permutation of the dimensions"));
  }
  return std::vector<TensorType>{{input.dtype, shape}};
}

// `shape` in C order, read with its dimensions permuted.
StridedCopySpec PermutingCopy(const Shape& shape, const std::vector<int64_t>& perm) {
  const std::vector<int64_t> strides = RowMajorStrides(shape);
  Shape dims;
  std::vector<int64_t> src_strides;
  for (int64_t from : perm) {
    dims.push_back(shape[static_cast<size_t>(from)]);
    src_strides.push_back(strides[static_cast<size_t>(from)]);
  }
  return GatheringCopy(dims, src_strides, 0);
}

StridedCopySpec TransposeSpec(const NodeContext& node) {
  return PermutingCopy(node.InputShape(0), Permutation(node));
}

std::vector<Alias> TransposeAliases(const NodeContext& node) {
  return ViewIfContiguous(node, TransposeSpec(node));
}

absl::StatusOr<Lowering> LowerTranspose(const NodeContext& node, const Target&) {
  return LowerStridedCopy(node, TransposeSpec(node));
}

absl::Status TransposeGradient(GradientContext& g) {
  const std::vector<int64_t> perm = Permutation(g.context());
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  g.SetInputGradient(0, g.Add("Transpose", {g.OutputGradient(0)}, {{"perm", inverse}}));
  return g.status();
}

// The NxCxHxW input and a block size of 1 or more.
absl::StatusOr<int64_t> CheckBlock(const NodeContext& node) {
  if (node.InputType(0).rank() != 4) return node.Invalid("the input must have rank 4");
  ASSIGN_OR_RETURN(const int64_t block, node.RequiredInt("blocksize"));
  if (block < 1 || block > INT32_MAX) return node.Invalid("blocksize must be 1 or more");
  return block;
}

absl::StatusOr<std::vector<TensorType>> InferDepthToSpace(const NodeContext& node) {
  ASSIGN_OR_RETURN(const int64_t block, CheckBlock(node));
  const TensorType& input = node.InputType(0);
  const std::string mode = node.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return node.Invalid("mode must be DCR or CRD");
  if (input.shape[1] % (block * block) != 0) {
    return node.Invalid("the channels are no multiple of blocksize squared");
  }
  Shape shape = {input.shape[0], input.shape[1] / (block * block), 0, 0};
  for (size_t i : {2, 3}) {
    if (__builtin_mul_overflow(input.shape[i], block, &shape[i])) {
      return node.Invalid("the output is too large");
    }
  }
  return std::vector<TensorType>{{input.dtype, shape}};
}

StridedCopySpec DepthToSpaceSpec(const NodeContext& node) {
  const Shape& in = node.InputShape(0);
  const int64_t block = node.Int("blocksize", 1);
  const int64_t depth = in[1] / (block * block);
  if (node.String("mode", "DCR") == "DCR") {
    return PermutingCopy({in[0], block, block, depth, in[2], in[3]}, {0, 3, 4, 1, 5, 2});
  }
  return PermutingCopy({in[0], depth, block, block, in[2], in[3]}, {0, 1, 4, 2, 5, 3});
}

std::vector<Alias> DepthToSpaceAliases(const NodeContext& node) {
  return ViewIfContiguous(node, DepthToSpaceSpec(node));
}

absl::StatusOr<Lowering> LowerDepthToSpace(const NodeContext& node, const Target&) {
  return LowerStridedCopy(node, DepthToSpaceSpec(node));
}

// SpaceToDepth undoes the mode DCR; CRD has the block's elements innermost in the channels.
absl::Status DepthToSpaceGradient(GradientContext& g) {
  const ValueId dy = g.OutputGradient(0);
  const int64_t block = g.context().Int("blocksize", 1);
  if (g.context().String("mode", "DCR") == "DCR") {
    g.SetInputGradient(0, g.Add("SpaceToDepth", {dy}, {{"blocksize", block}}));
    return g.status();
  }
  const Shape in = g.ShapeOf(g.Input(0));
  const ValueId blocks =
      g.ReshapeTo(dy, {in[0], in[1] / (block * block), in[2], block, in[3], block});
  const ValueId channels =
      g.Add("Transpose", {blocks}, {{"perm", std::vector<int64_t>{0, 1, 3, 5, 2, 4}}});
  g.SetInputGradient(0, g.ReshapeTo(channels, in));
  return g.status();
}

absl::StatusOr<std::vector<TensorType>> InferSpaceToDepth(const NodeContext& node) {
  ASSIGN_OR_RETURN(const int64_t block, CheckBlock(node));
  const TensorType& input = node.InputType(0);
  if (input.shape[2] % block != 0 || input.shape[3] % block != 0) {
    return node.Invalid("height and width must be multiples of blocksize");
  }
  int64_t depth = 0;
  if (__builtin_mul_overflow(input.shape[1], block * block, &depth)) {
    return node.Invalid("the output is too large");
  }
  return std::vector<TensorType>{
      {input.dtype, {input.shape[0], depth, input.shape[2] / block, input.shape[3] / block}}};
}

StridedCopySpec SpaceToDepthSpec(const NodeContext& node) {
  const Shape& in = node.InputShape(0);
  const int64_t block = node.Int("blocksize", 1);
  return PermutingCopy({in[0], in[1], in[2] / block, block, in[3] / block, block},
                       {0, 3, 5, 1, 2, 4});
}

std::vector<Alias> SpaceToDepthAliases(const NodeContext& node) {
  return ViewIfContiguous(node, SpaceToDepthSpec(node));
}

absl::StatusOr<Lowering> LowerSpaceToDepth(const NodeContext& node, const Target&) {
  return LowerStridedCopy(node, SpaceToDepthSpec(node));
}

absl::Status SpaceToDepthGradient(GradientContext& g) {
  const int64_t block = g.context().Int("blocksize", 1);
  g.SetInputGradient(0, g.Add("DepthToSpace", {g.OutputGradient(0)}, {{"blocksize", block}}));
  return g.status();
}

}  // namespace

extern const OpDef kTranspose = {
    .type = "Transpose",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferTranspose,
    .aliases = TransposeAliases,
    .lower = LowerTranspose,
    .gradient = TransposeGradient,
};

extern const OpDef kDepthToSpace = {
    .type = "DepthToSpace",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferDepthToSpace,
    .aliases = DepthToSpaceAliases,
    .lower = LowerDepthToSpace,
    .gradient = DepthToSpaceGradient,
};

extern const OpDef kSpaceToDepth = {
    .type = "SpaceToDepth",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferSpaceToDepth,
    .aliases = SpaceToDepthAliases,
    .lower = LowerSpaceToDepth,
    .gradient = SpaceToDepthGradient,
};

}  // namespace onnx_memplan
