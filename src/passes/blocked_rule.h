// What the rules of blocked_rules.cc and its siblings are made of.
#ifndef ONNX_MEMPLAN_PASSES_BLOCKED_RULE_H_
#define ONNX_MEMPLAN_PASSES_BLOCKED_RULE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/blocked.h"
#include "passes/blocked_rules.h"
#include "passes/editor.h"

namespace onnx_memplan {

struct BlockedRule {
  std::optional<BlockedPlan> (*plan)(const GraphEditor& editor, int32_t n);
  // `node`: node `n` with its operands in blocks.
  absl::StatusOr<std::vector<ValueId>> (*emit)(GraphEditor& editor, int32_t n, Node node);
};

// Rules for Resize, Gather and Slice of channels, and ConvTranspose.
std::span<const BlockedRule> BlockedMovementRules();

// Shuffles of channels (Reshape, Transpose, Reshape) become a Gather. How many.
absl::StatusOr<int64_t> GatherShuffledChannels(GraphEditor& editor);

inline bool IsImage(const GraphEditor& editor, ValueId v) {
  if (v == kNoValue) return false;
  const TensorType& type = editor.type(v);
  return type.dtype == DType::kFloat && type.rank() == 4 && type.NumElements() > 0;
}

// More than one pixel: images of one are vectors, and have nothing to gain.
inline bool IsLargeImage(const GraphEditor& editor, ValueId v) {
  return IsImage(editor, v) && editor.shape(v)[2] * editor.shape(v)[3] > 1;
}

inline bool FillsBlocks(const GraphEditor& editor, ValueId v) {
  return editor.shape(v)[1] % kernels::kChannelBlock == 0;
}

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_BLOCKED_RULE_H_
