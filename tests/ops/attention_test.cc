// Attention for random sizes, layouts and masks on every target, against the definition in double
// precision.
#include "ops/host_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/op_def.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;
using Numbers = std::vector<int64_t>;

constexpr int32_t kQueryInput = 0;

struct AttentionSizes {
  int64_t batch, heads, rows, keys, depth, columns;
};

// An offset and strides of (batch, heads, rows, columns) of a matrix for each head.
Numbers HeadsFirst(const AttentionSizes& s, int64_t rows, int64_t columns) {
  return {0, s.heads * rows * columns, rows * columns, columns, 1};
}
// The same where the heads of a row lie beside each other, `skipped` elements into rows of
// `row_elements`.
Numbers HeadsInRows(int64_t rows, int64_t columns, int64_t row_elements, int64_t skipped) {
  return {skipped, rows * row_elements, columns, row_elements, 1};
}

float At(const Tensor& tensor, const Numbers& layout, const Numbers& index) {
  int64_t at = layout[0];
  for (size_t i = 0; i < index.size(); ++i) at += index[i] * layout[i + 1];
  return tensor.As<float>()[static_cast<size_t>(at)];
}

struct AttentionCase {
  AttentionSizes sizes;
  float scale = 1;
  Tensor q, k, v, mask;
  Numbers q_layout, k_layout, v_layout, y_layout, mask_layout;
  bool masked = false;
  bool known_mask = false;

  // By (batch, head, row, column).
  std::vector<double> Expected() const {
    const AttentionSizes& s = sizes;
    std::vector<double> result;
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        for (int64_t i = 0; i < s.rows; ++i) AppendRow(b, h, i, &result);
      }
    }
    return result;
  }

  void AppendRow(int64_t b, int64_t h, int64_t i, std::vector<double>* result) const {
    std::vector<double> weights;
    double highest = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < sizes.keys; ++j) {
      double score = 0;
      for (int64_t c = 0; c < sizes.depth; ++c) {
        score += static_cast<double>(At(q, q_layout, {b, h, i, c})) *
                 static_cast<double>(At(k, k_layout, {b, h, j, c}));
      }
      score *= static_cast<double>(scale);
      if (masked) score += static_cast<double>(At(mask, mask_layout, {b, h, i, j}));
      weights.push_back(score);
      highest = std::max(highest, score);
    }
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - highest);
    for (int64_t c = 0; c < sizes.columns; ++c) {
      double value = 0;
      for (int64_t j = 0; j < sizes.keys; ++j) {
        value +=
            weights[static_cast<size_t>(j)] * static_cast<double>(At(v, v_layout, {b, h, j, c}));
      }
      result->push_back(value / sum);
    }
  }

  NodeUnderTest Node() const {
    NodeUnderTest node("Attention", kMemplan);
    node.Input(q, false).Input(k, false).Input(v, false);
    if (masked) node.Input(mask, known_mask).Set("mask", mask_layout);
    const AttentionSizes& s = sizes;
    node.Set("batch", Numbers{s.batch, s.heads}).Set("rows", s.rows).Set("keys", s.keys);
    node.Set("depth", s.depth).Set("columns", s.columns).Set("scale", scale);
    node.Set("q", q_layout).Set("k", k_layout).Set("v", v_layout).Set("y", y_layout);
    node.Set("shape", Numbers{s.batch, s.heads * s.rows, s.columns});
    return node;
  }
};

AttentionCase RandomCase(std::mt19937& random) {
  AttentionCase c;
  AttentionSizes& s = c.sizes;
  const auto size = [&random](int64_t most) {
    return RandomInt(0, 3, random) == 0 ? RandomInt(1, 4, random) : RandomInt(1, most, random);
  };
  s = {RandomInt(1, 2, random), RandomInt(1, 2, random), size(70), size(50), size(40), size(40)};
  if (RandomInt(0, 3, random) == 0) s.columns = s.depth;
  c.scale = RandomInt(0, 1, random) == 0 ? 1.0F : 0.25F;
  const auto operand = [&](int64_t rows, int64_t columns, Numbers* layout) {
    if (RandomInt(0, 1, random) == 0) {
      *layout = HeadsFirst(s, rows, columns);
      return RandomFloats({s.batch, s.heads, rows, columns}, random);
    }
    const int64_t before = RandomInt(0, 5, random), behind = RandomInt(0, 5, random);
    const int64_t elements = before + s.heads * columns + behind;
    *layout = HeadsInRows(rows, columns, elements, before);
    return RandomFloats({s.batch, rows, elements}, random);
  };
  c.q = operand(s.rows, s.depth, &c.q_layout);
  c.k = operand(s.keys, s.depth, &c.k_layout);
  c.v = operand(s.keys, s.columns, &c.v_layout);
  if (RandomInt(0, 3, random) == 0) {  // keys as columns
    c.k = RandomFloats({s.batch, s.heads, s.depth, s.keys}, random);
    c.k_layout = {0, s.heads * s.depth * s.keys, s.depth * s.keys, 1, s.keys};
  }
  c.y_layout = RandomInt(0, 1, random) == 0
                   ? HeadsFirst(s, s.rows, s.columns)
                   : HeadsInRows(s.rows, s.columns, s.heads * s.columns, 0);
  c.masked = RandomInt(0, 3, random) != 0;
  c.known_mask = RandomInt(0, 1, random) != 0;
  const float away = RandomInt(0, 1, random) == 0 ? -1e9F : -std::numeric_limits<float>::infinity();
  std::vector<float> mask;
  switch (RandomInt(0, 3, random)) {
    case 0:  // one for all queries
      for (int64_t j = 0; j < s.keys; ++j) mask.push_back(j > 0 && j % 3 == 0 ? away : 0.0F);
      c.mask = Tensor::FromVector<float>({s.keys}, mask);
      c.mask_layout = {0, 0, 0, 0, 1};
      break;
    case 1:  // causal
      for (int64_t i = 0; i < s.rows * s.keys; ++i) {
        mask.push_back(i % s.keys > i / s.keys ? away : 0.0F);
      }
      c.mask = Tensor::FromVector<float>({s.rows, s.keys}, mask);
      c.mask_layout = {0, 0, 0, s.keys, 1};
      break;
    case 2:  // by batch and head
      c.mask = RandomFloats({s.batch, s.heads, s.rows, s.keys}, random);
      c.mask_layout = HeadsFirst(s, s.rows, s.keys);
      break;
    default:  // transposed
      c.mask = RandomFloats({s.keys, s.rows}, random);
      c.mask_layout = {0, 0, 0, 1, s.rows};
  }
  return c;
}

void ExpectRight(const AttentionCase& c, const std::vector<double>& expected, const Tensor& y,
                 const std::string& what) {
  const AttentionSizes& s = c.sizes;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t row = at / s.columns;
    const float value =
        At(y, c.y_layout,
           {row / s.rows / s.heads, row / s.rows % s.heads, row % s.rows, at % s.columns});
    if (!(std::abs(static_cast<double>(value) - expected[i]) <= 2e-5)) {
      ADD_FAILURE() << what << " gives " << value << " for " << expected[i] << " at " << i << " of "
                    << s.batch << "x" << s.heads << "x" << s.rows << "x" << s.keys << "x" << s.depth
                    << "x" << s.columns;
      return;
    }
  }
}

TEST(Attention, EqualsItsDefinitionForRandomShapesOnEveryTarget) {
  std::mt19937 random(1);
  std::set<std::string> names;
  int in_place = 0;
  for (int i = 0; i < 200 && !::testing::Test::HasFailure(); ++i) {
    const AttentionCase c = RandomCase(random);
    const std::vector<double> expected = c.Expected();
    for (const Target& target : BuiltinTargets()) {
      NodeUnderTest node = c.Node();
      const absl::StatusOr<Lowering> lowering = node.Lower(target);
      ASSERT_TRUE(lowering.ok()) << lowering.status();
      const std::string& name = lowering->calls[0].name;
      names.insert(name);
      ExpectRight(c, expected, (*node.Run(target))[0], name);
      if (c.q_layout != c.y_layout || c.sizes.depth != c.sizes.columns) continue;
      ExpectRight(c, expected, (*node.Run(target, kQueryInput))[0], name + " in place");
      ++in_place;
    }
  }
  // One for each pair of tiles that a target can choose, but for rare ones.
  EXPECT_GE(names.size(), 18u);
  EXPECT_GT(in_place, 0);
}

TEST(Attention, NeedsNoMemoryForAllScores) {
  AttentionCase c;
  c.sizes = {1, 2, 200, 200, 8, 8};
  std::mt19937 random(1);
  c.q = c.k = c.v = RandomFloats({1, 200, 16}, random);
  c.q_layout = c.k_layout = c.v_layout = c.y_layout = HeadsInRows(200, 8, 16, 0);
  for (const Target& target : BuiltinTargets()) {
    const Lowering lowering = *c.Node().Lower(target);
    EXPECT_LE(lowering.scratch_bytes, 208 * 32 * 4) << target.name;
    EXPECT_EQ(lowering.macs, 2 * 200 * 200 * 16);
  }
}

TEST(Attention, RefusesLayoutsThatReachPastOperandsOrMissResults) {
  AttentionCase good;
  good.sizes = {1, 1, 3, 4, 2, 2};
  std::mt19937 random(1);
  good.q = RandomFloats({3, 2}, random);
  good.k = good.v = RandomFloats({4, 2}, random);
  good.q_layout = good.k_layout = good.v_layout = good.y_layout = {0, 0, 0, 2, 1};
  EXPECT_TRUE(good.Node().Infer().ok());

  AttentionCase bad = good;
  bad.q_layout = {1, 0, 0, 2, 1};
  EXPECT_THAT(std::string(bad.Node().Infer().status().message()), HasSubstr("reaches past"));
  bad = good;
  bad.y_layout = {0, 0, 0, 1, 1};
  EXPECT_THAT(std::string(bad.Node().Infer().status().message()), HasSubstr("once"));
  bad = good;
  bad.v_layout = {0, 0, 0, 1, 2};
  EXPECT_FALSE(bad.Node().Infer().ok());
  bad = good;
  bad.k_layout = {0, 2, 1};
  EXPECT_THAT(std::string(bad.Node().Infer().status().message()), HasSubstr("4 strides"));
}

}  // namespace
}  // namespace onnx_memplan
