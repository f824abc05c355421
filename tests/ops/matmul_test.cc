// Gemm, MatMul and FusedMatMul in every variant, against the definition in double precision.
#include "ops/host_kernels.h"

#include "kernels/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/activation.h"
#include "ops/epilogue.h"
#include "ops/gemm_lowering.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Small, typical of remainders, and around the sizes of tiles.
int64_t RandomSize(std::mt19937& random) {
  return RandomInt(0, 2, random) == 0 ? RandomInt(1, 4, random) : RandomInt(1, 80, random);
}

std::vector<float> Transposed(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  std::vector<float> result;
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      result.push_back(matrix.As<float>()[static_cast<size_t>(r * columns + c)]);
    }
  }
  return result;
}

// act(alpha * a b + beta * bias + residual) of [rows][depth] and [depth][columns].
struct Product {
  int64_t rows, depth, columns;
  std::vector<float> a, b;
  double alpha = 1;
  std::vector<double> added;

  std::vector<double> Expected(const Epilogue& epilogue) const {
    const ActivationParams act = EpilogueParams(epilogue);
    std::vector<double> c;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          sum += static_cast<double>(a[static_cast<size_t>(i * depth + k)]) *
                 static_cast<double>(b[static_cast<size_t>(k * columns + j)]);
        }
        sum = alpha * sum + (added.empty() ? 0 : added[c.size()]);
        c.push_back(kernels::Activate(act.kind, sum, act.alpha, act.beta));
      }
    }
    return c;
  }
};

Epilogue RandomEpilogue(std::mt19937& random) {
  static constexpr const char* kNames[] = {"", "", "Relu", "Tanh", "Gelu"};
  Epilogue epilogue;
  epilogue.has_residual = RandomInt(0, 2, random) == 0;
  epilogue.activation = kNames[RandomInt(0, std::size(kNames) - 1, random)];
  return epilogue;
}

std::string Check(NodeUnderTest* node, const Target& target, const std::vector<double>& expected,
                  const Shape& shape, double tolerance, int32_t in_place) {
  const absl::StatusOr<Lowering> lowering = node->Lower(target);
  EXPECT_TRUE(lowering.ok()) << lowering.status();
  if (!lowering.ok()) return "";
  EXPECT_EQ(lowering->scratch_bytes, 0);
  const std::string name = lowering->calls[0].name;
  const absl::StatusOr<std::vector<Tensor>> results = node->Run(target, in_place);
  EXPECT_TRUE(results.ok()) << results.status();
  if (!results.ok()) return name;
  EXPECT_EQ((*results)[0].shape(), shape);
  const auto c = (*results)[0].As<float>();
  EXPECT_EQ(c.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(static_cast<double>(c[i]) - expected[i]) <= tolerance)) {
      ADD_FAILURE() << name << " for " << target.name << " gives " << c[i] << " for " << expected[i]
                    << " at " << i << (in_place >= 0 ? " in place" : "");
      return name;
    }
  }
  return name;
}

TEST(Gemm, EqualsItsDefinitionForRandomShapesOnEveryTarget) {
  std::mt19937 random(1);
  std::set<std::string> names;
  for (int i = 0; i < 3000 && !::testing::Test::HasFailure(); ++i) {
    Product p = {RandomSize(random),
                 RandomSize(random) * (i % 20 == 0 ? 16 : 1),
                 RandomSize(random),
                 {},
                 {},
                 1,
                 {}};
    const bool trans_a = RandomInt(0, 3, random) == 0, trans_b = RandomInt(0, 1, random) == 0;
    const Tensor a =
        RandomFloats(trans_a ? Shape{p.depth, p.rows} : Shape{p.rows, p.depth}, random);
    const Tensor b =
        RandomFloats(trans_b ? Shape{p.columns, p.depth} : Shape{p.depth, p.columns}, random);
    p.a = trans_a ? Transposed(a) : std::vector<float>(a.As<float>().begin(), a.As<float>().end());
    p.b = trans_b ? Transposed(b) : std::vector<float>(b.As<float>().begin(), b.As<float>().end());
    p.alpha = RandomInt(0, 1, random) == 0 ? 1 : -0.5;
    const double beta = RandomInt(0, 1, random) == 0 ? 1 : 0.25;
    const Shape c_shapes[] = {{},          {p.columns},         {1, p.columns},
                              {p.rows, 1}, {p.rows, p.columns}, {1, 1}};
    const Tensor c = RandomFloats(c_shapes[RandomInt(0, 5, random)], random);
    const Epilogue epilogue = RandomEpilogue(random);
    const Tensor residual = RandomFloats({p.rows, p.columns}, random);
    const bool has_bias = RandomInt(0, 3, random) != 0;
    for (int64_t j = 0; j < p.rows * p.columns; ++j) {
      double added = 0;
      if (has_bias) {
        Shape s = c.shape();
        s.insert(s.begin(), 2 - s.size(), 1);
        const int64_t at = (s[0] == 1 ? 0 : j / p.columns * s[1]) + (s[1] == 1 ? 0 : j % p.columns);
        added += beta * static_cast<double>(c.As<float>()[static_cast<size_t>(at)]);
      }
      if (epilogue.has_residual) {
        added += static_cast<double>(residual.As<float>()[static_cast<size_t>(j)]);
      }
      p.added.push_back(added);
    }
    const bool constant = RandomInt(0, 1, random) == 0;
    NodeUnderTest node("Gemm");
    node.Input(a, false).Input(b, constant);
    if (has_bias) node.Input(c, constant);
    if (epilogue.has_residual) node.Input(residual, false);
    node.Set("transA", int64_t{trans_a}).Set("transB", int64_t{trans_b});
    node.Set("alpha", static_cast<float>(p.alpha)).Set("beta", static_cast<float>(beta));
    node.node().epilogue = epilogue;
    const std::vector<double> expected = p.Expected(epilogue);
    SCOPED_TRACE(ShapeToString(a.shape()) + " " + ShapeToString(b.shape()) + " + " +
                 ShapeToString(c.shape()) + (constant ? " constant" : ""));
    for (const Target& target : BuiltinTargets()) {
      // A product that only the plain loops can do has no epilogue.
      const absl::StatusOr<Lowering> lowering = node.Lower(target);
      if (!lowering.ok() && !epilogue.empty()) {
        EXPECT_EQ(lowering.status().code(), absl::StatusCode::kUnimplemented);
        continue;
      }
      const double tolerance = 1e-6 * static_cast<double>(p.depth + 3);
      names.insert(Check(&node, target, expected, {p.rows, p.columns}, tolerance, -1));
      if (epilogue.has_residual) {
        Check(&node, target, expected, {p.rows, p.columns}, tolerance, has_bias ? 3 : 2);
      }
    }
  }
  for (const char* kernel :
       {"MatMul<4, 4, 1, true>", "MatMul<8, 4, 3, true>", "MatMul<16, 8, 2, true>",
        "MatMul<16, 1, 4, true>", "MatMul<4, 4, 1, false>", "MatMul<8, 4, 3, false>",
        "MatMul<16, 8, 2, false>", "MatMulDot<4>", "MatMulDot<8>", "MatMulDot<16>",
        "MatMulRepacked<8, 4, 3>", "MatMulRepacked<16, 8, 2>", "MatMul<8, 6, 2, true>",
        "MatMul<8, 3, 4, true>", "MatMul<8, 2, 6, true>", "MatMul<8, 2, 6, false>",
        "MatMul<16, 3, 4, true>"}) {
    EXPECT_THAT(names, Contains(HasSubstr(kernel)));
  }
}

// Small integers, so that sums are exact in any order.
std::vector<float> Integers(int64_t count, std::mt19937& random) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(RandomInt(-4, 4, random)));
  }
  return values;
}

// A tile with any number of rows and columns up to more than two of them.
template <int Lanes, int Rows, int Columns>
void ExpectTileEqualsPlainKernel(std::mt19937& random) {
  SCOPED_TRACE(TileArguments({Lanes, Rows, Columns}));
  constexpr int32_t kWidth = Lanes * Columns;
  for (int32_t rows = Rows; rows <= 2 * Rows + 1; ++rows) {
    for (int32_t columns = 1; columns <= 2 * kWidth + 1; ++columns) {
      kernels::MatMulParams p = {};
      for (int32_t& size : p.batch) size = 1;
      p.rows = rows;
      p.columns = columns;
      p.depth = static_cast<int32_t>(RandomInt(1, 9, random));
      p.depth_block = static_cast<int32_t>(RandomInt(1, p.depth, random));
      p.a_row_stride = p.depth;
      p.a_depth_stride = 1;
      p.b_depth_stride = columns;
      p.b_column_stride = 1;
      p.bias_row_stride = RandomInt(0, 1, random) == 0 ? 0 : columns;
      p.bias_column_stride = 1;
      p.scale = 1;
      p.bias_scale = 1;
      const bool has_bias = RandomInt(0, 1, random) == 0;
      const std::vector<float> a = Integers(int64_t{rows} * p.depth, random);
      const std::vector<float> b = Integers(int64_t{p.depth} * columns, random);
      const std::vector<float> bias = Integers(int64_t{rows} * columns, random);
      const float* const added = has_bias ? bias.data() : nullptr;
      const std::vector<float> residual = Integers(int64_t{rows} * columns, random);
      std::vector<float> products(residual.size());
      kernels::MatMulPlain<float>(p, a.data(), b.data(), added, products.data());
      std::vector<float> sums = products;
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += residual[i];
      const auto check = [&](auto kernel, const float* any_b) {
        std::vector<float> c(products.size());
        kernel(p, a.data(), any_b, added, nullptr, c.data());
        EXPECT_EQ(c, products) << rows << "x" << p.depth << "x" << columns;
        c = residual;
        kernel(p, a.data(), any_b, added, c.data(), c.data());
        EXPECT_EQ(c, sums) << "over the residual: " << rows << "x" << p.depth << "x" << columns;
      };
      const Tensor packed =
          PackColumns(b, 1, p.depth, columns, columns, 1, 1.0F, {Lanes, Rows, Columns});
      check(kernels::MatMul<Lanes, Rows, Columns, true>, packed.As<float>().data());
      if (columns >= Lanes) check(kernels::MatMul<Lanes, Rows, Columns, false>, b.data());
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(MatMul, EveryTileEqualsThePlainKernelForRemaindersOfEverySize) {
  std::mt19937 random(8);
  [&]<size_t... I>(std::index_sequence<I...>) {
    (ExpectTileEqualsPlainKernel<kProductTileShapes[I].lanes, kProductTileShapes[I].rows,
                                 kProductTileShapes[I].columns>(random),
     ...);
  }
  (std::make_index_sequence<std::size(kProductTileShapes)>());
}

// What docs/performance.md reports as measured.
TEST(MatMul, FewRowsHaveTilesOfTheirOwn) {
  const Target v3 = FindTarget("x86-64-v3").value();
  const auto tile = [&](int64_t rows, int64_t depth, int64_t columns) {
    return ChooseProductTile(v3, {rows, columns, depth, /*packed=*/true, /*aligned=*/true});
  };
  EXPECT_EQ(tile(1, 512, 512), (TileShape{8, 1, 4}));
  EXPECT_EQ(tile(2, 512, 512), (TileShape{8, 2, 6}));
  EXPECT_EQ(tile(3, 512, 512), (TileShape{8, 3, 4}));
  EXPECT_EQ(tile(12, 32, 32), (TileShape{8, 3, 4}));
  EXPECT_EQ(tile(48, 32, 16), (TileShape{8, 6, 2}));
  EXPECT_EQ(tile(16, 32, 32), (TileShape{8, 2, 6}));
  EXPECT_EQ(tile(512, 512, 512), (TileShape{8, 4, 3}));
}

TEST(MatMul, BroadcastsBatchesOfAnyRank) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000 && !::testing::Test::HasFailure(); ++i) {
    const int64_t rows = RandomSize(random) / 4 + 1, depth = RandomSize(random),
                  columns = RandomSize(random) / 2 + 1;
    Shape batch, a_batch, b_batch;
    for (int64_t axis = RandomInt(0, 3, random); axis > 0; --axis) {
      batch.push_back(RandomInt(1, 3, random));
      a_batch.push_back(RandomInt(0, 2, random) == 0 ? 1 : batch.back());
      b_batch.push_back(a_batch.back() != batch.back() ? batch.back()
                        : RandomInt(0, 1, random) == 0 ? 1
                                                       : batch.back());
    }
    Shape a_shape = a_batch, b_shape = b_batch, c_shape = batch;
    a_shape.insert(a_shape.end(), {rows, depth});
    b_shape.insert(b_shape.end(), {depth, columns});
    c_shape.insert(c_shape.end(), {rows, columns});
    const Tensor a = RandomFloats(a_shape, random), b = RandomFloats(b_shape, random);
    std::vector<double> expected;
    int64_t matrices = 1;
    for (int64_t size : batch) matrices *= size;
    for (int64_t m = 0; m < matrices; ++m) {
      int64_t left = m, a_at = 0, b_at = 0, a_scale = 1, b_scale = 1;
      for (size_t axis = batch.size(); axis-- > 0;) {
        const int64_t at = left % batch[axis];
        left /= batch[axis];
        a_at += (a_batch[axis] == 1 ? 0 : at) * a_scale;
        b_at += (b_batch[axis] == 1 ? 0 : at) * b_scale;
        a_scale *= a_batch[axis];
        b_scale *= b_batch[axis];
      }
      Product p = {rows, depth, columns, {}, {}, 1, {}};
      const auto a_data = a.As<float>().subspan(static_cast<size_t>(a_at * rows * depth));
      const auto b_data = b.As<float>().subspan(static_cast<size_t>(b_at * depth * columns));
      p.a.assign(a_data.begin(), a_data.begin() + rows * depth);
      p.b.assign(b_data.begin(), b_data.begin() + depth * columns);
      const std::vector<double> part = p.Expected({});
      expected.insert(expected.end(), part.begin(), part.end());
    }
    const bool constant = RandomInt(0, 1, random) == 0;
    SCOPED_TRACE(ShapeToString(a_shape) + " " + ShapeToString(b_shape) +
                 (constant ? " constant" : ""));
    NodeUnderTest node("MatMul");
    node.Input(a, false).Input(b, constant);
    for (const Target& target : BuiltinTargets()) {
      Check(&node, target, expected, c_shape, 1e-6 * static_cast<double>(depth + 3), -1);
    }
  }
}

TEST(MatMul, VectorsLoseTheirAxis) {
  std::mt19937 random(3);
  const auto shape = [&](Shape a, Shape b) {
    NodeUnderTest node("MatMul");
    node.Input(RandomFloats(std::move(a), random), false);
    node.Input(RandomFloats(std::move(b), random), false);
    return node.Run(BuiltinTargets().front()).value()[0].shape();
  };
  EXPECT_EQ(shape({3}, {3}), Shape{});
  EXPECT_EQ(shape({3}, {2, 3, 4}), (Shape{2, 4}));
  EXPECT_EQ(shape({2, 4, 3}, {3}), (Shape{2, 4}));
}

TEST(MatMul, HasPlainKernelsForIntegers) {
  NodeUnderTest node("MatMul");
  node.Input(Tensor::FromVector<int32_t>({2, 2}, {1, 2, 3, 4}), false);
  node.Input(Tensor::FromVector<int32_t>({2, 1}, {5, -6}), false);
  const Tensor c = node.Run(BuiltinTargets().front()).value()[0];
  EXPECT_EQ(c, Tensor::FromVector<int32_t>({2, 1}, {-7, -9}));
}

TEST(FusedMatMul, ScalesAndTransposes) {
  std::mt19937 random(4);
  const Tensor a = RandomFloats({9, 20}, random), b = RandomFloats({7, 9}, random);
  for (const bool trans_b : {false, true}) {
    Product p = {20, 9, trans_b ? 7 : 5, Transposed(a), {}, 0.125, {}};
    const Tensor used = trans_b ? b : RandomFloats({9, 5}, random);
    p.b = trans_b ? Transposed(used)
                  : std::vector<float>(used.As<float>().begin(), used.As<float>().end());
    NodeUnderTest node("FusedMatMul", "com.microsoft");
    node.Input(a, false).Input(used, false);
    node.Set("transA", int64_t{1}).Set("transB", int64_t{trans_b}).Set("alpha", 0.125F);
    for (const Target& target : BuiltinTargets()) {
      Check(&node, target, p.Expected({}), {p.rows, p.columns}, 1e-5, -1);
    }
  }
}

TEST(Gemm, OfOtherRanksIsAProductOfBatchesWithARowAdded) {
  std::mt19937 random(7);
  NodeUnderTest node("Gemm");
  const Tensor a = RandomFloats({2, 3, 4}, random);
  const Tensor b = RandomFloats({4, 5}, random);
  const Tensor c = RandomFloats({5}, random);
  node.Input(a, false).Input(b, true).Input(c, true).Set("beta", 0.5F);
  std::vector<double> expected;
  for (size_t i = 0; i < 6; ++i) {
    for (size_t j = 0; j < 5; ++j) {
      double sum = 0.5 * static_cast<double>(c.As<float>()[j]);
      for (size_t k = 0; k < 4; ++k) {
        sum += static_cast<double>(a.As<float>()[i * 4 + k]) *
               static_cast<double>(b.As<float>()[k * 5 + j]);
      }
      expected.push_back(sum);
    }
  }
  for (const Target& target : BuiltinTargets()) {
    Check(&node, target, expected, {2, 3, 5}, 1e-5, -1);
  }
}

TEST(MatMul, RefusesWhatDoesNotFit) {
  std::mt19937 random(5);
  NodeUnderTest node("MatMul");
  node.Input(RandomFloats({2, 3}, random), false).Input(RandomFloats({2, 3}, random), false);
  EXPECT_THAT(std::string(node.Infer().status().message()),
              HasSubstr("3 columns and the second 2"));
  NodeUnderTest gemm("Gemm");
  gemm.Input(RandomFloats({2, 3}, random), false).Input(RandomFloats({3, 4}, random), false);
  gemm.Input(RandomFloats({3}, random), false);
  EXPECT_THAT(std::string(gemm.Infer().status().message()), HasSubstr("does not broadcast"));
}

}  // namespace
}  // namespace onnx_memplan
