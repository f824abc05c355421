#include "passes/fuse.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ops/epilogue.h"
#include "ops/op_def.h"
#include "ops/target.h"
#include "passes/match.h"
#include "support/status_macros.h"

namespace onnx_memplan {

namespace {

// MatMul with a constant matrix.
bool IsProjection(const GraphEditor& editor, int32_t n) {
  if (!IsPlain(editor, n, "MatMul")) return false;
  const Node& node = editor.node(n);
  const Tensor* weights = editor.constant(node.inputs[1]);
  const Shape& shape = editor.shape(node.inputs[0]);
  const TensorType& output = editor.type(node.outputs[0]);
  return weights != nullptr && weights->type().rank() == 2 && shape.size() >= 2 &&
         output.dtype == DType::kFloat && output.NumElements() != 0 && shape.back() != 0;
}

absl::Status ProjectionToGemm(GraphEditor& editor, int32_t n) {
  const std::vector<ValueId> inputs = editor.node(n).inputs;
  const std::string name = editor.node(n).name;
  const Shape shape = editor.shape(inputs[0]);
  if (shape.size() == 2) {
    editor.Replace(n, MakeNode("Gemm", name, inputs));
    return absl::OkStatus();
  }
  const ValueId output = editor.node(n).outputs[0];
  const std::string base = editor.value(output).name;
  const int64_t rows = editor.type(inputs[0]).NumElements() / shape.back();
  ASSIGN_OR_RETURN(const ValueId flat,
                   EmitReshape(editor, n, inputs[0], {rows, shape.back()}, base + "_rows"));
  ASSIGN_OR_RETURN(const ValueId product,
                   editor.Emit(n, MakeNode("Gemm", name, {flat, inputs[1]}), base + "_gemm"));
  const ValueId dims =
      editor.AddConstant(base + "_shape", Tensor::VectorInt64(editor.shape(output)));
  editor.Replace(n, MakeNode("Reshape", "", {product, dims}));
  return absl::OkStatus();
}

// A product of two matrices that has no bias yet.
bool TakesBias(const GraphEditor& editor, int32_t n) {
  if (n < 0 || !editor.node(n).epilogue.empty()) return false;
  const Node& node = editor.node(n);
  if (node.Is("Gemm")) return node.inputs.size() == 2 || node.inputs[2] == kNoValue;
  return node.Is("MatMul") && editor.type(node.inputs[0]).rank() == 2 &&
         editor.type(node.inputs[1]).rank() == 2;
}

// Add of a bias, which need not be known, to a product of two matrices.
bool AddToGemm(GraphEditor& editor, int32_t n) {
  if (!IsPlain(editor, n, "Add")) return false;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId sum = editor.node(n).inputs[i];
    const ValueId bias = editor.node(n).inputs[1 - i];
    const int32_t product = editor.producer(sum);
    if (!TakesBias(editor, product) || editor.OnlyConsumer(sum) != n) continue;
    const TensorType& type = editor.type(sum);
    // Of the same shape it is a residual, which may be overwritten.
    const bool residual = editor.constant(bias) == nullptr && editor.type(bias) == type;
    if (type.dtype != DType::kFloat || residual || editor.type(editor.node(n).outputs[0]) != type ||
        editor.type(bias).rank() > 2) {
      continue;
    }
    const int32_t maker = editor.producer(bias);
    if (maker >= 0 && !editor.Before(maker, product)) continue;
    Node gemm = MakeNode("Gemm", editor.node(product).name,
                         {editor.node(product).inputs[0], editor.node(product).inputs[1], bias});
    gemm.attributes = editor.node(product).attributes;
    gemm.attributes.erase("beta");
    editor.Replace(product, std::move(gemm));
    editor.TakeOutput(product, n);
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<int64_t> MatMulToGemm(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (IsProjection(editor, n)) {
      RETURN_IF_ERROR(ProjectionToGemm(editor, n));
      ++rewrites;
    } else if (AddToGemm(editor, n)) {
      ++rewrites;
    }
  }
  return rewrites;
}

namespace {

const OpDef* DefOf(const GraphEditor& editor, int32_t n) {
  return n < 0 ? nullptr : FindOp(editor.node(n).op_type, editor.node(n).domain);
}

// Whether there are kernels for node `n` with `epilogue` (and `residual`, if it has one) on every
// target. For linear operators only operands that are not known let it depend on the shapes;
// packing those that are known, to find out, would be dear.
bool CanLower(const GraphEditor& editor, int32_t n, const Epilogue& epilogue, ValueId residual) {
  Node node = editor.node(n);
  const bool empty = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
    return v != kNoValue && editor.type(v).NumElements() == 0;
  });
  const bool known = node.inputs.size() > 1 && editor.constant(node.inputs[1]) != nullptr &&
                     !node.Is("BatchNormalization");
  if (known && !empty) return true;
  if (epilogue.has_residual && !node.epilogue.has_residual) node.inputs.push_back(residual);
  node.epilogue = epilogue;
  const std::vector<Target>& targets = BuiltinTargets();
  return std::all_of(targets.begin(), targets.end(), [&](const Target& target) {
    return LowerNode(editor.graph(), node, target).ok();
  });
}

// The value that `v` is a reshape of, through values that nothing else reads; `v` itself otherwise.
ValueId BeforeReshapes(const GraphEditor& editor, ValueId v) {
  while (true) {
    const int32_t n = editor.ProducerIf(v, "Reshape");
    if (n < 0 || editor.OnlyConsumer(v) < 0) return v;
    v = editor.node(n).inputs[0];
  }
}

// Operand `v` of an Add could come out of its producer with the other operand already added.
struct ResidualChoice {
  int32_t producer = -1;
  size_t operand = 0;
  ValueId sum = kNoValue;  // the producer's output, before reshapes
};

std::optional<ResidualChoice> ChooseResidual(const GraphEditor& editor, int32_t n, size_t operand) {
  const ValueId v = editor.node(n).inputs[operand];
  const ValueId other = editor.node(n).inputs[1 - operand];
  if (editor.OnlyConsumer(v) != n) return std::nullopt;
  const ValueId sum = BeforeReshapes(editor, v);
  const int32_t producer = editor.producer(sum);
  const OpDef* def = DefOf(editor, producer);
  if (def == nullptr || !def->fuses_residual || editor.OnlyConsumer(sum) < 0 ||
      !editor.node(producer).epilogue.empty() || editor.node(producer).outputs.size() != 1) {
    return std::nullopt;
  }
  Epilogue epilogue = editor.node(n).epilogue;
  epilogue.has_residual = true;
  // Another operand of the same type stands for the residual, which may be reshaped first.
  if (!CanLower(editor, producer, epilogue, sum)) return std::nullopt;
  // The producer must not have to wait for the other operand: its own inputs would live longer.
  const int32_t other_producer = editor.producer(other);
  if (other_producer >= 0 && !editor.Before(other_producer, producer)) return std::nullopt;
  return ResidualChoice{producer, operand, sum};
}

absl::Status FuseResidual(GraphEditor& editor, int32_t n, const ResidualChoice& choice) {
  const Node& add = editor.node(n);  // its place in memory stays while nodes are added
  const ValueId v = add.inputs[choice.operand];
  const int32_t producer = choice.producer;
  ASSIGN_OR_RETURN(const ValueId residual,
                   EmitReshape(editor, producer, add.inputs[1 - choice.operand],
                               editor.shape(choice.sum), editor.value(v).name + "_residual"));
  Epilogue epilogue = add.epilogue;
  epilogue.has_residual = true;
  const ValueId result = add.outputs[0];
  // Optional inputs that are omitted at the end stay omitted: the residual is the last.
  const OpDef* def = DefOf(editor, producer);
  std::vector<ValueId> inputs = editor.node(producer).inputs;
  while (static_cast<int32_t>(inputs.size()) > def->min_inputs && inputs.back() == kNoValue) {
    inputs.pop_back();
  }
  inputs.push_back(residual);
  editor.SetInputs(producer, std::move(inputs));
  if (choice.sum == v) {
    editor.TakeOutput(producer, n);
  } else {
    editor.ReplaceUses(result, v);
  }
  editor.epilogue(producer) = epilogue;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> FuseResidualAdd(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n) || !editor.node(n).Is("Add") || editor.node(n).inputs.size() != 2)
      continue;
    const Node& node = editor.node(n);
    const TensorType& type = editor.type(node.outputs[0]);
    if (node.epilogue.has_residual || type.dtype != DType::kFloat || type.NumElements() == 0 ||
        editor.type(node.inputs[0]) != type || editor.type(node.inputs[1]) != type) {
      continue;
    }
    std::optional<ResidualChoice> choice = ChooseResidual(editor, n, 0);
    const std::optional<ResidualChoice> second = ChooseResidual(editor, n, 1);
    if (!choice || (second && editor.Before(choice->producer, second->producer))) choice = second;
    if (!choice) continue;
    RETURN_IF_ERROR(FuseResidual(editor, n, *choice));
    ++rewrites;
  }
  return rewrites;
}

namespace {

// The node whose kernel can apply an activation to all of `v`, which only `reader` reads; -1: none.
// Reshape and Transpose in between do not matter to an elementwise function.
int32_t ActivationTarget(const GraphEditor& editor, ValueId v, int32_t reader) {
  while (editor.OnlyConsumer(v) == reader) {
    const int32_t n = editor.producer(v);
    const OpDef* def = DefOf(editor, n);
    if (def == nullptr || editor.node(n).outputs[0] != v) return -1;
    if (def->fuses_activation && editor.node(n).epilogue.activation.empty()) {
      return editor.node(n).outputs.size() == 1 ? n : -1;
    }
    if (!IsPlain(editor, n, "Reshape") && !IsPlain(editor, n, "Transpose")) return -1;
    v = editor.node(n).inputs[0];
    reader = n;
  }
  return -1;
}

Epilogue WithActivation(Epilogue epilogue, const Epilogue& activation) {
  const bool silu = activation.activation == "QuickGelu" && activation.alpha == 1;
  epilogue.activation = silu ? "Silu" : activation.activation;
  epilogue.alpha = silu ? 0 : activation.alpha;
  epilogue.beta = activation.beta;
  return epilogue;
}

bool FuseActivation(GraphEditor& editor, int32_t n) {
  const std::optional<Epilogue> activation = AsActivation(Context(editor, n));
  if (!activation) return false;
  const ValueId input = editor.node(n).inputs[0];
  const int32_t target = ActivationTarget(editor, input, n);
  if (target < 0 || editor.type(editor.node(target).outputs[0]).dtype != DType::kFloat) {
    return false;
  }
  const Epilogue epilogue = WithActivation(editor.node(target).epilogue, *activation);
  if (!CanLower(editor, target, epilogue, kNoValue)) return false;
  if (editor.node(target).outputs[0] == input) {
    editor.TakeOutput(target, n);
  } else {
    editor.ReplaceUses(editor.node(n).outputs[0], input);
  }
  editor.epilogue(target) = epilogue;
  return true;
}

}  // namespace

absl::StatusOr<int64_t> FuseActivations(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n)) continue;
    if (FuseActivation(editor, n)) ++rewrites;
  }
  return rewrites;
}

}  // namespace onnx_memplan
