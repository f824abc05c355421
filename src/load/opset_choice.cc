#include "load/opset_choice.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "load/adapters.h"

namespace onnx_memplan {
namespace {

enum class Form { kOld, kSame, kAmbiguous };

bool HasAny(const Node& node, std::initializer_list<std::string_view> attributes) {
  return std::any_of(attributes.begin(), attributes.end(), [&](std::string_view name) {
    return node.attributes.find(name) != node.attributes.end();
  });
}

// Attributes that only the form before the change has. kSame: the newer one, or one that both have.
Form FormByAttributes(const Node& node, std::initializer_list<std::string_view> old_attributes) {
  return HasAny(node, old_attributes) ? Form::kOld : Form::kSame;
}

// Split before 18 needs nothing to make equal parts.
Form FormOfSplit(const Node& node) {
  const bool has_sizes = node.inputs.size() > 1 && node.inputs[1] != kNoValue;
  return HasAny(node, {"num_outputs"}) || (has_sizes && !HasAny(node, {"split"})) ? Form::kSame
                                                                                  : Form::kOld;
}

// Before 13 all dimensions from `axis` (1) on are one: the same for the last one alone.
Form FormOfSoftmax(const Node& node, int64_t rank) {
  const auto it = node.attributes.find("axis");
  const int64_t* axis = it == node.attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
  const bool is_last = axis == nullptr ? rank == 2 : *axis == -1 || (rank > 0 && *axis == rank - 1);
  return is_last ? Form::kSame : Form::kAmbiguous;
}

// Of a node for which `adapter` would be needed if it were of the older version.
Form FormBefore(Adapter adapter, const Node& node, int64_t rank) {
  if (adapter == adapters::AxesToInput) return FormByAttributes(node, {"axes"});
  if (adapter == adapters::ReshapeShapeToInput) return FormByAttributes(node, {"shape"});
  if (adapter == adapters::SliceToInputs) return FormByAttributes(node, {"starts", "ends"});
  if (adapter == adapters::PadToInputs) return FormByAttributes(node, {"pads", "paddings"});
  if (adapter == adapters::ClipToInputs) return FormByAttributes(node, {"min", "max"});
  if (adapter == adapters::TopKToInput) return FormByAttributes(node, {"k"});
  if (adapter == adapters::SplitToInput) return FormOfSplit(node);
  if (adapter == adapters::SoftmaxOfFlattened) return FormOfSoftmax(node, rank);
  return Form::kAmbiguous;
}

}  // namespace

absl::StatusOr<int64_t> ChooseOpset(const Graph& graph, const Node& node,
                                    const std::set<int64_t>& versions, int64_t rank) {
  int64_t choice = *versions.rbegin();
  for (auto older = std::next(versions.rbegin()); older != versions.rend(); ++older) {
    const absl::StatusOr<Adapter> newer_adapter = FindAdapter(node.op_type, choice);
    const absl::StatusOr<Adapter> adapter = FindAdapter(node.op_type, *older);
    if (!newer_adapter.ok()) return choice;  // the caller says what is wrong with it
    if (!adapter.ok()) return adapter.status();
    if (*adapter == *newer_adapter) continue;
    switch (FormBefore(*adapter, node, rank)) {
      case Form::kOld:
        choice = *older;
        break;
      case Form::kSame:
        break;
      case Form::kAmbiguous:
        return absl::InvalidArgumentError(
            absl::StrCat("operator ", node.op_type, " (node '", graph.NodeName(node),
                         "') does not mean the same in opsets ", *older, " and ", choice,
                         ", and the model imports both; leave one of them in opset_import"));
    }
  }
  return choice;
}

}  // namespace onnx_memplan
