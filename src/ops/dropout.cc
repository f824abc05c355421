// DropoutTraining(X, ratio, step; seed): drops elements of X with probability `ratio`, a constant,
// and scales the others by 1 / (1 - ratio). Which ones depends on the attribute seed, the int64
// scalar step and an element's index only, so that the gradient is the same operator of dY.
#include "ops/host_kernels.h"

#include "ops/dropout.h"

#include <cmath>

#include "kernels/dropout.h"
#include "ops/families.h"
#include "ops/type_lists.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::StatusOr<double> ReadRatio(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<double> ratio, node.ConstantDoubles(1, "ratio"));
  if (ratio.size() != 1 || !(ratio[0] >= 0 && ratio[0] <= 1)) {
    return node.Invalid("the ratio must be one number from 0 to 1");
  }
  return ratio[0];
}

absl::StatusOr<std::vector<TensorType>> InferDropoutTraining(const NodeContext& node) {
  RETURN_IF_ERROR(ReadRatio(node).status());
  if (node.InputDType(2) != DType::kInt64 || node.InputType(2).NumElements() != 1) {
    return node.Invalid("the step must be one int64");
  }
  return rules::SameTypeAsInput(node);
}

absl::StatusOr<Lowering> LowerDropoutTraining(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const double ratio, ReadRatio(node));
  ASSIGN_OR_RETURN(KernelCall call,
                   TypedCallOf(FloatTypes(), node, node.InputDType(0), "kernels/dropout.h",
                               "kernels::Dropout<{T}>", "",
                               []<class T> { return FunctionOf<&kernels::Dropout<T>>(); }));
  constexpr double kTwoTo31 = 2147483648.0;
  kernels::DropoutParams params = {};
  params.seed = node.Int("seed", 0);
  params.scale = ratio < 1 ? 1 / (1 - ratio) : 0;
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  params.threshold = static_cast<uint32_t>(std::llround(ratio * kTwoTo31));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(2), KernelArg::Output(0)});
}

absl::Status DropoutTrainingGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  g.SetInputGradient(0, g.Add("DropoutTraining", {g.OutputGradient(0), g.Input(1), g.Input(2)},
                              g.node().attributes, kMemplan));
  return g.status();
}

}  // namespace

absl::Status DropoutGradient(GradientContext& g) {
  if (g.Input(2) != kNoValue) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> training,
                     g.context().ConstantInts(2, "training_mode"));
    if (!training.empty() && training[0] != 0) {
      return g.context().Unsupported(
          "training_mode is set; a model for training has DropoutTraining here, which ONNX's "
          "Dropout is rewritten to before gradients are derived");
    }
  }
  if (g.Wants(0)) g.SetInputGradient(0, g.OutputGradient(0));
  return g.status();
}

extern const OpDef kDropoutTraining = {
    .type = "DropoutTraining",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferDropoutTraining,
    .aliases = rules::InPlaceFirstInput,
    .lower = LowerDropoutTraining,
    .gradient = DropoutTrainingGradient,
};

}  // namespace onnx_memplan
