#include "load/training_graphs.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"

namespace onnx_memplan {
namespace {

bool IsMicrosoft(const Node& node, std::string_view op_type) {
  return node.domain == "com.microsoft" && node.op_type == op_type;
}

// The values that a SoftmaxCrossEntropyLossGrad without a gradient of the loss takes for log
// probabilities.
std::set<ValueId> LogProbabilitiesOfGradients(const Graph& graph) {
  std::set<ValueId> values;
  for (const Node& node : graph.nodes) {
    if (IsMicrosoft(node, "SoftmaxCrossEntropyLossGrad") && node.inputs.size() == 2) {
      values.insert(node.inputs[0]);
    }
  }
  return values;
}

const std::string& NameOf(const Graph& graph, ValueId id) {
  return graph.values[static_cast<size_t>(id)].name;
}

void AddLosses(Graph& graph, ValueNames& names, std::vector<std::string>& warnings) {
  const std::set<ValueId> log_probabilities = LogProbabilitiesOfGradients(graph);
  for (Node& node : graph.nodes) {
    if (!node.Is("SoftmaxCrossEntropyLoss") || node.outputs.size() != 1) continue;
    const ValueId output = node.outputs[0];
    if (!log_probabilities.contains(output)) continue;
    warnings.push_back(absl::StrCat("the output '", NameOf(graph, output), "' of node '",
                                    graph.NodeName(node),
                                    "' is read as log probabilities and not as the loss, since its "
                                    "gradient takes it for these"));
    const ValueId loss = graph.AddValue(names.Unique(NameOf(graph, output) + "/loss"));
    node.outputs = {loss, output};
  }
}

bool IsMadeByNode(const Graph& graph, ValueId id) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return std::find(node.outputs.begin(), node.outputs.end(), id) != node.outputs.end();
  });
}

void ReturnAccumulators(Graph& graph, ValueNames& names, std::vector<std::string>& warnings) {
  std::string buffers;
  for (Node& node : graph.nodes) {
    if (!IsMicrosoft(node, "InPlaceAccumulatorV2") || node.inputs.empty()) continue;
    if (node.outputs.size() > 1 && node.outputs[1] != kNoValue) continue;
    if (IsMadeByNode(graph, node.inputs[0])) continue;
    const std::string buffer = NameOf(graph, node.inputs[0]);
    const ValueId updated = graph.AddValue(names.Unique(buffer + ".updated"));
    node.outputs.resize(2, kNoValue);
    node.outputs[1] = updated;
    graph.outputs.push_back(updated);
    absl::StrAppend(&buffers, buffers.empty() ? "'" : ", '", buffer, "'");
  }
  if (buffers.empty()) return;
  warnings.push_back(
      absl::StrCat("inputs are never written to: what the model writes over its inputs ", buffers,
                   " is in additional outputs of the same name with '.updated' behind it"));
}

// The integer that an operand is known to hold.
std::optional<int64_t> KnownInt(const Graph& graph, ValueId id) {
  if (id == kNoValue) return std::nullopt;
  const std::optional<Tensor>& data = graph.values[static_cast<size_t>(id)].constant;
  if (!data || data->dtype() != DType::kInt64 || data->NumElements() != 1) return std::nullopt;
  return data->As<int64_t>()[0];
}

// SoftmaxCrossEntropyLossInternal(scores, labels, weight, ignore_index) and its gradient (dloss,
// log probabilities, labels, weight, ignore_index): as the operators that have the ignored class as
// an attribute. An output type of another precision than the scores' stays unserved.
void NameInternalLosses(Graph& graph) {
  for (Node& node : graph.nodes) {
    const bool loss = IsMicrosoft(node, "SoftmaxCrossEntropyLossInternal");
    if (!loss && !IsMicrosoft(node, "SoftmaxCrossEntropyLossInternalGrad")) continue;
    const size_t ignored_at = loss ? 3 : 4;
    if (node.inputs.size() > ignored_at) {
      const std::optional<int64_t> ignored = KnownInt(graph, node.inputs[ignored_at]);
      if (!ignored) continue;
      node.attributes["ignore_index"] = *ignored;
      node.inputs.resize(ignored_at);
      while (node.inputs.back() == kNoValue) node.inputs.pop_back();
    }
    node.attributes.erase("output_type");
    node.op_type = loss ? "SoftmaxCrossEntropyLoss" : "SoftmaxCrossEntropyLossGrad";
    if (loss) node.domain.clear();
  }
}

}  // namespace

void AdaptTrainingGraph(Graph& graph, ValueNames& names, std::vector<std::string>& warnings) {
  NameInternalLosses(graph);
  AddLosses(graph, names, warnings);
  ReturnAccumulators(graph, names, warnings);
}

}  // namespace onnx_memplan
