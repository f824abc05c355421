#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "report/memory_report.h"

namespace onnx_memplan {
namespace {

// 3211264 -> "3,211,264".
std::string Grouped(int64_t value) {
  std::string digits = absl::StrCat(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string Shortened(const std::string& text, size_t width) {
  return text.size() <= width ? text : absl::StrCat("...", text.substr(text.size() - width + 3));
}

std::string Proof(int64_t arena_bytes, int64_t bound_bytes, bool proven_optimal) {
  if (proven_optimal) return "proven minimal";
  const double gap = bound_bytes == 0 ? 100.0
                                      : 100.0 * static_cast<double>(arena_bytes - bound_bytes) /
                                            static_cast<double>(bound_bytes);
  return absl::StrFormat("at most %.2f %% above the minimum (bound %s B)", gap,
                         Grouped(bound_bytes));
}

// "parameters 1,234 B, optimizer 2,468 B".
std::string StateSums(const MemoryReport& report) {
  std::vector<std::string> sums;
  for (const char* kind : {"parameter", "statistic", "optimizer"}) {
    int64_t bytes = 0;
    for (const ReportState& state : report.states) {
      if (state.kind == kind) bytes += state.type.Bytes();
    }
    if (bytes > 0) sums.push_back(absl::StrCat(kind, " ", Grouped(bytes), " B"));
  }
  return absl::StrJoin(sums, ", ");
}

// Where there are several.
void AppendEntryPoints(const MemoryReport& report, std::string* text) {
  if (report.entry_points.size() < 2) return;
  absl::StrAppendFormat(text,
                        "\nFunctions that share an arena of %s B; the first one is reported:\n",
                        Grouped(report.shared_arena_bytes()));
  for (const ReportEntryPoint& entry : report.entry_points) {
    absl::StrAppendFormat(text, "  %-12s %14s B  %5d steps %16s MACs  %s\n", entry.name,
                          Grouped(entry.arena_bytes), entry.steps, Grouped(entry.macs),
                          Proof(entry.arena_bytes, entry.lower_bound_bytes, entry.proven_optimal));
  }
}

void AppendStates(const MemoryReport& report, std::string* text) {
  if (report.states.empty()) return;
  absl::StrAppendFormat(text, "\n%14s %14s  %-10s %-26s %s\n", "offset", "bytes", "kind", "type",
                        "state");
  for (const ReportState& state : report.states) {
    absl::StrAppendFormat(text, "%14s %14s  %-10s %-26s %s\n", Grouped(state.offset),
                          Grouped(state.type.Bytes()), state.kind,
                          Shortened(state.type.ToString(), 26), Shortened(state.name, 48));
  }
}

void AppendSteps(const MemoryReport& report, std::string* text) {
  absl::StrAppendFormat(text, "\n%5s %14s %12s %14s  %-22s %s\n", "step", "live B", "scratch B",
                        "MACs", "operator", "node");
  for (const ReportStep& step : report.steps) {
    absl::StrAppendFormat(text, "%5d %14s %12s %14s  %-22s %s%s\n", step.index,
                          Grouped(step.live_bytes), Grouped(step.scratch_bytes), Grouped(step.macs),
                          Shortened(step.op, 22), Shortened(step.name, 40),
                          absl::StrCat(step.missing_kernel.empty() ? "" : "  (no kernel)",
                                       step.index == report.peak_step ? "  <- peak" : ""));
  }
}

std::string Where(const ReportTensor& tensor) {
  if (tensor.offset) return Grouped(*tensor.offset);
  return tensor.kind == "state" || tensor.kind == "update" ? "state" : "caller";
}

void AppendTensors(const MemoryReport& report, std::string* text) {
  absl::StrAppendFormat(text, "\n%14s %14s %13s  %-10s %-26s %s\n", "offset", "bytes", "steps",
                        "kind", "type", "tensor");
  for (const ReportTensor& tensor : report.tensors) {
    absl::StrAppendFormat(
        text, "%14s %14s %13s  %-10s %-26s %s\n", Where(tensor), Grouped(tensor.bytes),
        tensor.first_step ? absl::StrFormat("%d-%d", *tensor.first_step, *tensor.last_step) : "",
        tensor.kind, Shortened(tensor.type.ToString(), 26), Shortened(tensor.name, 48));
  }
}

void AppendSavings(const ReportSavings& savings, std::string* text) {
  if (savings.recomputed_values > 0) {
    absl::StrAppendFormat(text,
                          "  recomputed %14s B  %d values of the forward pass, for %.1f %% more "
                          "work\n",
                          Grouped(savings.recomputed_bytes), savings.recomputed_values,
                          100 * savings.extra_work);
  }
  if (savings.gradient_bytes_not_stored > 0) {
    absl::StrAppendFormat(text, "  not stored %14s B  gradients used up in their updates\n",
                          Grouped(savings.gradient_bytes_not_stored));
  }
}

// Operators that no code can be generated for.
void AppendMissingKernels(const MemoryReport& report, std::string* text) {
  std::map<std::string, int64_t> missing;
  int64_t steps = 0;
  for (const ReportStep& step : report.steps) {
    if (step.missing_kernel.empty()) continue;
    ++missing[step.op];
    ++steps;
  }
  if (steps == 0) return;
  absl::StrAppendFormat(text, "  no kernel  %14s    of the steps: planned only;", Grouped(steps));
  for (const auto& [op, count] : missing) {
    absl::StrAppendFormat(text, "%s %d %s", op == missing.begin()->first ? "" : ",", count, op);
  }
  absl::StrAppend(text, "\n");
}

}  // namespace

std::string RenderText(const MemoryReport& report, bool all_steps) {
  std::string text = absl::StrFormat("%s: %d steps for %s\n", report.model.name,
                                     report.steps.size(), report.target);
  absl::StrAppendFormat(&text, "  arena      %14s B  %s\n", Grouped(report.arena_bytes),
                        Proof(report.arena_bytes, report.lower_bound_bytes, report.proven_optimal));
  if (report.plain_arena_bytes) {
    absl::StrAppendFormat(&text, "  layout     %14s B  images in blocks of 8 channels; without\n",
                          Grouped(*report.plain_arena_bytes));
  }
  if (report.threads > 1) {
    absl::StrAppendFormat(&text, "  threads    %14d    share %d of the steps", report.threads,
                          report.shared_steps);
    if (report.one_thread_arena_bytes) {
      absl::StrAppendFormat(&text, "; arena for one: %s B",
                            Grouped(*report.one_thread_arena_bytes));
    }
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppendFormat(&text, "  weights    %14s B\n", Grouped(report.weights_bytes));
  if (report.persistent_bytes > 0) {
    absl::StrAppendFormat(&text, "  persistent %14s B  %s\n", Grouped(report.persistent_bytes),
                          StateSums(report));
  }
  absl::StrAppendFormat(&text, "  inputs     %14s B\n  outputs    %14s B\n  MACs       %14s\n",
                        Grouped(report.input_bytes()), Grouped(report.output_bytes()),
                        Grouped(report.macs));
  if (!report.entry_points.empty()) AppendSavings(report.entry_points.front().savings, &text);
  AppendMissingKernels(report, &text);
  absl::StrAppendFormat(&text, "  stack   <= %14s B\n", Grouped(report.stack_bound_bytes));
  absl::StrAppendFormat(&text, "  planner    %s: %s", report.planner, report.method);
  if (report.planning_seconds) absl::StrAppendFormat(&text, ", %.3f s", *report.planning_seconds);
  absl::StrAppend(&text, "\n");
  AppendEntryPoints(report, &text);
  if (!report.steps.empty()) {
    const ReportStep& peak = report.steps[static_cast<size_t>(report.peak_step)];
    absl::StrAppendFormat(&text, "\nThe peak is step %d, %s '%s'. Alive there:\n", peak.index,
                          peak.op, peak.name);
    for (const ReportAlive& alive : report.peak) {
      absl::StrAppendFormat(&text, "  %14s B at %12s  %-40s %s\n", Grouped(alive.bytes),
                            Grouped(alive.offset), Shortened(alive.name, 40), alive.why);
    }
  }
  if (all_steps) {
    AppendSteps(report, &text);
    AppendTensors(report, &text);
    AppendStates(report, &text);
  }
  return text;
}

}  // namespace onnx_memplan
