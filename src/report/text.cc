#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "onnx_memplan/emit.h"
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

std::string Proof(const MemoryReport& report) {
  if (report.proven_optimal) return "proven minimal";
  const double gap = report.lower_bound_bytes == 0
                         ? 100.0
                         : 100.0 *
                               static_cast<double>(report.arena_bytes - report.lower_bound_bytes) /
                               static_cast<double>(report.lower_bound_bytes);
  return absl::StrFormat("at most %.2f %% above the minimum (bound %s B)", gap,
                         Grouped(report.lower_bound_bytes));
}

void AppendSteps(const MemoryReport& report, std::string* text) {
  absl::StrAppendFormat(text, "\n%5s %14s %12s %14s  %-22s %s\n", "step", "live B", "scratch B",
                        "MACs", "operator", "node");
  for (const ReportStep& step : report.steps) {
    absl::StrAppendFormat(text, "%5d %14s %12s %14s  %-22s %s%s\n", step.index,
                          Grouped(step.live_bytes), Grouped(step.scratch_bytes), Grouped(step.macs),
                          Shortened(step.op, 22), Shortened(step.name, 40),
                          step.index == report.peak_step ? "  <- peak" : "");
  }
}

void AppendTensors(const MemoryReport& report, std::string* text) {
  absl::StrAppendFormat(text, "\n%14s %14s %13s  %-10s %-26s %s\n", "offset", "bytes", "steps",
                        "kind", "type", "tensor");
  for (const ReportTensor& tensor : report.tensors) {
    absl::StrAppendFormat(
        text, "%14s %14s %13s  %-10s %-26s %s\n",
        tensor.offset ? Grouped(*tensor.offset) : "caller", Grouped(tensor.bytes),
        tensor.first_step ? absl::StrFormat("%d-%d", *tensor.first_step, *tensor.last_step) : "",
        tensor.kind, Shortened(tensor.type.ToString(), 26), Shortened(tensor.name, 48));
  }
}

}  // namespace

std::string RenderText(const MemoryReport& report, bool all_steps) {
  std::string text = absl::StrFormat("%s: %d steps for %s\n", report.model.name,
                                     report.steps.size(), report.target);
  absl::StrAppendFormat(&text, "  arena      %14s B  %s\n", Grouped(report.arena_bytes),
                        Proof(report));
  absl::StrAppendFormat(&text, "  weights    %14s B\n", Grouped(report.weights_bytes));
  if (report.persistent_bytes > 0) {
    absl::StrAppendFormat(&text, "  persistent %14s B\n", Grouped(report.persistent_bytes));
  }
  absl::StrAppendFormat(&text, "  inputs     %14s B\n  outputs    %14s B\n  MACs       %14s\n",
                        Grouped(report.input_bytes()), Grouped(report.output_bytes()),
                        Grouped(report.macs));
  absl::StrAppendFormat(&text, "  stack   <= %14s B\n", Grouped(kStackBoundBytes));
  absl::StrAppendFormat(&text, "  planner    %s: %s", report.planner, report.method);
  if (report.planning_seconds) absl::StrAppendFormat(&text, ", %.3f s", *report.planning_seconds);
  absl::StrAppend(&text, "\n");
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
  }
  return text;
}

}  // namespace onnx_memplan
