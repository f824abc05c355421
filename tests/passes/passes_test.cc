#include "onnx_memplan/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "passes/graph_maker.h"

namespace onnx_memplan::testing {
namespace {

using ::testing::HasSubstr;

TEST(OptimizeGraph, UnknownPassNameListsAllOfThem) {
  Graph graph;
  for (const PassOptions& options :
       {PassOptions{.on = {"no-such-pass"}}, PassOptions{.off = {"no-such-pass"}}}) {
    const auto runs = OptimizeGraph(options, graph);
    EXPECT_EQ(runs.status().code(), absl::StatusCode::kInvalidArgument);
    for (const PassInfo& pass : ListPasses()) {
      EXPECT_THAT(std::string(runs.status().message()), HasSubstr(std::string(pass.name)));
    }
  }
}

TEST(OptimizeGraph, RequiredPassesCannotBeSwitchedOff) {
  Graph graph;
  EXPECT_FALSE(OptimizeGraph({.off = {"separate-outputs"}}, graph).ok());
  EXPECT_FALSE(OptimizeGraph({.off = {"infer-and-fold"}}, graph).ok());
}

TEST(OptimizeGraph, PassThatIsOffDoesNotRun) {
  GraphMaker make;
  const ValueId y = make.Op("Conv", {make.Input({1, 3, 4, 4}), make.Constant({5, 3, 1, 1})});
  make.Output(make.Op("Relu", {y}));
  Graph graph = make.graph();
  ASSERT_TRUE(OptimizeGraph({.off = {"fuse-activations"}}, graph).ok());
  EXPECT_EQ(graph.nodes.size(), 2u);
  const auto runs = OptimizeGraph({.on = {"fuse-activations"}, .only_named = true}, graph);
  ASSERT_TRUE(runs.ok());
  ASSERT_EQ(runs->size(), 1u);
  EXPECT_EQ((*runs)[0], (PassRun{"fuse-activations", 1, 2, 1}));
}

TEST(OptimizeGraph, NamesAreUniqueAndEachPassSaysWhatItDoes) {
  std::vector<std::string_view> names;
  for (const PassInfo& pass : ListPasses()) {
    EXPECT_FALSE(pass.summary.empty());
    names.push_back(pass.name);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(OptimizeGraph, DocumentationHasEveryPassInOrder) {
  std::ifstream file(ONNX_MEMPLAN_SOURCE_DIR "/docs/passes.md");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  size_t at = 0;
  for (const PassInfo& pass : ListPasses()) {
    at = text.find("\n| `" + std::string(pass.name) + "` |", at);
    ASSERT_NE(at, std::string::npos) << pass.name;
  }
}

TEST(OptimizeGraph, UntypedGraphIsTyped) {
  GraphMaker make;
  make.Output(make.Op("Relu", {make.Op("Neg", {make.Input({3})})}));
  Graph graph = make.graph();
  for (Value& value : graph.values) {
    if (value.name != "input") value.type.reset();
  }
  ASSERT_TRUE(OptimizeGraph({}, graph).ok());
  EXPECT_TRUE(graph.Verify(/*typed=*/true).ok());
}

// A network of operators drawn at random, with readers and outputs wherever chance puts them: the
// passes meet shapes and neighbours that no pattern was written for.
class RandomNetwork {
 public:
  explicit RandomNetwork(uint32_t seed) : make_(seed) {
    values_.push_back(make_.Input({1, 4, 4, 4}));
    values_.push_back(make_.Input({2, 4, 4, 4}));
    values_.push_back(make_.Input({4, 4}));
    for (int i = 0; i < 24; ++i) Step();
    make_.Output(make_.Op("Tanh", {values_.back()}));
    // Inputs are no outputs here: SeparateOutputs gives them other names.
    for (size_t i = 3; i < values_.size(); ++i) {
      if (make_.Below(5) == 0) make_.Output(values_[i]);
    }
  }

  const Graph& graph() const { return make_.graph(); }

 private:
  // Recent values are drawn more often, so that chains grow.
  ValueId Any() {
    const auto size = static_cast<int64_t>(values_.size());
    const int64_t back = std::min(make_.Below(size), make_.Below(size));
    return values_[static_cast<size_t>(size - 1 - back)];
  }

  ValueId OtherOfShape(const Shape& shape) {
    std::vector<ValueId> same;
    for (ValueId v : values_) {
      if (make_.ShapeOf(v) == shape) same.push_back(v);
    }
    return same[static_cast<size_t>(make_.Below(static_cast<int64_t>(same.size())))];
  }

  ValueId ConstantFor(const Shape& shape) {
    switch (make_.Below(4)) {
      case 0:
        return make_.Scalar(make_.Uniform(0.5, 2));
      case 1:
        return make_.Constant({shape.back()}, 0.5, 2);
      case 2: {
        Shape channel(shape.size(), 1);
        channel[1] = shape[1];
        return make_.Constant(channel, 0.5, 2);
      }
      default:
        return make_.Constant(shape, 0.5, 2);
    }
  }

  void Step() {
    const ValueId x = Any();
    const Shape& shape = make_.ShapeOf(x);
    switch (make_.Below(19)) {
      case 0:
      case 1:
        return Add(
            make_.Op(Pick({"Relu", "Sigmoid", "Tanh", "Neg", "HardSwish", "Identity"}), {x}));
      case 2:
        return Add(make_.Op(Pick({"Add", "Sub", "Mul"}), {x, OtherOfShape(shape)}));
      case 3:
      case 4:
        return Add(make_.Op(Pick({"Add", "Sub", "Mul", "Div"}), {x, ConstantFor(shape)}));
      case 5:
        return Add(make_.Op(Pick({"Add", "Sub", "Mul"}), {ConstantFor(shape), x}));
      case 6:
        return AddTransposed(x);
      case 7:
        return AddReshaped(x);
      case 8:
        return AddLinear(x);
      case 9:
        return AddNormalization(x);
      case 10:
        return Add(make_.Op("MatMul", {x, make_.Constant({shape.back(), 4})}));
      case 11:
        return Add(
            make_.Op(Pick({"ReduceMean", "ReduceMax"}), {x, make_.Ints({make_.Below(2) - 2})}));
      case 12:
        return AddConcat(x);
      case 13:
        return Add(make_.Op("Slice", {x, make_.Ints({0}), make_.Ints({make_.Below(4) + 1}),
                                      make_.Ints({make_.Below(2) - 1})}));
      case 14:
        return AddPadded(x);
      case 15:
        return AddGated(x);
      case 16:
        return Add(
            make_.Op("Clip", {x, make_.Scalar(-1), make_.Scalar(make_.Below(2) == 0 ? 1 : 6)}));
      case 17:
        return AddProduct(x);
      default:
        return Add(make_.Op("Softmax", {x}, {{"axis", make_.Below(2) - 2}}));
    }
  }

  void AddConcat(ValueId x) {
    const ValueId other = OtherOfShape(make_.ShapeOf(x));
    const ValueId pair = make_.Op("Concat", {x, other}, {{"axis", int64_t{1}}});
    if (make_.Below(2) == 0) return Add(pair);
    Add(pair);
    Add(make_.Op("Concat", {x, other, x}, {{"axis", int64_t{1}}}));
  }

  void AddPadded(ValueId x) {
    if (make_.ShapeOf(x).size() != 4) return;
    const ValueId y = make_.Op("Pad", {x, make_.Ints({0, 0, 1, 0, 0, 0, 0, 2})});
    if (make_.Below(3) == 0) return Add(y);
    if (make_.Below(2) == 0) return AddLinear(y);
    if (make_.ShapeOf(y)[2] < 2 || make_.ShapeOf(y)[3] < 3) return Add(y);
    Add(make_.Op(Pick({"MaxPool", "AveragePool"}), {y},
                 {{"kernel_shape", std::vector<int64_t>{2, 3}}}));
  }

  void AddGated(ValueId x) {
    if (make_.ShapeOf(x).size() != 4) return;
    const ValueId gate = make_.Op("Sigmoid", {make_.Op("GlobalAveragePool", {x})});
    const ValueId y = make_.Op("Mul", {x, gate});
    Add(make_.Below(2) == 0 ? y : make_.Op("Add", {x, y}));
  }

  // Of two tensors that are not known.
  void AddProduct(ValueId x) {
    const Shape& shape = make_.ShapeOf(x);
    std::vector<int64_t> perm(shape.size());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    const ValueId other = OtherOfShape(shape);
    const ValueId swapped = make_.Op("Transpose", {other}, {{"perm", perm}});
    Add(make_.Below(2) == 0 ? make_.Op("MatMul", {x, swapped}) : make_.Op("MatMul", {swapped, x}));
  }

  std::string_view Pick(const std::vector<std::string_view>& types) {
    return types[static_cast<size_t>(make_.Below(static_cast<int64_t>(types.size())))];
  }

  void AddTransposed(ValueId x) {
    const bool matrix = make_.ShapeOf(x).size() == 2;
    const std::vector<std::vector<int64_t>> perms = {{0, 2, 3, 1}, {0, 3, 1, 2}, {0, 1, 3, 2}};
    const std::vector<int64_t> perm =
        matrix ? std::vector<int64_t>{1, 0} : perms[static_cast<size_t>(make_.Below(3))];
    Add(make_.Op("Transpose", {x}, {{"perm", perm}}));
  }

  void AddReshaped(ValueId x) {
    const Shape& shape = make_.ShapeOf(x);
    const std::vector<int64_t> matrix = {-1, shape.back()};
    if (shape.size() == 4) return Add(make_.Op("Reshape", {x, make_.Ints(matrix)}));
    if (shape[0] * shape[1] % 64 != 0) return;
    Add(make_.Op("Reshape", {x, make_.Ints({-1, 4, 4, 4})}));
  }

  void AddLinear(ValueId x) {
    const Shape shape = make_.ShapeOf(x);
    if (shape.size() == 2) {
      return Add(make_.Op("Gemm", {x, make_.Constant({shape[1], 4}), make_.Constant({4})}));
    }
    const int64_t pad = make_.Below(2);
    if (shape[2] == 0 || shape[3] == 0) return;
    Add(make_.Op("Conv", {x, make_.Constant({4, shape[1], 2 * pad + 1, 2 * pad + 1})},
                 {{"pads", std::vector<int64_t>(4, pad)}}));
  }

  void AddNormalization(ValueId x) {
    const Shape channels = {make_.ShapeOf(x)[1]};
    Add(make_.Op("BatchNormalization",
                 {x, make_.Constant(channels, 0.5, 2), make_.Constant(channels),
                  make_.Constant(channels), make_.Constant(channels, 0.5, 2)}));
  }

  void Add(ValueId v) {
    const Shape& shape = make_.ShapeOf(v);
    const bool small = TensorType{DType::kFloat, shape}.NumElements() <= 4096;
    if (small && (shape.size() == 2 || shape.size() == 4)) values_.push_back(v);
  }

  GraphMaker make_;
  std::vector<ValueId> values_;
};

TEST(OptimizeGraph, RandomNetworksKeepTheirOutputs) {
  size_t before = 0;
  size_t after = 0;
  for (uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomNetwork network(seed);
    const Graph optimized = Optimized(network.graph(), {}, 1e-4);
    before += network.graph().nodes.size();
    after += optimized.nodes.size();
  }
  EXPECT_LT(after, before * 3 / 4);
}

TEST(OptimizeGraph, EachPassAloneKeepsTheOutputsOfRandomNetworks) {
  for (const PassInfo& pass : ListPasses()) {
    for (uint32_t seed = 1000; seed < 1060 && !HasFailure(); ++seed) {
      SCOPED_TRACE(std::string(pass.name) + ", seed " + std::to_string(seed));
      Optimized(RandomNetwork(seed).graph(), {std::string(pass.name)}, 1e-4);
    }
  }
}

TEST(OptimizeGraph, AllPassesButOneKeepTheOutputsOfRandomNetworks) {
  for (const PassInfo& pass : ListPasses()) {
    if (pass.required) continue;
    for (uint32_t seed = 3000; seed < 3020 && !HasFailure(); ++seed) {
      SCOPED_TRACE(std::string(pass.name) + " off, seed " + std::to_string(seed));
      OptimizedWith({.off = {std::string(pass.name)}}, RandomNetwork(seed).graph(), 1e-4);
    }
  }
}

TEST(OptimizeGraph, ASecondRunChangesNothing) {
  for (uint32_t seed = 2000; seed < 2050 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph graph = RandomNetwork(seed).graph();
    ASSERT_TRUE(OptimizeGraph({}, graph).ok());
    const std::string text = graph.ToText();
    const auto runs = OptimizeGraph({}, graph);
    ASSERT_TRUE(runs.ok());
    EXPECT_TRUE(runs->empty()) << runs->front().pass << " changed\n" << text;
    EXPECT_EQ(graph.ToText(), text);
  }
}

}  // namespace
}  // namespace onnx_memplan::testing
