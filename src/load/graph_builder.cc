#include "load/graph_builder.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "load/adapter.h"
#include "load/attributes.h"
#include "load/declared_types.h"
#include "load/opset_choice.h"
#include "load/proto_fields.h"
#include "load/tensor_proto.h"
#include "load/training_graphs.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr int64_t kMaxNodes = 200'000;
constexpr int32_t kMaxCallDepth = 100;

std::string NodeLabel(const onnx::NodeProto& proto) {
  const std::string domain = NormalizedDomain(proto.domain());
  return absl::StrCat(
      "node '", proto.name().empty() && proto.output_size() > 0 ? proto.output(0) : proto.name(),
      "' (", domain, domain.empty() ? "" : ":", proto.op_type(), "): ");
}

absl::Status AtNode(const onnx::NodeProto& proto, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(NodeLabel(proto), std::string(status.message())));
}

absl::Status DefinedAlready(const std::string& name) {
  return absl::InvalidArgumentError(absl::StrCat("its output '", name, "' is defined already"));
}

bool IsConstant(const onnx::NodeProto& proto) {
  return proto.op_type() == "Constant" && NormalizedDomain(proto.domain()).empty();
}

}  // namespace

std::string NormalizedDomain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

std::string FunctionKey(const std::string& domain, const std::string& name,
                        const std::string& overload) {
  return absl::StrCat(NormalizedDomain(domain), "\n", name, "\n", overload);
}

absl::StatusOr<Graph> GraphBuilder::BuildMain(onnx::GraphProto& proto,
                                              const std::vector<LoadedInput>& inputs) {
  Scope scope;
  scope.opsets = &model_.opsets;
  graph_.name = proto.name();
  for (const LoadedInput& input : inputs) {
    const std::string name = names_.Unique(input.name);
    const ValueId id =
        input.data ? graph_.AddConstant(name, *input.data) : graph_.AddValue(name, input.type);
    if (input.name.empty() || !scope.values.emplace(input.name, id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the graph has two inputs named '", input.name, "', or one without a name"));
    }
    if (!input.data) graph_.inputs.push_back(id);
  }
  RETURN_IF_ERROR(AddInitializers(proto, scope));
  RETURN_IF_ERROR(AddNodes(*proto.mutable_node(), scope));
  RETURN_IF_ERROR(AddOutputs(proto, scope));
  if (model_.keep_declared_types) KeepDeclaredTypes(proto, scope);
  AdaptTrainingGraph(graph_, names_, model_.warnings);
  RETURN_IF_ERROR(graph_.SortTopologically());
  RETURN_IF_ERROR(graph_.Verify(/*typed=*/false));
  return std::move(graph_);
}

absl::Status GraphBuilder::AddInitializers(onnx::GraphProto& proto, Scope& scope) {
  if (proto.sparse_initializer_size() > 0) {
    return absl::UnimplementedError(
        absl::StrCat("initializer '", proto.sparse_initializer(0).values().name(),
                     "' is sparse, which is not supported; store it densely"));
  }
  for (onnx::TensorProto& tensor : *proto.mutable_initializer()) {
    const std::string name = tensor.name();
    if (name.empty() || scope.values.contains(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("two initializers are named '", name, "', or one has no name"));
    }
    ASSIGN_OR_RETURN(Tensor data, scope.consumes_tensors
                                      ? TensorFromProto(std::move(tensor), model_.external)
                                      : TensorFromProto(tensor, model_.external));
    scope.values[name] = graph_.AddConstant(names_.Unique(scope.prefix + name), std::move(data));
  }
  return absl::OkStatus();
}

// Nodes may stand in any order: all their outputs are declared before any input is looked up.
absl::Status GraphBuilder::AddNodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                                    Scope& scope) {
  for (onnx::NodeProto& proto : nodes) RETURN_IF_ERROR(DeclareOutputs(proto, scope));
  for (onnx::NodeProto& proto : nodes) {
    if (!IsConstant(proto)) RETURN_IF_ERROR(AddNode(proto, scope));
  }
  return absl::OkStatus();
}

absl::Status GraphBuilder::AddOutputs(const onnx::GraphProto& proto, Scope& scope) {
  if (proto.output_size() == 0) return absl::InvalidArgumentError("the graph has no outputs");
  for (const onnx::ValueInfoProto& output : proto.output()) {
    const ValueId id = Find(scope, output.name());
    if (id == kNoValue) {
      return absl::InvalidArgumentError(
          absl::StrCat("graph output '", output.name(), "' is not made by any node"));
    }
    graph_.outputs.push_back(id);
  }
  return absl::OkStatus();
}

void GraphBuilder::KeepDeclaredTypes(const onnx::GraphProto& proto, const Scope& scope) {
  SymbolSizes symbols;
  for (const onnx::ValueInfoProto& input : proto.input()) {
    const auto it = scope.values.find(input.name());
    if (it == scope.values.end()) continue;
    const std::optional<TensorType>& type = graph_.values[static_cast<size_t>(it->second)].type;
    if (type) AddSymbols(input, type->shape, symbols);
  }
  for (const auto* declarations : {&proto.value_info(), &proto.output()}) {
    for (const onnx::ValueInfoProto& declaration : *declarations) {
      const auto it = scope.values.find(declaration.name());
      if (it == scope.values.end()) continue;
      std::optional<TensorType>& type = graph_.values[static_cast<size_t>(it->second)].type;
      if (!type) type = DeclaredType(declaration, symbols);
    }
  }
}

absl::Status GraphBuilder::DeclareOutputs(onnx::NodeProto& proto, Scope& scope) {
  if (++model_.nodes > kMaxNodes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the model has more than ", kMaxNodes, " nodes"));
  }
  if (IsConstant(proto)) {
    const absl::Status status = DeclareConstant(proto, scope);
    return status.ok() ? status : AtNode(proto, status);
  }
  for (const std::string& name : proto.output()) {
    if (name.empty()) continue;
    if (scope.values.contains(name)) return AtNode(proto, DefinedAlready(name));
    DeclareValue(name, scope);
  }
  return absl::OkStatus();
}

ValueId GraphBuilder::DeclareValue(const std::string& name, Scope& scope) {
  const auto result = scope.results.find(name);
  const ValueId id = result != scope.results.end()
                         ? result->second
                         : graph_.AddValue(names_.Unique(scope.prefix + name));
  scope.values.emplace(name, id);
  return id;
}

absl::Status GraphBuilder::DeclareConstant(onnx::NodeProto& proto, Scope& scope) {
  if (proto.output_size() != 1 || proto.output(0).empty()) {
    return absl::InvalidArgumentError("must have one output");
  }
  const std::string& name = proto.output(0);
  ASSIGN_OR_RETURN(Tensor tensor, ConstantOf(proto, scope));
  ValueId id = kNoValue;
  if (const auto it = scope.values.find(name); it == scope.values.end()) {
    id = DeclareValue(name, scope);
  } else {
    // Models that were edited by hand have a second Constant of the same name; ONNX Runtime takes
    // the last one, so that this is what the model was tested with.
    id = it->second;
    if (id == kNoValue || !graph_.values[static_cast<size_t>(id)].constant) {
      return DefinedAlready(name);
    }
    model_.warnings.push_back(
        absl::StrCat("two Constant nodes define '", name, "'; the last one holds"));
  }
  Value& value = graph_.values[static_cast<size_t>(id)];
  value.type = tensor.type();
  value.constant = std::move(tensor);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> GraphBuilder::ConstantOf(onnx::NodeProto& proto, Scope& scope) {
  Node node;
  std::vector<Subgraph> subgraphs;
  for (onnx::AttributeProto& attribute : *proto.mutable_attribute()) {
    RETURN_IF_ERROR(SetAttribute(attribute, scope, node, subgraphs));
  }
  return TensorOfConstantNode(node);
}

absl::StatusOr<std::vector<ValueId>> GraphBuilder::InputsOf(const onnx::NodeProto& proto,
                                                            Scope& scope) {
  std::vector<ValueId> inputs;
  for (const std::string& name : proto.input()) {
    if (name.empty()) {
      inputs.push_back(kNoValue);
      continue;
    }
    // A formal input that the caller omits is in the scope, without a value.
    const auto it = scope.values.find(name);
    const bool omitted = it != scope.values.end() && it->second == kNoValue;
    inputs.push_back(Find(scope, name));
    if (inputs.back() == kNoValue && !omitted) {
      return absl::InvalidArgumentError(
          absl::StrCat("its input '", name,
                       "' is neither an input of the graph, nor an initializer, nor an output of "
                       "a node"));
    }
  }
  return inputs;
}

absl::Status GraphBuilder::AddNode(onnx::NodeProto& proto, Scope& scope) {
  absl::StatusOr<std::vector<ValueId>> inputs = InputsOf(proto, scope);
  if (!inputs.ok()) return AtNode(proto, inputs.status());
  const auto function =
      model_.functions.find(FunctionKey(proto.domain(), proto.op_type(), OverloadOf(proto)));
  if (function != model_.functions.end()) {
    return Inline(function->second, proto, *inputs, scope);
  }
  return AddOperator(proto, *std::move(inputs), scope);
}

absl::Status GraphBuilder::AddOperator(onnx::NodeProto& proto, std::vector<ValueId> inputs,
                                       Scope& scope) {
  Node node;
  node.op_type = proto.op_type();
  node.domain = NormalizedDomain(proto.domain());
  if (!proto.name().empty()) node.name = scope.prefix + proto.name();
  node.inputs = std::move(inputs);
  for (const std::string& name : proto.output()) {
    node.outputs.push_back(name.empty() ? kNoValue : scope.values.at(name));
  }
  std::vector<Subgraph> subgraphs;
  for (onnx::AttributeProto& attribute : *proto.mutable_attribute()) {
    const absl::Status status = SetAttribute(attribute, scope, node, subgraphs);
    if (!status.ok()) return AtNode(proto, status);
  }
  if (subgraphs.empty()) {
    while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
  } else {
    AttachSubgraphs(std::move(subgraphs), node);
  }
  if (node.domain.empty()) RETURN_IF_ERROR(ToCanonicalForm(proto, scope, node));
  graph_.nodes.push_back(std::move(node));
  return absl::OkStatus();
}

absl::Status GraphBuilder::ToCanonicalForm(const onnx::NodeProto& proto, const Scope& scope,
                                           Node& node) {
  const auto opsets = scope.opsets->find(node.domain);
  if (opsets == scope.opsets->end()) {
    return AtNode(proto, absl::InvalidArgumentError("no opset of ai.onnx is imported"));
  }
  int64_t rank = -1;
  if (scope.prefix.empty() && proto.input_size() > 0) {
    if (const auto it = model_.ranks.find(proto.input(0)); it != model_.ranks.end()) {
      rank = it->second;
    }
  }
  ASSIGN_OR_RETURN(const int64_t opset, ChooseOpset(graph_, node, opsets->second, rank));
  return AdaptNode(graph_, names_, node, opset);
}

absl::StatusOr<GraphBuilder::Scope> GraphBuilder::EnterFunction(const ModelFunction& function,
                                                                const onnx::NodeProto& call,
                                                                const std::vector<ValueId>& inputs,
                                                                Scope& caller) {
  const onnx::FunctionProto& proto = *function.proto;
  if (call.input_size() > proto.input_size() || call.output_size() > proto.output_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a call of the model-local function with ", call.input_size(), " inputs and ",
        call.output_size(), " outputs; it has ", proto.input_size(), " and ", proto.output_size()));
  }
  Scope scope;
  scope.opsets = &function.opsets;
  scope.prefix =
      absl::StrCat(caller.prefix, call.name().empty() ? call.op_type() : call.name(), "/");
  scope.consumes_tensors = false;
  scope.call_depth = caller.call_depth + 1;
  for (int i = 0; i < proto.input_size(); ++i) {
    const auto index = static_cast<size_t>(i);
    scope.values[proto.input(i)] = index < inputs.size() ? inputs[index] : kNoValue;
  }
  for (const onnx::AttributeProto& attribute : DefaultAttributesOf(proto)) {
    scope.arguments[attribute.name()] = attribute;
  }
  for (const onnx::AttributeProto& attribute : call.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      scope.arguments[attribute.name()] = attribute;
    } else if (const auto it = caller.arguments.find(attribute.ref_attr_name());
               it != caller.arguments.end()) {
      scope.arguments[attribute.name()] = it->second;
    }
  }
  for (int i = 0; i < call.output_size(); ++i) {
    if (call.output(i).empty() || scope.values.contains(proto.output(i))) continue;
    scope.results.emplace(proto.output(i), caller.values.at(call.output(i)));
  }
  return scope;
}

absl::Status GraphBuilder::Inline(const ModelFunction& function, const onnx::NodeProto& call,
                                  const std::vector<ValueId>& inputs, Scope& caller) {
  if (caller.call_depth >= kMaxCallDepth ||
      std::find(active_functions_.begin(), active_functions_.end(), function.proto) !=
          active_functions_.end()) {
    return AtNode(call, absl::InvalidArgumentError(
                            "model-local functions call each other in a circle, or too deeply"));
  }
  absl::StatusOr<Scope> scope = EnterFunction(function, call, inputs, caller);
  if (!scope.ok()) return AtNode(call, scope.status());
  active_functions_.push_back(function.proto);
  RETURN_IF_ERROR(AddNodes(*function.proto->mutable_node(), *scope));
  active_functions_.pop_back();

  // What no node of the body makes: an input that is an output too, or an output named twice.
  for (int i = 0; i < call.output_size(); ++i) {
    if (call.output(i).empty()) continue;
    const ValueId target = caller.values.at(call.output(i));
    const ValueId source = Find(*scope, function.proto->output(i));
    if (source == target) continue;
    if (source == kNoValue) {
      return AtNode(call, absl::InvalidArgumentError(absl::StrCat(
                              "output '", function.proto->output(i),
                              "' of the model-local function is not made by any node of it")));
    }
    Node identity;
    identity.op_type = "Identity";
    identity.inputs = {source};
    identity.outputs = {target};
    graph_.nodes.push_back(std::move(identity));
  }
  return absl::OkStatus();
}

absl::Status GraphBuilder::SetAttribute(onnx::AttributeProto& proto, Scope& scope, Node& node,
                                        std::vector<Subgraph>& subgraphs) {
  onnx::AttributeProto* source = &proto;
  bool consumes = scope.consumes_tensors;
  if (!proto.ref_attr_name().empty()) {
    const auto it = scope.arguments.find(proto.ref_attr_name());
    if (it == scope.arguments.end()) return absl::OkStatus();  // the operator's default holds
    source = &it->second;
    consumes = false;
  }
  if (source->has_g()) {
    ASSIGN_OR_RETURN(Subgraph subgraph, BuildSubgraph(*source->mutable_g(), scope));
    subgraph.attribute = proto.name();
    subgraphs.push_back(std::move(subgraph));
    return absl::OkStatus();
  }
  absl::StatusOr<Attribute> attribute = AttributeFromProto(*source, consumes, model_.external);
  if (!attribute.ok()) {
    return absl::Status(attribute.status().code(),
                        absl::StrCat("attribute '", proto.name(),
                                     "': ", std::string(attribute.status().message())));
  }
  node.attributes[proto.name()] = *std::move(attribute);
  return absl::OkStatus();
}

absl::StatusOr<GraphBuilder::Subgraph> GraphBuilder::BuildSubgraph(onnx::GraphProto& proto,
                                                                   Scope& scope) {
  GraphBuilder builder(model_, *this, scope);
  builder.active_functions_ = active_functions_;
  Scope inner;
  inner.opsets = scope.opsets;
  inner.arguments = scope.arguments;
  inner.sees_outside = true;
  inner.consumes_tensors = scope.consumes_tensors;
  inner.call_depth = scope.call_depth;
  builder.graph_.name = proto.name();
  for (const onnx::ValueInfoProto& input : proto.input()) {
    const ValueId id = builder.graph_.AddValue(builder.names_.Unique(input.name()));
    builder.graph_.inputs.push_back(id);
    if (!inner.values.emplace(input.name(), id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("a subgraph has two inputs named '", input.name(), "'"));
    }
  }
  RETURN_IF_ERROR(builder.AddInitializers(proto, inner));
  RETURN_IF_ERROR(builder.AddNodes(*proto.mutable_node(), inner));
  RETURN_IF_ERROR(builder.AddOutputs(proto, inner));
  RETURN_IF_ERROR(builder.graph_.SortTopologically());
  return Subgraph{"", std::move(builder.graph_), std::move(builder.names_),
                  std::move(builder.captures_)};
}

// The node's inputs and each subgraph's get the same captured values in the same order, so that
// both branches of an If agree.
void GraphBuilder::AttachSubgraphs(std::vector<Subgraph> subgraphs, Node& node) {
  std::vector<ValueId> captured;
  for (const Subgraph& subgraph : subgraphs) {
    for (const auto& [outside, inside] : subgraph.captures) {
      if (std::find(captured.begin(), captured.end(), outside) == captured.end()) {
        captured.push_back(outside);
      }
    }
  }
  for (Subgraph& subgraph : subgraphs) {
    for (ValueId outside : captured) {
      const auto it = std::find_if(subgraph.captures.begin(), subgraph.captures.end(),
                                   [&](const auto& pair) { return pair.first == outside; });
      const Value& value = graph_.values[static_cast<size_t>(outside)];
      subgraph.graph.inputs.push_back(
          it != subgraph.captures.end()
              ? it->second
              : subgraph.graph.AddValue(subgraph.names.Unique(value.name), value.type));
    }
    node.attributes[subgraph.attribute] = std::make_shared<const Graph>(std::move(subgraph.graph));
  }
  node.inputs.insert(node.inputs.end(), captured.begin(), captured.end());
}

ValueId GraphBuilder::Find(Scope& scope, const std::string& name) {
  const auto it = scope.values.find(name);
  if (it != scope.values.end()) return it->second;
  if (!scope.sees_outside) return kNoValue;
  const ValueId id = Capture(name);
  if (id != kNoValue) scope.values.emplace(name, id);
  return id;
}

ValueId GraphBuilder::Capture(const std::string& name) {
  if (outer_ == nullptr) return kNoValue;
  const ValueId outside = outer_->Find(*outer_scope_, name);
  if (outside == kNoValue) return kNoValue;
  const Value& value = outer_->graph_.values[static_cast<size_t>(outside)];
  const std::string inner_name = names_.Unique(name);
  if (value.constant) return graph_.AddConstant(inner_name, *value.constant);
  const ValueId inside = graph_.AddValue(inner_name, value.type);
  captures_.emplace_back(outside, inside);
  return inside;
}

}  // namespace onnx_memplan
