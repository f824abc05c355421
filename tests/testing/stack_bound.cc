#include "testing/stack_bound.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "support/status_macros.h"

namespace onnx_memplan::testing {
namespace {

constexpr const char* kIndirect = "__indirect_call";

struct Function {
  int64_t frame_bytes = 0;
  std::set<std::string> calls;
};

class CallGraph {
 public:
  // Lines `node: { title: "NAME" label: "...\n56 bytes (static)" }` and
  // `edge: { sourcename: "NAME" targetname: "NAME" ... }`.
  absl::Status Parse(const std::string& text) {
    const std::regex node_line(R"re(^node: \{ title: "([^"]*)" label: "(.*)")re");
    const std::regex edge_line(R"re(^edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)")re");
    const std::regex frame_text(R"re((\d+) bytes \((static|dynamic|dynamic,bounded)\))re");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::smatch match;
      if (std::regex_search(line, match, edge_line)) {
        functions_[match[1]].calls.insert(match[2]);
      } else if (std::regex_search(line, match, node_line)) {
        const std::string name = match[1];
        const std::string label = match[2];
        Function& function = functions_[name];
        std::smatch frame;
        if (!std::regex_search(label, frame, frame_text)) continue;
        function.frame_bytes = std::stol(frame[1]);
        if (frame[2] == "dynamic") {
          return absl::InternalError(absl::StrCat("the stack of ", name, " has no bound"));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Deepest(const std::string& root) {
    if (!functions_.contains(root)) return absl::InternalError("no function " + root);
    int64_t indirect = 0;
    for (const auto& [name, function] : functions_) {
      std::set<std::string> path;
      ASSIGN_OR_RETURN(const bool calls_pointers, CallsPointers(name, path));
      if (!calls_pointers) indirect = std::max(indirect, Depth(name));
    }
    functions_[kIndirect].frame_bytes = indirect;
    depths_.clear();
    return Depth(root);
  }

 private:
  // Also finds recursion.
  absl::StatusOr<bool> CallsPointers(const std::string& name, std::set<std::string>& path) {
    if (name == kIndirect) return true;
    if (const auto known = calls_pointers_.find(name); known != calls_pointers_.end()) {
      return known->second;
    }
    if (!path.insert(name).second) return absl::InternalError(absl::StrCat(name, " is recursive"));
    bool result = false;
    for (const std::string& callee : functions_[name].calls) {
      ASSIGN_OR_RETURN(const bool does, CallsPointers(callee, path));
      result |= does;
    }
    path.erase(name);
    return calls_pointers_[name] = result;
  }

  int64_t Depth(const std::string& name) {
    if (const auto known = depths_.find(name); known != depths_.end()) return known->second;
    int64_t deepest = 0;
    for (const std::string& callee : functions_[name].calls) {
      deepest = std::max(deepest, Depth(callee));
    }
    return depths_[name] = functions_[name].frame_bytes + deepest;
  }

  std::map<std::string, Function> functions_;
  std::map<std::string, bool> calls_pointers_;
  std::map<std::string, int64_t> depths_;
};

}  // namespace

absl::StatusOr<int64_t> StackBound(const std::string& call_graph, const std::string& root) {
  CallGraph graph;
  RETURN_IF_ERROR(graph.Parse(call_graph));
  return graph.Deepest(root);
}

}  // namespace onnx_memplan::testing
