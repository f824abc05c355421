#ifndef ONNX_MEMPLAN_LOAD_ATTRIBUTES_H_
#define ONNX_MEMPLAN_LOAD_ATTRIBUTES_H_

#include "absl/status/statusor.h"
#include "load/external_data.h"
#include "onnx/onnx_pb.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// Any attribute but a graph. `consume`: tensor data may be moved out of `proto`. Unimplemented for
// kinds that have no Attribute (sparse tensors, types, lists of tensors or graphs).
absl::StatusOr<Attribute> AttributeFromProto(onnx::AttributeProto& proto, bool consume,
                                             ExternalData& external);

// The data of a Constant node, from its attributes.
absl::StatusOr<Tensor> TensorOfConstantNode(const Node& node);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_ATTRIBUTES_H_
