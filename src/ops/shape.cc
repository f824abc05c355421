// Operators that only change the shape of a tensor, and those that read shapes.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/families.h"
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

}  // namespace

extern const OpDef kReshape = {
    .type = "Reshape",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferReshape,
    .aliases = rules::ViewOfFirstInput,
    .lower = rules::LowerCopy,
};

}  // namespace onnx_memplan
