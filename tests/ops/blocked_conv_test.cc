// Convolution over images in blocks of channels, whichever kernel does it, against the definition
// in double precision; the direct one also as generated code compiles it.
#include "ops/host_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/blocked_direct.h"
#include "ops/blocked.h"
#include "ops/blocked_image.h"
#include "ops/epilogue.h"
#include "ops/native/blocked_direct.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Arrays are height, width; pads: top, left, bottom, right.
struct RandomConv {
  int64_t batch = 1, in_channels = 1, out_channels = 1;
  int64_t in_size[2] = {1, 1}, taps[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  int64_t pads[4] = {};
  bool in_blocked = true;
  bool has_bias = false;
  Epilogue epilogue;
  Tensor x, w, bias, residual;  // in the order of ONNX

  int64_t Out(int axis) const {
    return (in_size[axis] + pads[axis] + pads[axis + 2] - (taps[axis] - 1) * dilation[axis] - 1) /
               stride[axis] +
           1;
  }
  Shape OutShape() const { return {batch, out_channels, Out(0), Out(1)}; }
  std::string ToString() const {
    std::string text = ShapeToString(x.shape()) + (in_blocked ? " blocked" : "") + " * " +
                       ShapeToString(w.shape()) + " to " + ShapeToString(OutShape());
    const auto append = [&](const char* name, const int64_t* values, int count) {
      text += name;
      for (int i = 0; i < count; ++i) text += " " + std::to_string(values[i]);
    };
    append(" stride", stride, 2);
    append(" dilation", dilation, 2);
    append(" pads", pads, 4);
    return text + (has_bias ? " bias" : "") + (epilogue.has_residual ? " residual " : " ") +
           epilogue.activation;
  }
};

// The sum of one output, before the epilogue.
double Sum(const RandomConv& c, int64_t image, int64_t out, int64_t qy, int64_t qx) {
  const auto x = c.x.As<float>();
  const auto w = c.w.As<float>();
  double sum = 0;
  for (int64_t in = 0; in < c.in_channels; ++in) {
    for (int64_t ty = 0; ty < c.taps[0]; ++ty) {
      for (int64_t tx = 0; tx < c.taps[1]; ++tx) {
        const int64_t iy = qy * c.stride[0] + ty * c.dilation[0] - c.pads[0];
        const int64_t ix = qx * c.stride[1] + tx * c.dilation[1] - c.pads[1];
        if (iy < 0 || iy >= c.in_size[0] || ix < 0 || ix >= c.in_size[1]) continue;
        const int64_t at = ((image * c.in_channels + in) * c.in_size[0] + iy) * c.in_size[1] + ix;
        const int64_t weight = ((out * c.in_channels + in) * c.taps[0] + ty) * c.taps[1] + tx;
        sum += static_cast<double>(x[static_cast<size_t>(at)]) *
               static_cast<double>(w[static_cast<size_t>(weight)]);
      }
    }
  }
  return sum;
}

// The definition, in the order of ONNX.
std::vector<double> Expected(const RandomConv& c) {
  const ActivationParams activation = EpilogueParams(c.epilogue);
  std::vector<double> y;
  for (int64_t image = 0; image < c.batch; ++image) {
    for (int64_t out = 0; out < c.out_channels; ++out) {
      for (int64_t pixel = 0; pixel < c.Out(0) * c.Out(1); ++pixel) {
        double sum = Sum(c, image, out, pixel / c.Out(1), pixel % c.Out(1));
        if (c.has_bias) sum += static_cast<double>(c.bias.As<float>()[static_cast<size_t>(out)]);
        if (c.epilogue.has_residual) {
          sum += static_cast<double>(c.residual.As<float>()[y.size()]);
        }
        y.push_back(kernels::Activate(activation.kind, sum, activation.alpha, activation.beta));
      }
    }
  }
  return y;
}

void FillIn(RandomConv* c, std::mt19937& random) {
  static constexpr const char* kNames[] = {"", "", "Relu", "Clip", "LeakyRelu", "HardSwish"};
  c->x = RandomFloats({c->batch, c->in_channels, c->in_size[0], c->in_size[1]}, random);
  c->w = RandomFloats({c->out_channels, c->in_channels, c->taps[0], c->taps[1]}, random);
  c->has_bias = RandomInt(0, 1, random) == 0;
  c->bias = RandomFloats({c->out_channels}, random);
  c->residual = RandomFloats(c->OutShape(), random);
  c->epilogue.has_residual = RandomInt(0, 2, random) == 0;
  c->epilogue.activation = kNames[RandomInt(0, std::size(kNames) - 1, random)];
  if (c->epilogue.activation == "Clip") {
    c->epilogue = {c->epilogue.has_residual, "Clip", -0.25F, 0.5F};
  }
  if (c->epilogue.activation == "LeakyRelu") c->epilogue.alpha = 0.125F;
}

RandomConv MakeRandomConv(std::mt19937& random) {
  RandomConv c;
  const bool pointwise = RandomInt(0, 3, random) == 0;
  c.batch = RandomInt(0, 5, random) == 0 ? 2 : 1;
  c.in_blocked = RandomInt(0, 3, random) != 0;
  c.in_channels = RandomInt(1, c.in_blocked ? 20 : 4, random);
  c.out_channels = RandomInt(1, RandomInt(0, 4, random) == 0 ? 90 : 40, random);
  for (int i = 0; i < 2; ++i) {
    c.in_size[i] = RandomInt(1, i == 0 ? 5 : 20, random);
    if (pointwise) continue;
    c.taps[i] = RandomInt(1, 5, random);
    c.stride[i] = RandomInt(1, 3, random);
    c.dilation[i] = RandomInt(0, 3, random) == 0 ? RandomInt(2, 3, random) : 1;
    c.pads[i] = RandomInt(0, 4, random) == 0 ? RandomInt(0, 9, random) : c.taps[i] / 2;
    c.pads[i + 2] = RandomInt(0, 4, random) == 0 ? RandomInt(0, 9, random) : c.taps[i] / 2;
    const int64_t missing =
        (c.taps[i] - 1) * c.dilation[i] + 1 - c.in_size[i] - c.pads[i] - c.pads[i + 2];
    if (missing > 0) c.in_size[i] += missing;
  }
  FillIn(&c, random);
  return c;
}

// The node of `c`. Lanes behind the last channel hold what no result may depend on.
NodeUnderTest MakeNode(const RandomConv& c) {
  constexpr float kFiller = 1e30F;
  NodeUnderTest node("BlockedConv", "onnx_memplan");
  node.Input(c.in_blocked ? Blocked(c.x, kFiller) : c.x, false).Input(c.w, true);
  if (c.has_bias) node.Input(c.bias, true);
  if (c.epilogue.has_residual) node.Input(Blocked(c.residual, kFiller), false);
  const auto list = [](const int64_t* values, int count) {
    return std::vector<int64_t>(values, values + count);
  };
  node.Set("strides", list(c.stride, 2)).Set("dilations", list(c.dilation, 2));
  node.Set("pads", list(c.pads, 4));
  node.node().epilogue = c.epilogue;
  return node;
}

// Checks the image in `blocked`, and that all lanes are finite; whether all is well.
bool Check(const RandomConv& c, const std::string& kernel, const std::vector<double>& expected,
           const Tensor& blocked) {
  for (const float value : blocked.As<float>()) {
    if (std::isfinite(value)) continue;
    ADD_FAILURE() << kernel << " leaves " << value;
    return false;
  }
  const Tensor image = Unblocked(blocked, c.out_channels);
  const auto y = image.As<float>();
  const auto terms = static_cast<double>(c.w.NumElements() / c.out_channels);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::abs(static_cast<double>(y[i]) - expected[i]) <= 1e-6 * (terms + 2)) continue;
    ADD_FAILURE() << kernel << " gives " << y[i] << " for " << expected[i] << " at " << i << " of "
                  << expected.size();
    return false;
  }
  return true;
}

// The kernel of `call` as compiled for `target`, or nullptr.
NativeDirect FindNative([[maybe_unused]] const Target& target, const KernelCall& call) {
  int32_t arguments[5];
  if (std::sscanf(call.name.c_str(), "kernels::BlockedDirect<%d, %d, %d, %d, %d>", &arguments[0],
                  &arguments[1], &arguments[2], &arguments[3], &arguments[4]) != 5) {
    return nullptr;
  }
  const auto& [width, vectors, pixels, step, kind] = arguments;
#if defined(ONNX_MEMPLAN_NATIVE_V3)
  if (target.name == "x86-64-v3") return FindNativeDirectV3(width, vectors, pixels, step, kind);
#endif
#if defined(ONNX_MEMPLAN_NATIVE_V4)
  if (target.name == "x86-64-v4") return FindNativeDirectV4(width, vectors, pixels, step, kind);
#endif
  return nullptr;
}

// Runs the lowering of `c` with kernels compiled for `target` where there are such; how many.
int RunNative(const RandomConv& c, const Target& target, const Lowering& lowering,
              Tensor* blocked) {
  const Tensor x = c.in_blocked ? Blocked(c.x, 1e30F) : c.x;
  const Tensor residual = Blocked(c.residual, 1e30F);
  std::vector<float> y(residual.As<float>().begin(), residual.As<float>().end());
  const float* added = c.epilogue.has_residual ? y.data() : nullptr;
  int natives = 0;
  for (const KernelCall& call : lowering.calls) {
    const NativeDirect native = FindNative(target, call);
    const auto constant = [&](size_t i) {
      return i < call.constants.size() ? call.constants[i].As<float>().data() : nullptr;
    };
    if (native != nullptr) {
      native(call.params.bytes.data(), x.As<float>().data(), constant(0), constant(1), added,
             y.data());
      ++natives;
      continue;
    }
    const std::byte* inputs[4] = {x.data(), nullptr, nullptr, nullptr};
    inputs[c.has_bias ? 3 : 2] = reinterpret_cast<const std::byte*>(added);
    std::byte* const outputs[1] = {reinterpret_cast<std::byte*>(y.data())};
    InvokeOnHost(call, inputs, outputs, nullptr);
  }
  *blocked = Tensor::FromVector<float>(residual.shape(), y);
  return natives;
}

// Runs `c` on `target`, once more over its residual; adds the kernels' names.
void CheckConv(const RandomConv& c, const Target& target, const std::vector<double>& expected,
               std::set<std::string>* names) {
  SCOPED_TRACE(c.ToString() + " for " + target.name);
  NodeUnderTest node = MakeNode(c);
  const absl::StatusOr<Lowering> lowering = node.Lower(target);
  ASSERT_TRUE(lowering.ok()) << lowering.status();
  for (const KernelCall& call : lowering->calls) names->insert(call.name);
  for (const int32_t in_place : {-1, c.epilogue.has_residual ? (c.has_bias ? 3 : 2) : -1}) {
    const absl::StatusOr<std::vector<Tensor>> results = node.Run(target, in_place);
    ASSERT_TRUE(results.ok()) << results.status();
    if (!Check(c, lowering->calls[0].name, expected, (*results)[0])) return;
  }
}

TEST(BlockedConv, EqualsItsDefinitionForRandomShapesOnEveryTarget) {
  std::mt19937 random(1);
  std::set<std::string> names;
  for (int i = 0; i < 1000 && !::testing::Test::HasFailure(); ++i) {
    const RandomConv c = MakeRandomConv(random);
    const std::vector<double> expected = Expected(c);
    for (const Target& target : BuiltinTargets()) CheckConv(c, target, expected, &names);
  }
  for (const char* kernel :
       {"BlockedConvPlain", "BlockedDirect<8, 1, ", "BlockedDirect<8, 2, ", "BlockedDirect<8, 3, ",
        "BlockedDirect<8, 4, ", "BlockedDirect<16, 1, ", "BlockedDirect<16, 2, ", ", 8, 2>",
        ", 8, 1>", ", 16, 1>", ", 0, 1>", ", 1, 0>", ", 2, 0>", ", 0, 0>"}) {
    EXPECT_THAT(names, Contains(HasSubstr(kernel)));
  }
}

TEST(BlockedConv, EqualsItsDefinitionAsCompiledForATarget) {
  std::mt19937 random(6);
  for (const Target& target : BuiltinTargets()) {
    int natives = 0;
    for (int i = 0; i < 3000 && !::testing::Test::HasFailure(); ++i) {
      RandomConv c = MakeRandomConv(random);
      // Widths that the compiled tiles split.
      c.in_size[1] += (c.stride[1] - 1) * 5;
      FillIn(&c, random);
      SCOPED_TRACE(c.ToString() + " for " + target.name);
      NodeUnderTest node = MakeNode(c);
      const absl::StatusOr<Lowering> lowering = node.Lower(target);
      ASSERT_TRUE(lowering.ok()) << lowering.status();
      if (FindNative(target, lowering->calls[0]) == nullptr) continue;
      Tensor blocked;
      natives += RunNative(c, target, *lowering, &blocked);
      Check(c, lowering->calls[0].name, Expected(c), blocked);
    }
    std::cout << natives << " calls compiled for " << target.name << "\n";
  }
}

TEST(BlockedConv, SplitsRowsOfEveryWidth) {
  std::mt19937 random(2);
  std::set<std::string> names;
  for (int64_t width = 1; width <= 40; ++width) {
    for (const int64_t taps : {1, 3}) {
      RandomConv c;
      c.in_channels = 3;
      c.out_channels = 8 * RandomInt(1, 7, random);
      c.in_size[1] = width;
      for (int i = 0; i < 2; ++i) c.taps[i] = taps;
      for (int64_t& pad : c.pads) pad = taps / 2;
      FillIn(&c, random);
      const std::vector<double> expected = Expected(c);
      for (const Target& target : BuiltinTargets()) CheckConv(c, target, expected, &names);
    }
  }
}

TEST(BlockedConv, LargeImagesComeInChunks) {
  std::mt19937 random(3);
  RandomConv c;
  c.in_channels = 70;
  c.out_channels = 24;
  c.in_size[0] = c.in_size[1] = 40;
  FillIn(&c, random);
  std::set<std::string> names;
  const std::vector<double> expected = Expected(c);
  for (const Target& target : BuiltinTargets()) CheckConv(c, target, expected, &names);
}

TEST(BlockedConv, RefusesWhatDoesNotFit) {
  std::mt19937 random(4);
  const auto message = [&](const Shape& x, const Shape& w, int64_t group) {
    NodeUnderTest node("BlockedConv", "onnx_memplan");
    node.Input(RandomFloats(x, random), false).Input(RandomFloats(w, random), true);
    node.Set("group", group);
    return std::string(node.Infer().status().message());
  };
  EXPECT_THAT(message({1, 1, 4, 4, 8}, {8, 9, 1, 1}, 1), HasSubstr("9 channels"));
  EXPECT_THAT(message({1, 3, 4, 4}, {8, 4, 1, 1}, 1), HasSubstr("4 channels"));
  EXPECT_THAT(message({1, 1, 4, 4, 8}, {8, 4, 1, 1}, 2), HasSubstr("2 groups"));
  EXPECT_THAT(message({1, 8, 4}, {8, 8, 1, 1}, 1), HasSubstr("X needs"));
}

}  // namespace
}  // namespace onnx_memplan
