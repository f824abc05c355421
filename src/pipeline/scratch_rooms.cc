#include "pipeline/scratch_rooms.h"

#include <algorithm>
#include <utility>

#include "plan/liveness.h"

namespace onnx_memplan {

std::vector<int64_t> ScratchRooms(const PlanProblem& problem, const Plan& plan, int64_t arena_bytes,
                                  int64_t alignment) {
  const std::vector<StepSpan> spans = StorageSpans(problem, plan.order);
  std::vector<int64_t> rooms(problem.tasks.size(), 0);
  for (size_t step = 0; step < plan.order.size(); ++step) {
    std::vector<std::pair<int64_t, int64_t>> taken;  // [first, end) bytes
    for (size_t s = 0; s < spans.size(); ++s) {
      const auto at = static_cast<int32_t>(step);
      if (spans[s].first_step <= at && at < spans[s].end_step) {
        taken.emplace_back(plan.offsets[s], plan.offsets[s] + problem.storages[s].bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    taken.emplace_back(arena_bytes, arena_bytes);
    int64_t& room = rooms[static_cast<size_t>(plan.order[step])];
    int64_t free_from = 0;
    for (const auto& [first, end] : taken) {
      room = std::max(room, first - (free_from + alignment - 1) / alignment * alignment);
      free_from = std::max(free_from, end);
    }
  }
  return rooms;
}

}  // namespace onnx_memplan
