#include "plan/peak_estimate.h"

#include <algorithm>

#include "plan/liveness.h"
#include "plan/order_beam.h"
#include "plan/order_heuristics.h"
#include "plan/order_model.h"

namespace onnx_memplan {

int64_t EstimatePeakBytes(const PlanProblem& problem) {
  constexpr size_t kMostTasksForBeam = 1000;
  const OrderModel model = MakeOrderModel(problem);
  int64_t peak = PeakLiveBytes(problem, ProgramOrder(model));
  const auto consider = [&](const std::vector<int32_t>& order) {
    if (!order.empty()) peak = std::min(peak, PeakLiveBytes(problem, order));
  };
  consider(DepthFirstOrder(model));
  consider(ListOrder(model, ListRule::kPeakThenLive));
  consider(ReversedListOrder(model, ListRule::kPeakThenLive));
  if (problem.tasks.size() <= kMostTasksForBeam) consider(BeamOrder(model, {.width = 16}));
  return peak;
}

}  // namespace onnx_memplan
