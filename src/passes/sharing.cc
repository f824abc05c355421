// Passes that remove what nothing reads and what is there twice.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/op_def.h"
#include "passes/match.h"
#include "passes/simplify.h"
#include "support/status_macros.h"

namespace onnx_memplan {

absl::StatusOr<int64_t> RemoveDeadCode(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = editor.num_nodes() - 1; n >= 0; --n) {
    if (!editor.alive(n)) continue;
    if (editor.IsUnread(n)) {
      editor.Remove(n);
      ++rewrites;
      continue;
    }
    const OpDef* def = FindOp(editor.node(n).op_type, editor.node(n).domain);
    // The number of outputs of a variadic operator (Split) says what they are.
    if (def == nullptr || def->max_outputs == kVariadic) continue;
    rewrites += editor.DropUnreadOutputs(n, static_cast<size_t>(std::max(def->min_outputs, 1)));
  }
  return rewrites;
}

namespace {

void AppendBytes(std::string* key, const void* data, size_t bytes) {
  absl::StrAppend(key, bytes, ":");
  key->append(static_cast<const char*>(data), bytes);
}

// Appends a text that is equal for equal attributes only; false when the attribute is a graph.
bool AppendAttribute(std::string* key, const Attribute& attribute) {
  absl::StrAppend(key, attribute.index(), "=");
  struct Visitor {
    std::string* key;
    bool operator()(int64_t v) const { return Bytes(&v, sizeof(v)); }
    bool operator()(float v) const { return Bytes(&v, sizeof(v)); }
    bool operator()(const std::string& v) const { return Bytes(v.data(), v.size()); }
    bool operator()(const std::vector<int64_t>& v) const {
      return Bytes(v.data(), v.size() * sizeof(int64_t));
    }
    bool operator()(const std::vector<float>& v) const {
      return Bytes(v.data(), v.size() * sizeof(float));
    }
    bool operator()(const std::vector<std::string>& v) const {
      absl::StrAppend(key, v.size(), ":");
      for (const std::string& text : v) Bytes(text.data(), text.size());
      return true;
    }
    bool operator()(const Tensor& v) const {
      absl::StrAppend(key, v.type().ToString(), ":");
      return Bytes(v.data(), static_cast<size_t>(v.Bytes()));
    }
    bool operator()(const std::shared_ptr<const Graph>&) const { return false; }
    bool Bytes(const void* data, size_t bytes) const {
      AppendBytes(key, data, bytes);
      return true;
    }
  };
  return std::visit(Visitor{key}, attribute);
}

// Each run of these gives other values.
bool IsRandom(const Node& node) {
  return node.op_type.starts_with("Random") || node.Is("Bernoulli") || node.Is("Multinomial") ||
         node.Is("Dropout");
}

// Equal for nodes that compute the same; empty: the node equals no other.
std::string NodeKey(const Node& node) {
  if (IsRandom(node)) return {};
  std::string key = absl::StrCat(node.domain, ":", node.op_type, "(");
  for (ValueId v : node.inputs) absl::StrAppend(&key, v, ",");
  absl::StrAppend(&key, ")", node.outputs.size(), " ");
  for (ValueId v : node.outputs) absl::StrAppend(&key, v == kNoValue ? "-" : "o");
  for (const auto& [name, attribute] : node.attributes) {
    absl::StrAppend(&key, " ", name);
    if (!AppendAttribute(&key, attribute)) return {};
  }
  absl::StrAppend(&key, "+", node.epilogue.has_residual ? "r" : "", node.epilogue.activation);
  AppendBytes(&key, &node.epilogue.alpha, sizeof(float));
  AppendBytes(&key, &node.epilogue.beta, sizeof(float));
  return key;
}

// Type and a sample of the bytes: cheap for large weights; equality is checked in full.
std::string TensorSample(const Tensor& tensor) {
  constexpr size_t kSamples = 64;
  std::string key = tensor.type().ToString();
  const auto bytes = static_cast<size_t>(tensor.Bytes());
  const size_t stride = std::max<size_t>(bytes / kSamples, 1);
  for (size_t i = 0; i < bytes; i += stride) {
    key.push_back(static_cast<char>(tensor.data()[i]));
  }
  return key;
}

int64_t ShareConstants(GraphEditor& editor) {
  std::unordered_map<std::string, std::vector<ValueId>> known;
  int64_t rewrites = 0;
  const auto num_values = static_cast<ValueId>(editor.graph().values.size());
  for (ValueId v = 0; v < num_values; ++v) {
    const Tensor* tensor = editor.constant(v);
    // A constant that is a graph output has a name to keep; one that is an input is the caller's.
    if (tensor == nullptr || editor.consumers(v).empty() || editor.is_graph_input(v)) continue;
    std::vector<ValueId>& candidates = known[TensorSample(*tensor)];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](ValueId other) {
      return *editor.constant(other) == *tensor;
    });
    if (same == candidates.end()) {
      candidates.push_back(v);
    } else if (editor.ReplaceUses(v, *same)) {
      ++rewrites;
    }
  }
  return rewrites;
}

// Makes readers of `n` read `first`; every output must be able to move.
bool ReplaceNode(GraphEditor& editor, int32_t n, int32_t first) {
  const std::vector<ValueId> from = editor.node(n).outputs;
  const std::vector<ValueId> to = editor.node(first).outputs;
  for (size_t i = 0; i < from.size(); ++i) {
    // Two outputs of the graph stay two nodes: one value cannot have both names.
    if (from[i] != kNoValue && editor.is_graph_output(from[i]) && editor.is_graph_output(to[i])) {
      return false;
    }
  }
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != kNoValue) editor.ReplaceUses(from[i], to[i]);
  }
  return true;
}

}  // namespace

absl::StatusOr<int64_t> ShareCommonSubexpressions(GraphEditor& editor) {
  int64_t rewrites = ShareConstants(editor);
  std::unordered_map<std::string, int32_t> known;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n)) continue;
    const std::string key = NodeKey(editor.node(n));
    if (key.empty()) continue;
    const auto [it, inserted] = known.emplace(key, n);
    if (!inserted && ReplaceNode(editor, n, it->second)) ++rewrites;
  }
  return rewrites;
}

namespace {

// The parts of a Concat lie one behind the other in the whole: nothing but dimensions of one
// element comes before the axis.
bool PartsAreContiguous(const Shape& shape, int64_t axis) {
  return std::all_of(shape.begin(), shape.begin() + axis, [](int64_t dim) { return dim == 1; });
}

}  // namespace

absl::StatusOr<int64_t> ShareConcatPrefixes(GraphEditor& editor) {
  // By axis and inputs: the output.
  std::map<std::pair<int64_t, std::vector<ValueId>>, ValueId> known;
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!IsPlain(editor, n, "Concat")) continue;
    const ValueId output = editor.node(n).outputs[0];
    const Shape& shape = editor.shape(output);
    const int64_t axis =
        WrapAxis(Context(editor, n).Int("axis", 0), static_cast<int64_t>(shape.size()));
    if (!PartsAreContiguous(shape, axis)) continue;
    const std::vector<ValueId> inputs = editor.node(n).inputs;
    known.emplace(std::pair(axis, inputs), output);
    for (size_t length = inputs.size() - 1; length >= 2; --length) {
      const auto first = inputs.begin();
      const auto end = first + static_cast<ptrdiff_t>(length);
      const auto it = known.find(std::pair(axis, std::vector<ValueId>(first, end)));
      if (it == known.end()) continue;
      std::vector<ValueId> shared = {it->second};
      shared.insert(shared.end(), end, inputs.end());
      editor.SetInputs(n, std::move(shared));
      ++rewrites;
      break;
    }
  }
  return rewrites;
}

absl::StatusOr<int64_t> SeparateOutputs(Graph& graph) {
  std::vector<bool> taken(graph.values.size(), false);
  for (ValueId input : graph.inputs) taken[static_cast<size_t>(input)] = true;
  int64_t rewrites = 0;
  for (ValueId& output : graph.outputs) {
    const auto old = static_cast<size_t>(output);
    const bool constant = graph.values[old].constant.has_value();
    if (!taken[old] && !constant) {
      taken[old] = true;
      continue;
    }
    const std::string name = graph.values[old].name;
    // A constant is ours to rename; the name of a graph input and of an earlier output is not.
    if (constant && !taken[old]) graph.values[old].name = graph.UniqueValueName(name + "_constant");
    const ValueId copy =
        graph.AddValue(graph.UniqueValueName(constant && !taken[old] ? name : name + "_output"),
                       graph.values[old].type);
    Node identity = MakeNode("Identity", "", {output});
    identity.outputs = {copy};
    graph.nodes.push_back(std::move(identity));
    output = copy;
    ++rewrites;
  }
  return rewrites;
}

}  // namespace onnx_memplan
