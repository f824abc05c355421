#include "report/memory_report.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "onnx_memplan/emit.h"
#include "plan/liveness.h"
#include "plan_build/state_layout.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t i) { return static_cast<size_t>(i); }

class ReportMaker {
 public:
  ReportMaker(const Program& program, const Plan& plan)
      : program_(program),
        graph_(program.graph),
        plan_(plan),
        spans_(StorageSpans(program.problem, plan.order)) {}

  void Fill(MemoryReport& report) {
    FillSteps(report);
    FillTensors(report);
    FillPeak(report);
    report.inputs = Ports(graph_.inputs);
    report.outputs = Ports(graph_.outputs);
  }

 private:
  std::vector<ReportPort> Ports(const std::vector<ValueId>& ids) const {
    std::vector<ReportPort> ports;
    for (ValueId id : ids) {
      const Value& value = graph_.values[Index(id)];
      ports.push_back({value.name, *value.type});
    }
    return ports;
  }

  static std::string OpText(const Node& node) {
    std::string text = node.op_type;
    if (node.epilogue.has_residual) absl::StrAppend(&text, "+Add");
    if (!node.epilogue.activation.empty()) absl::StrAppend(&text, "+", node.epilogue.activation);
    return text;
  }

  void FillSteps(MemoryReport& report) {
    std::vector<int64_t> live;
    PeakLiveBytes(program_.problem, plan_.order, &live);
    for (size_t i = 0; i < plan_.order.size(); ++i) {
      const int32_t task = plan_.order[i];
      const ProgramStep& program_step = program_.steps[Index(task)];
      const Node& node = graph_.nodes[Index(program_step.node)];
      ReportStep step;
      step.index = static_cast<int32_t>(i);
      step.op = OpText(node);
      step.name = graph_.NodeName(node);
      std::set<std::string> kernels;
      for (const KernelCall& call : program_step.lowering.calls) {
        if (kernels.insert(call.name).second) {
          absl::StrAppend(&step.kernel, step.kernel.empty() ? "" : "; ", call.name);
        }
      }
      step.missing_kernel = program_step.missing_kernel;
      step.live_bytes = live[i];
      step.scratch_bytes = program_step.lowering.scratch_bytes;
      if (step.scratch_bytes > 0) step.scratch_offset = plan_.scratch_offsets[Index(task)];
      step.macs = program_step.lowering.macs;
      report.macs += step.macs;
      report.steps.push_back(std::move(step));
    }
    const auto peak = std::max_element(live.begin(), live.end());
    report.peak_step = peak == live.end() ? 0 : static_cast<int32_t>(peak - live.begin());
  }

  std::string Kind(ValueId id, const Location& location) const {
    const auto contains = [id](const std::vector<ValueId>& ids) {
      return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    if (contains(graph_.inputs)) return "input";
    if (contains(graph_.outputs)) return "output";
    if (location.kind == Location::Kind::kState) {
      if (id == graph_.states[Index(location.index)].in) return "state";
      return is_view_[Index(id)] ? "view" : "update";
    }
    if (location.kind != Location::Kind::kArena) return "view";
    const Storage& storage = program_.problem.storages[Index(location.index)];
    if (storage.name == graph_.values[Index(id)].name) return "activation";
    return is_view_[Index(id)] ? "view" : "part";
  }

  void FillTensors(MemoryReport& report) {
    // A value that some step writes and that lies in another value's storage was made in place
    // there; one that no step writes is a view.
    is_view_.assign(graph_.values.size(), true);
    for (const ProgramStep& step : program_.steps) {
      for (ValueId output : graph_.nodes[Index(step.node)].outputs) {
        if (output != kNoValue) is_view_[Index(output)] = false;
      }
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Location& location = program_.locations[v];
      if (location.kind == Location::Kind::kNone || location.kind == Location::Kind::kConstant) {
        continue;
      }
      const Value& value = graph_.values[v];
      ReportTensor tensor;
      tensor.name = value.name;
      tensor.type = *value.type;
      tensor.bytes = value.type->Bytes();
      tensor.kind = Kind(static_cast<ValueId>(v), location);
      if (location.kind == Location::Kind::kArena) {
        tensor.offset = plan_.offsets[Index(location.index)] + location.byte_offset;
        const StepSpan span = spans_[Index(location.index)];
        if (!span.empty()) {
          tensor.first_step = span.first_step;
          tensor.last_step = span.end_step - 1;
        }
      }
      report.tensors.push_back(std::move(tensor));
    }
    std::stable_sort(report.tensors.begin(), report.tensors.end(),
                     [](const ReportTensor& a, const ReportTensor& b) {
                       const auto key = [](const ReportTensor& t) {
                         return std::tuple(t.first_step.value_or(-1), t.offset.value_or(-1));
                       };
                       return key(a) < key(b);
                     });
  }

  std::string Why(int32_t storage, int32_t step) const {
    const PlanProblem& problem = program_.problem;
    const auto contains = [storage](const std::vector<int32_t>& ids) {
      return std::find(ids.begin(), ids.end(), storage) != ids.end();
    };
    const Task& now = problem.tasks[Index(plan_.order[Index(step)])];
    if (contains(now.writes)) return "written here";
    if (contains(now.reads)) return "read here";
    for (size_t later = Index(step) + 1; later < plan_.order.size(); ++later) {
      const Task& task = problem.tasks[Index(plan_.order[later])];
      if (contains(task.reads)) {
        return absl::StrCat("read in step ", later, " by '", task.name, "'");
      }
      if (contains(task.writes)) {
        return absl::StrCat("more is written to it in step ", later, " by '", task.name, "'");
      }
    }
    return problem.storages[Index(storage)].live_out ? "kept for the caller"
                                                     : "unused from here on";
  }

  void FillPeak(MemoryReport& report) {
    if (plan_.order.empty()) return;
    const int32_t step = report.peak_step;
    for (size_t s = 0; s < spans_.size(); ++s) {
      const Storage& storage = program_.problem.storages[s];
      if (step < spans_[s].first_step || step >= spans_[s].end_step || storage.bytes == 0) continue;
      report.peak.push_back(
          {storage.name, storage.bytes, plan_.offsets[s], Why(static_cast<int32_t>(s), step)});
    }
    const int32_t task = plan_.order[Index(step)];
    if (const int64_t scratch = program_.steps[Index(task)].lowering.scratch_bytes; scratch > 0) {
      report.peak.push_back(
          {"scratch", scratch, plan_.scratch_offsets[Index(task)], "scratch of this step"});
    }
    std::stable_sort(report.peak.begin(), report.peak.end(),
                     [](const ReportAlive& a, const ReportAlive& b) { return a.bytes > b.bytes; });
  }

  const Program& program_;
  const Graph& graph_;
  const Plan& plan_;
  const std::vector<StepSpan> spans_;
  std::vector<bool> is_view_;  // by value: no step writes it
};

// Constants that steps read, each data block once.
int64_t WeightsBytes(std::span<const ReportEntry> entries) {
  std::set<const std::byte*> seen;
  int64_t bytes = 0;
  const auto add = [&](const Tensor& tensor) {
    if (seen.insert(tensor.data()).second) bytes += tensor.Bytes();
  };
  const auto add_argument = [&](const Program& program, const Node& node, const KernelCall& call,
                                const KernelArg& arg) {
    if (arg.kind == KernelArg::Kind::kConstant) add(call.constants[Index(arg.index)]);
    if (arg.kind != KernelArg::Kind::kInput) return;
    const ValueId input = node.inputs[Index(arg.index)];
    if (input == kNoValue) return;
    const Location& location = program.locations[Index(input)];
    if (location.kind == Location::Kind::kConstant) {
      add(*program.graph.values[Index(location.index)].constant);
    }
  };
  for (const ReportEntry& entry : entries) {
    for (const ProgramStep& step : entry.program->steps) {
      const Node& node = entry.program->graph.nodes[Index(step.node)];
      for (const KernelCall& call : step.lowering.calls) {
        for (const KernelArg& arg : call.args) add_argument(*entry.program, node, call, arg);
      }
    }
  }
  return bytes;
}

ReportEntryPoint Summary(const ReportEntry& entry) {
  ReportEntryPoint summary;
  summary.name = entry.name;
  summary.method = entry.plan->method;
  summary.arena_bytes = entry.plan->arena_bytes;
  summary.lower_bound_bytes = entry.plan->lower_bound;
  summary.proven_optimal = entry.plan->proven_optimal;
  summary.steps = static_cast<int64_t>(entry.plan->order.size());
  for (const ProgramStep& step : entry.program->steps) summary.macs += step.lowering.macs;
  summary.planning_seconds = entry.planning_seconds;
  summary.savings = entry.savings;
  return summary;
}

void FillStates(const Program& program, MemoryReport& report) {
  const StateLayout layout = LayOutStates(program.graph, program.target.arena_alignment);
  report.persistent_bytes = layout.block_bytes();
  for (const PlacedState& state : layout.states) {
    report.states.push_back(
        {state.name, state.type, state.byte_offset, std::string(StateKindName(state.kind))});
  }
}

int64_t TotalBytes(const std::vector<ReportPort>& ports) {
  int64_t bytes = 0;
  for (const ReportPort& port : ports) bytes += port.type.Bytes();
  return bytes;
}

}  // namespace

int64_t MemoryReport::input_bytes() const { return TotalBytes(inputs); }
int64_t MemoryReport::output_bytes() const { return TotalBytes(outputs); }

int64_t MemoryReport::shared_arena_bytes() const {
  int64_t bytes = arena_bytes;
  for (const ReportEntryPoint& entry : entry_points) bytes = std::max(bytes, entry.arena_bytes);
  return bytes;
}

namespace {

int64_t SharedSteps(const Program& program) {
  return std::count_if(program.steps.begin(), program.steps.end(), [](const ProgramStep& step) {
    return std::any_of(step.lowering.calls.begin(), step.lowering.calls.end(),
                       [](const KernelCall& call) { return !call.parts.empty(); });
  });
}

}  // namespace

MemoryReport MakeReport(std::span<const ReportEntry> entries, ReportModel model,
                        std::string planner) {
  const ReportEntry& first = entries.front();
  MemoryReport report;
  report.model = std::move(model);
  report.target = first.program->target.name;
  report.stack_bound_bytes = StackBoundBytes(first.program->target.vector_floats);
  report.planner = std::move(planner);
  report.method = first.plan->method;
  report.arena_bytes = first.plan->arena_bytes;
  report.lower_bound_bytes = first.plan->lower_bound;
  report.proven_optimal = first.plan->proven_optimal;
  report.planning_seconds = first.planning_seconds;
  ReportMaker(*first.program, *first.plan).Fill(report);
  report.weights_bytes = WeightsBytes(entries);
  report.plain_arena_bytes = first.plain_arena_bytes;
  report.threads = first.program->threads;
  report.shared_steps = SharedSteps(*first.program);
  report.one_thread_arena_bytes = first.one_thread_arena_bytes;
  FillStates(*first.program, report);
  for (const ReportEntry& entry : entries) report.entry_points.push_back(Summary(entry));
  return report;
}

MemoryReport MakeReport(const Program& program, const Plan& plan, ReportModel model,
                        std::string planner, std::optional<double> planning_seconds) {
  const ReportEntry run = {
      .program = &program, .plan = &plan, .planning_seconds = planning_seconds};
  return MakeReport({&run, 1}, std::move(model), std::move(planner));
}

}  // namespace onnx_memplan
