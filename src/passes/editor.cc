#include "passes/editor.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "ops/op_def.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {

GraphEditor::GraphEditor(Graph& graph)
    : graph_(graph),
      nodes_(std::make_move_iterator(graph.nodes.begin()),
             std::make_move_iterator(graph.nodes.end())),
      dead_(nodes_.size(), false),
      producer_(graph.values.size(), -1),
      consumers_(graph.values.size()),
      is_input_(graph.values.size(), false),
      is_output_(graph.values.size(), false) {
  graph.nodes.clear();
  for (int32_t n = 0; n < num_nodes(); ++n) {
    anchor_.push_back(n);
    for (ValueId output : node(n).outputs) {
      if (output != kNoValue) producer_[static_cast<size_t>(output)] = n;
    }
    AddUses(n);
  }
  for (ValueId v : graph.inputs) is_input_[static_cast<size_t>(v)] = true;
  for (ValueId v : graph.outputs) is_output_[static_cast<size_t>(v)] = true;
  for (const State& state : graph.states) {
    is_input_[static_cast<size_t>(state.in)] = true;
    if (state.out != kNoValue) is_output_[static_cast<size_t>(state.out)] = true;
  }
  for (const Value& value : graph.values) names_.insert(value.name);
}

GraphEditor::~GraphEditor() {
  // After an error of a pass: the graph is whole again, if not in order.
  if (!finished_) {
    const absl::Status ignored = Finish();
    static_cast<void>(ignored);
  }
}

const TensorType& GraphEditor::type(ValueId v) const {
  MEMPLAN_CHECK(v != kNoValue);
  MEMPLAN_CHECK_MSG(value(v).type.has_value(), value(v).name);
  return *value(v).type;
}

const Tensor* GraphEditor::constant(ValueId v) const {
  return v == kNoValue || !value(v).constant.has_value() ? nullptr : &*value(v).constant;
}

int32_t GraphEditor::producer(ValueId v) const {
  return v == kNoValue ? -1 : producer_[static_cast<size_t>(v)];
}

int32_t GraphEditor::ProducerIf(ValueId v, std::string_view op_type) const {
  const int32_t n = producer(v);
  const bool matches = n >= 0 && node(n).Is(op_type) && node(n).epilogue.empty() &&
                       !node(n).outputs.empty() && node(n).outputs[0] == v;
  return matches ? n : -1;
}

int32_t GraphEditor::OnlyConsumer(ValueId v) const {
  return consumers(v).size() == 1 && !is_graph_output(v) ? consumers(v)[0] : -1;
}

bool GraphEditor::Before(int32_t a, int32_t b) const {
  // Added nodes have a larger index than the old node that they precede.
  const auto place = [&](int32_t n) {
    const int32_t anchor = anchor_[static_cast<size_t>(n)];
    return std::tuple(anchor, anchor == n, n);
  };
  return place(a) < place(b);
}

std::string GraphEditor::FreeName(std::string_view base) {
  std::string candidate(base);
  for (int64_t i = 1; !names_.insert(candidate).second; ++i) {
    candidate = absl::StrCat(absl::string_view(base.data(), base.size()), "_", i);
  }
  return candidate;
}

ValueId GraphEditor::AddValue(std::string_view name, std::optional<TensorType> type) {
  producer_.push_back(-1);
  consumers_.emplace_back();
  is_input_.push_back(false);
  is_output_.push_back(false);
  return graph_.AddValue(FreeName(name), std::move(type));
}

ValueId GraphEditor::AddConstant(std::string_view name, Tensor tensor) {
  const ValueId v = AddValue(name, tensor.type());
  graph_.values[static_cast<size_t>(v)].constant = std::move(tensor);
  return v;
}

absl::StatusOr<ValueId> GraphEditor::Emit(int32_t anchor, Node node, std::string_view name) {
  node.outputs = {kNoValue};
  ASSIGN_OR_RETURN(std::vector<TensorType> types, InferTypes(graph_, node));
  const ValueId v = AddValue(name, std::move(types[0]));
  node.outputs = {v};
  nodes_.push_back(std::move(node));
  dead_.push_back(false);
  anchor_.push_back(anchor_[static_cast<size_t>(anchor)]);
  producer_[static_cast<size_t>(v)] = num_nodes() - 1;
  AddUses(num_nodes() - 1);
  return v;
}

void GraphEditor::AddUses(int32_t n) {
  for (ValueId v : node(n).inputs) {
    if (v != kNoValue) consumers_[static_cast<size_t>(v)].push_back(n);
  }
}

void GraphEditor::DropUse(int32_t n, ValueId v) {
  std::vector<int32_t>& uses = consumers_[static_cast<size_t>(v)];
  const auto it = std::find(uses.begin(), uses.end(), n);
  MEMPLAN_CHECK(it != uses.end());
  uses.erase(it);
}

void GraphEditor::SetInputs(int32_t n, std::vector<ValueId> inputs) {
  const std::vector<ValueId> old =
      std::exchange(nodes_[static_cast<size_t>(n)].inputs, std::move(inputs));
  AddUses(n);  // before the old uses go, lest a value that stays in use is removed
  for (ValueId v : old) {
    if (v != kNoValue) DropUse(n, v);
  }
  for (ValueId v : old) RemoveIfUnread(v);
}

void GraphEditor::SetInput(int32_t n, size_t index, ValueId v) {
  std::vector<ValueId> inputs = node(n).inputs;
  inputs[index] = v;
  SetInputs(n, std::move(inputs));
}

void GraphEditor::Replace(int32_t n, Node node) {
  Node& old = nodes_[static_cast<size_t>(n)];
  std::vector<ValueId> inputs = std::exchange(node.inputs, old.inputs);
  node.outputs = old.outputs;
  old = std::move(node);
  SetInputs(n, std::move(inputs));
}

int64_t GraphEditor::DropUnreadOutputs(int32_t n, size_t keep) {
  std::vector<ValueId>& outputs = nodes_[static_cast<size_t>(n)].outputs;
  const size_t before = outputs.size();
  const auto unread = [&](ValueId v) {
    return v == kNoValue || (consumers(v).empty() && !is_graph_output(v));
  };
  while (outputs.size() > keep && unread(outputs.back())) {
    if (outputs.back() != kNoValue) producer_[static_cast<size_t>(outputs.back())] = -1;
    outputs.pop_back();
  }
  return static_cast<int64_t>(before - outputs.size());
}

bool GraphEditor::ReplaceUses(ValueId from, ValueId to) {
  if (is_graph_output(from)) {
    if (is_graph_output(to) || producer(to) < 0) return false;
    SwapNames(from, to);
    std::replace(graph_.outputs.begin(), graph_.outputs.end(), from, to);
    for (State& state : graph_.states) {
      if (state.out == from) state.out = to;
    }
    is_output_[static_cast<size_t>(from)] = false;
    is_output_[static_cast<size_t>(to)] = true;
  }
  const std::vector<int32_t> readers = consumers(from);
  for (int32_t n : readers) {
    if (!alive(n)) continue;
    std::vector<ValueId> inputs = node(n).inputs;
    std::replace(inputs.begin(), inputs.end(), from, to);
    // One call moves all uses by `n`; a node that is listed twice has nothing left to move then.
    if (inputs != node(n).inputs) SetInputs(n, std::move(inputs));
  }
  RemoveIfUnread(from);
  return true;
}

void GraphEditor::SwapNames(ValueId a, ValueId b) {
  std::swap(graph_.values[static_cast<size_t>(a)].name, graph_.values[static_cast<size_t>(b)].name);
}

void GraphEditor::TakeOutput(int32_t n, int32_t last) {
  const ValueId result = node(last).outputs[0];
  ValueId& own = nodes_[static_cast<size_t>(n)].outputs[0];
  producer_[static_cast<size_t>(own)] = -1;
  own = result;
  producer_[static_cast<size_t>(result)] = n;
  // `last` makes nothing now.
  nodes_[static_cast<size_t>(last)].outputs[0] = kNoValue;
  Remove(last);
}

bool GraphEditor::IsUnread(int32_t n) const {
  return std::all_of(node(n).outputs.begin(), node(n).outputs.end(), [&](ValueId v) {
    return v == kNoValue || (consumers(v).empty() && !is_graph_output(v));
  });
}

void GraphEditor::RemoveIfUnread(ValueId v) {
  const int32_t n = producer(v);
  if (n >= 0 && alive(n) && IsUnread(n)) Remove(n);
}

void GraphEditor::Remove(int32_t n) {
  MEMPLAN_CHECK_MSG(alive(n) && IsUnread(n), graph_.NodeName(node(n)));
  dead_[static_cast<size_t>(n)] = true;
  for (ValueId v : node(n).outputs) {
    if (v != kNoValue) producer_[static_cast<size_t>(v)] = -1;
  }
  SetInputs(n, {});
}

absl::Status GraphEditor::Finish() {
  finished_ = true;
  std::vector<int32_t> order;
  for (int32_t n = 0; n < num_nodes(); ++n) {
    if (alive(n)) order.push_back(n);
  }
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return Before(a, b); });
  for (int32_t n : order) graph_.nodes.push_back(std::move(nodes_[static_cast<size_t>(n)]));
  graph_.Compact(std::vector<bool>(graph_.nodes.size(), false));
  if (absl::Status status = graph_.SortTopologically(); !status.ok()) {
    return absl::InternalError(status.message());
  }
  return absl::OkStatus();
}

}  // namespace onnx_memplan
