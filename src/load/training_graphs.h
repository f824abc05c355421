// What training graphs made elsewhere write in a way that is not ONNX's or has side effects.
#ifndef ONNX_MEMPLAN_LOAD_TRAINING_GRAPHS_H_
#define ONNX_MEMPLAN_LOAD_TRAINING_GRAPHS_H_

#include <string>
#include <vector>

#include "load/value_names.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// Rewrites them, with a line in `warnings` where the meaning is guessed or the interface changes:
// - Deeploy: SoftmaxCrossEntropyLoss whose only output is what ONNX has as the second, the log
//   probabilities, read by com.microsoft's SoftmaxCrossEntropyLossGrad without a gradient of the
//   loss. It gets the loss as another output.
// - ONNX Runtime: SoftmaxCrossEntropyLossInternal and its gradient, with the ignored class as an
//   operand, are SoftmaxCrossEntropyLoss and its gradient.
// - ONNX Runtime's on-device training: InPlaceAccumulatorV2, which writes over its input, a graph
//   input. What it writes becomes an additional graph output, "NAME.updated".
void AdaptTrainingGraph(Graph& graph, ValueNames& names, std::vector<std::string>& warnings);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_TRAINING_GRAPHS_H_
