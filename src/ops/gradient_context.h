// What the gradient rule of an operator works with: the node, the gradients of its outputs, and a
// way to add the nodes that compute the gradients of its inputs.
//
// A rule reads like the formula:
//
//   absl::Status TanhGradient(GradientContext& g) {
//     g.SetInputGradient(0, g.Add("TanhGrad", {g.OutputGradient(0), g.Output(0)}, {}, kMicrosoft));
//     return g.status();
//   }
//
// Gradients are of one scalar, the loss. Nodes are those of the operator table: their types are
// inferred as they are added, and later stages know no difference between forward and backward.
#ifndef ONNX_MEMPLAN_OPS_GRADIENT_CONTEXT_H_
#define ONNX_MEMPLAN_OPS_GRADIENT_CONTEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "onnx_memplan/graph.h"
#include "ops/node_context.h"
#include "ops/op_def.h"

namespace onnx_memplan {

class GradientContext {
 public:
  using Attributes = std::map<std::string, Attribute, std::less<>>;

  // The gradients of the outputs of node `node` of `graph`; `wanted` by input. `graph` is typed and
  // outlives the context. Nodes are appended to it.
  GradientContext(Graph& graph, int32_t node, std::vector<ValueId> output_gradients,
                  std::vector<bool> wanted);

  const Node& node() const { return graph_.nodes[static_cast<size_t>(node_)]; }
  // Attributes, shapes and constants of the node. Not to be kept over an Add.
  NodeContext context() const { return NodeContext(graph_, node()); }

  // kNoValue for an omitted input or output.
  ValueId Input(int32_t i) const;
  ValueId Output(int32_t i) const;
  int32_t num_inputs() const { return static_cast<int32_t>(node().inputs.size()); }
  int32_t num_outputs() const { return static_cast<int32_t>(node().outputs.size()); }
  // Of output `i`'s type. kNoValue: the loss does not depend on this output. At least one output
  // has a gradient when a rule is called.
  ValueId OutputGradient(int32_t i) const;
  // The gradient of input `i` is asked for: it is there, of floating type, and leads to something
  // that is trained.
  bool Wants(int32_t i) const;

  const TensorType& Type(ValueId value) const;
  const Shape& ShapeOf(ValueId value) const { return Type(value).shape; }

  // Adds a node and returns its (first) output. An error (and any input kNoValue because of an
  // earlier one) gives kNoValue and is kept for status(): rules need not check each step.
  // `inputs` end with the last operand that is there; kOmitted stands for one in between.
  ValueId Add(std::string_view op_type, std::vector<ValueId> inputs, Attributes attributes = {},
              std::string_view domain = {});
  // The same with `count` outputs.
  std::vector<ValueId> AddMany(std::string_view op_type, std::vector<ValueId> inputs, int32_t count,
                               Attributes attributes = {}, std::string_view domain = {});
  static constexpr ValueId kOmitted = -2;

  ValueId Constant(Tensor tensor);
  // A scalar constant of floating type `dtype`.
  ValueId Scalar(double value, DType dtype);
  // A 1-D int64 constant: axes, shapes, pads.
  ValueId Ints(const std::vector<int64_t>& values);

  // A tensor of zeros that a node makes at run time: constants take room in flash.
  ValueId Zeros(const Shape& shape, DType dtype);

  // `value` summed over the axes that broadcasting added or repeated, and reshaped: the gradient of
  // an operand of shape `shape` from that of the broadcast one.
  ValueId SumTo(ValueId value, const Shape& shape);
  ValueId ReshapeTo(ValueId value, const Shape& shape);

  // Changes the forward node itself into another operator that computes the same outputs and
  // `extra_outputs` more (saved masks, indices, statistics), which are returned. Inputs and
  // attributes stay; `attributes` are added.
  std::vector<ValueId> ExtendNode(std::string_view op_type, std::string_view domain,
                                  int32_t extra_outputs, Attributes attributes = {});

  // At most once for each input; it must be of the input's type.
  void SetInputGradient(int32_t i, ValueId gradient);
  // By input; kNoValue: zero.
  const std::vector<ValueId>& input_gradients() const { return input_gradients_; }

  // The first error of Add and its siblings.
  absl::Status status() const { return status_; }

 private:
  Graph& graph_;
  const int32_t node_;
  const std::vector<ValueId> output_gradients_;
  const std::vector<bool> wanted_;
  std::vector<ValueId> input_gradients_;
  absl::Status status_;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_GRADIENT_CONTEXT_H_
