// Whether images are kept in blocks of channels, and how much scratch their convolutions get.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/blocked.h"
#include "ops/op_def.h"
#include "ops/scratch_room.h"
#include "pipeline/entry.h"
#include "pipeline/scratch_rooms.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// How large the arena may be for the sake of speed, in percent of the smallest one.
int64_t AllowedPercent(OptimizeFor optimize) {
  return optimize == OptimizeFor::kMemory ? 100 : 103;
}

bool IsAllowed(const CompileOptions& options, int64_t blocked_bytes, int64_t plain_bytes) {
  if (options.arena_limit_bytes && blocked_bytes > *options.arena_limit_bytes &&
      plain_bytes <= *options.arena_limit_bytes) {
    return false;
  }
  if (options.optimize == OptimizeFor::kSpeed) return true;
  return blocked_bytes * 100 <= plain_bytes * AllowedPercent(options.optimize);
}

bool IsBlocked(const Entry& entry) {
  return std::any_of(entry.pass_runs.begin(), entry.pass_runs.end(),
                     [](const PassRun& run) { return run.pass == "block-channels"; });
}

// Gives the steps of `entry`, which was planned with the least scratch, as much as its plan has
// room for in `arena_bytes`, and `target` its choice of kernels within that.
absl::Status UseRoom(const Target& target, const Planner& planner, const CompileOptions& options,
                     int64_t arena_bytes, Entry& entry) {
  Graph graph = entry.program.graph;
  const std::vector<int64_t> rooms =
      ScratchRooms(entry.program.problem, entry.plan, arena_bytes, target.arena_alignment);
  for (size_t t = 0; t < rooms.size(); ++t) {
    Node& node = graph.nodes[static_cast<size_t>(entry.program.steps[t].node)];
    if (node.domain == kMemplan) node.attributes[kScratchRoomAttribute] = rooms[t];
  }
  ASSIGN_OR_RETURN(Program program,
                   BuildProgram(std::move(graph), target, BuildOptionsOf(options)));
  if (program.problem == entry.program.problem) {
    entry.program = std::move(program);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Plan plan,
                   RunTimed(planner, program.problem, options.budget, entry.planning_seconds));
  if (plan.arena_bytes > arena_bytes) return absl::OkStatus();
  entry.program = std::move(program);
  entry.plan = std::move(plan);
  return absl::OkStatus();
}

// Shares out the steps of `entry`, which was planned for one thread: that is what its kernels are
// chosen for, so that results do not depend on the number of threads.
absl::Status ShareOut(const Planner& planner, const CompileOptions& options, Entry& entry) {
  const Target target = entry.program.target;
  entry.one_thread_arena_bytes = entry.plan.arena_bytes;
  ASSIGN_OR_RETURN(entry.program,
                   BuildProgram(std::move(entry.program.graph), target, BuildOptionsOf(options)));
  ASSIGN_OR_RETURN(
      entry.plan, RunTimed(planner, entry.program.problem, options.budget, entry.planning_seconds));
  return absl::OkStatus();
}

// ONNX knows operators of ours as little as other tools do.
bool HasOwnOperators(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return node.domain == kMemplan; });
}

absl::StatusOr<Entry> ChooseLayout(Graph graph, const Target& target, const Planner& planner,
                                   const CompileOptions& options) {
  if (target.vector_floats < kernels::kChannelBlock) {
    return MakeEntry("run", std::move(graph), target, planner, options);
  }
  CompileOptions with_blocks = options;
  with_blocks.passes.channel_block = kernels::kChannelBlock;
  // Rings of rows cost a little time, for memory only.
  if (options.optimize == OptimizeFor::kSpeed) {
    with_blocks.passes.off.emplace_back("fuse-depthwise");
  }
  // Without transformed weights first: their kernels are the ones that take much scratch.
  Target least_scratch = target;
  if (options.optimize != OptimizeFor::kSpeed) least_scratch.optimize = OptimizeFor::kSize;
  ASSIGN_OR_RETURN(Entry blocked, MakeEntry("run", graph, least_scratch, planner, with_blocks));
  blocked.program.target = target;
  if (!IsBlocked(blocked)) return blocked;
  ASSIGN_OR_RETURN(Entry plain, MakeEntry("run", std::move(graph), target, planner, options));
  if (!IsAllowed(options, blocked.plan.arena_bytes, plain.plan.arena_bytes)) return plain;
  if (options.optimize == OptimizeFor::kBalanced || options.optimize == OptimizeFor::kMemory) {
    const int64_t smallest = std::min(plain.plan.arena_bytes, blocked.plan.arena_bytes);
    int64_t room_bytes = smallest * AllowedPercent(options.optimize) / 100;
    if (options.arena_limit_bytes) room_bytes = std::min(room_bytes, *options.arena_limit_bytes);
    room_bytes = std::max(room_bytes, blocked.plan.arena_bytes);
    RETURN_IF_ERROR(UseRoom(target, planner, options, room_bytes, blocked));
  }
  blocked.planning_seconds += plain.planning_seconds;
  blocked.plain_arena_bytes = plain.plan.arena_bytes;
  return blocked;
}

}  // namespace

absl::StatusOr<Entry> MakeInferenceEntry(Graph graph, const Target& target, const Planner& planner,
                                         const CompileOptions& options) {
  Graph source = graph;
  CompileOptions one_thread = options;
  one_thread.threads = 1;
  ASSIGN_OR_RETURN(Entry entry, ChooseLayout(std::move(graph), target, planner, one_thread));
  if (options.threads > 1) RETURN_IF_ERROR(ShareOut(planner, options, entry));
  if (HasOwnOperators(entry.program.graph)) entry.source = std::move(source);
  return entry;
}

}  // namespace onnx_memplan
