#include "plan/problem.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Sums of bytes must stay far from the limit of int64_t, so that no planner has to check additions.
constexpr int64_t kMaxTotalBytes = int64_t{1} << 61;

std::string TaskLabel(const PlanProblem& problem, int32_t task) {
  return absl::StrCat("task ", task, " \"", problem.tasks[static_cast<size_t>(task)].name, "\"");
}

std::string StorageLabel(const PlanProblem& problem, size_t storage) {
  return absl::StrCat("storage ", storage, " \"", problem.storages[storage].name, "\"");
}

bool IsPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

absl::Status CheckIndices(const std::vector<int32_t>& indices, size_t count, absl::string_view list,
                          absl::string_view what, const std::string& label) {
  for (int32_t index : indices) {
    if (index < 0 || static_cast<size_t>(index) >= count) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: `%s` names %s %d, but there are %d",
                                                        label, list, what, index, count));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckStorages(const PlanProblem& problem, int64_t& total_bytes) {
  for (size_t s = 0; s < problem.storages.size(); ++s) {
    const Storage& storage = problem.storages[s];
    if (storage.bytes < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(StorageLabel(problem, s), " has a negative size: ", storage.bytes));
    }
    if (!IsPowerOfTwo(storage.alignment) || storage.alignment > kMaxTotalBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(StorageLabel(problem, s),
                       " has an alignment that is not a power of two: ", storage.alignment));
    }
    if (storage.fixed_offset.has_value()) {
      if (*storage.fixed_offset < 0 || *storage.fixed_offset > kMaxTotalBytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            StorageLabel(problem, s), " has a fixed offset out of range: ", *storage.fixed_offset));
      }
      if (*storage.fixed_offset % storage.alignment != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(StorageLabel(problem, s), " has the fixed offset ", *storage.fixed_offset,
                         ", which is not a multiple of its alignment ", storage.alignment));
      }
    }
    if (storage.bytes > kMaxTotalBytes - storage.alignment - total_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the sizes add up to more than 2^61 bytes at ", StorageLabel(problem, s)));
    }
    total_bytes += storage.bytes + storage.alignment;
  }
  return absl::OkStatus();
}

absl::Status CheckTasks(const PlanProblem& problem, int64_t& total_bytes) {
  const size_t storage_count = problem.storages.size();
  const size_t task_count = problem.tasks.size();
  for (size_t t = 0; t < task_count; ++t) {
    const Task& task = problem.tasks[t];
    const std::string label = TaskLabel(problem, static_cast<int32_t>(t));
    RETURN_IF_ERROR(CheckIndices(task.reads, storage_count, "reads", "storage", label));
    RETURN_IF_ERROR(CheckIndices(task.writes, storage_count, "writes", "storage", label));
    RETURN_IF_ERROR(CheckIndices(task.after, task_count, "after", "task", label));
    if (task.scratch_bytes < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(label, " has a negative scratch size: ", task.scratch_bytes));
    }
    if (!IsPowerOfTwo(task.scratch_alignment) || task.scratch_alignment > kMaxTotalBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          label, " has a scratch alignment that is not a power of two: ", task.scratch_alignment));
    }
    if (task.scratch_bytes > kMaxTotalBytes - task.scratch_alignment - total_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the sizes add up to more than 2^61 bytes at the scratch of ", label));
    }
    total_bytes += task.scratch_bytes + task.scratch_alignment;
  }
  return absl::OkStatus();
}

absl::Status CheckInPlace(const PlanProblem& problem) {
  const auto has = [](int32_t index, size_t count) {
    return index >= 0 && static_cast<size_t>(index) < count;
  };
  for (size_t i = 0; i < problem.in_place.size(); ++i) {
    const InPlaceOption& option = problem.in_place[i];
    if (!has(option.task, problem.tasks.size()) || !has(option.from, problem.storages.size()) ||
        !has(option.to, problem.storages.size())) {
      return absl::InvalidArgumentError(
          absl::StrFormat("in-place option %d (task %d, storage %d over %d) is out of range", i,
                          option.task, option.to, option.from));
    }
    if (option.from == option.to) {
      return absl::InvalidArgumentError(
          absl::StrFormat("in-place option %d puts storage %d over itself", i, option.from));
    }
    const Task& task = problem.tasks[static_cast<size_t>(option.task)];
    if (std::find(task.writes.begin(), task.writes.end(), option.to) == task.writes.end()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "in-place option %d: %s does not write %s", i, TaskLabel(problem, option.task),
          StorageLabel(problem, static_cast<size_t>(option.to))));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAcyclic(const PlanProblem& problem) {
  const auto task_count = static_cast<int32_t>(problem.tasks.size());
  const Precedence precedence = BuildPrecedence(problem);
  const std::vector<int32_t> order = ProgramOrder(precedence, task_count);
  if (order.size() < problem.tasks.size()) {
    std::vector<bool> ran(problem.tasks.size(), false);
    for (int32_t task : order) ran[static_cast<size_t>(task)] = true;
    const auto stuck = std::find(ran.begin(), ran.end(), false) - ran.begin();
    return absl::InvalidArgumentError(absl::StrFormat(
        "the precedence of the tasks has a cycle: %d tasks can never run, the first is %s",
        problem.tasks.size() - order.size(), TaskLabel(problem, static_cast<int32_t>(stuck))));
  }
  if (!problem.fixed_order) return absl::OkStatus();
  for (int32_t task = 0; task < task_count; ++task) {
    for (int32_t before : precedence.predecessors[task]) {
      if (before > task) {
        return absl::InvalidArgumentError(
            absl::StrFormat("the order of the tasks is fixed, but %s must run after %s",
                            TaskLabel(problem, task), TaskLabel(problem, before)));
      }
    }
  }
  return absl::OkStatus();
}

// The largest storages that are live at the step with the most live bytes, for a user who must make
// the arena smaller.
std::string DescribePeak(const PlanProblem& problem, const Plan& plan) {
  const auto steps = static_cast<int32_t>(plan.order.size());
  std::vector<int32_t> first(problem.storages.size(), steps), end(problem.storages.size(), 0);
  std::vector<int64_t> change(plan.order.size() + 2, 0);
  for (int32_t step = 0; step < steps; ++step) {
    const Task& task = problem.tasks[static_cast<size_t>(plan.order[static_cast<size_t>(step)])];
    for (const std::vector<int32_t>* list : {&task.reads, &task.writes}) {
      for (int32_t storage : *list) {
        const auto s = static_cast<size_t>(storage);
        first[s] = std::min(first[s], step);
        end[s] = step + 1;
      }
    }
    change[static_cast<size_t>(step)] += task.scratch_bytes;
    change[static_cast<size_t>(step) + 1] -= task.scratch_bytes;
  }
  for (size_t s = 0; s < problem.storages.size(); ++s) {
    if (problem.storages[s].live_in) first[s] = 0, end[s] = std::max(end[s], 1);
    if (problem.storages[s].live_out) end[s] = std::max(steps, 1);
    if (first[s] >= end[s]) continue;
    change[static_cast<size_t>(first[s])] += problem.storages[s].bytes;
    change[static_cast<size_t>(end[s])] -= problem.storages[s].bytes;
  }
  int64_t live = 0, peak = -1;
  int32_t peak_step = 0;
  for (int32_t step = 0; step < std::max(steps, 1); ++step) {
    live += change[static_cast<size_t>(step)];
    if (live > peak) peak = live, peak_step = step;
  }
  std::vector<size_t> at_peak;
  for (size_t s = 0; s < problem.storages.size(); ++s) {
    if (first[s] <= peak_step && peak_step < end[s]) at_peak.push_back(s);
  }
  std::sort(at_peak.begin(), at_peak.end(), [&](size_t a, size_t b) {
    return std::pair(-problem.storages[a].bytes, a) < std::pair(-problem.storages[b].bytes, b);
  });
  std::string text = absl::StrCat("most bytes are live at step ", peak_step);
  if (peak_step < steps) {
    absl::StrAppend(&text, " (", TaskLabel(problem, plan.order[static_cast<size_t>(peak_step)]),
                    ")");
  }
  for (size_t i = 0; i < std::min<size_t>(at_peak.size(), 5); ++i) {
    absl::StrAppend(&text, i == 0 ? ": " : ", ", problem.storages[at_peak[i]].name, " ",
                    problem.storages[at_peak[i]].bytes, " B");
  }
  return text;
}

}  // namespace

TaskLists::TaskLists(int32_t task_count, std::vector<std::pair<int32_t, int32_t>> edges) {
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  begin_.assign(static_cast<size_t>(task_count) + 1, 0);
  entries_.reserve(edges.size());
  for (const auto& [task, entry] : edges) {
    ++begin_[static_cast<size_t>(task) + 1];
    entries_.push_back(entry);
  }
  for (size_t t = 0; t < static_cast<size_t>(task_count); ++t) begin_[t + 1] += begin_[t];
}

Precedence BuildPrecedence(const PlanProblem& problem) {
  constexpr int32_t kNone = -1;
  constexpr int32_t kSeveral = -2;
  std::vector<int32_t> writer(problem.storages.size(), kNone);
  const auto task_count = static_cast<int32_t>(problem.tasks.size());
  for (int32_t t = 0; t < task_count; ++t) {
    for (int32_t storage : problem.tasks[static_cast<size_t>(t)].writes) {
      int32_t& known = writer[static_cast<size_t>(storage)];
      if (known == kNone || known == t) {
        known = t;
      } else {
        known = kSeveral;
      }
    }
  }
  std::vector<std::pair<int32_t, int32_t>> edges;  // (after, before)
  for (int32_t t = 0; t < task_count; ++t) {
    const Task& task = problem.tasks[static_cast<size_t>(t)];
    for (int32_t before : task.after) edges.emplace_back(t, before);
    for (int32_t storage : task.reads) {
      const int32_t before = writer[static_cast<size_t>(storage)];
      if (before < 0 || before == t || problem.storages[static_cast<size_t>(storage)].live_in) {
        continue;
      }
      edges.emplace_back(t, before);
    }
  }
  std::vector<std::pair<int32_t, int32_t>> reversed;
  reversed.reserve(edges.size());
  for (const auto& [after, before] : edges) reversed.emplace_back(before, after);
  return {.predecessors = TaskLists(task_count, std::move(edges)),
          .successors = TaskLists(task_count, std::move(reversed))};
}

std::vector<int32_t> ProgramOrder(const Precedence& precedence, int32_t task_count) {
  std::vector<int32_t> waiting(static_cast<size_t>(task_count));
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (int32_t t = 0; t < task_count; ++t) {
    waiting[static_cast<size_t>(t)] = static_cast<int32_t>(precedence.predecessors[t].size());
    if (waiting[static_cast<size_t>(t)] == 0) ready.push(t);
  }
  std::vector<int32_t> order;
  order.reserve(static_cast<size_t>(task_count));
  while (!ready.empty()) {
    const int32_t task = ready.top();
    ready.pop();
    order.push_back(task);
    for (int32_t next : precedence.successors[task]) {
      if (--waiting[static_cast<size_t>(next)] == 0) ready.push(next);
    }
  }
  return order;
}

bool IsTopologicalOrder(const Precedence& precedence, std::span<const int32_t> order,
                        int32_t task_count) {
  if (order.size() != static_cast<size_t>(task_count)) return false;
  std::vector<bool> ran(order.size(), false);
  for (int32_t task : order) {
    if (task < 0 || task >= task_count || ran[static_cast<size_t>(task)]) return false;
    for (int32_t before : precedence.predecessors[task]) {
      if (!ran[static_cast<size_t>(before)]) return false;
    }
    ran[static_cast<size_t>(task)] = true;
  }
  return true;
}

absl::Status CheckProblem(const PlanProblem& problem) {
  constexpr size_t kMaxCount = std::numeric_limits<int32_t>::max() / 4;
  if (problem.storages.size() > kMaxCount || problem.tasks.size() > kMaxCount) {
    return absl::InvalidArgumentError("more than 2^29 storages or tasks");
  }
  int64_t total_bytes = 0;
  RETURN_IF_ERROR(CheckStorages(problem, total_bytes));
  RETURN_IF_ERROR(CheckTasks(problem, total_bytes));
  RETURN_IF_ERROR(CheckInPlace(problem));
  if (problem.capacity.has_value() && *problem.capacity < 0) {
    return absl::InvalidArgumentError(absl::StrCat("negative capacity: ", *problem.capacity));
  }
  return CheckAcyclic(problem);
}

absl::StatusOr<Plan> Planner::Run(const PlanProblem& problem, const PlanBudget& budget) const {
  RETURN_IF_ERROR(CheckProblem(problem));
  ASSIGN_OR_RETURN(Plan plan, DoPlan(problem, budget));
  PlanProblem unlimited;  // the capacity is the user's affair, everything else is ours
  const PlanProblem* checked = &problem;
  if (problem.capacity.has_value() && plan.arena_bytes > *problem.capacity) {
    unlimited = problem;
    unlimited.capacity.reset();
    checked = &unlimited;
  }
  if (absl::Status status = VerifyPlan(*checked, plan); !status.ok()) {
    return absl::InternalError(
        absl::StrCat("a planner made an illegal plan (a fault of the tool): ", status.message()));
  }
  if (checked == &problem) return plan;
  const bool impossible = plan.lower_bound > *problem.capacity;
  return absl::ResourceExhaustedError(absl::StrCat(
      impossible ? "no plan can fit" : "no plan was found that fits", ": the arena needs ",
      plan.arena_bytes, " bytes, ", plan.arena_bytes - *problem.capacity,
      " more than the capacity of ", *problem.capacity, " (proven lower bound ", plan.lower_bound,
      "); ", DescribePeak(problem, plan)));
}

}  // namespace onnx_memplan
