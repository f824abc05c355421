// Which opset a node is of, in a model that imports several of one domain.
#ifndef ONNX_MEMPLAN_LOAD_OPSET_CHOICE_H_
#define ONNX_MEMPLAN_LOAD_OPSET_CHOICE_H_

#include <cstdint>
#include <set>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// The standard allows one version of a domain, but tools that build models piece by piece leave
// several, with nodes in the form of each of them side by side.
//
// The newest of `versions` (of ai.onnx, not empty) in which `node`, an operator of ai.onnx, is well
// formed. Where attributes became inputs, the form shows the version. Where the same form means
// something else, the node must mean the same in all versions: Softmax of the last axis does, for
// which `rank`, the rank of the first input (-1: not known), is needed. InvalidArgument, which
// names the operator and both versions, when it does not.
absl::StatusOr<int64_t> ChooseOpset(const Graph& graph, const Node& node,
                                    const std::set<int64_t>& versions, int64_t rank);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_OPSET_CHOICE_H_
