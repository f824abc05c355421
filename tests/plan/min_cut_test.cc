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

}  // namespace
}  // namespace onnx_memplan
