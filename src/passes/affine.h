// What a node does to its operand, as y = x * scale + shift.
#ifndef ONNX_MEMPLAN_PASSES_AFFINE_H_
#define ONNX_MEMPLAN_PASSES_AFFINE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/node_context.h"
#include "passes/editor.h"

namespace onnx_memplan {

struct Affine {
  ValueId input = kNoValue;
  // The dimension of the operand along which scale and shift vary; -1: they have one value each.
  int64_t axis = -1;
  std::vector<double> scale;
  std::vector<double> shift;

  bool uniform() const { return axis < 0; }
  bool scales() const;  // any factor but 1
  bool shifts() const;  // any shift but 0
  // Scale and shift of channel `c`.
  double ScaleAt(size_t c) const { return scale[uniform() ? 0 : c]; }
  double ShiftAt(size_t c) const { return shift[uniform() ? 0 : c]; }
};

// nullopt when node `n` is no such thing: it is BatchNormalization for inference, or arithmetic
// with a constant of floating point, without epilogue, and keeps its operand's type.
std::optional<Affine> AsAffine(const GraphEditor& editor, int32_t n);

// The same for BatchNormalization alone, before its epilogue if it has one. Along axis 1.
std::optional<Affine> AsBatchNormalization(const NodeContext& node);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_AFFINE_H_
