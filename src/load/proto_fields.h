// Fields of onnx.proto that are newer than the installed onnx.proto may be: read as known fields
// where they are known, else from the unknown ones.
#ifndef ONNX_MEMPLAN_LOAD_PROTO_FIELDS_H_
#define ONNX_MEMPLAN_LOAD_PROTO_FIELDS_H_

#include <string>
#include <vector>

#include "onnx/onnx_pb.h"

namespace onnx_memplan {

// Which one of several functions of the same name (IR version 10).
std::string OverloadOf(const onnx::NodeProto& node);
std::string OverloadOf(const onnx::FunctionProto& function);

// Attributes of a function that have a default (IR version 9).
std::vector<onnx::AttributeProto> DefaultAttributesOf(const onnx::FunctionProto& function);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_PROTO_FIELDS_H_
