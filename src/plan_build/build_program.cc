#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "ops/parallel_axis.h"
#include "plan/peak_estimate.h"
#include "plan_build/memory_layout.h"
#include "plan_build/program.h"
#include "plan_build/recomputed_wait.h"
#include "plan_build/states.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

// Turns a layout into storages, tasks and in-place offers. `lowerings`: by node.
class ProblemBuilder {
 public:
  ProblemBuilder(const Graph& graph, const Target& target, const BuildOptions& options,
                 const std::vector<std::vector<Alias>>& aliases,
                 const std::vector<Lowering>& lowerings, const MemoryLayout& layout)
      : graph_(graph),
        target_(target),
        options_(options),
        aliases_(aliases),
        lowerings_(lowerings),
        layout_(layout),
        recomputed_waits_(options.recompute_late
                              ? RecomputedWaits(graph)
                              : std::vector<std::vector<ValueId>>(graph.nodes.size())) {}

  void Build() {
    storage_of_root_.assign(graph_.values.size(), -1);
    locations_.assign(graph_.values.size(), {});
    ready_.assign(graph_.values.size(), {});
    input_index_.assign(graph_.values.size(), -1);
    state_readers_.assign(graph_.states.size(), {});
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      input_index_[Index(graph_.inputs[i])] = static_cast<int32_t>(i);
      if (options_.io_in_arena) Locate(graph_.inputs[i]);
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) AddNode(n);
  }

  PlanProblem TakeProblem() { return std::move(problem_); }
  std::vector<Location> TakeLocations() { return std::move(locations_); }
  const std::vector<int32_t>& task_nodes() const { return task_nodes_; }

 private:
  // The location of a value, made when it is first asked for.
  const Location& Locate(ValueId value) {
    Location& location = locations_[Index(value)];
    if (location.kind != Location::Kind::kNone) return location;
    const Place place = layout_.places[Index(value)];
    const Value& root = graph_.values[Index(place.root)];
    const int32_t output = layout_.output_of_root[Index(place.root)];
    if (const int32_t state = layout_.state_of_root[Index(place.root)]; state >= 0) {
      location = {Location::Kind::kState, state, place.offset};
    } else if (root.constant.has_value()) {
      location = {Location::Kind::kConstant, place.root, place.offset};
    } else if (input_index_[Index(place.root)] >= 0 && !options_.io_in_arena) {
      location = {Location::Kind::kInput, input_index_[Index(place.root)], place.offset};
    } else if (output >= 0 && !options_.io_in_arena) {
      location = {Location::Kind::kOutput, output, place.offset};
    } else {
      location = {Location::Kind::kArena, StorageOf(place.root), place.offset};
    }
    return location;
  }

  int32_t StorageOf(ValueId root) {
    int32_t& storage = storage_of_root_[Index(root)];
    if (storage < 0) {
      storage = static_cast<int32_t>(problem_.storages.size());
      problem_.storages.push_back({.name = graph_.values[Index(root)].name,
                                   .bytes = graph_.values[Index(root)].type->Bytes(),
                                   .alignment = target_.arena_alignment,
                                   .live_in = input_index_[Index(root)] >= 0,
                                   .live_out = layout_.output_of_root[Index(root)] >= 0,
                                   .fixed_offset = std::nullopt});
    }
    return storage;
  }

  void AddNode(size_t n) {
    const Node& node = graph_.nodes[n];
    std::set<int32_t> waits_for;
    for (ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      waits_for.insert(ready_[Index(input)].begin(), ready_[Index(input)].end());
    }
    for (ValueId value : recomputed_waits_[n]) {
      waits_for.insert(ready_[Index(value)].begin(), ready_[Index(value)].end());
    }
    std::vector<int32_t> ready(waits_for.begin(), waits_for.end());
    if (layout_.runs[n]) {
      WaitForStates(n, ready);
      AddTask(n, ready);
      ready = {static_cast<int32_t>(problem_.tasks.size() - 1)};
    }
    for (ValueId output : node.outputs) {
      if (output == kNoValue) continue;
      Locate(output);
      ready_[Index(output)] = ready;
    }
  }

  // Adds to `after` the tasks that read what the node overwrites, and notes what it reads itself.
  // Readers of the old value come before the node (OrderUpdates); readers of the new one wait for
  // it as for any value.
  void WaitForStates(size_t n, std::vector<int32_t>& after) {
    const Node& node = graph_.nodes[n];
    std::set<int32_t> waits_for(after.begin(), after.end());
    for (ValueId output : node.outputs) {
      if (output == kNoValue) continue;
      const Location& location = Locate(output);
      if (location.kind != Location::Kind::kState) continue;
      if (layout_.written[Index(location.index)] != output) continue;
      const std::vector<int32_t>& readers = state_readers_[Index(location.index)];
      waits_for.insert(readers.begin(), readers.end());
    }
    after.assign(waits_for.begin(), waits_for.end());
    for (ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      const Location& location = Locate(input);
      if (location.kind != Location::Kind::kState) continue;
      state_readers_[Index(location.index)].push_back(static_cast<int32_t>(problem_.tasks.size()));
    }
  }

  // `ready_` of an output that is a view while the node runs for another output is the task as
  // well: later than need be, never too early.
  void AddTask(size_t n, const std::vector<int32_t>& after) {
    const Node& node = graph_.nodes[n];
    const Lowering& lowering = lowerings_[n];
    Task task;
    task.name = graph_.NodeName(node);
    task.after = after;
    task.scratch_bytes = lowering.scratch_bytes;
    task.scratch_alignment = lowering.scratch_bytes > 0 ? target_.arena_alignment : 1;
    task.reads = ArenaStorages(node.inputs);
    task.writes = ArenaStorages(node.outputs);
    AddInPlaceOffers(n, static_cast<int32_t>(problem_.tasks.size()));
    problem_.tasks.push_back(std::move(task));
    task_nodes_.push_back(static_cast<int32_t>(n));
  }

  std::vector<int32_t> ArenaStorages(const std::vector<ValueId>& values) {
    std::set<int32_t> storages;
    for (ValueId value : values) {
      if (value == kNoValue) continue;
      const Location& location = Locate(value);
      if (location.kind == Location::Kind::kArena) storages.insert(location.index);
    }
    return {storages.begin(), storages.end()};
  }

  void AddInPlaceOffers(size_t n, int32_t task) {
    const Node& node = graph_.nodes[n];
    for (const Alias& alias : aliases_[n]) {
      if (alias.kind != Alias::Kind::kInPlace) continue;
      const ValueId output = node.outputs[Index(alias.output)];
      const ValueId input = node.inputs[Index(alias.input)];
      if (output == kNoValue || input == kNoValue) continue;
      const Location from = Locate(input);
      const Location to = Locate(output);
      if (from.kind != Location::Kind::kArena || to.kind != Location::Kind::kArena) continue;
      if (from.index == to.index || from.byte_offset != 0 || to.byte_offset != 0) continue;
      if (ReadElsewhere(n, alias, input, from.index)) continue;
      problem_.in_place.push_back({task, from.index, to.index});
    }
  }

  // Another operand of the node lies in the same storage, and the kernel does not promise that the
  // output may overwrite it too.
  bool ReadElsewhere(size_t n, const Alias& offer, ValueId offered, int32_t storage) {
    const Node& node = graph_.nodes[n];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId other = node.inputs[i];
      if (static_cast<int32_t>(i) == offer.input || other == kNoValue) continue;
      const Location location = Locate(other);
      if (location.kind != Location::Kind::kArena || location.index != storage) continue;
      const Alias same{Alias::Kind::kInPlace, offer.output, static_cast<int32_t>(i), 0};
      const bool promised =
          std::find(aliases_[n].begin(), aliases_[n].end(), same) != aliases_[n].end();
      if (other != offered || !promised) return true;
    }
    return false;
  }

  const Graph& graph_;
  const Target& target_;
  const BuildOptions& options_;
  const std::vector<std::vector<Alias>>& aliases_;
  const std::vector<Lowering>& lowerings_;
  const MemoryLayout& layout_;
  const std::vector<std::vector<ValueId>> recomputed_waits_;  // by node
  PlanProblem problem_;
  std::vector<Location> locations_;
  std::vector<int32_t> task_nodes_;
  std::vector<int32_t> storage_of_root_;             // by root value; -1: none yet
  std::vector<int32_t> input_index_;                 // by value; -1: not a graph input
  std::vector<std::vector<int32_t>> ready_;          // by value: the tasks that must have run
  std::vector<std::vector<int32_t>> state_readers_;  // by state: the tasks that read it so far
};

// What stands in the way of code, of all nodes.
class LoweringFailures {
 public:
  void Add(absl::StatusCode code, std::string_view message) {
    if (count_++ == 0) code_ = code;
    if (count_ <= kMaxShown) {
      absl::StrAppend(&text_, "\n  ", absl::string_view(message.data(), message.size()));
    }
  }

  absl::Status ToStatus() const {
    if (count_ == 0) return absl::OkStatus();
    std::string text = absl::StrCat("no code can be generated for ", count_,
                                    count_ == 1 ? " node:" : " nodes:", text_);
    if (count_ > kMaxShown) absl::StrAppend(&text, "\n  and ", count_ - kMaxShown, " more");
    return absl::Status(code_, text);
  }

 private:
  static constexpr int64_t kMaxShown = 20;
  int64_t count_ = 0;
  absl::StatusCode code_ = absl::StatusCode::kOk;
  std::string text_;
};

// A node's step, once it is lowered.
struct LoweredNode {
  bool done = false;
  std::string missing_kernel;
};

// Lowers the nodes for which `needed` is set; all failures in one message.
absl::Status LowerNodes(const Graph& graph, const Target& target, const BuildOptions& options,
                        const std::vector<bool>& needed, std::vector<Lowering>& lowerings,
                        std::vector<LoweredNode>& lowered) {
  LoweringFailures failures;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!needed[n] || lowered[n].done) continue;
    absl::StatusOr<Lowering> lowering = LowerNode(graph, graph.nodes[n], target);
    const std::string message(lowering.status().message());
    if (lowering.ok()) {
      lowerings[n] = *std::move(lowering);
    } else if (options.allow_missing_kernels && absl::IsUnimplemented(lowering.status())) {
      lowered[n].missing_kernel = message;
    } else {
      failures.Add(lowering.status().code(), message);
    }
    lowered[n].done = true;
  }
  return failures.ToStatus();
}

// Which concatenations to make in place. Each saves a copy and the time when both its parts and the
// whole are live, but reserves the whole from its first part on. Start from the better of all and
// none, then toggle one at a time while the peak that an order can be expected to reach falls.
class ConcatChooser {
 public:
  ConcatChooser(const Graph& graph, const Target& target, const BuildOptions& options,
                const std::vector<std::vector<Alias>>& aliases,
                const std::vector<Lowering>& lowerings)
      : graph_(graph),
        target_(target),
        options_(options),
        aliases_(aliases),
        lowerings_(lowerings) {}

  std::vector<bool> Choose() {
    std::vector<size_t> candidates;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const Alias& alias : aliases_[n]) {
        if (alias.kind == Alias::Kind::kPart) {
          candidates.push_back(n);
          break;
        }
      }
    }
    std::vector<bool> none(graph_.nodes.size(), false);
    if (candidates.empty()) return none;
    std::vector<bool> best(graph_.nodes.size(), true);
    int64_t best_peak = Peak(best);
    if (const int64_t peak = Peak(none); peak < best_peak) {
      best = none;
      best_peak = peak;
    }
    constexpr size_t kMostToggles = 64;
    if (candidates.size() > kMostToggles) return best;
    for (size_t n : candidates) {
      best[n] = !best[n];
      const int64_t peak = Peak(best);
      // On equal peaks the concatenation in place wins: it saves a copy.
      if (peak < best_peak || (peak == best_peak && best[n])) {
        best_peak = peak;
      } else {
        best[n] = !best[n];
      }
    }
    return best;
  }

 private:
  int64_t Peak(const std::vector<bool>& parts_allowed) const {
    const MemoryLayout layout = MakeMemoryLayout(graph_, aliases_, parts_allowed);
    ProblemBuilder builder(graph_, target_, options_, aliases_, lowerings_, layout);
    builder.Build();
    return EstimatePeakBytes(builder.TakeProblem());
  }

  const Graph& graph_;
  const Target& target_;
  const BuildOptions& options_;
  const std::vector<std::vector<Alias>>& aliases_;
  const std::vector<Lowering>& lowerings_;
};

absl::Status PrepareStates(Graph& graph) {
  SeparateStatesFromOutputs(graph);
  // No state is part of a concatenation, so what is allowed there does not matter.
  const std::vector<bool> no_parts(graph.nodes.size(), false);
  const MemoryLayout layout = MakeMemoryLayout(graph, CollectAliases(graph), no_parts);
  RETURN_IF_ERROR(CheckUpdatesInPlace(graph, layout));
  return OrderUpdates(layout, graph);
}

}  // namespace

absl::Status CheckKernels(const Program& program) {
  LoweringFailures failures;
  for (const ProgramStep& step : program.steps) {
    if (step.missing_kernel.empty()) continue;
    failures.Add(absl::StatusCode::kUnimplemented, step.missing_kernel);
  }
  return failures.ToStatus();
}

absl::StatusOr<Program> BuildProgram(Graph graph, const Target& target,
                                     const BuildOptions& options) {
  if (!graph.states.empty()) RETURN_IF_ERROR(PrepareStates(graph));
  const std::vector<std::vector<Alias>> aliases = CollectAliases(graph);
  std::vector<Lowering> lowerings(graph.nodes.size());
  std::vector<LoweredNode> lowered(graph.nodes.size());
  // Whatever is allowed later, a node that runs when no part is made in place may be asked for.
  const std::vector<bool> no_parts(graph.nodes.size(), false);
  RETURN_IF_ERROR(LowerNodes(graph, target, options,
                             MakeMemoryLayout(graph, aliases, no_parts).runs, lowerings, lowered));
  for (size_t n = 0; n < lowerings.size() && options.threads > 1; ++n) {
    SplitCalls(options.threads, target.arena_alignment, aliases[n], lowerings[n]);
  }
  const std::vector<bool> parts =
      ConcatChooser(graph, target, options, aliases, lowerings).Choose();
  const MemoryLayout layout = MakeMemoryLayout(graph, aliases, parts);
  ProblemBuilder builder(graph, target, options, aliases, lowerings, layout);
  builder.Build();

  Program program;
  program.target = target;
  program.threads = options.threads;
  for (int32_t node : builder.task_nodes()) {
    MEMPLAN_CHECK(lowered[Index(node)].done);
    program.steps.push_back(
        {node, std::move(lowerings[Index(node)]), std::move(lowered[Index(node)].missing_kernel)});
  }
  program.problem = builder.TakeProblem();
  program.locations = builder.TakeLocations();
  program.graph = std::move(graph);
  return program;
}

}  // namespace onnx_memplan
