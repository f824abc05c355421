// From a Graph back to an ONNX file.
#ifndef ONNX_MEMPLAN_LOAD_EXPORT_H_
#define ONNX_MEMPLAN_LOAD_EXPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// `graph`, fully typed, as a serialised ModelProto that any ONNX runtime can load: opset
// 21, later only where an operator is younger; epilogues become nodes of their own; constants
// become initializers. Same graph, same bytes. ResourceExhausted above 2 GiB, which one ONNX file
// cannot hold; Unimplemented for subgraphs.
absl::StatusOr<std::string> ExportOnnx(const Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_EXPORT_H_
