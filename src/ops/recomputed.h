// Nodes that compute a value of the forward pass again, for the backward pass.
#ifndef ONNX_MEMPLAN_OPS_RECOMPUTED_H_
#define ONNX_MEMPLAN_OPS_RECOMPUTED_H_

namespace onnx_memplan {

// An integer attribute that such nodes have: the number of the chain that they belong to. It tells
// a copy from its original, with which it would otherwise be merged.
inline constexpr char kRecomputedAttribute[] = "onnx_memplan_recomputed";

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_RECOMPUTED_H_
