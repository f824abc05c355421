// Weight gradients into the updates that use them.
#include <algorithm>
#include <string>
#include <utility>

#include "ops/op_def.h"
#include "passes/fuse.h"
#include "passes/match.h"

namespace onnx_memplan {
namespace {

constexpr size_t kGradient = 1;
constexpr size_t kScale = 4;

bool IsUpdate(const Node& node) {
  return node.domain == kMemplan && (node.op_type == "SgdUpdate" || node.op_type == "AdamUpdate");
}

int64_t IntOf(const Node& node, const char* name) {
  const auto it = node.attributes.find(name);
  const auto* value = it == node.attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
  return value == nullptr ? 0 : *value;
}

// A product of two matrices, the second as it lies.
bool IsMatrixProduct(const GraphEditor& editor, const Node& node) {
  const bool product = node.Is("MatMul") || (node.Is("Gemm") && node.inputs.size() == 2) ||
                       (node.domain == kMicrosoft && node.op_type == "FusedMatMul");
  return product && node.inputs.size() == 2 && editor.shape(node.inputs[0]).size() == 2 &&
         editor.shape(node.inputs[1]).size() == 2 && IntOf(node, "transB") == 0;
}

bool IsConvWeightGrad(const Node& node) {
  return node.domain == kMemplan && node.op_type == "ConvWeightGrad";
}

// Fewer elements than the vectors of any target, or convolutions of few output channels, have
// kernels of their own, and little is lost by storing them.
bool IsWorthIt(const GraphEditor& editor, const Node& producer, ValueId gradient) {
  const Shape& shape = editor.shape(gradient);
  constexpr int64_t kWidestVector = 16;
  constexpr int64_t kFewChannels = 2;
  if (editor.type(gradient).dtype != DType::kFloat) return false;
  if (IsConvWeightGrad(producer)) {
    const auto it = producer.attributes.find("group");
    const int64_t groups =
        it == producer.attributes.end() ? 1 : std::max<int64_t>(IntOf(producer, "group"), 1);
    return shape[0] / groups > kFewChannels;
  }
  return shape.back() >= kWidestVector;
}

}  // namespace

absl::StatusOr<int64_t> FuseUpdates(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n) || !IsUpdate(editor.node(n))) continue;
    const Node& update = editor.node(n);
    // The sum of several gradients is no product, and a scale is known only when all gradients are.
    if (update.attributes.contains("accumulate_steps")) continue;
    if (update.inputs.size() > kScale && update.inputs[kScale] != kNoValue) continue;
    const ValueId gradient = update.inputs[kGradient];
    const int32_t p = editor.producer(gradient);
    if (p < 0 || editor.OnlyConsumer(gradient) != n || !editor.node(p).epilogue.empty()) continue;
    const Node& producer = editor.node(p);
    const bool convolution = IsConvWeightGrad(producer);
    if (!convolution && !IsMatrixProduct(editor, producer)) continue;
    if (!IsWorthIt(editor, producer, gradient)) continue;

    Node fused;
    fused.op_type = convolution ? "ConvWeightUpdate" : "MatMulUpdate";
    fused.domain = kMemplan;
    fused.name = update.name;
    fused.attributes = producer.attributes;
    fused.attributes.insert(update.attributes.begin(), update.attributes.end());
    fused.attributes["optimizer"] = update.op_type;
    constexpr size_t kOperands = 8;
    fused.inputs.assign(kOperands, kNoValue);
    fused.inputs[0] = producer.inputs[0];
    fused.inputs[1] = producer.inputs[1];
    for (size_t i = 2; i < update.inputs.size(); ++i) fused.inputs[i] = update.inputs[i];
    fused.inputs[kOperands - 1] = update.inputs[0];
    std::vector<ValueId> inputs = fused.inputs;
    editor.Replace(n, std::move(fused));
    editor.SetInputs(n, std::move(inputs));
    ++rewrites;
  }
  return rewrites;
}

}  // namespace onnx_memplan
