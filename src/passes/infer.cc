#include "passes/infer.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/op_def.h"
#include "passes/problem_list.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

class Inferrer {
 public:
  Inferrer(Graph& graph, const FoldOptions& options) : graph_(graph), options_(options) {
    for (const Value& value : graph.values) names_.insert(value.name);
  }

  absl::Status Run() {
    // Nodes of inlined branches go to the front: they run where their If stood.
    waiting_.assign(std::make_move_iterator(graph_.nodes.begin()),
                    std::make_move_iterator(graph_.nodes.end()));
    graph_.nodes.clear();
    while (!waiting_.empty()) {
      Node node = std::move(waiting_.front());
      waiting_.pop_front();
      Visit(std::move(node));
    }
    if (!problems_.empty()) {
      AddProblemsOfLowering();
      std::move(untyped_.begin(), untyped_.end(), std::back_inserter(graph_.nodes));
      return problems_.ToStatus();
    }
    graph_.Compact(std::vector<bool>(graph_.nodes.size(), false));
    return graph_.Verify(/*typed=*/true);
  }

 private:
  Value& At(ValueId id) { return graph_.values[static_cast<size_t>(id)]; }

  bool AllInputsTyped(const Node& node) {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId id) { return id == kNoValue || At(id).type.has_value(); });
  }

  void Visit(Node node) {
    if (const Graph* branch = KnownBranch(node)) return InlineBranch(node, *branch);
    if (!AllInputsTyped(node)) return VisitUntyped(std::move(node));
    absl::StatusOr<std::vector<TensorType>> types = InferTypes(graph_, node);
    if (!types.ok()) {
      if (IsDeclared(node)) return graph_.nodes.push_back(std::move(node));
      const absl::Status fault = Explain(node, types.status());
      return Fail(std::move(node), fault);
    }
    MEMPLAN_CHECK_MSG(types->size() >= node.outputs.size(), graph_.NodeName(node));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue) At(node.outputs[i]).type = std::move((*types)[i]);
    }
    if (FoldShape(node)) return;
    if (ShouldFold(node)) {
      absl::StatusOr<std::vector<Tensor>> results = EvaluateNode(graph_, node);
      if (!results.ok()) return Fail(std::move(node), results.status());
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] != kNoValue) At(node.outputs[i]).constant = std::move((*results)[i]);
      }
      return;
    }
    graph_.nodes.push_back(std::move(node));
  }

  // An operator that has no definition, but the file says the types of its outputs.
  bool IsDeclared(const Node& node) {
    return FindOp(node.op_type, node.domain) == nullptr &&
           std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId id) { return id == kNoValue || At(id).type.has_value(); });
  }

  // An If is served only by putting a branch in its place.
  absl::Status Explain(const Node& node, const absl::Status& status) const {
    if (!node.Is("If") || FindOp(node.op_type, node.domain) != nullptr) return status;
    return NodeContext(graph_, node)
        .Unsupported(
            "supported only where the condition is known while planning; if it stems from a graph "
            "input, make that input a constant with --bind NAME=VALUE");
  }

  // Behind a node that failed. Whether the operator exists can still be told.
  void VisitUntyped(Node node) {
    if (FindOp(node.op_type, node.domain) != nullptr) {
      untyped_.push_back(std::move(node));
      return;
    }
    const absl::Status status = Explain(node, MissingOperator(graph_, node));
    Fail(std::move(node), status);
  }

  // Why there is no definition; the lookup comes before any type is asked for.
  static absl::Status MissingOperator(const Graph& graph, const Node& node) {
    return InferTypes(graph, node).status();
  }

  void Fail(Node node, const absl::Status& status) {
    problems_.Add(graph_, node, status);
    AddProblemsOfSubgraphs(node);
    untyped_.push_back(std::move(node));
  }

  void AddProblemsOfSubgraphs(const Node& node) {
    for (const auto& [name, attribute] : node.attributes) {
      const auto* subgraph = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (subgraph == nullptr) continue;
      for (const Node& inner : (*subgraph)->nodes) {
        if (FindOp(inner.op_type, inner.domain) == nullptr) {
          problems_.Add(**subgraph, inner, MissingOperator(**subgraph, inner));
        }
        AddProblemsOfSubgraphs(inner);
      }
    }
  }

  // Packing weights takes time, so that this is asked only when the graph is refused anyway.
  void AddProblemsOfLowering() {
    for (const Node& node : graph_.nodes) {
      const absl::StatusOr<Lowering> lowering = LowerNode(graph_, node, BuiltinTargets().front());
      if (!lowering.ok()) problems_.Add(graph_, node, lowering.status());
    }
  }

  // Shape and Size need the type of their input, not its data.
  bool FoldShape(const Node& node) {
    const NodeContext context(graph_, node);
    if (node.Is("Size")) {
      At(node.outputs[0]).constant = Tensor::ScalarInt64(context.InputType(0).NumElements());
      return true;
    }
    if (!node.Is("Shape")) return false;
    const Shape& shape = context.InputShape(0);
    const auto rank = static_cast<int64_t>(shape.size());
    const auto clamp = [&](int64_t i) {
      return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank);
    };
    const int64_t start = clamp(context.Int("start", 0));
    const int64_t end = std::max(start, clamp(context.Int("end", rank)));
    At(node.outputs[0]).constant =
        Tensor::VectorInt64({shape.begin() + start, shape.begin() + end});
    return true;
  }

  bool ShouldFold(const Node& node) {
    int64_t input_bytes = 0;
    for (ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      if (!At(id).constant) return false;
      input_bytes += At(id).constant->Bytes();
    }
    int64_t output_bytes = 0;
    for (ValueId id : node.outputs) {
      if (id != kNoValue) output_bytes += At(id).type->Bytes();
    }
    if (output_bytes > options_.max_result_bytes) return false;
    return output_bytes <= options_.small_bytes || node.Is("ConstantOfShape") ||
           output_bytes / options_.max_growth <= input_bytes;
  }

  // The branch that an If will take; nullptr when it is no If or its condition is not known.
  const Graph* KnownBranch(const Node& node) {
    if (!node.Is("If") || node.inputs.empty() || node.inputs[0] == kNoValue) return nullptr;
    const std::optional<Tensor>& condition = At(node.inputs[0]).constant;
    if (!condition || condition->dtype() != DType::kBool || condition->NumElements() != 1) {
      return nullptr;
    }
    const auto it = node.attributes.find(condition->As<bool>()[0] ? "then_branch" : "else_branch");
    if (it == node.attributes.end()) return nullptr;
    const auto* branch = std::get_if<std::shared_ptr<const Graph>>(&it->second);
    if (branch == nullptr || (*branch)->inputs.size() + 1 != node.inputs.size() ||
        (*branch)->outputs.size() != node.outputs.size()) {
      return nullptr;
    }
    return branch->get();
  }

  void InlineBranch(const Node& node, const Graph& branch) {
    // Value of the branch -> value here.
    std::vector<ValueId> here(branch.values.size(), kNoValue);
    for (size_t i = 0; i < branch.inputs.size(); ++i) {
      here[static_cast<size_t>(branch.inputs[i])] = node.inputs[i + 1];
    }
    std::vector<Node> nodes = branch.nodes;
    std::vector<bool> is_made(branch.values.size(), false);
    for (const Node& inner : nodes) {
      for (ValueId id : inner.outputs) {
        if (id != kNoValue) is_made[static_cast<size_t>(id)] = true;
      }
    }
    // An output that a node of the branch makes is the If's output; others are copied.
    std::vector<Node> copies;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto inner = static_cast<size_t>(branch.outputs[i]);
      if (node.outputs[i] == kNoValue) continue;
      if (is_made[inner] && here[inner] == kNoValue) {
        here[inner] = node.outputs[i];
        continue;
      }
      Node copy;
      copy.op_type = "Identity";
      copy.name = absl::StrCat(graph_.NodeName(node), "/Identity");
      copy.inputs = {branch.outputs[i]};
      copy.outputs = {node.outputs[i]};
      copies.push_back(std::move(copy));
    }
    const auto map_value = [&](ValueId& id) {
      if (id != kNoValue) id = Import(branch, id, here);
    };
    for (Node& inner : nodes) {
      for (ValueId& id : inner.inputs) map_value(id);
      for (ValueId& id : inner.outputs) map_value(id);
      if (!inner.name.empty()) inner.name = absl::StrCat(graph_.NodeName(node), "/", inner.name);
    }
    for (Node& copy : copies) map_value(copy.inputs[0]);
    waiting_.insert(waiting_.begin(), std::make_move_iterator(copies.begin()),
                    std::make_move_iterator(copies.end()));
    waiting_.insert(waiting_.begin(), std::make_move_iterator(nodes.begin()),
                    std::make_move_iterator(nodes.end()));
  }

  ValueId Import(const Graph& branch, ValueId id, std::vector<ValueId>& here) {
    ValueId& mapped = here[static_cast<size_t>(id)];
    if (mapped != kNoValue) return mapped;
    const Value& value = branch.values[static_cast<size_t>(id)];
    mapped = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back({UniqueName(value.name), value.type, value.constant});
    return mapped;
  }

  std::string UniqueName(const std::string& base) {
    std::string candidate = base;
    for (int64_t i = 1; !names_.insert(candidate).second; ++i)
      candidate = absl::StrCat(base, "_", i);
    return candidate;
  }

  Graph& graph_;
  const FoldOptions& options_;
  std::deque<Node> waiting_;
  std::unordered_set<std::string> names_;
  ProblemList problems_;
  // Nodes without types. They read each other and typed values, and no typed node reads them:
  // behind the typed nodes they are in topological order.
  std::vector<Node> untyped_;
};

}  // namespace

absl::Status InferAndFold(Graph& graph, const FoldOptions& options) {
  return Inferrer(graph, options).Run();
}

absl::Status CheckSupported(const Graph& graph, const Target& target) {
  ProblemList problems;
  for (const Node& node : graph.nodes) {
    const absl::StatusOr<Lowering> lowering = LowerNode(graph, node, target);
    if (!lowering.ok()) problems.Add(graph, node, lowering.status());
  }
  return problems.ToStatus();
}

}  // namespace onnx_memplan
