// Pools of images in blocks of channels, against those of plain images.
#include "ops/host_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/blocked_image.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

struct RandomPool {
  Tensor x;
  std::vector<int64_t> taps, stride, dilation, pads;
  int64_t ceil_mode = 0;
  int64_t counts_padding = 0;
};

RandomPool MakeRandom(std::mt19937& random) {
  RandomPool pool;
  Shape shape = {RandomInt(1, 2, random), RandomInt(1, 20, random)};
  pool.pads.assign(4, 0);
  const int64_t style = RandomInt(0, 2, random);  // 0: 2 taps, 1: 3 taps, 2: any
  for (size_t i = 0; i < 2; ++i) {
    pool.taps.push_back(style == 2 ? RandomInt(1, 4, random) : 2 + style);
    pool.stride.push_back(style == 2 ? RandomInt(1, 3, random) : RandomInt(1, 2, random));
    pool.dilation.push_back(style == 2 ? RandomInt(1, 2, random) : 1);
    const int64_t reach = (pool.taps[i] - 1) * pool.dilation[i] + 1;
    // Every window has an element of the input.
    pool.pads[i] = RandomInt(0, pool.taps[i] - 1, random);
    pool.pads[2 + i] = RandomInt(0, pool.taps[i] - 1, random);
    shape.push_back(reach + RandomInt(0, 30, random));
  }
  pool.ceil_mode = RandomInt(0, 1, random);
  pool.counts_padding = RandomInt(0, 1, random);
  pool.x = RandomFloats(shape, random);
  return pool;
}

NodeUnderTest MakeNode(const RandomPool& pool, const std::string& op_type, bool blocked) {
  NodeUnderTest node((blocked ? "Blocked" : "") + op_type, blocked ? "onnx_memplan" : "");
  node.Input(blocked ? Blocked(pool.x, 3.5F) : pool.x, false);
  if (op_type.starts_with("Global")) return node;
  node.Set("kernel_shape", pool.taps).Set("strides", pool.stride).Set("pads", pool.pads);
  node.Set("dilations", pool.dilation).Set("ceil_mode", pool.ceil_mode);
  if (op_type == "AveragePool") node.Set("count_include_pad", pool.counts_padding);
  return node;
}

// Compares with the plain operator on every target; adds the kernels' names.
void Check(const RandomPool& pool, const std::string& op_type, std::set<std::string>* names) {
  SCOPED_TRACE(op_type + " of " + ShapeToString(pool.x.shape()));
  const Tensor expected = MakeNode(pool, op_type, false).Run(BuiltinTargets().front()).value()[0];
  for (const Target& target : BuiltinTargets()) {
    NodeUnderTest node = MakeNode(pool, op_type, true);
    names->insert(node.Lower(target).value().calls[0].name);
    const Tensor blocked = node.Run(target).value()[0];
    for (const float value : blocked.As<float>()) EXPECT_TRUE(std::isfinite(value));
    const Tensor y = Unblocked(blocked, pool.x.shape()[1]);
    ASSERT_EQ(y.shape(), expected.shape());
    for (size_t i = 0; i < y.As<float>().size(); ++i) {
      ASSERT_NEAR(y.As<float>()[i], expected.As<float>()[i], 1e-6) << i;
    }
  }
}

TEST(BlockedPool, EqualsThePoolOfPlainImagesForRandomWindowsOnEveryTarget) {
  std::mt19937 random(1);
  std::set<std::string> names;
  for (int i = 0; i < 300 && !::testing::Test::HasFailure(); ++i) {
    const RandomPool pool = MakeRandom(random);
    for (const char* op_type : {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"}) {
      Check(pool, op_type, &names);
    }
  }
  for (const char* kernel :
       {"MaxPool<4, 2, 2>", "MaxPool<4, 0, 0>", "MaxPool<8, 3, 2>", "MaxPool<8, 3, 1>",
        "AveragePool<8, 2, 2>", "AveragePool<8, 3, 1>", "AveragePool<8, 0, 0>"}) {
    EXPECT_THAT(names, Contains(HasSubstr(kernel)));
  }
}

TEST(BlockedPool, RefusesPlainImagesAndWindowsThatDoNotFit) {
  std::mt19937 random(2);
  for (const char* op_type : {"BlockedMaxPool", "BlockedGlobalAveragePool"}) {
    NodeUnderTest node(op_type, "onnx_memplan");
    node.Input(RandomFloats({1, 8, 4, 4}, random), false);
    node.Set("kernel_shape", std::vector<int64_t>{2, 2});
    EXPECT_THAT(std::string(node.Infer().status().message()), HasSubstr("blocks of channels"));
  }
  NodeUnderTest node("BlockedMaxPool", "onnx_memplan");
  node.Input(RandomFloats({1, 1, 4, 4, 8}, random), false);
  node.Set("kernel_shape", std::vector<int64_t>{5, 2});
  EXPECT_THAT(std::string(node.Infer().status().message()), HasSubstr("reaches over 5"));
}

}  // namespace
}  // namespace onnx_memplan
