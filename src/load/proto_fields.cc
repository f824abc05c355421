#include "load/proto_fields.h"

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"

namespace onnx_memplan {
namespace {

using google::protobuf::Message;
using google::protobuf::UnknownField;

// Serialised values of the length-delimited field `number`, known or not.
std::vector<std::string> FieldBytes(const Message& message, int number) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<std::string> values;
  const auto* field = message.GetDescriptor()->FindFieldByNumber(number);
  if (field == nullptr) {
    const google::protobuf::UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
    for (int i = 0; i < unknown.field_count(); ++i) {
      const UnknownField& entry = unknown.field(i);
      if (entry.number() == number && entry.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
        values.push_back(entry.length_delimited());
      }
    }
  } else if (field->is_repeated()) {
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      values.push_back(reflection.GetRepeatedMessage(message, field, i).SerializeAsString());
    }
  } else if (reflection.HasField(message, field)) {
    values.push_back(reflection.GetString(message, field));
  }
  return values;
}

std::string LastOrEmpty(const std::vector<std::string>& values) {
  return values.empty() ? "" : values.back();
}

}  // namespace

// Field numbers: onnx.proto of ONNX 1.16.
std::string OverloadOf(const onnx::NodeProto& node) { return LastOrEmpty(FieldBytes(node, 8)); }

std::string OverloadOf(const onnx::FunctionProto& function) {
  return LastOrEmpty(FieldBytes(function, 13));
}

std::vector<onnx::AttributeProto> DefaultAttributesOf(const onnx::FunctionProto& function) {
  std::vector<onnx::AttributeProto> attributes;
  for (const std::string& bytes : FieldBytes(function, 11)) {
    onnx::AttributeProto attribute;
    if (attribute.ParseFromString(bytes)) attributes.push_back(std::move(attribute));
  }
  return attributes;
}

}  // namespace onnx_memplan
