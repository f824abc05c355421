#include "plan/order_lns.h"

#include <algorithm>
#include <utility>

namespace onnx_memplan {
namespace {

// Failures at one size of window before a larger one is taken.
constexpr int kTriesPerSize = 3;

struct WindowResult {
  std::vector<int32_t> tasks;  // empty: nothing better was found
  bool optimal = false;        // and there is nothing better
};

WindowResult OrderWindow(const OrderModel& model, std::span<const int32_t> order, int32_t begin,
                         int32_t end, const WindowOptions& options, const Deadline& deadline) {
  ExecutionState before(model);
  for (int32_t task : order.first(begin)) before.Run(task);
  const std::span<const int32_t> window = order.subspan(begin, end - begin);
  const OrderPart part =
      PartExtractor(model).Extract(before, std::vector<int32_t>(window.begin(), window.end()));
  std::vector<int32_t> now(window.size());
  for (size_t i = 0; i < now.size(); ++i) now[i] = static_cast<int32_t>(i);
  const int64_t peak = OrderPeak(part.model, now);
  OrderSearchOptions search;
  search.node_limit = options.node_limit;
  search.table_bytes = int64_t{64} << 20;
  search.windows = false;
  const OrderSearchResult found = SearchOrder(part.model, search, deadline);
  WindowResult result;
  if (found.peak_bytes >= peak) {
    result.optimal = found.lower_bound >= peak;
    return result;
  }
  for (int32_t i : found.order) result.tasks.push_back(part.task_of[i]);
  return result;
}

}  // namespace

std::vector<int32_t> ImproveWindows(const OrderModel& model, std::vector<int32_t> order,
                                    const WindowOptions& options, const Deadline& deadline,
                                    std::mt19937_64& random) {
  const auto steps = static_cast<int32_t>(order.size());
  int32_t size = std::min(steps, options.first_tasks);
  int failures = 0;
  while (!deadline.expired()) {
    const std::vector<int64_t> live = LiveBytesByStep(model, order);
    const auto peak = std::max_element(live.begin(), live.end());
    if (*peak <= options.bound_bytes) break;
    const auto step = static_cast<int32_t>(peak - live.begin());
    const auto ahead = static_cast<int32_t>(random() % static_cast<uint64_t>(size));
    const int32_t begin = std::clamp(step - ahead, 0, steps - size);
    const WindowResult result = OrderWindow(model, order, begin, begin + size, options, deadline);
    if (!result.tasks.empty()) {
      std::copy(result.tasks.begin(), result.tasks.end(), order.begin() + begin);
      failures = 0;
      size = std::min(steps, options.first_tasks);
      continue;
    }
    if (++failures < kTriesPerSize) continue;
    const int32_t largest = std::min(steps, options.most_tasks);
    if (size == largest) break;
    size = std::min(largest, 2 * size);
    failures = 0;
  }
  return order;
}

std::vector<int32_t> LowerEverywhere(const OrderModel& model, std::vector<int32_t> order,
                                     const WindowOptions& options, const Deadline& deadline) {
  const auto steps = static_cast<int32_t>(order.size());
  const int32_t size = std::min(steps, options.first_tasks);
  for (int32_t begin = 0; !deadline.expired(); begin += std::max(1, size / 2)) {
    const int32_t end = std::min(begin + size, steps);
    const WindowResult result = OrderWindow(model, order, begin, end, options, deadline);
    std::copy(result.tasks.begin(), result.tasks.end(), order.begin() + begin);
    if (end == steps) break;
  }
  return order;
}

}  // namespace onnx_memplan
