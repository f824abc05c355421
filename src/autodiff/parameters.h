// Which initializers of a model are trained, and the graph with these as states.
#ifndef ONNX_MEMPLAN_AUTODIFF_PARAMETERS_H_
#define ONNX_MEMPLAN_AUTODIFF_PARAMETERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "onnx_memplan/graph.h"
#include "onnx_memplan/train.h"

namespace onnx_memplan {

// `text` matches `pattern`, in which '*' stands for any characters and '?' for any one.
bool MatchesGlob(std::string_view pattern, std::string_view text);

// The constants among `initializers` that `options` says are trained become states of kind
// kParameter, in the order of the values. The running statistics of each BatchNormalization that
// trains (see TrainsStatistics) become states of kind kStatistic; those that are stored once with
// other tensors get constants of their own. InvalidArgument when a pattern
// matches nothing, and when nothing is left to train (the message lists what there is).
absl::Status SelectParameters(const TrainOptions& options,
                              const std::vector<std::string>& initializers, Graph& graph);

// `node` is a BatchNormalization that normalises by the statistics of the batch.
bool TrainsStatistics(const TrainOptions& options, const Node& node);

// States of kind kParameter of these names are constants again: nothing leads from them to the
// loss.
void DemoteParameters(const std::vector<std::string>& names, Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_AUTODIFF_PARAMETERS_H_
