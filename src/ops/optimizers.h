// What operators that update parameters share.
#ifndef ONNX_MEMPLAN_OPS_OPTIMIZERS_H_
#define ONNX_MEMPLAN_OPS_OPTIMIZERS_H_

#include "ops/host_kernels.h"

#include "kernels/optimizers.h"
#include "ops/node_context.h"

namespace onnx_memplan {

// The optimizer's numbers from the node's attributes: all but `every` and `count`.
void SetOptimizerNumbers(const NodeContext& node, kernels::OptimizerParams* params);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_OPTIMIZERS_H_
