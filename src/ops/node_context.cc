#include "ops/node_context.h"

#include "absl/strings/str_cat.h"
#include "support/check.h"

namespace onnx_memplan {

int32_t NodeContext::num_inputs() const {
  return static_cast<int32_t>(node_.inputs.size()) - (node_.epilogue.has_residual ? 1 : 0);
}

bool NodeContext::HasInput(int32_t i) const {
  return i >= 0 && i < num_inputs() && node_.inputs[static_cast<size_t>(i)] != kNoValue;
}

bool NodeContext::HasOutput(int32_t i) const {
  return i >= 0 && i < num_outputs() && node_.outputs[static_cast<size_t>(i)] != kNoValue;
}

const TensorType& NodeContext::InputType(int32_t i) const {
  const ValueId id = node_.inputs[static_cast<size_t>(i)];
  MEMPLAN_CHECK_MSG(id != kNoValue, graph_.NodeName(node_));
  const Value& value = graph_.values[static_cast<size_t>(id)];
  MEMPLAN_CHECK_MSG(value.type.has_value(), value.name);
  return *value.type;
}

const TensorType& NodeContext::OutputType(int32_t i) const {
  const Value& value = graph_.values[static_cast<size_t>(node_.outputs[static_cast<size_t>(i)])];
  MEMPLAN_CHECK_MSG(value.type.has_value(), value.name);
  return *value.type;
}

const Tensor* NodeContext::InputConstant(int32_t i) const {
  if (!HasInput(i)) return nullptr;
  const Value& value = graph_.values[static_cast<size_t>(node_.inputs[static_cast<size_t>(i)])];
  return value.constant.has_value() ? &*value.constant : nullptr;
}

int32_t NodeContext::ResidualInput() const {
  return node_.epilogue.has_residual ? static_cast<int32_t>(node_.inputs.size()) - 1 : -1;
}

namespace {

absl::Status NotConstant(const NodeContext& node, int32_t i, std::string_view role) {
  const Value& value =
      node.graph().values[static_cast<size_t>(node.node().inputs[static_cast<size_t>(i)])];
  return absl::FailedPreconditionError(absl::StrCat(
      node.Describe(), "input ", i, " ('", std::string(role), "', value '", value.name,
      "') must be known while planning, since it decides shapes; if it stems from a graph input, "
      "make that input a constant with --bind NAME=VALUE"));
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> NodeContext::ConstantInts(int32_t i,
                                                               std::string_view role) const {
  if (!HasInput(i)) return Invalid(absl::StrCat("input '", std::string(role), "' is missing"));
  const Tensor* tensor = InputConstant(i);
  if (tensor == nullptr) return NotConstant(*this, i, role);
  std::optional<std::vector<int64_t>> values = tensor->ToInt64s();
  if (!values) return Invalid(absl::StrCat("input '", std::string(role), "' must be of integers"));
  return *std::move(values);
}

absl::StatusOr<std::vector<double>> NodeContext::ConstantDoubles(int32_t i,
                                                                 std::string_view role) const {
  if (!HasInput(i)) return Invalid(absl::StrCat("input '", std::string(role), "' is missing"));
  const Tensor* tensor = InputConstant(i);
  if (tensor == nullptr) return NotConstant(*this, i, role);
  std::vector<double> values;
  if (tensor->dtype() == DType::kFloat) {
    for (float value : tensor->As<float>()) values.push_back(static_cast<double>(value));
  } else if (tensor->dtype() == DType::kDouble) {
    for (double value : tensor->As<double>()) values.push_back(value);
  } else if (std::optional<std::vector<int64_t>> ints = tensor->ToInt64s(); ints.has_value()) {
    for (int64_t value : *ints) values.push_back(static_cast<double>(value));
  } else {
    return Unsupported(absl::StrCat("input '", std::string(role), "' of type ",
                                    tensor->type().ToString(), " is not supported"));
  }
  return values;
}

template <class T>
const T* NodeContext::Find(std::string_view name) const {
  const auto it = node_.attributes.find(name);
  return it == node_.attributes.end() ? nullptr : std::get_if<T>(&it->second);
}

int64_t NodeContext::Int(std::string_view name, int64_t default_value) const {
  const int64_t* value = Find<int64_t>(name);
  return value == nullptr ? default_value : *value;
}

float NodeContext::Float(std::string_view name, float default_value) const {
  const float* value = Find<float>(name);
  return value == nullptr ? default_value : *value;
}

std::string NodeContext::String(std::string_view name, std::string_view default_value) const {
  const std::string* value = Find<std::string>(name);
  return value == nullptr ? std::string(default_value) : *value;
}

std::vector<int64_t> NodeContext::Ints(std::string_view name,
                                       std::vector<int64_t> default_value) const {
  const auto* value = Find<std::vector<int64_t>>(name);
  if (value != nullptr) return *value;
  return default_value;
}

bool NodeContext::HasAttribute(std::string_view name) const {
  return node_.attributes.find(name) != node_.attributes.end();
}

absl::StatusOr<int64_t> NodeContext::RequiredInt(std::string_view name) const {
  const int64_t* value = Find<int64_t>(name);
  if (value == nullptr) {
    return Invalid(absl::StrCat("integer attribute '", std::string(name), "' is missing"));
  }
  return *value;
}

absl::StatusOr<std::vector<int64_t>> NodeContext::RequiredInts(std::string_view name) const {
  const auto* value = Find<std::vector<int64_t>>(name);
  if (value == nullptr) {
    return Invalid(absl::StrCat("integer list attribute '", std::string(name), "' is missing"));
  }
  return *value;
}

const Tensor* NodeContext::TensorAttribute(std::string_view name) const {
  return Find<Tensor>(name);
}

absl::StatusOr<int64_t> NodeContext::NormalizeAxis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    return Invalid(absl::StrCat("axis ", axis, " is outside of a tensor of rank ", rank));
  }
  return axis < 0 ? axis + rank : axis;
}

std::string NodeContext::Describe() const {
  std::string text = absl::StrCat("node '", graph_.NodeName(node_), "' (", node_.domain,
                                  node_.domain.empty() ? "" : ":", node_.op_type);
  const char* separator = " of ";
  for (ValueId input : node_.inputs) {
    const Value* value = input == kNoValue ? nullptr : &graph_.values[static_cast<size_t>(input)];
    absl::StrAppend(&text, separator,
                    value == nullptr ? "nothing"
                    : value->type    ? value->type->ToString()
                                     : "an unknown type");
    separator = ", ";
  }
  return text + "): ";
}

absl::Status NodeContext::Invalid(std::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(Describe(), std::string(what)));
}

absl::Status NodeContext::Unsupported(std::string_view what) const {
  return absl::UnimplementedError(absl::StrCat(Describe(), std::string(what)));
}

}  // namespace onnx_memplan
