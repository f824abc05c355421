// Reverse-mode differentiation over the operator table.
#ifndef ONNX_MEMPLAN_AUTODIFF_BACKWARD_H_
#define ONNX_MEMPLAN_AUTODIFF_BACKWARD_H_

#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// Appends the nodes that compute the gradients of the scalar `loss` with respect to each value of
// `with_respect_to` (states and graph inputs of floating type). Returns them in that order;
// kNoValue where the loss does not depend on the value. Only what these gradients need is added. A
// value with several readers gets the sum of their contributions, added up one by one, in place
// where the planner likes.
//
// `graph` is typed and has no epilogues (the fusing passes come later). Unimplemented, naming node
// and operator, where a gradient has to pass an operator that has no rule.
absl::StatusOr<std::vector<ValueId>> AddBackward(ValueId loss,
                                                 const std::vector<ValueId>& with_respect_to,
                                                 Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_AUTODIFF_BACKWARD_H_
