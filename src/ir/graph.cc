#include "onnx_memplan/graph.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace onnx_memplan {

ValueId Graph::AddValue(std::string value_name, std::optional<TensorType> type) {
  values.push_back({std::move(value_name), std::move(type), std::nullopt});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::AddConstant(std::string value_name, Tensor tensor) {
  TensorType type = tensor.type();
  values.push_back({std::move(value_name), std::move(type), std::move(tensor)});
  return static_cast<ValueId>(values.size() - 1);
}

std::string Graph::UniqueValueName(std::string_view base) const {
  std::string candidate(base);
  const auto taken = [&] {
    return std::any_of(values.begin(), values.end(),
                       [&](const Value& value) { return value.name == candidate; });
  };
  for (int64_t i = 1; taken(); ++i) candidate = absl::StrCat(std::string(base), "_", i);
  return candidate;
}

std::string Graph::NodeName(const Node& node) const {
  if (!node.name.empty()) return node.name;
  for (ValueId output : node.outputs) {
    if (output != kNoValue) {
      return absl::StrCat(node.op_type, " producing '", values[static_cast<size_t>(output)].name,
                          "'");
    }
  }
  return absl::StrCat(node.op_type, " without outputs");
}

std::vector<int32_t> Graph::Producers() const {
  std::vector<int32_t> producers(values.size(), -1);
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (ValueId output : nodes[n].outputs) {
      if (output != kNoValue) producers[static_cast<size_t>(output)] = static_cast<int32_t>(n);
    }
  }
  return producers;
}

std::vector<std::vector<int32_t>> Graph::Consumers() const {
  std::vector<std::vector<int32_t>> consumers(values.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (ValueId input : nodes[n].inputs) {
      if (input != kNoValue)
        consumers[static_cast<size_t>(input)].push_back(static_cast<int32_t>(n));
    }
  }
  return consumers;
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  for (Node& node : nodes) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  std::replace(outputs.begin(), outputs.end(), from, to);
  for (State& state : states) {
    if (state.out == from) state.out = to;
  }
}

void Graph::Compact(const std::vector<bool>& dead) {
  size_t kept = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (dead[n]) continue;
    if (kept != n) nodes[kept] = std::move(nodes[n]);
    ++kept;
  }
  nodes.resize(kept);

  std::vector<bool> used(values.size(), false);
  const auto mark = [&](const std::vector<ValueId>& ids) {
    for (ValueId id : ids) {
      if (id != kNoValue) used[static_cast<size_t>(id)] = true;
    }
  };
  mark(inputs);
  mark(outputs);
  for (const State& state : states) mark({state.in, state.out});
  for (const Node& node : nodes) {
    mark(node.inputs);
    mark(node.outputs);
  }

  std::vector<ValueId> new_id(values.size(), kNoValue);
  size_t next = 0;
  for (size_t v = 0; v < values.size(); ++v) {
    if (!used[v]) continue;
    new_id[v] = static_cast<ValueId>(next);
    if (next != v) values[next] = std::move(values[v]);
    ++next;
  }
  values.resize(next);
  const auto renumber = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) {
      if (id != kNoValue) id = new_id[static_cast<size_t>(id)];
    }
  };
  renumber(inputs);
  renumber(outputs);
  for (State& state : states) {
    state.in = new_id[static_cast<size_t>(state.in)];
    if (state.out != kNoValue) state.out = new_id[static_cast<size_t>(state.out)];
  }
  for (Node& node : nodes) {
    renumber(node.inputs);
    renumber(node.outputs);
  }
}

absl::Status Graph::SortTopologically() {
  const std::vector<int32_t> producers = Producers();
  std::vector<int32_t> waiting(nodes.size(), 0);
  std::vector<std::vector<int32_t>> successors(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (ValueId input : nodes[n].inputs) {
      if (input == kNoValue) continue;
      const int32_t producer = producers[static_cast<size_t>(input)];
      if (producer < 0) continue;
      successors[static_cast<size_t>(producer)].push_back(static_cast<int32_t>(n));
      ++waiting[n];
    }
  }
  // The ready node that comes first in the file runs first, so that a legal order is kept as it is.
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (waiting[n] == 0) ready.push(static_cast<int32_t>(n));
  }
  std::vector<Node> sorted;
  sorted.reserve(nodes.size());
  std::vector<bool> done(nodes.size(), false);
  while (!ready.empty()) {
    const auto n = static_cast<size_t>(ready.top());
    ready.pop();
    done[n] = true;
    sorted.push_back(nodes[n]);
    for (int32_t successor : successors[n]) {
      if (--waiting[static_cast<size_t>(successor)] == 0) ready.push(successor);
    }
  }
  if (sorted.size() != nodes.size()) {
    const auto stuck =
        static_cast<size_t>(std::find(done.begin(), done.end(), false) - done.begin());
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph has a cycle: node '", NodeName(nodes[stuck]), "' (", nodes[stuck].op_type,
        ") needs, directly or through other nodes, its own output"));
  }
  nodes = std::move(sorted);
  return absl::OkStatus();
}

namespace {

absl::Status VerifyValues(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (const Value& value : graph.values) {
    if (value.name.empty()) return absl::InternalError("a value has no name");
    if (!names.insert(value.name).second) {
      return absl::InternalError(absl::StrCat("two values are named '", value.name, "'"));
    }
    if (value.type.has_value()) {
      const std::optional<int64_t> count = CheckedNumElements(value.type->shape);
      int64_t bytes;
      if (!count.has_value() ||
          __builtin_mul_overflow(*count, DTypeBytes(value.type->dtype), &bytes)) {
        return absl::InvalidArgumentError(absl::StrCat("value '", value.name, "' of type ",
                                                       value.type->ToString(),
                                                       " has more bytes than 63 bits can count"));
      }
    }
    if (value.constant.has_value() && value.constant->type() != value.type) {
      return absl::InternalError(
          absl::StrCat("constant '", value.name, "' has another type than its data"));
    }
  }
  return absl::OkStatus();
}

// Each `out` is some node's output, of the type of `in`, and belongs to one state.
absl::Status VerifyStateOutputs(const Graph& graph) {
  const std::vector<int32_t> producers = graph.Producers();
  std::unordered_set<ValueId> seen;
  for (const State& state : graph.states) {
    if (state.out == kNoValue) continue;
    const Value& in = graph.values[static_cast<size_t>(state.in)];
    if (state.out < 0 || state.out >= static_cast<ValueId>(graph.values.size()) ||
        producers[static_cast<size_t>(state.out)] < 0 || !seen.insert(state.out).second) {
      return absl::InternalError(absl::StrCat("no node of its own rewrites state '", in.name, "'"));
    }
    const Value& out = graph.values[static_cast<size_t>(state.out)];
    if (out.type.has_value() && out.type != in.type) {
      return absl::InternalError(absl::StrCat("state '", in.name, "' of type ", in.type->ToString(),
                                              " is rewritten as ", out.type->ToString()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Graph::Verify(bool typed) const {
  if (absl::Status status = VerifyValues(*this); !status.ok()) return status;
  const auto in_range = [&](ValueId id) {
    return id >= 0 && id < static_cast<ValueId>(values.size());
  };
  std::vector<bool> defined(values.size(), false);
  for (ValueId input : inputs) {
    if (!in_range(input)) return absl::InternalError("a graph input is out of range");
    if (defined[static_cast<size_t>(input)]) {
      return absl::InternalError("a value is a graph input twice");
    }
    defined[static_cast<size_t>(input)] = true;
  }
  for (size_t v = 0; v < values.size(); ++v) {
    if (values[v].constant.has_value()) defined[v] = true;
  }
  for (const State& state : states) {
    if (!in_range(state.in) || defined[static_cast<size_t>(state.in)]) {
      return absl::InternalError("a state is out of range, or an input, a constant or twice there");
    }
    const Value& value = values[static_cast<size_t>(state.in)];
    if (value.type != state.initial.type()) {
      return absl::InternalError(
          absl::StrCat("state '", value.name, "' has another type than its data"));
    }
    defined[static_cast<size_t>(state.in)] = true;
  }
  for (const Node& node : nodes) {
    const auto fail = [&](std::string_view what, ValueId id) {
      return absl::InternalError(absl::StrCat(
          "node '", NodeName(node), "' (", node.op_type, ") ", std::string(what), " '",
          in_range(id) ? values[static_cast<size_t>(id)].name : absl::StrCat(id), "'"));
    };
    for (ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      if (!in_range(input)) return fail("reads a value out of range:", input);
      if (!defined[static_cast<size_t>(input)]) return fail("reads before it is defined:", input);
      if (typed && !values[static_cast<size_t>(input)].type) return fail("reads untyped", input);
    }
    for (ValueId output : node.outputs) {
      if (output == kNoValue) continue;
      if (!in_range(output)) return fail("writes a value out of range:", output);
      if (defined[static_cast<size_t>(output)]) return fail("writes for the second time", output);
      if (typed && !values[static_cast<size_t>(output)].type) return fail("writes untyped", output);
      defined[static_cast<size_t>(output)] = true;
    }
    if (node.epilogue.has_residual && (node.inputs.empty() || node.inputs.back() == kNoValue)) {
      return fail("has a residual epilogue and no residual input", kNoValue);
    }
  }
  for (ValueId output : outputs) {
    if (!in_range(output) || !defined[static_cast<size_t>(output)]) {
      return absl::InternalError("a graph output is not defined");
    }
  }
  return VerifyStateOutputs(*this);
}

namespace {

std::string AttributeText(const Attribute& attribute) {
  struct Visitor {
    std::string operator()(int64_t v) const { return absl::StrCat(v); }
    std::string operator()(float v) const { return absl::StrCat(v); }
    std::string operator()(const std::string& v) const { return absl::StrCat("\"", v, "\""); }
    std::string operator()(const std::vector<int64_t>& v) const {
      return absl::StrCat("[", absl::StrJoin(v, ","), "]");
    }
    std::string operator()(const std::vector<float>& v) const {
      return absl::StrCat("[", absl::StrJoin(v, ","), "]");
    }
    std::string operator()(const std::vector<std::string>& v) const {
      return absl::StrCat("[\"", absl::StrJoin(v, "\",\""), "\"]");
    }
    std::string operator()(const Tensor& v) const { return v.type().ToString(); }
    std::string operator()(const std::shared_ptr<const Graph>& v) const {
      return absl::StrCat("graph of ", v->nodes.size(), " nodes");
    }
  };
  return std::visit(Visitor{}, attribute);
}

}  // namespace

std::string Graph::ToText() const {
  const auto value_text = [&](ValueId id) -> std::string {
    if (id == kNoValue) return "-";
    const Value& value = values[static_cast<size_t>(id)];
    return absl::StrCat(value.constant ? "%" : "", value.name,
                        value.type ? absl::StrCat(":", value.type->ToString()) : "");
  };
  const auto list_text = [&](const std::vector<ValueId>& ids) {
    return absl::StrJoin(
        ids, ", ", [&](std::string* out, ValueId id) { absl::StrAppend(out, value_text(id)); });
  };
  std::string text = absl::StrCat("inputs ", list_text(inputs), "\n");
  for (const Node& node : nodes) {
    absl::StrAppend(&text, list_text(node.outputs), " = ", node.domain,
                    node.domain.empty() ? "" : ":", node.op_type, "(", list_text(node.inputs), ")");
    for (const auto& [key, attribute] : node.attributes) {
      absl::StrAppend(&text, " ", key, "=", AttributeText(attribute));
    }
    if (node.epilogue.has_residual) absl::StrAppend(&text, " +residual");
    if (!node.epilogue.activation.empty()) absl::StrAppend(&text, " +", node.epilogue.activation);
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(&text, "outputs ", list_text(outputs), "\n");
  for (const State& state : states) {
    absl::StrAppend(&text, "state ", value_text(state.in), " <- ", value_text(state.out), "\n");
  }
  return text;
}

}  // namespace onnx_memplan
