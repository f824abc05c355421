#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/op_def.h"
#include "passes/match.h"
#include "passes/polynomial.h"
#include "passes/recognise.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// An activation y = free(x) + gated(x) * g, where g = gate(argument(x)).
struct Pattern {
  std::string_view gate;  // operator type
  Polynomial argument;
  // Of a Clip gate.
  double low = 0;
  double high = 0;
  Polynomial free;
  Polynomial gated;
  std::string_view op_type;           // that the whole is
  std::string_view approximate = {};  // of Gelu
  double alpha = 0;                   // of HardSigmoid
  double beta = 0;
};

const std::vector<Pattern>& Patterns() {
  const double root_half = std::sqrt(0.5);
  const double cubic = std::sqrt(2 / std::acos(-1.0));
  static const std::vector<Pattern> patterns = {
      {.gate = "Erf",
       .argument = {0, root_half, 0, 0},
       .free = {0, 0.5, 0, 0},
       .gated = {0, 0.5, 0, 0},
       .op_type = "Gelu"},
      {.gate = "Tanh",
       .argument = {0, cubic, 0, cubic * 0.044715},
       .free = {0, 0.5, 0, 0},
       .gated = {0, 0.5, 0, 0},
       .op_type = "Gelu",
       .approximate = "tanh"},
      {.gate = "Clip",
       .argument = {3, 1, 0, 0},
       .low = 0,
       .high = 6,
       .free = {},
       .gated = {0, 1.0 / 6, 0, 0},
       .op_type = "HardSwish"},
      {.gate = "HardSigmoid",
       .argument = {0, 1, 0, 0},
       .free = {},
       .gated = {0, 1, 0, 0},
       .op_type = "HardSwish",
       .alpha = 1.0 / 6,
       .beta = 0.5},
      {.gate = "Clip",
       .argument = {3, 1, 0, 0},
       .low = 0,
       .high = 6,
       .free = {},
       .gated = {1.0 / 6, 0, 0, 0},
       .op_type = "HardSigmoid",
       .alpha = 1.0 / 6,
       .beta = 0.5},
  };
  return patterns;
}

bool GateParametersMatch(const GraphEditor& editor, int32_t gate, const Pattern& pattern) {
  const NodeContext context = Context(editor, gate);
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-6; };
  if (pattern.gate == "Clip") {
    if (!context.HasInput(1) || !context.HasInput(2)) return false;
    const auto low = UniformConstant(editor, context.node().inputs[1]);
    const auto high = UniformConstant(editor, context.node().inputs[2]);
    return low && high && *low == pattern.low && *high == pattern.high;
  }
  if (pattern.gate == "HardSigmoid") {
    return near(static_cast<double>(context.Float("alpha", 0.2F)), pattern.alpha) &&
           near(static_cast<double>(context.Float("beta", 0.5F)), pattern.beta);
  }
  return true;
}

// Values that the gate's argument is made of by arithmetic, nearest first, as candidates for x.
std::vector<ValueId> Candidates(const GraphEditor& editor, ValueId argument) {
  constexpr size_t kMaxCandidates = 16;
  std::vector<ValueId> values = {argument};
  for (size_t i = 0; i < values.size() && values.size() < kMaxCandidates; ++i) {
    const int32_t n = editor.producer(values[i]);
    if (n < 0 || !editor.node(n).epilogue.empty()) continue;
    const Node& node = editor.node(n);
    const bool arithmetic = node.Is("Add") || node.Is("Sub") || node.Is("Mul") || node.Is("Div") ||
                            node.Is("Pow") || node.Is("Neg");
    if (!arithmetic) continue;
    for (ValueId v : node.inputs) {
      if (v != kNoValue && editor.constant(v) == nullptr) values.push_back(v);
    }
  }
  return values;
}

// The node whose output is the pattern in x and the gate's output: it reads the gate, directly or
// through at most a few nodes; -1: none.
int32_t FindRoot(const GraphEditor& editor, ValueId gate, ValueId x, const Pattern& pattern) {
  constexpr int kMaxSteps = 5;
  ValueId v = gate;
  for (int step = 0; step < kMaxSteps; ++step) {
    const int32_t n = editor.OnlyConsumer(v);
    if (n < 0 || editor.node(n).outputs.size() != 1) return -1;
    v = editor.node(n).outputs[0];
    const auto result = AsPolynomial(editor, v, x, gate);
    if (!result) return -1;
    if (Near(result->free, pattern.free) && Near(result->gated, pattern.gated)) return n;
  }
  return -1;
}

void ReplaceByActivation(GraphEditor& editor, int32_t n, ValueId x, const Pattern& pattern) {
  Node node = MakeNode(pattern.op_type, editor.node(n).name, {x});
  if (!pattern.approximate.empty())
    node.attributes["approximate"] = std::string(pattern.approximate);
  if (pattern.op_type == "HardSigmoid") {
    node.attributes["alpha"] = static_cast<float>(pattern.alpha);
    node.attributes["beta"] = static_cast<float>(pattern.beta);
  }
  editor.Replace(n, std::move(node));
}

bool RecogniseGated(GraphEditor& editor, int32_t gate) {
  for (const Pattern& pattern : Patterns()) {
    if (!IsPlain(editor, gate, pattern.gate)) continue;
    const ValueId output = editor.node(gate).outputs[0];
    const DType dtype = editor.type(output).dtype;
    if (dtype != DType::kFloat && dtype != DType::kDouble) continue;
    if (!GateParametersMatch(editor, gate, pattern)) continue;
    const ValueId argument = editor.node(gate).inputs[0];
    for (ValueId x : Candidates(editor, argument)) {
      const auto found = AsPolynomial(editor, argument, x, kNoValue);
      if (!found || !Near(found->free, pattern.argument)) continue;
      const int32_t root = FindRoot(editor, output, x, pattern);
      if (root < 0) continue;
      ReplaceByActivation(editor, root, x, pattern);
      return true;
    }
  }
  return false;
}

// x * Sigmoid(alpha * x).
bool RecogniseQuickGelu(GraphEditor& editor, int32_t gate) {
  if (!IsPlain(editor, gate, "Sigmoid")) return false;
  const ValueId output = editor.node(gate).outputs[0];
  if (editor.type(output).dtype != DType::kFloat) return false;
  const ValueId argument = editor.node(gate).inputs[0];
  for (ValueId x : Candidates(editor, argument)) {
    const auto found = AsPolynomial(editor, argument, x, kNoValue);
    if (!found) continue;
    const double alpha = found->free[1];
    if (!Near(found->free, {0, alpha, 0, 0})) continue;
    const Pattern pattern = {.gate = "Sigmoid",
                             .argument = found->free,
                             .free = {},
                             .gated = {0, 1, 0, 0},
                             .op_type = "QuickGelu"};
    const int32_t root = FindRoot(editor, output, x, pattern);
    if (root < 0) continue;
    Node node = MakeNode(pattern.op_type, editor.node(root).name, {x});
    node.domain = kMicrosoft;
    node.attributes["alpha"] = static_cast<float>(alpha);
    editor.Replace(root, std::move(node));
    return true;
  }
  return false;
}

// x * Tanh(Softplus(x)).
bool RecogniseMish(GraphEditor& editor, int32_t n) {
  if (!IsPlain(editor, n, "Mul")) return false;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = editor.node(n).inputs[1 - i];
    const int32_t tanh = editor.ProducerIf(editor.node(n).inputs[i], "Tanh");
    if (tanh < 0) continue;
    const int32_t softplus = editor.ProducerIf(editor.node(tanh).inputs[0], "Softplus");
    if (softplus < 0 || editor.node(softplus).inputs[0] != x) continue;
    editor.Replace(n, MakeNode("Mish", editor.node(n).name, {x}));
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<int64_t> RecogniseActivations(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n)) continue;
    if (RecogniseGated(editor, n) || RecogniseQuickGelu(editor, n) || RecogniseMish(editor, n)) {
      ++rewrites;
    }
  }
  return rewrites;
}

}  // namespace onnx_memplan
