// Normalisation apart from the statistics that it uses.
#ifndef ONNX_MEMPLAN_AUTODIFF_SPLIT_STATISTICS_H_
#define ONNX_MEMPLAN_AUTODIFF_SPLIT_STATISTICS_H_

#include "absl/status/status.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// Replaces each BatchNormalization that trains (BatchNormInternal) by BatchStatistics and
// NormalizeByStatistics: the result of the second can be computed again, in the backward pass, from
// the input and a few numbers for each channel. Gradient rules are of the whole operator, so that
// this comes after differentiation. `graph` is typed; the number of nodes before `*boundary` grows
// by one for each node that is split.
absl::Status SplitStatistics(size_t* boundary, Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_AUTODIFF_SPLIT_STATISTICS_H_
