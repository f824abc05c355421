// DFT and STFT.
#include "ops/host_kernels.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/dft.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/index_rules.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// The roots of unity outweigh the signal; beyond, the table would outweigh the model.
constexpr int64_t kMostPoints = 1 << 20;

absl::StatusOr<int64_t> ScalarInput(const NodeContext& node, int32_t i, std::string_view role) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> values, node.ConstantInts(i, role));
  if (values.size() != 1) return node.Invalid("'" + std::string(role) + "' must be one number");
  return values[0];
}

absl::StatusOr<int64_t> Bins(const NodeContext& node, int64_t points, bool onesided) {
  if (points < 1 || points > kMostPoints) {
    return node.Invalid(
        absl::StrCat("a transform of ", points, " points; 1 to ", kMostPoints, " are supported"));
  }
  return onesided ? points / 2 + 1 : points;
}

// Lowers with the window, if any, in input `window`.
absl::StatusOr<Lowering> LowerTransform(const NodeContext& node, const kernels::DftParams& params,
                                        KernelArg window) {
  std::vector<double> roots;
  for (int32_t k = 0; k < params.points; ++k) {
    const double angle = 2.0 * M_PI * k / params.points;
    roots.push_back(std::cos(angle));
    roots.push_back(std::sin(angle));
  }
  const DType dtype = node.InputDType(0);
  ASSIGN_OR_RETURN(KernelCall call, (TypedCall<float, double>(
                                        node, dtype, "kernels/dft.h", "kernels::Dft<{T}>",
                                        []<class T>() { return FunctionOf<&kernels::Dft<T>>(); })));
  const auto count = static_cast<int64_t>(roots.size());
  call.constants.push_back(
      dtype == DType::kDouble
          ? Tensor::FromVector<double>({count}, roots)
          : Tensor::FromVector<float>({count}, std::vector<float>(roots.begin(), roots.end())));
  Lowering lowering =
      OneCall(std::move(call), params,
              {KernelArg::Input(0), window, KernelArg::Constant(0), KernelArg::Output(0)});
  if (__builtin_mul_overflow(node.OutputType(0).NumElements(),
                             int64_t{params.length} * params.components, &lowering.macs)) {
    return node.Unsupported("the transform is too large");
  }
  return lowering;
}

// ---- DFT-20

struct DftShape {
  size_t axis;
  int64_t points, bins;
};

absl::StatusOr<DftShape> ReadDft(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  if (input.rank() < 2 || (input.shape.back() != 1 && input.shape.back() != 2)) {
    return node.Invalid("the last dimension must be 1 (real) or 2 (complex)");
  }
  int64_t axis = -2;
  if (node.HasInput(2)) {
    ASSIGN_OR_RETURN(axis, ScalarInput(node, 2, "axis"));
  }
  ASSIGN_OR_RETURN(axis, node.NormalizeAxis(axis, input.rank()));
  if (axis == input.rank() - 1) return node.Invalid("the axis must not be the last one");
  DftShape shape = {static_cast<size_t>(axis), input.shape[static_cast<size_t>(axis)], 0};
  if (node.HasInput(1)) {
    ASSIGN_OR_RETURN(shape.points, ScalarInput(node, 1, "dft_length"));
  }
  const bool onesided = node.Int("onesided", 0) != 0;
  if (onesided && node.Int("inverse", 0) != 0) {
    return node.Unsupported("a one-sided inverse transform is not supported");
  }
  ASSIGN_OR_RETURN(shape.bins, Bins(node, shape.points, onesided));
  return shape;
}

absl::StatusOr<std::vector<TensorType>> InferDft(const NodeContext& node) {
  ASSIGN_OR_RETURN(const DftShape dft, ReadDft(node));
  TensorType type = node.InputType(0);
  type.shape[dft.axis] = dft.bins;
  type.shape.back() = 2;
  return std::vector<TensorType>{type};
}

absl::StatusOr<Lowering> LowerDft(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const DftShape dft, ReadDft(node));
  const Shape& shape = node.InputShape(0);
  ASSIGN_OR_RETURN(const int64_t outer, CheckedProduct(node, shape, 0, dft.axis));
  ASSIGN_OR_RETURN(const int64_t inner,
                   CheckedProduct(node, shape, dft.axis + 1, shape.size() - 1));
  kernels::DftParams params = {};
  ASSIGN_OR_RETURN(params.batches, ToInt32(node, outer, "a product of dimensions"));
  ASSIGN_OR_RETURN(params.inner, ToInt32(node, inner, "a product of dimensions"));
  params.frames = 1;
  params.components = static_cast<int32_t>(shape.back());
  params.length = static_cast<int32_t>(std::min(shape[dft.axis], dft.points));
  params.batch_stride = static_cast<int32_t>(shape[dft.axis] * inner * shape.back());
  params.points = static_cast<int32_t>(dft.points);
  params.bins = static_cast<int32_t>(dft.bins);
  params.inverse = node.Int("inverse", 0) != 0 ? 1 : 0;
  return LowerTransform(node, params, KernelArg::Null());
}

// The conjugate transpose of the transform is the opposite one, but for the factor 1 / points. Bins
// that a one-sided transform leaves out count as 0; real inputs have the real part.
absl::Status DftGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const DftShape dft, ReadDft(g.context()));
  const Shape in = g.ShapeOf(g.Input(0));
  const DType dtype = g.Type(g.Input(0)).dtype;
  const bool inverse = g.context().Int("inverse", 0) != 0;
  const auto points = static_cast<double>(dft.points);
  const ValueId length = g.Constant(Tensor::ScalarInt64(dft.points));
  const ValueId axis = g.Constant(Tensor::ScalarInt64(static_cast<int64_t>(dft.axis)));
  ValueId dx =
      g.Add("DFT", {g.OutputGradient(0), length, axis}, {{"inverse", int64_t{inverse ? 0 : 1}}});
  if (in.back() == 1) {
    dx = g.Add("Slice", {dx, g.Ints({0}), g.Ints({1}), g.Ints({-1})});
  }
  if (in[dft.axis] != dft.points) {
    std::vector<int64_t> pads(2 * in.size(), 0);
    pads[in.size() + dft.axis] = in[dft.axis] - dft.points;
    dx = g.Add("Pad", {dx, g.Ints(pads)});
  }
  g.SetInputGradient(0, g.Add("Mul", {dx, g.Scalar(inverse ? 1 / points : points, dtype)}));
  return g.status();
}

// ---- STFT-17

struct StftShape {
  int64_t step, points, frames, bins;
};

absl::StatusOr<StftShape> ReadStft(const NodeContext& node) {
  const TensorType& signal = node.InputType(0);
  if (signal.rank() != 3 || (signal.shape[2] != 1 && signal.shape[2] != 2)) {
    return node.Invalid("the signal must be batch x length x 1 (real) or 2 (complex)");
  }
  StftShape stft = {};
  ASSIGN_OR_RETURN(stft.step, ScalarInput(node, 1, "frame_step"));
  if (node.HasInput(3)) {
    ASSIGN_OR_RETURN(stft.points, ScalarInput(node, 3, "frame_length"));
  } else if (node.HasInput(2) && node.InputType(2).rank() == 1) {
    stft.points = node.InputShape(2)[0];
  } else {
    return node.Invalid("either frame_length or a window must be given");
  }
  if (node.HasInput(2) && node.InputType(2) != TensorType{signal.dtype, {stft.points}}) {
    return node.Invalid("the window must have frame_length elements of the signal's type");
  }
  ASSIGN_OR_RETURN(stft.bins, Bins(node, stft.points, node.Int("onesided", 1) != 0));
  if (stft.step < 1 || stft.step > INT32_MAX || stft.points > signal.shape[1]) {
    return node.Invalid("frame_step must be 1 or more, and a frame not longer than the signal");
  }
  stft.frames = 1 + (signal.shape[1] - stft.points) / stft.step;
  return stft;
}

absl::StatusOr<std::vector<TensorType>> InferStft(const NodeContext& node) {
  ASSIGN_OR_RETURN(const StftShape stft, ReadStft(node));
  const TensorType& signal = node.InputType(0);
  return std::vector<TensorType>{{signal.dtype, {signal.shape[0], stft.frames, stft.bins, 2}}};
}

absl::StatusOr<Lowering> LowerStft(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const StftShape stft, ReadStft(node));
  const Shape& shape = node.InputShape(0);
  kernels::DftParams params = {};
  params.batches = static_cast<int32_t>(shape[0]);
  params.frames = static_cast<int32_t>(stft.frames);
  params.batch_stride = static_cast<int32_t>(shape[1] * shape[2]);
  ASSIGN_OR_RETURN(params.frame_stride, ToInt32(node, stft.step * shape[2], "frame_step"));
  params.length = static_cast<int32_t>(stft.points);
  params.inner = 1;
  params.components = static_cast<int32_t>(shape[2]);
  params.points = static_cast<int32_t>(stft.points);
  params.bins = static_cast<int32_t>(stft.bins);
  return LowerTransform(node, params, node.HasInput(2) ? KernelArg::Input(2) : KernelArg::Null());
}

}  // namespace

extern const OpDef kDft = {
    .type = "DFT",
    .min_inputs = 1,
    .max_inputs = 3,
    .infer = InferDft,
    .lower = LowerDft,
    .gradient = DftGradient,
};

extern const OpDef kStft = {
    .type = "STFT",
    .min_inputs = 2,
    .max_inputs = 4,
    .infer = InferStft,
    .lower = LowerStft,
};

}  // namespace onnx_memplan
