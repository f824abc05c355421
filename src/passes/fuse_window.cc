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

// About the bytes in the arena that node `n` needs: a sum with a residual is written over that, and
// elementwise nodes and Concat over their inputs.
int64_t TouchedBytes(const GraphEditor& editor, int32_t n) {
  const Node& node = editor.node(n);
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
  const bool over_inputs = node.domain != kMemplan || node.epilogue.has_residual;
  return over_inputs ? std::max(read, written) : read + written;
}

// The convolution that the depthwise convolution `n` can take in; -1 without one.
int32_t ConvolutionBeforeDepthwise(const GraphEditor& editor, int32_t n) {
  if (!editor.alive(n) || !IsOurs(editor.node(n), "BlockedConv")) return -1;
  return Context(editor, n).Int("group", 1) == 1 ? -1 : ConvolutionBefore(editor, n);
}

// What both touch as one.
int64_t FusedBytes(const GraphEditor& editor, int32_t conv, int32_t depthwise) {
  return TouchedBytes(editor, conv) + TouchedBytes(editor, depthwise) -
         2 * editor.type(editor.node(depthwise).inputs[0]).Bytes();
}

void FuseIntoDepthwise(GraphEditor& editor, int32_t conv, int32_t n) {
  const Node& depthwise = editor.node(n);
  Node fused = editor.node(conv);
  fused.op_type = "BlockedConvDepthwise";
  fused.inputs.resize(3, kNoValue);
  fused.inputs.insert(fused.inputs.end(), depthwise.inputs.begin() + 1, depthwise.inputs.end());
  fused.attributes["first_activation"] = fused.epilogue.activation;
  fused.attributes["first_alpha"] = fused.epilogue.alpha;
  fused.attributes["first_beta"] = fused.epilogue.beta;
  fused.epilogue = depthwise.epilogue;
  AddWindow(editor, n, fused);
  editor.Replace(n, std::move(fused));
}

// The depthwise convolutions to fuse so that no node touches `largest` bytes any more; empty when
// that cannot be.
std::vector<int32_t> WindowsOfLargest(const GraphEditor& editor, int64_t largest) {
  std::set<int32_t> open;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (editor.alive(n) && TouchedBytes(editor, n) == largest) open.insert(n);
  }
  std::vector<int32_t> windows;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    const int32_t conv = ConvolutionBeforeDepthwise(editor, n);
    if (conv < 0 || !(open.contains(n) || open.contains(conv))) continue;
    // The ring of rows is of the order of a percent.
    constexpr int64_t kGainPercent = 5;
    if (FusedBytes(editor, conv, n) * 100 > largest * (100 - kGainPercent)) continue;
    windows.push_back(n);
    open.erase(n);
    open.erase(conv);
  }
  return open.empty() ? windows : std::vector<int32_t>();
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
      if (editor.alive(n)) largest = std::max(largest, TouchedBytes(editor, n));
    }
    const std::vector<int32_t> windows = WindowsOfLargest(editor, largest);
    if (windows.empty()) return rewrites;
    for (const int32_t n : windows) {
      FuseIntoDepthwise(editor, ConvolutionBeforeDepthwise(editor, n), n);
      ++rewrites;
    }
  }
}

}  // namespace onnx_memplan
