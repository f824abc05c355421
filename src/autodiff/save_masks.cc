#include "autodiff/save_masks.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/op_def.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

// The operand that a gradient operator takes from the forward pass.
constexpr size_t kSaved = 1;

bool IsReluGrad(const Node& node) {
  return node.op_type == "ReluGrad" && node.domain == kMicrosoft;
}
bool IsClipGrad(const Node& node) { return node.op_type == "ClipGrad" && node.domain == kMemplan; }
bool MasksItsGradient(const Node& node) { return IsReluGrad(node) || IsClipGrad(node); }

// The node that makes the mask which `gradient` needs.
Node MaskOf(const Node& gradient, Graph& graph) {
  Node mask = {.op_type = IsReluGrad(gradient) ? "SignMask" : "ClipMask",
               .domain = kMemplan,
               .name = absl::StrCat(gradient.name, "/mask"),
               .inputs = {gradient.inputs.begin() + kSaved, gradient.inputs.end()},
               .outputs = {kNoValue},
               .attributes = {},
               .epilogue = {}};
  const absl::StatusOr<std::vector<TensorType>> types = InferTypes(graph, mask);
  MEMPLAN_CHECK_MSG(types.ok(), std::string(types.status().message()));
  const std::string base = graph.values[Index(mask.inputs[0])].name;
  mask.outputs[0] = graph.AddValue(graph.UniqueValueName(base + "/mask"), (*types)[0]);
  return mask;
}

}  // namespace

int64_t SaveMasks(size_t* boundary, Graph& graph) {
  const std::vector<int32_t> producers = graph.Producers();
  const std::vector<std::vector<int32_t>> consumers = graph.Consumers();
  const size_t forward = *boundary;
  std::vector<Node> masks;
  for (size_t v = 0; v < consumers.size(); ++v) {
    if (producers[v] < 0 || Index(producers[v]) >= forward) continue;
    // A mask for each reader: those of one value hardly ever are several.
    int32_t reader = -1;
    bool alone = true;
    for (int32_t n : consumers[v]) {
      if (Index(n) < forward) continue;
      const Node& node = graph.nodes[Index(n)];
      alone = alone && reader < 0 && MasksItsGradient(node) &&
              node.inputs[kSaved] == static_cast<ValueId>(v) &&
              node.inputs[0] != static_cast<ValueId>(v);
      reader = n;
    }
    if (reader < 0 || !alone) continue;
    masks.push_back(MaskOf(graph.nodes[Index(reader)], graph));
    Node& gradient = graph.nodes[Index(reader)];
    gradient.op_type = "MaskedGrad";
    gradient.domain = kMemplan;
    gradient.inputs = {gradient.inputs[0], masks.back().outputs[0]};
    gradient.attributes.clear();
  }
  graph.nodes.insert(graph.nodes.begin() + static_cast<ptrdiff_t>(forward), masks.begin(),
                     masks.end());
  *boundary += masks.size();
  return static_cast<int64_t>(masks.size());
}

}  // namespace onnx_memplan
