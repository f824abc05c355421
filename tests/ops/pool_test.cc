// Pools against their definitions, over random windows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;

struct RandomPool {
  Tensor x;
  std::vector<int64_t> taps, stride, dilation, pads;
  int64_t ceil_mode = 0;
};

RandomPool MakeRandomPool(std::mt19937& random) {
  RandomPool pool;
  const auto axes = static_cast<size_t>(RandomInt(1, 3, random));
  Shape shape = {RandomInt(1, 2, random), RandomInt(1, 3, random)};
  pool.pads.assign(2 * axes, 0);
  for (size_t i = 0; i < axes; ++i) {
    pool.taps.push_back(RandomInt(1, 4, random));
    pool.stride.push_back(RandomInt(1, 3, random));
    pool.dilation.push_back(RandomInt(1, 2, random));
    const int64_t reach = (pool.taps[i] - 1) * pool.dilation[i] + 1;
    // Every window has an element of the input.
    pool.pads[i] = RandomInt(0, pool.taps[i] - 1, random);
    pool.pads[axes + i] = RandomInt(0, pool.taps[i] - 1, random);
    shape.push_back(reach + RandomInt(0, axes == 1 ? 70 : axes == 2 ? 20 : 4, random));
  }
  pool.ceil_mode = RandomInt(0, 1, random);
  pool.x = RandomFloats(shape, random);
  return pool;
}

NodeUnderTest MakeNode(const RandomPool& pool, const std::string& op_type) {
  NodeUnderTest node(op_type);
  node.Input(pool.x, false);
  node.Set("kernel_shape", pool.taps).Set("strides", pool.stride).Set("pads", pool.pads);
  node.Set("dilations", pool.dilation).Set("ceil_mode", pool.ceil_mode);
  return node;
}

struct WindowElement {
  float value;
  int64_t index;  // in x
};

// The elements of the window of output `at` (flat), and the number of taps inside the padded input.
std::vector<WindowElement> Window(const RandomPool& pool, const Shape& out, int64_t at,
                                  int64_t* padded_taps) {
  const Shape& in = pool.x.shape();
  const size_t axes = pool.taps.size();
  int64_t tap_count = 1, in_volume = 1, out_volume = 1;
  for (size_t i = 0; i < axes; ++i) {
    tap_count *= pool.taps[i];
    in_volume *= in[2 + i];
    out_volume *= out[2 + i];
  }
  std::vector<WindowElement> elements;
  *padded_taps = 0;
  for (int64_t tap = 0; tap < tap_count; ++tap) {
    int64_t t = tap, q = at % out_volume, index = 0, scale = 1;
    bool inside = true, in_padding = true;
    for (size_t i = axes; i-- > 0;) {
      const int64_t in_at =
          q % out[2 + i] * pool.stride[i] + t % pool.taps[i] * pool.dilation[i] - pool.pads[i];
      t /= pool.taps[i];
      q /= out[2 + i];
      inside = inside && in_at >= 0 && in_at < in[2 + i];
      in_padding = in_padding && in_at < in[2 + i] + pool.pads[axes + i];
      index += in_at * scale;
      scale *= in[2 + i];
    }
    *padded_taps += in_padding ? 1 : 0;
    if (!inside) continue;
    index += at / out_volume * in_volume;
    elements.push_back({pool.x.As<float>()[static_cast<size_t>(index)], index});
  }
  return elements;
}

TEST(MaxPool, IsTheMaximumOfItsWindowOnEveryTarget) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const RandomPool pool = MakeRandomPool(random);
    NodeUnderTest node = MakeNode(pool, "MaxPool");
    NodeUnderTest with_indices = MakeNode(pool, "MaxPool");
    with_indices.Outputs(2);
    for (const Target& target : BuiltinTargets()) {
      const Tensor y = node.Run(target).value()[0];
      const std::vector<Tensor> both = with_indices.Run(target).value();
      EXPECT_EQ(y, both[0]);
      for (int64_t at = 0; at < y.NumElements(); ++at) {
        int64_t ignored;
        const std::vector<WindowElement> window = Window(pool, y.shape(), at, &ignored);
        ASSERT_FALSE(window.empty());
        const auto best = *std::max_element(
            window.begin(), window.end(),
            [](const WindowElement& a, const WindowElement& b) { return a.value < b.value; });
        ASSERT_EQ(y.As<float>()[static_cast<size_t>(at)], best.value);
        ASSERT_EQ(both[1].As<int64_t>()[static_cast<size_t>(at)], best.index);
      }
    }
  }
}

TEST(AveragePool, CountsPaddingOnlyIfAsked) {
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    const RandomPool pool = MakeRandomPool(random);
    for (const int64_t counts_padding : {0, 1}) {
      NodeUnderTest node = MakeNode(pool, "AveragePool");
      node.Set("count_include_pad", counts_padding);
      for (const Target& target : BuiltinTargets()) {
        const Tensor y = node.Run(target).value()[0];
        for (int64_t at = 0; at < y.NumElements(); ++at) {
          int64_t padded_taps;
          const std::vector<WindowElement> window = Window(pool, y.shape(), at, &padded_taps);
          float sum = 0;
          for (const WindowElement& element : window) sum += element.value;
          const auto count =
              counts_padding != 0 ? padded_taps : static_cast<int64_t>(window.size());
          ASSERT_NEAR(y.As<float>()[static_cast<size_t>(at)], sum / static_cast<float>(count),
                      1e-6);
        }
      }
    }
  }
}

TEST(LpPool, IsTheNormOfItsWindow) {
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    const RandomPool pool = MakeRandomPool(random);
    for (const int64_t norm : {1, 2, 3}) {
      NodeUnderTest node = MakeNode(pool, "LpPool");
      node.Set("p", norm);
      const Tensor y = node.Run(BuiltinTargets().front()).value()[0];
      for (int64_t at = 0; at < y.NumElements(); ++at) {
        int64_t ignored;
        double sum = 0;
        for (const WindowElement& element : Window(pool, y.shape(), at, &ignored)) {
          sum += std::pow(std::abs(static_cast<double>(element.value)), norm);
        }
        ASSERT_NEAR(y.As<float>()[static_cast<size_t>(at)],
                    std::pow(sum, 1.0 / static_cast<double>(norm)), 1e-5);
      }
    }
  }
}

TEST(MaxPool, HasKernelsForBytesAndColumnMajorIndices) {
  NodeUnderTest node("MaxPool");
  node.Input(Tensor::FromVector<uint8_t>({1, 1, 2, 3}, {1, 2, 250, 3, 9, 5}), false);
  node.Set("kernel_shape", std::vector<int64_t>{2, 2}).Outputs(2);
  node.Set("storage_order", int64_t{1});
  const std::vector<Tensor> results = node.Run(BuiltinTargets().front()).value();
  EXPECT_EQ(results[0], Tensor::FromVector<uint8_t>({1, 1, 1, 2}, {9, 250}));
  EXPECT_EQ(results[1], Tensor::FromVector<int64_t>({1, 1, 1, 2}, {3, 4}));
}

TEST(MaxPool, CeilModeDropsWindowsThatStartBehindTheInput) {
  std::mt19937 random(4);
  NodeUnderTest node("MaxPool");
  node.Input(RandomFloats({1, 1, 3, 4}, random), false);
  node.Set("kernel_shape", std::vector<int64_t>{1, 3}).Set("ceil_mode", int64_t{1});
  node.Set("strides", std::vector<int64_t>{3, 2});
  EXPECT_EQ(node.Infer().value()[0].shape, (Shape{1, 1, 1, 2}));
}

TEST(GlobalPools, TakeWholePlanes) {
  std::mt19937 random(5);
  const Tensor x = RandomFloats({2, 3, 5, 11}, random);
  for (const Target& target : BuiltinTargets()) {
    const auto run = [&](const char* op_type) {
      NodeUnderTest node(op_type);
      return node.Input(x, false).Run(target).value()[0];
    };
    const Tensor average = run("GlobalAveragePool"), most = run("GlobalMaxPool"),
                 norm = run("GlobalLpPool");
    EXPECT_EQ(average.shape(), (Shape{2, 3, 1, 1}));
    for (size_t plane = 0; plane < 6; ++plane) {
      const auto values = x.As<float>().subspan(plane * 55, 55);
      double sum = 0, squares = 0;
      for (float value : values) {
        sum += static_cast<double>(value);
        squares += static_cast<double>(value) * static_cast<double>(value);
      }
      EXPECT_NEAR(average.As<float>()[plane], sum / 55, 1e-6);
      EXPECT_NEAR(norm.As<float>()[plane], std::sqrt(squares), 1e-5);
      EXPECT_EQ(most.As<float>()[plane], *std::max_element(values.begin(), values.end()));
    }
  }
}

TEST(Pools, RefuseWhatDoesNotFit) {
  NodeUnderTest node("AveragePool");
  std::mt19937 random(6);
  node.Input(RandomFloats({1, 1, 4, 4}, random), false);
  EXPECT_THAT(std::string(node.Infer().status().message()), HasSubstr("kernel_shape"));
  node.Set("kernel_shape", std::vector<int64_t>{5, 5});
  EXPECT_THAT(std::string(node.Infer().status().message()), HasSubstr("reaches over 5"));
}

}  // namespace
}  // namespace onnx_memplan
