#include "plan/joint_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "plan/liveness.h"
#include "plan/planners.h"
#include "random_problems.h"

namespace onnx_memplan {
namespace {

using testing::ForEachOrder;
using testing::RandomProblem;

// The smallest arena over all orders, in-place decisions and offsets, by trying all of them.
class BruteForce {
 public:
  explicit BruteForce(const PlanProblem& problem) : problem_(problem) {}

  // `known` is the arena of some plan.
  int64_t SmallestArena(int64_t known) {
    best_ = known;
    ForEachOrder(problem_, [&](const std::vector<int32_t>& order) {
      spans_ = StorageSpans(problem_, order);
      step_of_.assign(order.size(), 0);
      for (size_t i = 0; i < order.size(); ++i) step_of_[order[i]] = static_cast<int32_t>(i);
      offsets_.assign(problem_.storages.size(), 0);
      PlaceStorage(0, 0);
    });
    return best_;
  }

 private:
  bool Shares(int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes) const {
    return a < b + b_bytes && b < a + a_bytes;
  }

  // The step of an option by which `to` lies over `from`, or -1. Only there do they meet.
  int32_t InPlaceStep(size_t from, size_t to) const {
    for (const InPlaceOption& option : problem_.in_place) {
      const int32_t step = step_of_[option.task];
      if (option.from == static_cast<int32_t>(from) && option.to == static_cast<int32_t>(to) &&
          !problem_.storages[from].live_out && !problem_.storages[to].live_in &&
          spans_[from].end_step == step + 1 && spans_[to].first_step == step &&
          offsets_[from] == offsets_[to]) {
        return step;
      }
    }
    return -1;
  }

  // Storage s with those before it. A storage lies over at most one other in one step.
  bool Conflicts(size_t s) const {
    std::vector<std::pair<size_t, int32_t>> joined;
    for (size_t a = 0; a <= s; ++a) {
      for (size_t b = 0; b < a; ++b) {
        const int32_t first = std::max(spans_[a].first_step, spans_[b].first_step);
        const int32_t end = std::min(spans_[a].end_step, spans_[b].end_step);
        if (first >= end || !Shares(offsets_[a], problem_.storages[a].bytes, offsets_[b],
                                    problem_.storages[b].bytes)) {
          continue;
        }
        const int32_t step = std::max(InPlaceStep(a, b), InPlaceStep(b, a));
        if (step < 0) return true;
        for (const std::pair<size_t, int32_t>& side : {std::pair(a, step), std::pair(b, step)}) {
          if (std::ranges::find(joined, side) != joined.end()) return true;
          joined.push_back(side);
        }
      }
    }
    return false;
  }

  void PlaceStorage(size_t s, int64_t extent) {
    if (extent >= best_) return;
    if (s == problem_.storages.size()) {
      best_ = std::min(best_, std::max(extent, ScratchExtent()));
      return;
    }
    const Storage& storage = problem_.storages[s];
    if (storage.bytes == 0 || spans_[s].empty()) {
      offsets_[s] = 0;
      PlaceStorage(s + 1, extent);
      return;
    }
    for (int64_t offset = 0; offset + storage.bytes < best_; offset += storage.alignment) {
      offsets_[s] = offset;
      if (!Conflicts(s)) PlaceStorage(s + 1, std::max(extent, offset + storage.bytes));
    }
  }

  // The lowest place for each scratch.
  int64_t ScratchExtent() const {
    int64_t extent = 0;
    for (size_t t = 0; t < problem_.tasks.size(); ++t) {
      const Task& task = problem_.tasks[t];
      if (task.scratch_bytes == 0) continue;
      const auto free = [&](int64_t offset) {
        for (size_t s = 0; s < problem_.storages.size(); ++s) {
          if (spans_[s].first_step <= step_of_[t] && step_of_[t] < spans_[s].end_step &&
              Shares(offset, task.scratch_bytes, offsets_[s], problem_.storages[s].bytes)) {
            return false;
          }
        }
        return true;
      };
      int64_t offset = 0;
      while (!free(offset)) offset += task.scratch_alignment;
      extent = std::max(extent, offset + task.scratch_bytes);
    }
    return extent;
  }

  const PlanProblem& problem_;
  std::vector<StepSpan> spans_;
  std::vector<int32_t> step_of_;
  std::vector<int64_t> offsets_;
  int64_t best_ = 0;
};

Plan PlanWith(const std::string& name, const PlanProblem& problem, double seconds = 20) {
  absl::StatusOr<std::unique_ptr<Planner>> planner = MakePlanner(name);
  EXPECT_TRUE(planner.ok()) << planner.status();
  absl::StatusOr<Plan> plan = (*planner)->Run(problem, {.time_limit_seconds = seconds});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan{};
}

TEST(JointPlannerTest, EqualsBruteForceOverAllOrdersAndPackings) {
  int proven = 0, total = 0, optimal = 0;
  for (uint32_t seed = 0; seed < 1200; ++seed) {
    const PlanProblem problem = RandomProblem(seed, {.max_tasks = 5,
                                                     .max_storages = 6,
                                                     .max_bytes = 5,
                                                     .max_alignment_log2 = seed % 3 == 0 ? 1 : 0});
    const Plan plan = PlanWith("auto", problem, 0.2);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    const int64_t best = BruteForce(problem).SmallestArena(plan.arena_bytes);
    ASSERT_LE(plan.lower_bound, best) << "seed " << seed;
    if (plan.proven_optimal) {
      ASSERT_EQ(plan.arena_bytes, best) << "seed " << seed;
    }
    ++total;
    proven += plan.proven_optimal ? 1 : 0;
    optimal += plan.arena_bytes == best ? 1 : 0;
  }
  std::printf("%d problems: %d optimal, %d proven\n", total, optimal, proven);
  EXPECT_EQ(optimal, total);
  EXPECT_GE(proven, total * 95 / 100);
}

}  // namespace
}  // namespace onnx_memplan
