// Operators that move elements, against their definitions by index, on random shapes.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "ops/cases.h"
#include "ops/data_movement.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using cases::Floats;
using cases::Ints;

const Target& Generic() { return BuiltinTargets().front(); }

Tensor Counting(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(CheckedNumElements(shape).value()));
  std::iota(values.begin(), values.end(), 0.0F);
  return Floats(shape, values);
}

// Calls visit(index) for each index of `shape`, in C order.
template <class Visit>
void ForEachIndex(const Shape& shape, Visit visit) {
  std::vector<int64_t> index(shape.size(), 0);
  const int64_t count = CheckedNumElements(shape).value();
  for (int64_t i = 0; i < count; ++i) {
    visit(index);
    for (size_t a = shape.size(); a-- > 0;) {
      if (++index[a] < shape[a]) break;
      index[a] = 0;
    }
  }
}

float At(const Tensor& tensor, const std::vector<int64_t>& index) {
  const std::vector<int64_t> strides = RowMajorStrides(tensor.shape());
  const int64_t at = std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
  return tensor.As<float>()[static_cast<size_t>(at)];
}

Shape RandomShape(int64_t rank, int64_t largest, std::mt19937& random) {
  Shape shape(static_cast<size_t>(rank));
  for (int64_t& dim : shape) dim = RandomInt(1, largest, random);
  return shape;
}

Tensor RunNode(NodeUnderTest& node) {
  absl::StatusOr<std::vector<Tensor>> outputs = node.Run(Generic());
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? (*outputs)[0] : Tensor();
}

TEST(MovementTest, TransposePermutesEveryIndex) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int64_t rank = RandomInt(1, 6, random);
    const Tensor x = Counting(RandomShape(rank, rank < 4 ? 40 : 5, random));
    std::vector<int64_t> perm(static_cast<size_t>(rank));
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), random);
    NodeUnderTest node("Transpose");
    const Tensor y = RunNode(node.Input(x, false).Set("perm", perm));
    ForEachIndex(y.shape(), [&](const std::vector<int64_t>& index) {
      std::vector<int64_t> source(perm.size());
      for (size_t i = 0; i < perm.size(); ++i) source[static_cast<size_t>(perm[i])] = index[i];
      ASSERT_EQ(At(y, index), At(x, source));
    });
  }
}

TEST(MovementTest, SliceTakesWhatPythonTakes) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const int64_t rank = RandomInt(1, 4, random);
    const Tensor x = Counting(RandomShape(rank, 6, random));
    std::vector<int64_t> starts, ends, steps;
    std::vector<std::vector<int64_t>> picked;
    for (int64_t dim : x.shape()) {
      steps.push_back(RandomInt(0, 1, random) == 1 ? RandomInt(1, 4, random)
                                                   : -RandomInt(1, 4, random));
      starts.push_back(RandomInt(0, dim - 1, random));
      ends.push_back(RandomInt(-dim - 2, dim + 2, random));
      const int64_t end = ends.back() < 0 ? ends.back() + dim : ends.back();
      picked.emplace_back();
      for (int64_t i = starts.back(); i >= 0 && i < dim; i += steps.back()) {
        if (steps.back() > 0 ? i >= end : i <= std::max<int64_t>(end, -1)) break;
        picked.back().push_back(i);
      }
    }
    NodeUnderTest node("Slice");
    const int64_t n = rank;
    std::vector<int64_t> axes(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
    const Tensor y = RunNode(node.Input(x, false)
                                 .Input(Ints({n}, starts), true)
                                 .Input(Ints({n}, ends), true)
                                 .Input(Ints({n}, axes), true)
                                 .Input(Ints({n}, steps), true));
    for (size_t a = 0; a < picked.size(); ++a) {
      ASSERT_EQ(y.shape()[a], static_cast<int64_t>(picked[a].size()));
    }
    ForEachIndex(y.shape(), [&](const std::vector<int64_t>& index) {
      std::vector<int64_t> source;
      for (size_t a = 0; a < index.size(); ++a) {
        source.push_back(picked[a][static_cast<size_t>(index[a])]);
      }
      ASSERT_EQ(At(y, index), At(x, source));
    });
  }
}

TEST(MovementTest, PadReflectsAndWrapsMoreThanOnce) {
  const Tensor x = Floats({3}, {1, 2, 3});
  const auto pad = [&](const char* mode) {
    NodeUnderTest node("Pad");
    return RunNode(
        node.Input(x, false).Input(Ints({2}, {5, 4}), true).Set("mode", std::string(mode)));
  };
  EXPECT_EQ(pad("reflect"), Floats({12}, {2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3}));
  EXPECT_EQ(pad("wrap"), Floats({12}, {2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1}));
}

TEST(MovementTest, PadsBothRowsAndColumnsOfAnyMode) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const Tensor x = Counting(RandomShape(3, 5, random));
    std::vector<int64_t> pads(6);
    for (size_t a = 0; a < 3; ++a) {
      pads[a] = RandomInt(-1, 3, random);
      pads[3 + a] = RandomInt(pads[a] < 0 ? 0 : -1, 3, random);
    }
    NodeUnderTest node("Pad");
    const Tensor y = RunNode(
        node.Input(x, false).Input(Ints({6}, pads), true).Input(cases::ScalarFloat(-7), false));
    ForEachIndex(y.shape(), [&](const std::vector<int64_t>& index) {
      std::vector<int64_t> source = index;
      bool inside = true;
      for (size_t a = 0; a < 3; ++a) {
        source[a] -= pads[a];
        inside = inside && source[a] >= 0 && source[a] < x.shape()[a];
      }
      ASSERT_EQ(At(y, index), inside ? At(x, source) : -7);
    });
  }
}

TEST(MovementTest, GatherReadsRunTimeIndicesAndClampsThoseOutOfRange) {
  const Tensor x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  NodeUnderTest node("Gather");
  node.Input(x, false).Input(Ints({4}, {-1, 0, 9, -9}), false).Set("axis", int64_t{1});
  EXPECT_EQ(RunNode(node), Floats({2, 4}, {3, 1, 3, 1, 6, 4, 6, 4}));
}

TEST(MovementTest, KnownIndexOutOfRangeIsAnError) {
  const Tensor x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  for (const char* op : {"Gather", "GatherElements"}) {
    NodeUnderTest node(op);
    node.Input(x, false).Input(Ints({1, 1}, {2}), true);
    EXPECT_EQ(node.Infer().status().code(), absl::StatusCode::kInvalidArgument) << op;
  }
  NodeUnderTest nd("GatherND");
  nd.Input(x, false).Input(Ints({1, 2}, {1, 3}), true);
  EXPECT_EQ(nd.Infer().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MovementTest, ScatterUpdatesInPlaceAsItDoesApart) {
  const Tensor x = Floats({4}, {1, 2, 3, 4});
  for (const char* reduction : {"none", "add", "mul", "max", "min"}) {
    NodeUnderTest node("ScatterElements");
    node.Input(x, false).Input(Ints({3}, {3, 0, 3}), false).Input(Floats({3}, {5, 0, 2}), false);
    node.Set("reduction", std::string(reduction));
    EXPECT_EQ(*node.Run(Generic()), *node.Run(Generic(), 0)) << reduction;
  }
}

TEST(MovementTest, ShapesBeyond63BitsAreRefused) {
  const int64_t huge = int64_t{1} << 40;
  NodeUnderTest fill("ConstantOfShape");
  fill.Input(Ints({2}, {huge, huge}), true);
  EXPECT_EQ(fill.Infer().status().code(), absl::StatusCode::kInvalidArgument);
  NodeUnderTest expand("Expand");
  expand.Input(Floats({1}, {1}), false).Input(Ints({2}, {huge, huge}), true);
  EXPECT_EQ(expand.Infer().status().code(), absl::StatusCode::kInvalidArgument);
  NodeUnderTest tile("Tile");
  tile.Input(Floats({2}, {1, 2}), false).Input(Ints({1}, {INT64_MAX}), true);
  EXPECT_EQ(tile.Infer().status().code(), absl::StatusCode::kInvalidArgument);
  NodeUnderTest range("Range");
  range.Input(Ints({}, {INT64_MIN}), true).Input(Ints({}, {INT64_MAX}), true);
  range.Input(Ints({}, {1}), true);
  EXPECT_EQ(range.Infer().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MovementTest, ShapeInputsThatAreNotKnownNameTheWayOut) {
  NodeUnderTest node("Expand");
  node.Input(Floats({1}, {1}), false).Input(Ints({1}, {3}), false);
  const absl::Status status = node.Infer().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find("--bind"), std::string::npos) << status;
}

TEST(MovementTest, MoreLoopsThanKernelsHaveAreRefused) {
  NodeUnderTest node("Transpose");
  node.Input(Counting(Shape(9, 2)), false);
  EXPECT_EQ(node.Lower(Generic()).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(MovementTest, DimensionsThatMergeDoNotCountAsLoops) {
  NodeUnderTest node("Transpose");
  node.Input(Counting(Shape(9, 2)), false)
      .Set("perm", std::vector<int64_t>{4, 5, 6, 7, 8, 0, 1, 2, 3});
  const Tensor y = RunNode(node);
  EXPECT_EQ(y.As<float>()[1], 32);
}

}  // namespace
}  // namespace onnx_memplan
