// The loss at the end of a model that is to be trained.
#ifndef ONNX_MEMPLAN_AUTODIFF_LOSS_H_
#define ONNX_MEMPLAN_AUTODIFF_LOSS_H_

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"
#include "onnx_memplan/train.h"

namespace onnx_memplan {

// The graph input that holds what the model should have given.
inline constexpr char kTarget[] = "target";

// Adds the input kTarget and the nodes of the loss; the graph's only output is the loss, a scalar,
// afterwards. Cross-entropy of an output that ends in a Softmax over the classes takes the scores
// before it, and BCE with logits those before a Sigmoid. InvalidArgument when the output is not
// there or its shape does not fit the loss.
absl::StatusOr<ValueId> AppendLoss(const TrainOptions& options, Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_AUTODIFF_LOSS_H_
