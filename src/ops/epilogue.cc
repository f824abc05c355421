#include "ops/host_kernels.h"

#include "ops/epilogue.h"

#include <limits>

#include "kernels/activation.h"
#include "ops/op_def.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

constexpr ActivationDef kActivations[] = {
    {"Relu", "Relu", "", kernels::kRelu},
    {"Clip", "Clip", "", kernels::kClip},
    {"LeakyRelu", "LeakyRelu", "", kernels::kLeakyRelu, "alpha", 0.01F},
    {"ThresholdedRelu", "ThresholdedRelu", "", kernels::kThresholdedRelu, "alpha", 1},
    {"Elu", "Elu", "", kernels::kElu, "alpha", 1},
    {"Selu", "Selu", "", kernels::kSelu, "alpha", 1.67326319217681884765625F, "gamma",
     1.05070102214813232421875F},
    {"Celu", "Celu", "", kernels::kCelu, "alpha", 1},
    {"Sigmoid", "Sigmoid", "", kernels::kSigmoid},
    {"Tanh", "Tanh", "", kernels::kTanh},
    {"HardSigmoid", "HardSigmoid", "", kernels::kHardSigmoid, "alpha", 0.2F, "beta", 0.5F},
    {"HardSwish", "HardSwish", "", kernels::kHardSwish},
    {"Silu", "", "", kernels::kSilu},
    {"Swish", "Swish", "", kernels::kQuickGelu, "alpha", 1},
    {"QuickGelu", "QuickGelu", kMicrosoft, kernels::kQuickGelu, "alpha", 1.702F},
    // Epilogue::alpha = 1 asks for the tanh approximation; see EpilogueParams.
    {"Gelu", "Gelu", "", kernels::kGelu},
    {"Gelu", "Gelu", kMicrosoft, kernels::kGelu},
    {"Softplus", "Softplus", "", kernels::kSoftplus},
    {"Softsign", "Softsign", "", kernels::kSoftsign},
    {"Mish", "Mish", "", kernels::kMish},
};

// Input `i` as a scalar, `absent` where it is omitted; nullopt when it is not known.
std::optional<float> ConstantScalar(const NodeContext& node, int32_t i, float absent) {
  if (!node.HasInput(i)) return absent;
  const Tensor* tensor = node.InputConstant(i);
  if (tensor == nullptr || tensor->dtype() != DType::kFloat || tensor->NumElements() != 1) {
    return std::nullopt;
  }
  return tensor->As<float>()[0];
}

}  // namespace

std::span<const ActivationDef> ActivationTable() { return kActivations; }

ActivationParams EpilogueParams(const Epilogue& epilogue) {
  if (epilogue.activation.empty()) return {kernels::kNone, 0, 0};
  for (const ActivationDef& def : kActivations) {
    if (def.name != epilogue.activation) continue;
    if (def.kind == kernels::kGelu) {
      return {epilogue.alpha == 1 ? kernels::kGeluTanh : kernels::kGelu, 0, 0};
    }
    return {def.kind, epilogue.alpha, epilogue.beta};
  }
  MEMPLAN_CHECK_MSG(false, epilogue.activation);
}

std::optional<Epilogue> AsActivation(const NodeContext& node) {
  if (node.num_inputs() < 1 || node.num_outputs() != 1 || node.InputDType(0) != DType::kFloat ||
      !node.node().epilogue.empty()) {
    return std::nullopt;
  }
  for (const ActivationDef& def : kActivations) {
    if (def.op_type.empty() || def.op_type != node.node().op_type ||
        def.op_domain != node.node().domain) {
      continue;
    }
    Epilogue epilogue;
    epilogue.activation = std::string(def.name);
    if (def.kind == kernels::kClip) {
      constexpr float kLargest = std::numeric_limits<float>::max();
      const std::optional<float> low = ConstantScalar(node, 1, -kLargest);
      const std::optional<float> high = ConstantScalar(node, 2, kLargest);
      if (!low || !high) return std::nullopt;
      epilogue.alpha = *low;
      epilogue.beta = *high;
    } else if (def.kind == kernels::kGelu) {
      epilogue.alpha = node.String("approximate", "none") == "tanh" ? 1.0F : 0.0F;
    } else {
      epilogue.alpha = node.Float(def.alpha_attribute, def.alpha_default);
      epilogue.beta = node.Float(def.beta_attribute, def.beta_default);
    }
    return epilogue;
  }
  return std::nullopt;
}

}  // namespace onnx_memplan
