// All rows of the case table, and a row as a graph.
#ifndef ONNX_MEMPLAN_TESTS_OPS_ALL_CASES_H_
#define ONNX_MEMPLAN_TESTS_OPS_ALL_CASES_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "onnx_memplan/graph.h"
#include "ops/cases.h"
#include "ops/cases_blocked.h"
#include "ops/cases_elementwise.h"
#include "ops/cases_gradient.h"
#include "ops/cases_linear.h"
#include "ops/cases_movement.h"
#include "ops/cases_reduction.h"
#include "ops/cases_sampling.h"
#include "ops/cases_training.h"
#include "ops/cases_updates.h"
#include "ops/op_def.h"

namespace onnx_memplan::cases {

inline std::vector<OpCase> AllCases() {
  std::vector<OpCase> all;
  for (std::vector<OpCase> (*family)() : {ActivationGradientCases,
                                          MaskCases,
                                          ReduceGradientCases,
                                          MovementGradientCases,
                                          TrainingGraphCases,
                                          LinearCases,
                                          UnaryCases,
                                          BinaryCases,
                                          LogicCases,
                                          WhereClipCastCases,
                                          ReduceCases,
                                          ArgTopKCumSumCases,
                                          SoftmaxCases,
                                          NormalizationCases,
                                          LossCases,
                                          ShapeCases,
                                          TransposeCases,
                                          SlicePadCases,
                                          ConcatSplitCases,
                                          TileExpandCases,
                                          GatherCases,
                                          ScatterCases,
                                          GeneratorCases,
                                          ResizeCases,
                                          SamplingCases,
                                          EinsumCases,
                                          FourierCases,
                                          QuantizeCases,
                                          RecurrentCases,
                                          TrainingLossCases,
                                          SoftmaxGradientCases,
                                          NormalizationGradientCases,
                                          PoolGradientCases,
                                          ConvGradientCases,
                                          OptimizerCases,
                                          FusedUpdateCases,
                                          BatchStatisticsCases,
                                          BlockedCases}) {
    for (OpCase& row : family()) all.push_back(std::move(row));
  }
  return all;
}

// A graph of one node, whose inputs are constants.
struct CaseGraph {
  Graph graph;
  const Node& node() const { return graph.nodes[0]; }
  const Value& value(ValueId id) const { return graph.values[static_cast<size_t>(id)]; }
};

inline CaseGraph Build(const OpCase& row) {
  CaseGraph result;
  Graph& graph = result.graph;
  Node node;
  node.op_type = row.op;
  node.domain = row.domain;
  node.attributes = row.attributes;
  std::map<const std::byte*, ValueId> known;
  for (const std::optional<Tensor>& input : row.inputs) {
    if (!input) {
      node.inputs.push_back(kNoValue);
      continue;
    }
    const auto [it, is_new] = known.try_emplace(input->data(), kNoValue);
    if (is_new) {
      it->second = graph.AddConstant("in" + std::to_string(node.inputs.size()), *input);
    }
    node.inputs.push_back(it->second);
  }
  for (size_t i = 0; i < row.expected.size(); ++i) {
    node.outputs.push_back(
        row.expected[i].data() == nullptr ? kNoValue : graph.AddValue("out" + std::to_string(i)));
  }
  graph.nodes.push_back(std::move(node));
  return result;
}

// Gives the node's outputs their types.
inline absl::Status InferOutputs(CaseGraph& built) {
  absl::StatusOr<std::vector<TensorType>> types = InferTypes(built.graph, built.node());
  if (!types.ok()) return types.status();
  for (size_t i = 0; i < built.node().outputs.size(); ++i) {
    const ValueId id = built.node().outputs[i];
    if (id != kNoValue) built.graph.values[static_cast<size_t>(id)].type = (*types)[i];
  }
  return absl::OkStatus();
}

}  // namespace onnx_memplan::cases

#endif  // ONNX_MEMPLAN_TESTS_OPS_ALL_CASES_H_
