// Graph passes: rewrites that keep what the graph computes and make it cheaper to run and to hold.
#ifndef ONNX_MEMPLAN_PASSES_H_
#define ONNX_MEMPLAN_PASSES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

struct PassInfo {
  std::string_view name;
  std::string_view summary;  // one line, for --help
  bool on_by_default = true;
  // Later stages rely on it: it cannot be switched off.
  bool required = false;

  friend bool operator==(const PassInfo&, const PassInfo&) = default;
};

// All passes, in the order in which they run.
std::vector<PassInfo> ListPasses();

// Names of passes to switch on and off; everything else is as PassInfo says. `off` wins.
struct PassOptions {
  std::vector<std::string> on = {};
  std::vector<std::string> off = {};
  // Instead of the default: every pass that is not required is off unless `on` names it.
  bool only_named = false;
  // Channels in a block of `block-channels`, for a target whose vectors gain by that layout: 8, or
  // 0, and the pass does nothing.
  int32_t channel_block = 0;
};

// One run of one pass that changed something.
struct PassRun {
  std::string pass;
  int64_t rewrites = 0;  // places that the pass changed
  int64_t nodes_before = 0;
  int64_t nodes_after = 0;

  friend bool operator==(const PassRun&, const PassRun&) = default;
};

// Infers all types, folds constants, and runs the passes, each group to a fixed point. The graph is
// well formed and fully typed afterwards; its inputs and the names and types of its outputs are
// unchanged, no output is a graph input or a constant, and none is listed twice.
// InvalidArgument for an unknown pass name (the message lists all) and for a graph that cannot be
// typed; Internal, naming the pass, for a fault of ours.
absl::StatusOr<std::vector<PassRun>> OptimizeGraph(const PassOptions& options, Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_H_
