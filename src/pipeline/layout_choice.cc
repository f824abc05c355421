// Whether images are kept in blocks of channels.
#include <algorithm>
#include <utility>

#include "kernels/blocked.h"
#include "pipeline/entry.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

bool IsAllowed(const CompileOptions& options, int64_t blocked_bytes, int64_t plain_bytes) {
  if (options.arena_limit_bytes && blocked_bytes > *options.arena_limit_bytes &&
      plain_bytes <= *options.arena_limit_bytes) {
    return false;
  }
  if (options.optimize == OptimizeFor::kSpeed) return true;
  const int64_t allowed_percent = options.optimize == OptimizeFor::kMemory ? 100 : 103;
  return blocked_bytes * 100 <= plain_bytes * allowed_percent;
}

bool IsBlocked(const Entry& entry) {
  return std::any_of(entry.pass_runs.begin(), entry.pass_runs.end(),
                     [](const PassRun& run) { return run.pass == "block-channels"; });
}

}  // namespace

absl::StatusOr<Entry> MakeInferenceEntry(Graph graph, const Target& target, const Planner& planner,
                                         const CompileOptions& options) {
  if (target.vector_floats < kernels::kChannelBlock) {
    return MakeEntry("run", std::move(graph), target, planner, options);
  }
  CompileOptions with_blocks = options;
  with_blocks.passes.channel_block = kernels::kChannelBlock;
  ASSIGN_OR_RETURN(Entry blocked, MakeEntry("run", graph, target, planner, with_blocks));
  if (!IsBlocked(blocked)) return blocked;
  ASSIGN_OR_RETURN(Entry plain, MakeEntry("run", std::move(graph), target, planner, options));
  if (!IsAllowed(options, blocked.plan.arena_bytes, plain.plan.arena_bytes)) return plain;
  blocked.planning_seconds += plain.planning_seconds;
  blocked.plain_arena_bytes = plain.plan.arena_bytes;
  blocked.plain_graph = std::move(plain.program.graph);
  return blocked;
}

}  // namespace onnx_memplan
