// Errors of many nodes as one status.
#ifndef ONNX_MEMPLAN_PASSES_PROBLEM_LIST_H_
#define ONNX_MEMPLAN_PASSES_PROBLEM_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

class ProblemList {
 public:
  // `status` is not OK.
  void Add(const Graph& graph, const Node& node, const absl::Status& status);
  bool empty() const { return problems_.empty(); }

  // OK when there are none; the one status as it is; else a list by operator, in which an operator
  // has at most kMaxNodesShown nodes.
  absl::Status ToStatus() const;

 private:
  static constexpr int64_t kMaxNodesShown = 5;

  struct Problem {
    std::string op;
    std::string node;
    absl::Status status;
  };
  std::vector<Problem> problems_;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_PROBLEM_LIST_H_
