// What the tool knows of an operator: one aggregate for each, one explicit list of them.
//
// To add an operator: its OpDef in a family's .cc file, one line of the list in op_table.cc, its
// kernel or functor in codegen/kernels/, and rows of test cases in tests/ops/.
#ifndef ONNX_MEMPLAN_OPS_OP_DEF_H_
#define ONNX_MEMPLAN_OPS_OP_DEF_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"
#include "ops/kernel_call.h"
#include "ops/node_context.h"
#include "ops/target.h"

namespace onnx_memplan {

// Domains of operators that are not ONNX's: those of ONNX Runtime, whose gradient operators keep
// their names and operands here, and those of this project.
inline constexpr char kMicrosoft[] = "com.microsoft";
inline constexpr char kMemplan[] = "onnx_memplan";

// How an output of a node relates to the memory of an input.
struct Alias {
  enum class Kind : uint8_t {
    // A fact: the output is the input's bytes from byte_offset on. No code needs to run for it.
    kView,
    // An offer: the input may be produced inside the output at byte_offset (Concat), and the
    // kernel then leaves that part alone: it copies only where source and target differ.
    kPart,
    // An offer: the kernel may write the output over the input, from the same address. A promise
    // about every variant that `lower` can choose.
    kInPlace,
  };
  Kind kind = Kind::kView;
  int32_t output = 0;
  int32_t input = 0;
  int64_t byte_offset = 0;

  friend bool operator==(const Alias&, const Alias&) = default;
};

class GradientContext;

struct OpDef {
  std::string_view type;
  std::string_view domain = {};  // empty: ai.onnx
  int32_t min_inputs = 0;
  int32_t max_inputs = 0;  // kVariadic: no limit. A residual input (Epilogue) is not counted.
  int32_t min_outputs = 1;
  int32_t max_outputs = 1;

  // The types of all outputs (also of omitted ones). Required. Input types are known; input data
  // that the rule needs must be constant (NodeContext::ConstantInts and its siblings say so).
  absl::StatusOr<std::vector<TensorType>> (*infer)(const NodeContext& node) = nullptr;

  // Views and in-place offers. Absent: none.
  std::vector<Alias> (*aliases)(const NodeContext& node) = nullptr;

  // Picks kernels for a target, may pack constant inputs. Required, for views too: it then is the
  // copy that runs where the view cannot be had (its input and its output both belong to the
  // caller). Unimplemented, with the reason, for element types or attributes without a kernel.
  absl::StatusOr<Lowering> (*lower)(const NodeContext& node, const Target& target) = nullptr;

  // Adds the nodes that compute the gradients of the inputs that GradientContext::Wants, from those
  // of the outputs. ZeroGradient says that there are none. Absent: not differentiable here.
  absl::Status (*gradient)(GradientContext& context) = nullptr;

  // lower() honours Node::epilogue: activation, and residual (which the kernel reads at the index
  // it writes, after all other inputs: output may lie over the residual).
  bool fuses_activation = false;
  bool fuses_residual = false;
};

inline constexpr int32_t kVariadic = INT32_MAX;

// Every operator, sorted by domain and type.
std::span<const OpDef* const> OpTable();
// nullptr: not supported.
const OpDef* FindOp(std::string_view type, std::string_view domain);

// Checks the arity, then infers. Errors name node, operator and input shapes.
absl::StatusOr<std::vector<TensorType>> InferTypes(const Graph& graph, const Node& node);
// Lowers for `target`. Errors name node, operator and input shapes.
absl::StatusOr<Lowering> LowerNode(const Graph& graph, const Node& node, const Target& target);
// The node's output tensors, run on the host; all inputs are constants, output types are known.
absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Graph& graph, const Node& node);

// Common inference and alias rules, and lowering helpers.
namespace rules {
absl::StatusOr<std::vector<TensorType>> SameTypeAsInput(const NodeContext& node);
// In-place offer of input 0 for output 0, when they have the same number of bytes.
std::vector<Alias> InPlaceFirstInput(const NodeContext& node);
// Output 0 is a view of all of input 0.
std::vector<Alias> ViewOfFirstInput(const NodeContext& node);
// Copies input 0 to output 0 (the same number of bytes).
absl::StatusOr<Lowering> LowerCopy(const NodeContext& node, const Target& target);
// For operators whose outputs do not change, or change in steps, with their inputs.
absl::Status ZeroGradient(GradientContext& context);
// ONNX multidirectional broadcasting (numpy's); nullopt when the shapes do not agree.
std::optional<Shape> Broadcast(const Shape& a, const Shape& b);
}  // namespace rules

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_OP_DEF_H_
