#include "autodiff/split_statistics.h"

#include <gtest/gtest.h>

#include "autodiff/backward.h"
#include "autodiff/training_util.h"

namespace onnx_memplan::testing {
namespace {

// A model whose gradients make BatchNormInternal of BatchNormalization.
Graph Differentiated(const std::string& type, const std::string& shape, bool unbiased,
                     size_t* forward_nodes) {
  Graph graph = TypedText("g (" + type + shape + " x, " + type + "[3] s, " + type + "[3] b) => (" +
                          type + " loss) <" + type + "[3] m = {0.5, 0, -1}, " + type +
                          R"([3] v = {1, 2, 0.5}> {
    y, mm, vv = BatchNormalization <training_mode = 1, momentum = 0.75> (x, s, b, m, v)
    q = Mul(y, y)
    loss = ReduceSum <keepdims = 0> (q)
  })");
  graph.nodes[0].attributes["unbiased_running_variance"] = int64_t{unbiased ? 1 : 0};
  *forward_nodes = graph.nodes.size();
  const auto gradients =
      AddBackward(graph.outputs[0], {Find(graph, "x"), Find(graph, "s"), Find(graph, "b")}, graph);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  for (ValueId gradient : *gradients) graph.outputs.push_back(gradient);
  for (const char* name : {"y", "mm", "vv"}) graph.outputs.push_back(Find(graph, name));
  return graph;
}

TEST(SplitStatistics, GivesTheSameBits) {
  for (const char* type : {"float", "double"}) {
    for (const char* shape : {"[4,3]", "[2,3,5]", "[1,3,4,4]", "[2,3,1,37]"}) {
      for (const bool unbiased : {false, true}) {
        size_t boundary = 0;
        Graph graph = Differentiated(type, shape, unbiased, &boundary);
        ASSERT_EQ(CountOf(graph, "BatchNormInternal"), 1) << graph.ToText();
        const Data inputs = RandomInputs(graph, 4);
        Data none;
        const std::vector<Tensor> before = RunStep(graph, inputs, none);
        const size_t old_boundary = boundary;
        ASSERT_TRUE(SplitStatistics(&boundary, graph).ok());
        EXPECT_EQ(boundary, old_boundary + 1);
        EXPECT_TRUE(graph.Verify(/*typed=*/true).ok());
        EXPECT_EQ(CountOf(graph, "BatchNormInternal"), 0);
        EXPECT_EQ(CountOf(graph, "BatchStatistics"), 1);
        EXPECT_EQ(CountOf(graph, "NormalizeByStatistics"), 1);
        EXPECT_EQ(before, RunStep(graph, inputs, none)) << type << shape;
      }
    }
  }
}

TEST(SplitStatistics, LeavesNormalisationThatHasNoGradientAlone) {
  Graph graph = TypedText(R"(g (float[4,3] x) => (float[4,3] y) <float[3] s = {1, 2, 3},
      float[3] b = {0, 0, 0}, float[3] m = {0, 0, 0}, float[3] v = {1, 1, 1}> {
    y, mm, vv = BatchNormalization <training_mode = 1> (x, s, b, m, v)
  })");
  const std::string before = graph.ToText();
  size_t boundary = 1;
  ASSERT_TRUE(SplitStatistics(&boundary, graph).ok());
  EXPECT_EQ(boundary, 1u);
  EXPECT_EQ(graph.ToText(), before);
}

}  // namespace
}  // namespace onnx_memplan::testing
