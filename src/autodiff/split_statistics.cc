#include "autodiff/split_statistics.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/op_def.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

// {statistics, normalisation}.
absl::StatusOr<std::pair<Node, Node>> Split(const Node& node, Graph& graph) {
  std::vector<ValueId> outputs = node.outputs;
  outputs.resize(5, kNoValue);
  Node statistics = {.op_type = "BatchStatistics",
                     .domain = kMemplan,
                     .name = absl::StrCat(graph.NodeName(node), "/statistics"),
                     .inputs = {node.inputs[0], node.inputs[3], node.inputs[4]},
                     .outputs = {outputs[3], outputs[4], outputs[1], outputs[2]},
                     .attributes = node.attributes,
                     .epilogue = {}};
  ASSIGN_OR_RETURN(const std::vector<TensorType> types, InferTypes(graph, statistics));
  for (size_t i = 0; i < 2; ++i) {
    if (statistics.outputs[i] != kNoValue) continue;
    const std::string base = graph.values[Index(node.outputs[0])].name;
    statistics.outputs[i] =
        graph.AddValue(graph.UniqueValueName(absl::StrCat(base, "/saved_", i)), types[i]);
  }
  while (statistics.outputs.back() == kNoValue) statistics.outputs.pop_back();
  Node normalize = {.op_type = "NormalizeByStatistics",
                    .domain = kMemplan,
                    .name = graph.NodeName(node),
                    .inputs = {node.inputs[0], node.inputs[1], node.inputs[2],
                               statistics.outputs[0], statistics.outputs[1]},
                    .outputs = {node.outputs[0]},
                    .attributes = {},
                    .epilogue = {}};
  return std::pair(std::move(statistics), std::move(normalize));
}

}  // namespace

absl::Status SplitStatistics(size_t* boundary, Graph& graph) {
  std::vector<Node> nodes;
  size_t added = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op_type != "BatchNormInternal" || node.domain != kMicrosoft) {
      nodes.push_back(node);
      continue;
    }
    ASSIGN_OR_RETURN(auto pair, Split(node, graph));
    nodes.push_back(std::move(pair.first));
    nodes.push_back(std::move(pair.second));
    if (n < *boundary) ++added;
  }
  graph.nodes = std::move(nodes);
  *boundary += added;
  return absl::OkStatus();
}

}  // namespace onnx_memplan
