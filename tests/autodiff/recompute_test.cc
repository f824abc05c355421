#include "autodiff/recompute.h"

#include <gmock/gmock.h>

#include <set>

#include "autodiff/training_util.h"

namespace onnx_memplan::testing {
namespace {

// Long enough chains, a residual sum, normalisation and dropout.
std::string Model() {
  return R"(g (float[2,2,6,6] x) => (float[2,3] y) <
      float[4,2,3,3] w1 = )" +
         Numbers(72) + R"(, float[4] b1 = {0.1, 0.2, 0.3, 0.4},
      float[4] s = {1, 0.5, 1, 2}, float[4] b = {0, 0.1, 0, -0.1}, float[4] m = {0, 0, 0, 0},
      float[4] v = {1, 1, 1, 1},
      float[4,4,3,3] w2 = )" +
         Numbers(144, 0.02) + R"(, float[3,144] w3 = )" + Numbers(432, 0.01) + R"(> {
    c1 = Conv <pads = [1,1,1,1]> (x, w1, b1)
    n1 = BatchNormalization(c1, s, b, m, v)
    a1 = Sigmoid(n1)
    t1 = Tanh(a1)
    d1 = Dropout(t1)
    c2 = Conv <pads = [1,1,1,1]> (d1, w2)
    e2 = Elu(c2)
    r2 = Add(e2, a1)
    g2 = Sigmoid(r2)
    f = Flatten(g2)
    y = Gemm <transB = 1> (f, w3)
  })";
}

TrainOptions Options() {
  TrainOptions options;
  options.batch_norm = BatchNormMode::kTrain;
  options.optimizer = {.kind = OptimizerKind::kAdam};
  options.gradients = true;
  return options;
}

const BackwardGraph& Step() {
  static const BackwardGraph* const step = new BackwardGraph(MakeGraphs(Options(), Model()).step);
  return *step;
}

Data StepInputs(const Graph& graph) {
  Data inputs = RandomInputs(graph, 9);
  inputs["learning_rate"] = Tensor::FromVector<float>({}, {0.01F});
  return inputs;
}

const Target& Generic() { return BuiltinTargets().front(); }

// Values of the forward pass that the backward pass reads.
std::set<std::string> Kept(const Graph& graph, size_t forward_nodes) {
  std::set<std::string> names;
  const std::vector<int32_t> producers = graph.Producers();
  for (size_t n = forward_nodes; n < graph.nodes.size(); ++n) {
    for (ValueId input : graph.nodes[n].inputs) {
      if (input != kNoValue && producers[At(input)] >= 0 &&
          At(producers[At(input)]) < forward_nodes) {
        names.insert(graph.values[At(input)].name);
      }
    }
  }
  return names;
}

TEST(Recompute, StepsAreTheSameBitForBitWhateverIsComputedAgain) {
  const Data inputs = StepInputs(Step().graph);
  Data states;
  std::vector<std::vector<Tensor>> outputs;
  for (int step = 0; step < 2; ++step) {
    outputs.push_back(RunStep(Step().graph, inputs, states));
  }
  int changed = 0;
  for (const double share : {0.02, 0.1, 0.35, 1.0}) {
    for (const size_t longest_chain : {size_t{1}, size_t{3}, size_t{16}}) {
      Graph graph = Step().graph;
      const RecomputeResult result =
          Recompute(Step().forward_nodes, {share, longest_chain}, Generic(), graph);
      changed += result.values > 0 ? 1 : 0;
      const absl::Status verified = graph.Verify(/*typed=*/true);
      ASSERT_TRUE(verified.ok()) << verified;
      Data again;
      for (int step = 0; step < 2; ++step) {
        EXPECT_EQ(outputs[static_cast<size_t>(step)], RunStep(graph, inputs, again))
            << share << " " << longest_chain;
      }
      EXPECT_EQ(states, again) << share << " " << longest_chain;
    }
  }
  EXPECT_GE(changed, 8);
}

TEST(Recompute, NothingIsComputedAgainForNothing) {
  Graph graph = Step().graph;
  const RecomputeResult result = Recompute(Step().forward_nodes, {}, Generic(), graph);
  EXPECT_EQ(result.values, 0);
  EXPECT_EQ(result.saved_bytes, 0);
  EXPECT_EQ(result.extra_work, 0);
  EXPECT_GT(result.total_work, 0);
  EXPECT_EQ(graph.ToText(), Step().graph.ToText());
}

TEST(Recompute, ExtraWorkStaysWithinItsShare) {
  for (const double share : {0.01, 0.05, 0.2, 0.5}) {
    Graph graph = Step().graph;
    const RecomputeResult result = Recompute(Step().forward_nodes, {share, 16}, Generic(), graph);
    EXPECT_LE(static_cast<double>(result.extra_work),
              share * static_cast<double>(result.total_work));
    EXPECT_EQ(Kept(graph, Step().forward_nodes).size() + static_cast<size_t>(result.values),
              Kept(Step().graph, Step().forward_nodes).size());
  }
}

TEST(Recompute, AValueOnTheWayToAnotherIsComputedOnce) {
  Graph graph = Step().graph;
  const RecomputeResult result = Recompute(Step().forward_nodes, {1.0, 16}, Generic(), graph);
  EXPECT_GE(result.values, 3);
  const int64_t before = CountOf(Step().graph, "Tanh");
  EXPECT_EQ(before, 1);
  EXPECT_EQ(CountOf(graph, "Tanh"), 2);
  EXPECT_EQ(CountOf(graph, "Elu"), 2);
}

TEST(Recompute, StatesAreRewrittenByOneNodeOnly) {
  Graph graph = Step().graph;
  Recompute(Step().forward_nodes, {1.0, 16}, Generic(), graph);
  EXPECT_EQ(CountOf(graph, "BatchStatistics"), 1);
  EXPECT_EQ(CountOf(graph, "AdamUpdate"), CountOf(Step().graph, "AdamUpdate"));
  int64_t counters = 0;
  for (const Node& node : graph.nodes) {
    for (ValueId input : node.inputs) {
      if (input == Find(graph, "optimizer/step")) ++counters;
    }
  }
  EXPECT_EQ(counters, 1);
  ASSERT_EQ(graph.states.size(), Step().graph.states.size());
  for (size_t i = 0; i < graph.states.size(); ++i) {
    EXPECT_EQ(graph.states[i].out, Step().graph.states[i].out);
  }
}

TEST(Recompute, MasksOfDropoutCanBeMadeAgainFromTheStepNumber) {
  TrainOptions options;
  const BackwardGraph step = MakeGraphs(options, R"(g (float[4,8] x) => (float[4,3] y) <
      float[8,8] w = )" + Numbers(64) + R"(, float[8,3] u = )" +
                                                     Numbers(24) + R"(> {
    h = MatMul(x, w)
    d = Dropout(h)
    y = MatMul(d, u)
  })")
                                 .step;
  Graph graph = step.graph;
  Recompute(step.forward_nodes, {1.0, 6}, Generic(), graph);
  // The gradient applies the mask of its node too.
  EXPECT_EQ(CountOf(step.graph, "DropoutTraining"), 2);
  EXPECT_EQ(CountOf(graph, "DropoutTraining"), 3) << graph.ToText();
  Data states;
  Data again;
  const Data inputs = StepInputs(graph);
  EXPECT_EQ(RunStep(step.graph, inputs, states), RunStep(graph, inputs, again));
  EXPECT_EQ(states, again);
}

}  // namespace
}  // namespace onnx_memplan::testing
