// What a person or a script wants to know of a planned program, as one value; renderers turn it
// into text, JSON, SVG and HTML.
#ifndef ONNX_MEMPLAN_REPORT_MEMORY_REPORT_H_
#define ONNX_MEMPLAN_REPORT_MEMORY_REPORT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onnx_memplan/plan.h"
#include "onnx_memplan/tensor.h"
#include "plan_build/program.h"

namespace onnx_memplan {

struct ReportModel {
  std::string name;
  std::string sha256;
  std::string producer;
  int64_t ir_version = 0;
  int64_t opset = 0;
};

struct ReportTensor {
  std::string name;
  TensorType type;
  int64_t bytes = 0;
  // Byte in the arena; absent for what the caller or the flash holds.
  std::optional<int64_t> offset;
  // Steps in which its memory must stay, inclusive; absent when no step touches it.
  std::optional<int32_t> first_step;
  std::optional<int32_t> last_step;
  // "activation"; "view" (bytes of another tensor); "part" (made inside a concatenation); "input"
  // and "output" (graph inputs and outputs, wherever they live); "state" (what outlives the run)
  // and "update" (made over a state).
  std::string kind;
};

struct ReportStep {
  int32_t index = 0;
  std::string op;    // operator type, with "+Relu" and the like for what is fused
  std::string name;  // the node's
  std::string kernel;
  // Why there is no code for it; empty: there is. Its scratch and work then count as 0.
  std::string missing_kernel;
  int64_t live_bytes = 0;  // storages that must be kept in this step, and its scratch
  int64_t scratch_bytes = 0;
  std::optional<int64_t> scratch_offset;
  int64_t macs = 0;
};

struct ReportAlive {
  std::string name;
  int64_t bytes = 0;
  int64_t offset = 0;
  std::string why;  // "written here", "read here", "read later by 'add3'", "scratch", ...
};

// A graph input or output.
struct ReportPort {
  std::string name;
  TensorType type;
};

// A tensor that outlives the run.
struct ReportState {
  std::string name;
  TensorType type;
  int64_t offset = 0;  // in the block of states
  std::string kind;    // "parameter", "statistic", "optimizer"
};

// What keeps a training step small.
struct ReportSavings {
  // Values that the backward pass computes again, their bytes, and the work for it as a share of
  // the step's.
  int64_t recomputed_values = 0;
  int64_t recomputed_bytes = 0;
  double extra_work = 0;
  // Weight gradients that are used up as they arise.
  int64_t gradient_bytes_not_stored = 0;

  friend bool operator==(const ReportSavings&, const ReportSavings&) = default;
};

// One of the functions that share the arena.
struct ReportEntryPoint {
  std::string name;  // "run", "train_step", ...
  std::string method;
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;
  bool proven_optimal = false;
  int64_t steps = 0;
  int64_t macs = 0;
  std::optional<double> planning_seconds;
  ReportSavings savings;
};

// Of the first entry point, where nothing else is said.
struct MemoryReport {
  ReportModel model;
  std::string target;
  std::string planner;
  std::string method;  // how the plan and its proof were found
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;
  bool proven_optimal = false;
  int32_t peak_step = 0;
  int64_t weights_bytes = 0;     // constants of all entry points
  int64_t persistent_bytes = 0;  // the block of states
  // Where images are kept in blocks of channels: the arena without that.
  std::optional<int64_t> plain_arena_bytes;
  int32_t threads = 1;
  int64_t shared_steps = 0;  // that more than one thread works at
  // Where there is more than one thread: the arena for one.
  std::optional<int64_t> one_thread_arena_bytes;
  int64_t macs = 0;
  int64_t stack_bound_bytes = 0;  // see StackBoundBytes
  std::optional<double> planning_seconds;
  std::vector<ReportPort> inputs;  // in the order of the generated function's arguments
  std::vector<ReportPort> outputs;
  std::vector<ReportTensor> tensors;           // by first step, then offset
  std::vector<ReportStep> steps;               // in order of execution
  std::vector<ReportAlive> peak;               // what is alive at peak_step, largest first
  std::vector<ReportState> states;             // by offset
  std::vector<ReportEntryPoint> entry_points;  // all

  int64_t input_bytes() const;
  int64_t output_bytes() const;
  // The arena that all entry points share: the largest of theirs.
  int64_t shared_arena_bytes() const;
};

// What MakeReport takes of an entry point.
struct ReportEntry {
  std::string name = "run";
  const Program* program = nullptr;
  const Plan* plan = nullptr;
  std::optional<double> planning_seconds = std::nullopt;
  ReportSavings savings = {};
  std::optional<int64_t> plain_arena_bytes = std::nullopt;
  std::optional<int64_t> one_thread_arena_bytes = std::nullopt;
};

// `entries` is not empty; the first one is reported in full.
MemoryReport MakeReport(std::span<const ReportEntry> entries, ReportModel model,
                        std::string planner);
MemoryReport MakeReport(const Program& program, const Plan& plan, ReportModel model,
                        std::string planner, std::optional<double> planning_seconds);

// A table that a person reads in a terminal. `all_steps`: every step and tensor, not only the peak.
std::string RenderText(const MemoryReport& report, bool all_steps);
// The JSON contract, format_version 1.
std::string RenderJson(const MemoryReport& report);
// The memory map: steps to the right, addresses upwards, one rectangle for each tensor.
std::string RenderSvg(const MemoryReport& report);
// The memory map with the tables, in one self-contained page.
std::string RenderHtml(const MemoryReport& report);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_REPORT_MEMORY_REPORT_H_
