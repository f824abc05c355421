#include "passes/problem_list.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace onnx_memplan {

void ProblemList::Add(const Graph& graph, const Node& node, const absl::Status& status) {
  problems_.push_back({absl::StrCat(node.domain, node.domain.empty() ? "" : ":", node.op_type),
                       graph.NodeName(node), status});
}

absl::Status ProblemList::ToStatus() const {
  if (problems_.empty()) return absl::OkStatus();
  if (problems_.size() == 1) return problems_.front().status;
  std::map<std::string, std::vector<const Problem*>> by_operator;
  for (const Problem& problem : problems_) by_operator[problem.op].push_back(&problem);
  std::string text =
      absl::StrCat(problems_.size(), " nodes of ", by_operator.size(),
                   by_operator.size() == 1 ? " operator" : " operators", " cannot be served:");
  for (const auto& [op, problems] : by_operator) {
    absl::StrAppend(&text, "\n", op, " (", problems.size(),
                    problems.size() == 1 ? " node" : " nodes", "):");
    int64_t shown = 0;
    for (const Problem* problem : problems) {
      if (shown++ == kMaxNodesShown) {
        absl::StrAppend(&text, "\n  and ", static_cast<int64_t>(problems.size()) - kMaxNodesShown,
                        " more");
        break;
      }
      absl::StrAppend(&text, "\n  ", std::string(problem->status.message()));
    }
  }
  const auto unimplemented =
      std::find_if(problems_.begin(), problems_.end(),
                   [](const Problem& problem) { return absl::IsUnimplemented(problem.status); });
  const Problem& first = unimplemented != problems_.end() ? *unimplemented : problems_.front();
  return absl::Status(first.status.code(), text);
}

}  // namespace onnx_memplan
