#include "load/attributes.h"

#include <string>
#include <utility>
#include <vector>

#include "load/tensor_proto.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Before IR version 2 the kind was not written; the field that is there tells it.
onnx::AttributeProto::AttributeType KindOf(const onnx::AttributeProto& proto) {
  if (proto.type() != onnx::AttributeProto::UNDEFINED) return proto.type();
  if (proto.has_f()) return onnx::AttributeProto::FLOAT;
  if (proto.has_i()) return onnx::AttributeProto::INT;
  if (proto.has_s()) return onnx::AttributeProto::STRING;
  if (proto.has_t()) return onnx::AttributeProto::TENSOR;
  if (proto.floats_size() > 0) return onnx::AttributeProto::FLOATS;
  if (proto.strings_size() > 0) return onnx::AttributeProto::STRINGS;
  return onnx::AttributeProto::INTS;
}

}  // namespace

absl::StatusOr<Attribute> AttributeFromProto(onnx::AttributeProto& proto, bool consume,
                                             ExternalData& external) {
  switch (KindOf(proto)) {
    case onnx::AttributeProto::FLOAT:
      return Attribute(proto.f());
    case onnx::AttributeProto::INT:
      return Attribute(static_cast<int64_t>(proto.i()));
    case onnx::AttributeProto::STRING:
      return Attribute(proto.s());
    case onnx::AttributeProto::FLOATS:
      return Attribute(std::vector<float>(proto.floats().begin(), proto.floats().end()));
    case onnx::AttributeProto::INTS:
      return Attribute(std::vector<int64_t>(proto.ints().begin(), proto.ints().end()));
    case onnx::AttributeProto::STRINGS:
      return Attribute(std::vector<std::string>(proto.strings().begin(), proto.strings().end()));
    case onnx::AttributeProto::TENSOR: {
      ASSIGN_OR_RETURN(Tensor tensor, consume
                                          ? TensorFromProto(std::move(*proto.mutable_t()), external)
                                          : TensorFromProto(proto.t(), external));
      return Attribute(std::move(tensor));
    }
    case onnx::AttributeProto::GRAPH:
      return absl::InvalidArgumentError("has no graph");
    case onnx::AttributeProto::SPARSE_TENSOR:
      return absl::UnimplementedError("sparse tensors are not supported; store it densely");
    default:
      return absl::UnimplementedError("this kind of attribute is not supported");
  }
}

absl::StatusOr<Tensor> TensorOfConstantNode(const Node& node) {
  if (node.attributes.size() != 1) {
    return absl::InvalidArgumentError("must have exactly one attribute");
  }
  const auto& [name, attribute] = *node.attributes.begin();
  if (const auto* tensor = std::get_if<Tensor>(&attribute); tensor != nullptr && name == "value") {
    return *tensor;
  }
  if (const auto* i = std::get_if<int64_t>(&attribute); i != nullptr && name == "value_int") {
    return Tensor::ScalarInt64(*i);
  }
  if (const auto* f = std::get_if<float>(&attribute); f != nullptr && name == "value_float") {
    return Tensor::FromVector<float>({}, {*f});
  }
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&attribute);
      ints != nullptr && name == "value_ints") {
    return Tensor::VectorInt64(*ints);
  }
  if (const auto* floats = std::get_if<std::vector<float>>(&attribute);
      floats != nullptr && name == "value_floats") {
    return Tensor::FromVector<float>({static_cast<int64_t>(floats->size())}, *floats);
  }
  if (name == "value_string" || name == "value_strings") {
    return absl::UnimplementedError("string tensors are not supported");
  }
  return absl::InvalidArgumentError(
      "has none of the attributes value, value_int(s) and value_float(s)");
}

}  // namespace onnx_memplan
