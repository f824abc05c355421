#include "plan/state_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "random_problems.h"

namespace onnx_memplan {
namespace {

TEST(StateTableTest, KnowsWhatWasPutInUntilItIsFull) {
  std::mt19937_64 random(1);
  StateTable table(3, 1 << 20);
  std::vector<std::pair<uint64_t, std::vector<uint64_t>>> keys;
  for (int i = 0; i < 3000; ++i) {
    // Few hashes: equal ones must be told apart by their keys.
    keys.push_back({random() % 500 * 0x9e3779b97f4a7c15ull, {random(), random(), random()}});
  }
  int known = 0;
  for (const auto& [hash, key] : keys) {
    ASSERT_FALSE(table.Contains(hash, key));
    table.Insert(hash, key);
    ASSERT_TRUE(table.Contains(hash, key));
  }
  for (const auto& [hash, key] : keys) known += table.Contains(hash, key) ? 1 : 0;
  EXPECT_GT(known, 2000);
  table.Clear();
  EXPECT_EQ(table.size(), 0);
  EXPECT_FALSE(table.Contains(keys[0].first, keys[0].second));
}

TEST(StateTableTest, ForgetsInsteadOfGrowingPastItsLimit) {
  std::mt19937_64 random(2);
  StateTable table(1, 64 << 10);
  for (int i = 0; i < 100000; ++i) {
    const std::vector<uint64_t> key = {random()};
    table.Insert(key[0] * 31, key);
    ASSERT_TRUE(table.Contains(key[0] * 31, key));
  }
  EXPECT_LE(table.size() * 16, 64 << 10);
}

}  // namespace
}  // namespace onnx_memplan
