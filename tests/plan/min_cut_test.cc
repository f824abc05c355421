#include "plan/min_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "random_problems.h"

namespace onnx_memplan {
namespace {

// The smallest cut by trying all sides.
int64_t BruteForce(int32_t nodes, const std::vector<std::array<int64_t, 3>>& arcs) {
  int64_t best = INT64_MAX;
  for (uint32_t side = 1; side < (1u << nodes); side += 4) {  // node 0 in, node 1 out
    int64_t cut = 0;
    for (const auto& [from, to, capacity] : arcs) {
      if ((side >> from & 1) != 0 && (side >> to & 1) == 0) cut += capacity;
    }
    best = std::min(best, cut);
  }
  return best;
}

TEST(MinCutTest, EqualsBruteForce) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto nodes = static_cast<int32_t>(2 + random() % 7);
    MinCut cut(nodes);
    std::vector<std::array<int64_t, 3>> arcs;
    for (uint32_t i = 0; i < random() % 20; ++i) {
      const auto from = static_cast<int32_t>(random() % static_cast<uint32_t>(nodes));
      const auto to = static_cast<int32_t>(random() % static_cast<uint32_t>(nodes));
      arcs.push_back({from, to, static_cast<int64_t>(random() % 10)});
      cut.AddArc(from, to, arcs.back()[2]);
    }
    const int64_t best = BruteForce(nodes, arcs);
    ASSERT_EQ(cut.Solve(), best) << "seed " << seed;
    int64_t by_side = 0;
    for (const auto& [from, to, capacity] : arcs) {
      if (cut.OnSourceSide(static_cast<int32_t>(from)) &&
          !cut.OnSourceSide(static_cast<int32_t>(to))) {
        by_side += capacity;
      }
    }
    ASSERT_EQ(by_side, best) << "seed " << seed;
    ASSERT_EQ(cut.Solve(), best) << "seed " << seed;  // again, from no flow
  }
}

TEST(MinCutTest, CutsWithUnlimitedArcsStartFromTheFlowOfTheFirst) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto nodes = static_cast<int32_t>(3 + random() % 6);
    MinCut cut(nodes);
    std::vector<std::array<int64_t, 3>> arcs;
    for (uint32_t i = 0; i < 5 + random() % 20; ++i) {
      const auto from = static_cast<int32_t>(random() % static_cast<uint32_t>(nodes));
      const auto to = static_cast<int32_t>(random() % static_cast<uint32_t>(nodes));
      arcs.push_back({from, to, static_cast<int64_t>(random() % 10)});
      cut.AddArc(from, to, arcs.back()[2]);
    }
    const int64_t best = BruteForce(nodes, arcs);
    ASSERT_EQ(cut.Solve(), best);
    constexpr int64_t kMuch = 1000;  // more than all arcs together
    for (int trial = 0; trial < 4; ++trial) {
      if (trial == 2) {  // arcs may be added in between
        arcs.push_back({2, 1, 5});
        cut.AddArc(2, 1, 5);
      }
      auto changed = arcs;
      const std::vector<int32_t> free = {static_cast<int32_t>(random() % arcs.size()),
                                         static_cast<int32_t>(random() % arcs.size())};
      for (int32_t arc : free) changed[static_cast<size_t>(arc)][2] = kMuch;
      const int64_t expected = BruteForce(nodes, changed);
      const int64_t more = cut.SolveWithout(free, kMuch);
      if (expected >= kMuch) {
        ASSERT_GE(best + more, kMuch) << "seed " << seed;
      } else {
        ASSERT_EQ(best + more, expected) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace onnx_memplan
