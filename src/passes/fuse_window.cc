#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/blocked.h"
#include "ops/op_def.h"
#include "passes/fuse.h"
#include "passes/match.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

bool IsOurs(const Node& node, std::string_view type) {
  return node.domain == kMemplan && node.op_type == type;
}

// A convolution of one tap that sees each pixel once.
bool IsPointwise(const GraphEditor& editor, int32_t n) {
  const Shape& w = editor.shape(editor.node(n).inputs[1]);
  const NodeContext node = Context(editor, n);
  return w[2] == 1 && w[3] == 1 && AllAre(node.Ints("strides", {}), 1) &&
         AllAre(node.Ints("pads", {}), 0);
}

// The convolution of all channels of a plain image, or of one tap, whose result the window `n`
// alone reads; -1 without one.
int32_t ConvolutionBefore(const GraphEditor& editor, int32_t n) {
  const Node& window = editor.node(n);
  const ValueId v = window.inputs[0];
  const int32_t conv = editor.producer(v);
  if (conv < 0 || editor.OnlyConsumer(v) != n || window.epilogue.has_residual) return -1;
  const Node& node = editor.node(conv);
  if (!IsOurs(node, "BlockedConv") || node.epilogue.has_residual) return -1;
  if (Context(editor, conv).Int("group", 1) != 1) return -1;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (editor.constant(node.inputs[i]) == nullptr) return -1;
  }
  if (IsBlockedShape(editor.shape(node.inputs[0])) && !IsPointwise(editor, conv)) return -1;
  return AllAre(Context(editor, n).Ints("dilations", {}), 1) ? conv : -1;
}

// `fused`, a copy of the convolution, with the attributes of the window `n`.
void AddWindow(const GraphEditor& editor, int32_t n, Node& fused) {
  for (const auto& [name, value] : editor.node(n).attributes) {
    if (name != "group") fused.attributes["window_" + name] = value;
  }
}

// About the bytes in the arena that a node needs: a sum with a residual that nothing else of it
// reads is written over that, and elementwise nodes and Concat over their inputs.
int64_t TouchedBytes(const GraphEditor& editor, const Node& node) {
  const auto sum = [&](const std::vector<ValueId>& values) {
    int64_t bytes = 0;
    for (const ValueId v : std::set<ValueId>(values.begin(), values.end())) {
      if (v == kNoValue || editor.constant(v) != nullptr || editor.is_graph_input(v)) continue;
      bytes += editor.type(v).Bytes();
    }
    return bytes;
  };
  const int64_t read = sum(node.inputs);
  const int64_t written = sum(node.outputs);
  const bool over_residual =
      node.epilogue.has_residual &&
      std::count(node.inputs.begin(), node.inputs.end(), node.inputs.back()) == 1;
  return node.domain != kMemplan || over_residual ? std::max(read, written) : read + written;
}

// ---- A depthwise convolution and what is before and behind it

bool IsDepthwise(const GraphEditor& editor, int32_t n) {
  return editor.alive(n) && IsOurs(editor.node(n), "BlockedConv") &&
         Context(editor, n).Int("group", 1) != 1;
}

bool AreConstant(const GraphEditor& editor, const std::vector<ValueId>& values, size_t first,
                 size_t last) {
  for (size_t i = first; i < std::min(last, values.size()); ++i) {
    if (values[i] != kNoValue && editor.constant(values[i]) == nullptr) return false;
  }
  return true;
}

// The convolution that the depthwise convolution `n` can take in; -1 without one.
int32_t ConvolutionBeforeDepthwise(const GraphEditor& editor, int32_t n) {
  return IsDepthwise(editor, n) ? ConvolutionBefore(editor, n) : -1;
}

// The depthwise convolution, maybe fused with one before it, that the convolution of one tap `n`
// can take in; -1 without one.
int32_t DepthwiseBefore(const GraphEditor& editor, int32_t n) {
  if (!editor.alive(n) || !IsOurs(editor.node(n), "BlockedConv") || IsDepthwise(editor, n) ||
      !IsPointwise(editor, n) || !AreConstant(editor, editor.node(n).inputs, 1, 3)) {
    return -1;
  }
  const ValueId v = editor.node(n).inputs[0];
  const int32_t before = editor.producer(v);
  if (before < 0 || editor.OnlyConsumer(v) != n) return -1;
  const Node& node = editor.node(before);
  const bool fused = IsOurs(node, "BlockedConvDepthwise");
  if (node.epilogue.has_residual || !(fused || IsDepthwise(editor, before))) return -1;
  if (fused) return before;
  const bool fits = AllAre(Context(editor, before).Ints("dilations", {}), 1) &&
                    AreConstant(editor, node.inputs, 1, node.inputs.size());
  return fits ? before : -1;
}

void SetActivationAttributes(const Epilogue& epilogue, const std::string& prefix, Node& node) {
  node.attributes[prefix + "_activation"] = epilogue.activation;
  node.attributes[prefix + "_alpha"] = epilogue.alpha;
  node.attributes[prefix + "_beta"] = epilogue.beta;
}

// The convolution `conv` and the depthwise one `n` behind it as one node.
Node WithDepthwise(const GraphEditor& editor, const Node& conv, int32_t n) {
  const Node& depthwise = editor.node(n);
  Node fused = conv;
  fused.op_type = "BlockedConvDepthwise";
  fused.inputs.resize(3, kNoValue);
  fused.inputs.insert(fused.inputs.end(), depthwise.inputs.begin() + 1, depthwise.inputs.end());
  SetActivationAttributes(fused.epilogue, "first", fused);
  fused.epilogue = depthwise.epilogue;
  fused.outputs = depthwise.outputs;
  AddWindow(editor, n, fused);
  return fused;
}

// `depthwise`, which is the convolution `before` or, where that is -1, a fused one, and the
// convolution of one tap `n` behind it as one node.
Node WithProjection(const GraphEditor& editor, const Node& depthwise, int32_t before, int32_t n) {
  const Node& project = editor.node(n);
  Node fused = depthwise;
  size_t inputs = 5;
  fused.op_type = "BlockedConvDepthwiseConv";
  if (before >= 0) {
    inputs = 3;
    fused.op_type = "BlockedDepthwiseConv";
    fused.attributes.clear();
    AddWindow(editor, before, fused);
  }
  fused.inputs.resize(inputs, kNoValue);
  fused.inputs.push_back(project.inputs[1]);
  fused.inputs.push_back(project.inputs.size() > 2 ? project.inputs[2] : kNoValue);
  SetActivationAttributes(depthwise.epilogue, "second", fused);
  fused.epilogue = project.epilogue;
  if (fused.epilogue.has_residual) fused.inputs.push_back(project.inputs.back());
  fused.outputs = project.outputs;
  return fused;
}

// Nodes that may become one, the last of which it replaces.
struct Fusion {
  std::vector<int32_t> nodes;
  Node node;
  int64_t bytes = 0;  // that it touches, with its scratch
};

// Bytes of the rows that a fusion holds of the image `v`: `rows` of all channels.
int64_t RowBytes(const GraphEditor& editor, ValueId v, int64_t rows) {
  const TensorType& type = editor.type(v);
  return type.Bytes() / std::max<int64_t>(type.shape[0] * type.shape[2], 1) * rows;
}

// All fusions that end in node `n`.
void AddFusions(const GraphEditor& editor, int32_t n, std::vector<Fusion>& fusions) {
  const auto add = [&](std::vector<int32_t> nodes, Node node, int64_t scratch_bytes) {
    const int64_t bytes = TouchedBytes(editor, node) + scratch_bytes;
    fusions.push_back({std::move(nodes), std::move(node), bytes});
  };
  if (const int32_t conv = ConvolutionBeforeDepthwise(editor, n); conv >= 0) {
    add({conv, n}, WithDepthwise(editor, editor.node(conv), n), 0);
  }
  const int32_t depthwise = DepthwiseBefore(editor, n);
  if (depthwise < 0) return;
  const Node& before = editor.node(depthwise);
  const int64_t row_bytes = RowBytes(editor, before.outputs[0], 1);
  if (!IsDepthwise(editor, depthwise)) {
    const Shape& taps = editor.shape(before.inputs[3]);
    // The ring holds rows of what the depthwise convolution reads, about as long as its own times
    // the stride.
    const std::vector<int64_t> strides = Context(editor, depthwise).Ints("window_strides", {1, 1});
    add({depthwise, n}, WithProjection(editor, before, -1, n),
        row_bytes * (1 + taps[2] * strides.back()));
    return;
  }
  add({depthwise, n}, WithProjection(editor, before, depthwise, n), row_bytes);
  if (const int32_t conv = ConvolutionBeforeDepthwise(editor, depthwise); conv >= 0) {
    const int64_t taps = editor.shape(before.inputs[1])[2];
    add({conv, depthwise, n},
        WithProjection(editor, WithDepthwise(editor, editor.node(conv), depthwise), -1, n),
        row_bytes + RowBytes(editor, before.inputs[0], taps));
  }
}

// Fusions after which no node touches `largest` bytes any more, each of other nodes, and of those
// for one node that which touches least; empty when that cannot be.
std::vector<Fusion> FusionsOfLargest(const GraphEditor& editor, int64_t largest) {
  std::set<int32_t> open;
  std::vector<Fusion> fusions;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n)) continue;
    if (TouchedBytes(editor, editor.node(n)) == largest) open.insert(n);
    AddFusions(editor, n, fusions);
  }
  std::stable_sort(fusions.begin(), fusions.end(),
                   [](const Fusion& a, const Fusion& b) { return a.bytes < b.bytes; });
  std::vector<Fusion> chosen;
  std::set<int32_t> used;
  for (Fusion& fusion : fusions) {
    // What a fusion needs beside its rows is of the order of a percent.
    constexpr int64_t kGainPercent = 5;
    const auto is_in = [&](const std::set<int32_t>& set) {
      return std::any_of(fusion.nodes.begin(), fusion.nodes.end(),
                         [&](int32_t n) { return set.contains(n); });
    };
    if (fusion.bytes * 100 > largest * (100 - kGainPercent) || !is_in(open) || is_in(used)) {
      continue;
    }
    for (const int32_t n : fusion.nodes) {
      open.erase(n);
      used.insert(n);
    }
    chosen.push_back(std::move(fusion));
  }
  return open.empty() ? chosen : std::vector<Fusion>();
}

}  // namespace

absl::StatusOr<int64_t> FusePool(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n) || !IsOurs(editor.node(n), "BlockedMaxPool")) continue;
    const int32_t conv = ConvolutionBefore(editor, n);
    if (conv < 0) continue;
    Node fused = editor.node(conv);
    fused.op_type = "BlockedConvPool";
    AddWindow(editor, n, fused);
    editor.Replace(n, std::move(fused));
    ++rewrites;
  }
  return rewrites;
}

// Whole images are faster, so that only those are taken away that make the largest step what it is.
absl::StatusOr<int64_t> FuseDepthwise(GraphEditor& editor) {
  int64_t rewrites = 0;
  while (true) {
    int64_t largest = 0;
    for (int32_t n = 0; n < editor.num_nodes(); ++n) {
      if (editor.alive(n)) largest = std::max(largest, TouchedBytes(editor, editor.node(n)));
    }
    std::vector<Fusion> fusions = FusionsOfLargest(editor, largest);
    if (fusions.empty()) return rewrites;
    for (Fusion& fusion : fusions) {
      editor.Replace(fusion.nodes.back(), std::move(fusion.node));
      ++rewrites;
    }
  }
}

}  // namespace onnx_memplan
