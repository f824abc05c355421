#include "emit/memory_map.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "emit/names.h"

namespace onnx_memplan {
namespace {

struct Row {
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  std::string name;
};

std::vector<Row> Rows(const Program& program, const Plan& plan) {
  const PlanProblem& problem = program.problem;
  const auto num_steps = static_cast<int64_t>(plan.order.size());
  std::vector<Row> rows;
  std::vector<Row> storages(problem.storages.size());
  for (size_t s = 0; s < storages.size(); ++s) {
    const Storage& storage = problem.storages[s];
    storages[s] = {plan.offsets[s], storage.bytes, storage.live_in ? 0 : num_steps,
                   storage.live_out ? num_steps - 1 : -1, storage.name};
  }
  for (int64_t step = 0; step < num_steps; ++step) {
    const auto t = static_cast<size_t>(plan.order[static_cast<size_t>(step)]);
    const Task& task = problem.tasks[t];
    for (const std::vector<int32_t>* touched : {&task.reads, &task.writes}) {
      for (int32_t s : *touched) {
        Row& row = storages[static_cast<size_t>(s)];
        row.first_step = std::min(row.first_step, step);
        row.last_step = std::max(row.last_step, step);
      }
    }
    if (task.scratch_bytes > 0) {
      rows.push_back(
          {plan.scratch_offsets[t], task.scratch_bytes, step, step, "scratch of " + task.name});
    }
  }
  for (Row& row : storages) {
    if (row.bytes > 0 && row.first_step <= row.last_step) rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.offset, a.first_step) < std::tie(b.offset, b.first_step);
  });
  return rows;
}

}  // namespace

std::string RenderMemoryMap(const Program& program, const Plan& plan) {
  std::string text = absl::StrCat("// Arena: ", plan.arena_bytes, " bytes; ");
  if (plan.proven_optimal) {
    text += "no order and no placement of these tensors needs fewer.\n";
  } else {
    absl::StrAppend(&text, "no plan of these tensors needs fewer than ", plan.lower_bound, ".\n");
  }
  const std::vector<Row> rows = Rows(program, plan);
  if (rows.empty()) return text;
  text += "//\n//     offset      bytes     steps  what\n";
  for (const Row& row : rows) {
    absl::StrAppendFormat(&text, "// %10d %10d %4d-%-4d  %s\n", row.offset, row.bytes,
                          row.first_step, row.last_step, ForComment(row.name, 60));
  }
  return text;
}

std::string RenderStateMap(const StateLayout& states) {
  std::string text =
      absl::StrCat("// States: ", states.block_bytes(), " bytes that outlive a call.\n",
                   "//\n//     offset      bytes  kind       what\n");
  for (const PlacedState& state : states.states) {
    absl::StrAppendFormat(&text, "// %10d %10d  %-9s  %s\n", state.byte_offset, state.type.Bytes(),
                          StateKindName(state.kind), ForComment(state.name, 60));
  }
  absl::StrAppendFormat(&text, "// %10d %10d  %-9s  %s\n", states.bytes,
                        states.block_bytes() - states.bytes, "mark",
                        "says that the states are set");
  return text;
}

}  // namespace onnx_memplan
