// What patterns ask of nodes and constants.
#ifndef ONNX_MEMPLAN_PASSES_MATCH_H_
#define ONNX_MEMPLAN_PASSES_MATCH_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/node_context.h"
#include "passes/editor.h"

namespace onnx_memplan {

// The node is `op_type` of the standard domain without epilogue.
bool IsPlain(const GraphEditor& editor, int32_t n, std::string_view op_type);

// The node's attributes, types and constants. Valid until a value is added.
inline NodeContext Context(const GraphEditor& editor, int32_t n) {
  return NodeContext(editor.graph(), editor.node(n));
}

// Floating-point elements (float, double) as double; nullopt for other types.
std::optional<std::vector<double>> ToDoubles(const Tensor& tensor);
// Rounded to `dtype` (float or double).
Tensor FromDoubles(DType dtype, Shape shape, const std::vector<double>& values);

// The value that all elements of a floating-point constant have; nullopt when `v` is anything else.
std::optional<double> UniformConstant(const GraphEditor& editor, ValueId v);

// `tensor`, broadcast to `full`, varies along `axis` alone: its full[axis] values there. nullopt
// when it does not, does not broadcast to `full`, or is not floating point.
std::optional<std::vector<double>> AlongAxis(const Tensor& tensor, const Shape& full, int64_t axis);

// Constant integers at input `i`; nullopt when the input is omitted or not known.
std::optional<std::vector<int64_t>> ConstantInts(const GraphEditor& editor, int32_t n, int32_t i);

// No element of `v` is negative, whatever the graph's inputs are.
bool IsNonNegative(const GraphEditor& editor, ValueId v);

// Every one is `value`; true of none.
bool AllAre(const std::vector<int64_t>& values, int64_t value);

// `axis` in [0, rank), from ONNX's [-rank, rank).
int64_t WrapAxis(int64_t axis, int64_t rank);

// Output element i depends on input 0's element i alone (and on scalar parameters).
bool IsElementwiseUnary(const Node& node);
// Two operands, with broadcasting; output element i depends on the operands' elements at i.
bool IsElementwiseBinary(const Node& node);

// A node that only renames the shape of its input 0: same bytes in the same order.
bool IsReshapeLike(const Node& node);

// What a ReduceX node reduces.
struct Reduction {
  std::vector<int64_t> axes;  // ascending, in [0, rank)
  bool keep_dims = true;
};
// nullopt when node `n` is no reduction with known axes, or has an epilogue.
std::optional<Reduction> AsReduction(const GraphEditor& editor, int32_t n);

// The order of dimensions of a Transpose without epilogue; nullopt for any other node.
std::optional<std::vector<int64_t>> AsPermutation(const GraphEditor& editor, int32_t n);

// A node of a standard operator: for GraphEditor::Emit and Replace.
Node MakeNode(std::string_view op_type, std::string_view name, std::vector<ValueId> inputs);

// Reshape of `v` to `shape`, right before `anchor`; `v` itself if it has that shape.
absl::StatusOr<ValueId> EmitReshape(GraphEditor& editor, int32_t anchor, ValueId v,
                                    const Shape& shape, std::string_view name);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_MATCH_H_
