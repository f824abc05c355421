// Which nodes can work on images in blocks of channels, and what they become.
#ifndef ONNX_MEMPLAN_PASSES_BLOCKED_RULES_H_
#define ONNX_MEMPLAN_PASSES_BLOCKED_RULES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/editor.h"

namespace onnx_memplan {

// What a blocked node does with one input.
enum class BlockedOperand : uint8_t {
  kAsIs,        // takes it as it is: weights, scalars, bounds
  kImage,       // needs it in blocks
  kPerChannel,  // a constant with one value for each channel, in blocks
  kPerPixel,    // a constant with one value for each pixel
};

struct BlockedRule;

// How a node would work on blocks.
struct BlockedPlan {
  const BlockedRule* rule = nullptr;     // that made it
  std::vector<BlockedOperand> operands;  // by input
  int64_t macs = 0;                      // of a convolution
  // Input 0 may also be a plain image: few channels would fill no block.
  bool takes_plain_image = false;
};

// nullopt: it cannot.
std::optional<BlockedPlan> PlanBlocked(const GraphEditor& editor, int32_t n);

// Gives the blocked form of an image.
using BlockedValue = std::function<absl::StatusOr<ValueId>(ValueId image)>;

// Adds the blocked form of node `n`, of which `plan` is the BlockedPlan, before it; its outputs, by
// output of `n`.
absl::StatusOr<std::vector<ValueId>> EmitBlocked(GraphEditor& editor, int32_t n,
                                                 const BlockedPlan& plan,
                                                 const BlockedValue& blocked);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_BLOCKED_RULES_H_
