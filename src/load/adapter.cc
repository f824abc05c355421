#include "load/adapter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "support/status_macros.h"

namespace onnx_memplan {

bool Adaptation::IsEmptyConstant(size_t i) const {
  if (!HasInput(i)) return false;
  const std::optional<Tensor>& data = graph_.values[static_cast<size_t>(node.inputs[i])].constant;
  return data.has_value() && data->NumElements() == 0;
}

void Adaptation::SetInput(size_t i, ValueId id) {
  if (node.inputs.size() <= i) node.inputs.resize(i + 1, kNoValue);
  node.inputs[i] = id;
}

template <class T>
std::optional<T> Adaptation::Take(std::string_view name) {
  const auto it = node.attributes.find(name);
  if (it == node.attributes.end()) return std::nullopt;
  std::optional<T> value;
  if (T* stored = std::get_if<T>(&it->second)) {
    value = std::move(*stored);
  } else {
    wrong_kind_ = Invalid(absl::StrCat("attribute '", std::string(name), "' is of the wrong kind"));
  }
  node.attributes.erase(it);
  return value;
}

std::optional<int64_t> Adaptation::TakeInt(std::string_view name) { return Take<int64_t>(name); }
std::optional<float> Adaptation::TakeFloat(std::string_view name) { return Take<float>(name); }
std::optional<std::vector<int64_t>> Adaptation::TakeInts(std::string_view name) {
  if (const auto it = node.attributes.find(name); it != node.attributes.end()) {
    if (const int64_t* one = std::get_if<int64_t>(&it->second)) {
      it->second = std::vector<int64_t>{*one};
    }
  }
  return Take<std::vector<int64_t>>(name);
}
std::optional<std::vector<float>> Adaptation::TakeFloats(std::string_view name) {
  return Take<std::vector<float>>(name);
}
std::optional<std::string> Adaptation::TakeString(std::string_view name) {
  return Take<std::string>(name);
}

std::string Adaptation::NewName(std::string_view role) {
  std::string base = node.name;
  for (ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    base = graph_.values[static_cast<size_t>(output)].name;
    break;
  }
  return names_.Unique(absl::StrCat(base, "/", std::string(role)));
}

ValueId Adaptation::Constant(std::string_view role, Tensor tensor) {
  return graph_.AddConstant(NewName(role), std::move(tensor));
}

ValueId Adaptation::Emit(std::string_view op_type, std::vector<ValueId> inputs,
                         std::map<std::string, Attribute, std::less<>> attributes) {
  Node emitted;
  emitted.op_type = std::string(op_type);
  emitted.inputs = std::move(inputs);
  emitted.outputs = {graph_.AddValue(NewName(op_type))};
  emitted.attributes = std::move(attributes);
  if (!node.name.empty()) emitted.name = absl::StrCat(node.name, "/", emitted.op_type);
  graph_.nodes.push_back(std::move(emitted));
  return graph_.nodes.back().outputs[0];
}

std::string Adaptation::Describe(std::string_view what) const {
  return absl::StrCat("operator ", node.op_type, " of opset ", opset_, " (node '",
                      graph_.NodeName(node), "'): ", std::string(what));
}

absl::Status Adaptation::Unsupported(std::string_view what) const {
  return absl::UnimplementedError(Describe(what));
}

absl::Status Adaptation::Invalid(std::string_view what) const {
  return absl::InvalidArgumentError(Describe(what));
}

absl::Status AdaptNode(Graph& graph, ValueNames& names, Node& node, int64_t opset) {
  if (!node.domain.empty()) return absl::OkStatus();
  Adaptation adaptation(graph, names, node, opset);
  const absl::StatusOr<Adapter> adapter = FindAdapter(node.op_type, opset);
  if (!adapter.ok()) return adaptation.Unsupported(std::string(adapter.status().message()));
  if (*adapter == nullptr) return absl::OkStatus();
  const absl::Status adapted = (*adapter)(adaptation);
  return adaptation.wrong_kind_.ok() ? adapted : adaptation.wrong_kind_;
}

}  // namespace onnx_memplan
