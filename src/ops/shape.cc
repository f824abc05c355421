// Operators that only change the shape of a tensor, and those that read shapes.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/data_movement.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Reshape-14: 0 copies the input's dimension unless allowzero, one -1 takes what is left.
absl::StatusOr<std::vector<TensorType>> InferReshape(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  ASSIGN_OR_RETURN(Shape shape, node.ConstantInts(1, "shape"));
  const bool allow_zero = node.Int("allowzero", 0) != 0;
  const auto fail = [&] {
    return node.Invalid(
        absl::StrCat("cannot reshape ", input.ToString(), " to [", absl::StrJoin(shape, ","), "]"));
  };
  std::optional<size_t> inferred;
  int64_t known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allow_zero) {
      if (i >= input.shape.size()) return fail();
      shape[i] = input.shape[i];
    }
    if (shape[i] == -1) {
      if (inferred) return fail();
      inferred = i;
    } else if (shape[i] < 0 || __builtin_mul_overflow(known, shape[i], &known)) {
      return fail();
    }
  }
  const int64_t total = input.NumElements();
  if (inferred) {
    if (known == 0 || total % known != 0) return fail();
    shape[*inferred] = total / known;
  } else if (known != total) {
    return fail();
  }
  return std::vector<TensorType>{{input.dtype, shape}};
}

// Flatten-21: everything before `axis` becomes dimension 0, the rest dimension 1.
absl::StatusOr<std::vector<TensorType>> InferFlatten(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  const int64_t rank = input.rank();
  int64_t axis = node.Int("axis", 1);
  if (axis < -rank || axis > rank) {
    return node.Invalid(absl::StrCat("axis ", axis, " is outside of a tensor of rank ", rank));
  }
  const auto split = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  ASSIGN_OR_RETURN(const int64_t rows, CheckedProduct(node, input.shape, 0, split));
  ASSIGN_OR_RETURN(const int64_t columns,
                   CheckedProduct(node, input.shape, split, input.shape.size()));
  return std::vector<TensorType>{{input.dtype, {rows, columns}}};
}

// The distinct axes that input 1 names, by dimension of a tensor of rank `rank`.
absl::StatusOr<std::vector<bool>> MarkedAxes(const NodeContext& node, int64_t rank) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, node.ConstantInts(1, "axes"));
  std::vector<bool> marked(static_cast<size_t>(rank));
  for (int64_t given : axes) {
    ASSIGN_OR_RETURN(const int64_t axis, node.NormalizeAxis(given, rank));
    if (marked[static_cast<size_t>(axis)]) {
      return node.Invalid(absl::StrCat("axis ", given, " is given twice"));
    }
    marked[static_cast<size_t>(axis)] = true;
  }
  return marked;
}

// Squeeze-21: drops the named dimensions, which must be 1; without axes, every dimension of 1.
absl::StatusOr<std::vector<TensorType>> InferSqueeze(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  std::vector<bool> dropped;
  if (node.HasInput(1)) {
    ASSIGN_OR_RETURN(dropped, MarkedAxes(node, input.rank()));
  } else {
    for (int64_t dim : input.shape) dropped.push_back(dim == 1);
  }
  Shape shape;
  for (size_t i = 0; i < input.shape.size(); ++i) {
    if (!dropped[i]) {
      shape.push_back(input.shape[i]);
    } else if (input.shape[i] != 1) {
      return node.Invalid(absl::StrCat("cannot squeeze axis ", i, " of ", input.ToString()));
    }
  }
  return std::vector<TensorType>{{input.dtype, shape}};
}

// Unsqueeze-21: inserts dimensions of 1 at the named places of the output.
absl::StatusOr<std::vector<TensorType>> InferUnsqueeze(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, node.ConstantInts(1, "axes"));
  const int64_t rank = input.rank() + static_cast<int64_t>(axes.size());
  ASSIGN_OR_RETURN(const std::vector<bool> inserted, MarkedAxes(node, rank));
  Shape shape;
  size_t next = 0;
  for (bool is_new : inserted) shape.push_back(is_new ? 1 : input.shape[next++]);
  return std::vector<TensorType>{{input.dtype, shape}};
}

// The dimensions that Shape gives: [start, end), negative from the back, clamped to the rank.
Shape ShapeSlice(const NodeContext& node) {
  const Shape& shape = node.InputShape(0);
  const auto rank = static_cast<int64_t>(shape.size());
  const auto clamp = [rank](int64_t at) {
    return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank);
  };
  const int64_t begin = clamp(node.Int("start", 0));
  const int64_t end = clamp(node.Int("end", rank));
  if (end <= begin) return {};
  return Shape(shape.begin() + begin, shape.begin() + end);
}

absl::StatusOr<std::vector<TensorType>> InferShape(const NodeContext& node) {
  const auto count = static_cast<int64_t>(ShapeSlice(node).size());
  return std::vector<TensorType>{{DType::kInt64, {count}}};
}

absl::StatusOr<Lowering> LowerShape(const NodeContext& node, const Target&) {
  return LowerKnownOutput(node, Tensor::VectorInt64(ShapeSlice(node)));
}

absl::StatusOr<std::vector<TensorType>> InferSize(const NodeContext&) {
  return std::vector<TensorType>{{DType::kInt64, {}}};
}

absl::StatusOr<Lowering> LowerSize(const NodeContext& node, const Target&) {
  return LowerKnownOutput(node, Tensor::ScalarInt64(node.InputType(0).NumElements()));
}

absl::Status ReshapingGradient(GradientContext& g) {
  if (g.Wants(0)) {
    const Shape shape = g.ShapeOf(g.Input(0));
    g.SetInputGradient(0, g.ReshapeTo(g.OutputGradient(0), shape));
  }
  return g.status();
}

}  // namespace

extern const OpDef kReshape = {
    .type = "Reshape",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferReshape,
    .aliases = rules::ViewOfFirstInput,
    .lower = rules::LowerCopy,
    .gradient = ReshapingGradient,
};

extern const OpDef kFlatten = {
    .type = "Flatten",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferFlatten,
    .aliases = rules::ViewOfFirstInput,
    .lower = rules::LowerCopy,
    .gradient = ReshapingGradient,
};

extern const OpDef kSqueeze = {
    .type = "Squeeze",
    .min_inputs = 1,
    .max_inputs = 2,
    .infer = InferSqueeze,
    .aliases = rules::ViewOfFirstInput,
    .lower = rules::LowerCopy,
    .gradient = ReshapingGradient,
};

extern const OpDef kUnsqueeze = {
    .type = "Unsqueeze",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferUnsqueeze,
    .aliases = rules::ViewOfFirstInput,
    .lower = rules::LowerCopy,
    .gradient = ReshapingGradient,
};

extern const OpDef kIdentity = {
    .type = "Identity",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = rules::SameTypeAsInput,
    .aliases = rules::ViewOfFirstInput,
    .lower = rules::LowerCopy,
    .gradient = ReshapingGradient,
};

extern const OpDef kShape = {
    .type = "Shape",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferShape,
    .lower = LowerShape,
    .gradient = rules::ZeroGradient,
};

extern const OpDef kSize = {
    .type = "Size",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferSize,
    .lower = LowerSize,
    .gradient = rules::ZeroGradient,
};

}  // namespace onnx_memplan
