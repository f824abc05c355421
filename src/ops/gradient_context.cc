#include "ops/gradient_context.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/op_def.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

GradientContext::GradientContext(Graph& graph, int32_t node, std::vector<ValueId> output_gradients,
                                 std::vector<bool> wanted)
    : graph_(graph),
      node_(node),
      output_gradients_(std::move(output_gradients)),
      wanted_(std::move(wanted)),
      input_gradients_(wanted_.size(), kNoValue) {
  MEMPLAN_CHECK(wanted_.size() == this->node().inputs.size());
  MEMPLAN_CHECK(output_gradients_.size() == this->node().outputs.size());
}

ValueId GradientContext::Input(int32_t i) const {
  return i < num_inputs() ? node().inputs[Index(i)] : kNoValue;
}

ValueId GradientContext::Output(int32_t i) const {
  return i < num_outputs() ? node().outputs[Index(i)] : kNoValue;
}

// A rule may have extended the node: later outputs have no gradient.
ValueId GradientContext::OutputGradient(int32_t i) const {
  return Index(i) < output_gradients_.size() ? output_gradients_[Index(i)] : kNoValue;
}

bool GradientContext::Wants(int32_t i) const {
  return Index(i) < wanted_.size() && wanted_[Index(i)];
}

const TensorType& GradientContext::Type(ValueId value) const {
  return *graph_.values[Index(value)].type;
}

ValueId GradientContext::Add(std::string_view op_type, std::vector<ValueId> inputs,
                             Attributes attributes, std::string_view domain) {
  return AddMany(op_type, std::move(inputs), 1, std::move(attributes), domain)[0];
}

std::vector<ValueId> GradientContext::AddMany(std::string_view op_type, std::vector<ValueId> inputs,
                                              int32_t count, Attributes attributes,
                                              std::string_view domain) {
  std::vector<ValueId> outputs(Index(count), kNoValue);
  if (!status_.ok()) return outputs;
  MEMPLAN_CHECK_MSG(std::find(inputs.begin(), inputs.end(), kNoValue) == inputs.end(),
                    std::string(op_type));
  std::replace(inputs.begin(), inputs.end(), kOmitted, kNoValue);
  Node added = {.op_type = std::string(op_type),
                .domain = std::string(domain),
                .name = absl::StrCat(graph_.NodeName(node()), "/grad"),
                .inputs = std::move(inputs),
                .outputs = outputs,
                .attributes = std::move(attributes),
                .epilogue = {}};
  absl::StatusOr<std::vector<TensorType>> types = InferTypes(graph_, added);
  if (!types.ok()) {
    status_ = types.status();
    return outputs;
  }
  MEMPLAN_CHECK(types->size() >= outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = graph_.AddValue(absl::StrCat("grad/", graph_.values.size()), (*types)[i]);
  }
  added.outputs = outputs;
  graph_.nodes.push_back(std::move(added));
  return outputs;
}

ValueId GradientContext::Constant(Tensor tensor) {
  return graph_.AddConstant(absl::StrCat("grad/", graph_.values.size()), std::move(tensor));
}

ValueId GradientContext::Scalar(double value, DType dtype) {
  if (dtype == DType::kDouble) return Constant(Tensor::FromVector<double>({}, {value}));
  return Constant(Tensor::FromVector<float>({}, {static_cast<float>(value)}));
}

ValueId GradientContext::Ints(const std::vector<int64_t>& values) {
  return Constant(Tensor::VectorInt64(values));
}

ValueId GradientContext::Zeros(const Shape& shape, DType dtype) {
  std::byte* data = nullptr;
  Tensor zero = Tensor::Zeros({dtype, {1}}, &data);
  return Add("ConstantOfShape", {Ints(shape)}, {{"value", std::move(zero)}});
}

ValueId GradientContext::ReshapeTo(ValueId value, const Shape& shape) {
  if (!status_.ok() || ShapeOf(value) == shape) return value;
  return Add("Reshape", {value, Ints(shape)}, {{"allowzero", int64_t{1}}});
}

ValueId GradientContext::SumTo(ValueId value, const Shape& shape) {
  if (!status_.ok()) return kNoValue;
  const Shape from = ShapeOf(value);
  // The operand had leading dimensions of 1 more than the result of the broadcast.
  if (from.size() < shape.size()) return ReshapeTo(value, shape);
  const size_t added = from.size() - shape.size();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i < added || (shape[i - added] == 1 && from[i] != 1)) {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (axes.empty()) return value;
  const ValueId sum = Add("ReduceSum", {value, Ints(axes)}, {{"keepdims", int64_t{1}}});
  return ReshapeTo(sum, shape);
}

std::vector<ValueId> GradientContext::ExtendNode(std::string_view op_type, std::string_view domain,
                                                 int32_t extra_outputs, Attributes attributes) {
  std::vector<ValueId> extra(Index(extra_outputs), kNoValue);
  if (!status_.ok()) return extra;
  Node& forward = graph_.nodes[Index(node_)];
  Node extended = forward;
  extended.op_type = op_type;
  extended.domain = domain;
  extended.attributes.merge(std::move(attributes));
  extended.outputs.resize(forward.outputs.size() + extra.size(), kNoValue);
  absl::StatusOr<std::vector<TensorType>> types = InferTypes(graph_, extended);
  if (!types.ok()) {
    status_ = types.status();
    return extra;
  }
  const size_t first = forward.outputs.size();
  for (size_t i = 0; i < extra.size(); ++i) {
    extra[i] =
        graph_.AddValue(absl::StrCat(graph_.values[Index(forward.outputs[0])].name, "/saved_", i),
                        (*types)[first + i]);
    extended.outputs[first + i] = extra[i];
  }
  graph_.nodes[Index(node_)] = std::move(extended);
  return extra;
}

void GradientContext::SetInputGradient(int32_t i, ValueId gradient) {
  if (!status_.ok()) return;
  MEMPLAN_CHECK(Wants(i) && input_gradients_[Index(i)] == kNoValue);
  MEMPLAN_CHECK_MSG(Type(gradient) == Type(Input(i)),
                    absl::StrCat(graph_.NodeName(node()), " (", node().op_type, ") input ", i, ": ",
                                 Type(gradient).ToString(), " is not ", Type(Input(i)).ToString()));
  input_gradients_[Index(i)] = gradient;
}

namespace rules {

absl::Status ZeroGradient(GradientContext&) { return absl::OkStatus(); }

}  // namespace rules
}  // namespace onnx_memplan
