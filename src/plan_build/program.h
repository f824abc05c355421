// A graph lowered for a target, and its memory as a planning problem: all that the emitter, the
// replay and the report need beside a Plan.
#ifndef ONNX_MEMPLAN_PLAN_BUILD_PROGRAM_H_
#define ONNX_MEMPLAN_PLAN_BUILD_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"
#include "onnx_memplan/plan.h"
#include "ops/kernel_call.h"
#include "ops/target.h"

namespace onnx_memplan {

// Where the bytes of a value are while the program runs.
struct Location {
  enum class Kind : uint8_t {
    kNone,      // nowhere: no step reads or writes it
    kArena,     // byte_offset bytes into storage `index` of the problem
    kInput,     // byte_offset bytes into the caller's buffer for graph input `index`
    kOutput,    // byte_offset bytes into the caller's buffer for graph output `index`
    kConstant,  // byte_offset bytes into the constant data of value `index`
    kState,     // byte_offset bytes into state `index` of the graph
  };
  Kind kind = Kind::kNone;
  int32_t index = 0;
  int64_t byte_offset = 0;

  friend bool operator==(const Location&, const Location&) = default;
};

// A node that runs; nodes whose outputs are all views or parts made in place have no step.
struct ProgramStep {
  int32_t node = 0;  // index into Program::graph.nodes
  Lowering lowering;
  // Why there is no code for the node; empty: there is.
  std::string missing_kernel = {};
};

struct Program {
  Graph graph;  // typed; nodes in a legal order
  Target target;
  int32_t threads = 1;
  // steps[t] is task t of `problem`. The order of execution is the Plan's.
  std::vector<ProgramStep> steps;
  std::vector<Location> locations;  // by value
  PlanProblem problem;
};

struct BuildOptions {
  // Graph inputs and outputs live in the arena (live_in and live_out storages) and not in buffers
  // of the caller.
  bool io_in_arena = false;
  // Values that are computed again wait until their first reader could run (RecomputedWaits). Less
  // to search, and orders that are ruled out may be better.
  bool recompute_late = true;
  // A node for which no code can be generated is a step without calls and scratch, so that the
  // memory can be planned and reported nevertheless.
  bool allow_missing_kernels = false;
  // Threads that the calls of a step are shared out to (SplitCalls). Which kernels run does not
  // depend on it, so that results are the same bits for any number.
  int32_t threads = 1;
};

// OK, or Unimplemented with all the steps that have no kernel.
absl::Status CheckKernels(const Program& program);

// Lowers every node, merges views, and sets up the planning problem with in-place offers and
// scratch. Concatenations are made in place where that lowers the peak that an order can be
// expected to reach. `graph` is well formed and typed, with no two outputs the same value and no
// output that is a graph input or a constant (the pass "separate-outputs" sees to that).
//
// States stay where they are, in a block of their own: a node that makes a new value writes it over
// the old one, after all other readers of that, and nodes are reordered where program order is
// another. A graph output that is a state is copied.
//
// Errors: those of lowering, all nodes that cannot be lowered in one message (with
// allow_missing_kernels: save Unimplemented); InvalidArgument for a
// state that cannot be updated in place, naming the node.
absl::StatusOr<Program> BuildProgram(Graph graph, const Target& target,
                                     const BuildOptions& options);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_BUILD_PROGRAM_H_
