#include <string>
#include <utility>

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

// The convolution of a plain image whose result the pool `n` alone reads; -1 without one.
int32_t PooledConvolution(const GraphEditor& editor, int32_t n) {
  const Node& pool = editor.node(n);
  if (!IsOurs(pool, "BlockedMaxPool") || !pool.epilogue.empty()) return -1;
  const ValueId v = pool.inputs[0];
  const int32_t conv = editor.producer(v);
  if (conv < 0 || editor.OnlyConsumer(v) != n) return -1;
  const Node& node = editor.node(conv);
  if (!IsOurs(node, "BlockedConv") || node.epilogue.has_residual) return -1;
  if (IsBlockedShape(editor.shape(node.inputs[0]))) return -1;
  for (const int64_t dilation : Context(editor, n).Ints("dilations", {})) {
    if (dilation != 1) return -1;
  }
  return conv;
}

}  // namespace

absl::StatusOr<int64_t> FusePool(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    if (!editor.alive(n)) continue;
    const int32_t conv = PooledConvolution(editor, n);
    if (conv < 0) continue;
    Node fused = editor.node(conv);
    fused.op_type = "BlockedConvPool";
    for (const auto& [name, value] : editor.node(n).attributes) {
      fused.attributes["pool_" + name] = value;
    }
    editor.Replace(n, std::move(fused));
    ++rewrites;
  }
  return rewrites;
}

}  // namespace onnx_memplan
